"""What is run on both sides: pipeline files with storage files, and methods without such a file.

A case that needs what this machine lacks is skipped, with a reason.
"""

import glob
import os
from dataclasses import dataclass
from pathlib import Path

import yaml

MOVED = {  # files that have another place in the new tree
    "pipelines/paper-fedsc.yaml": "pipelines/papers/fedsc/cell.yaml",
    "pipelines/paper-kcagc.yaml": "pipelines/papers/kcagc/cell.yaml",
}
BIG = {"mnist": "70,000 samples take hours; --all includes them"}

ROWS = {
    "source": {"dataset": "iris"},
    "partition": {"scheme": "label-skew", "clients": 5, "skew": 0.75, "seed": 0},
}
COLUMNS = {
    "source": {"dataset": "wine", "graph": {"neighbours": 8}},
    "partition": {"scheme": "vertical", "clients": 4},
}
VIEWS = {
    "source": {"dataset": "digits-views", "scaling": "min-max", "subsample": {"n": 300, "seed": 0}},
    "partition": {"scheme": "views", "overlap": 0.6, "seed": 0},
}
STORAGES = {"iris-5": ROWS, "wine-columns": COLUMNS, "digits-views-300": VIEWS}


def _case(method, *, compare=(), **params):
    return {"method": method, "params": {"n_clusters": 3, **params}, "compare": list(compare)}


def _clusters(clusterer, **params):
    return _case("OmniFC", clusterer=clusterer, **params)


def _kernel(**params):
    return _case("FederatedKernelKMeans", n_features=20, iterations=3, **params)


_FACTORS = {"kernel_width": 1.0, "n_atoms": 12, "start": "normal"}
_BUDGET = {"clip": 1.0, "delta": 1e-5}
# Kinds of noise come from the operating system: labels and scores of these differ every time.
NOISY = {
    "fedsc-noise-data": _case("FedSC", noise={"kind": "data", "epsilon": 9.0, **_BUDGET}),
    "fedsc-noise-factors": _case(
        "FedSC", noise={"kind": "factors", "epsilon": 9.0, **_BUDGET}, **_FACTORS
    ),
    "fedsc-noise-relative": _case(
        "FedSC",
        noise={"kind": "factors", "relative_dictionary": 0.1, "relative_coefficients": 0.1},
        **_FACTORS,
    ),
    "fk-noise": _kernel(
        noise={"epsilon": 9.0, "delta": 1e-5, "rounds": 2},
        kernel_width=2.0,
        solver="gram",
        clustering="sums",
    ),
    "k-means-noise": _case(
        "FederatedKMeans", noise={"epsilon": 9.0, "delta": 1e-5, "largest_norm": 10.0}
    ),
}
ON_ROWS = {
    "baselines": _case("central", compare=["k-FED", "MUFC", "FFCM", "FedMAvg", "DSC"]),
    "omnifc-dbscan": {"method": "OmniFC", "params": {"clusterer": {"dbscan": {"eps": 0.5}}}},
    "omnifc-hierarchical": _clusters("hierarchical"),
    "omnifc-k-medoids": _clusters("k-medoids"),
    "omnifc-fuzzy-c-means": _clusters("fuzzy-c-means"),
    "omnifc-nmf": _clusters("nmf"),
    "omnifc-landmarks": _clusters("k-means", distances="landmark"),
    "fedsc-coded": _case("FedSC", similarity="coded"),
    "fedsc-recovering": _case("FedSC", averaging="recovering"),
    "fedsc-plain": _case("FedSC", averaging="plain", diagnostics=True),
    "k-means-sums": _case("FederatedKMeans"),
    "fk-kernel-baselines": _case("RFK-k-means", compare=["CE-PCA"]),
    "fk-lanczos": _kernel(solver="lanczos"),
    "fk-sums": _kernel(clustering="sums", averaging="recovering", kernel="laplacian"),
    "fk-without-mechanism": _kernel(communication_efficient=False),
    **NOISY,
}
ON_COLUMNS = {
    "kcagc-basic": _case("kCAGC", variant="basic", filter_order=3, compare=["AGC", "GCC"]),
    "kcagc-tree": _case("kCAGC", variant="tree", filter_order=3),
}


def _views(**params):
    few = {"n_clusters": 10, "rounds": 3, "local_epochs": 10, "pretraining_epochs": 10}
    return {"method": "ESFMC", "params": {**few, **params}, "compare": ["joined-views", "one-view"]}


ON_VIEWS = {
    "esfmc-local": _views(),
    "esfmc-align": _views(incomplete="align"),
    "esfmc-complete-features": _views(share="complete"),
}
BY_STORAGE = {"iris-5": ON_ROWS, "wine-columns": ON_COLUMNS, "digits-views-300": ON_VIEWS}
EVERY = {name: tree for cases in BY_STORAGE.values() for name, tree in cases.items()}


@dataclass(frozen=True)
class Case:
    """A pipeline on a storage, as paths below a side's tree or below its other files.

    Parameters
    ----------
    name : str
        ``pipeline/storage``, each without its suffix.
    pipeline, storage : str
        Relative paths of their files.
    noisy : bool
        Whether labels are random, so that only messages can be compared.
    must_run : bool
        Whether a refusal on both sides is no agreement.
    skip : str
        Why it is not run; empty where it is.
    """

    name: str
    pipeline: str
    storage: str
    noisy: bool = False
    must_run: bool = False
    skip: str = ""

    @property
    def run_name(self) -> str:
        """The name of its run's folder."""
        return self.name.replace("/", "-")


def why_absent(storage: dict, data: Path | None) -> str:
    """Return which stores or data set of a storage file are not on this machine; "" if all are."""
    for client in (storage.get("clients") or {}).values():
        if "source" in client:
            return "clients make their stores of files that are in no tree"
        if not Path(client["store"]).exists():
            return f"there is no store {client['store']}"
    path = (storage.get("source") or {}).get("path", "")
    name = path.removeprefix("${DASKFC_DATA}/")
    if name != path and data is None:
        return "DASKFC_DATA names no folder of data sets"
    found = os.path.expandvars(path) if name == path else str(data / name)
    # a path may be the beginning of several files' names
    return "" if not path or glob.glob(f"{glob.escape(found)}*") else f"no data set {name}"


def file_cases(old: Path, new: Path, data: Path | None, everything: bool) -> list[Case]:
    """Return every pair of a pipeline and a storage file that is in either tree.

    Parameters
    ----------
    old, new : Path
        The trees.
    data : Path or None
        The folder of data sets.
    everything : bool
        Whether those of `BIG` are run.
    """
    cases = []
    for pipeline in _files(old, new, "pipelines"):
        for storage in _files(old, new, "storage"):
            text = next(tree / storage for tree in (new, old) if (tree / storage).is_file())
            skip = why_absent(yaml.safe_load(text.read_text(encoding="utf-8")), data)
            name = f"{Path(pipeline).stem}/{Path(storage).stem}"
            if not everything and not skip:
                skip = BIG.get(Path(storage).stem, "")
            missing = [
                f"{file} is not in {side}"
                for file in (pipeline, storage)
                for side, tree in (("OLD", old), ("NEW", new))
                if not place_in(tree, file).is_file()
            ]
            skip = "; ".join(missing) or skip
            cases.append(Case(name, pipeline, storage, skip=skip))
    return cases


def place_in(tree: Path, file: str) -> Path:
    """Return where a file lies in a tree: where it was, or where it has moved."""
    place = tree / file
    return tree / MOVED[file] if file in MOVED and not place.is_file() else place


def _files(old: Path, new: Path, folder: str) -> list[str]:
    return sorted(
        {f"{folder}/{p.name}" for tree in (old, new) for p in tree.glob(f"{folder}/*.yaml")}
    )


def method_cases() -> list[Case]:
    """Return the runs of methods that have no pipeline file of their own."""
    return [
        Case(
            f"method-{name}/{storage}",
            f"cases/method-{name}.yaml",
            f"cases/{storage}.yaml",
            noisy=name in NOISY,
            must_run=True,
        )
        for storage, pipelines in BY_STORAGE.items()
        for name in pipelines
    ]


def write_method_cases(folder: Path) -> None:
    """Write the files of `method_cases` below a folder."""
    (folder / "cases").mkdir()
    files = {f"method-{name}": tree for name, tree in EVERY.items()}
    for name, tree in {**files, **STORAGES}.items():
        path = folder / "cases" / f"{name}.yaml"
        path.write_text(yaml.safe_dump(tree, sort_keys=False), encoding="utf-8")
