"""Reproduce the OmniFC paper's tables through real federations and write docs/results/omnifc.md.

    python -m pipelines.papers.omnifc.reproduce --data FOLDER [--only iris,digits,distances]

FOLDER holds iris.npz, digits.npz, coil20.npz and mnist.npz with arrays X and y. With `--records
FILE` every finished part is kept there, and a second start goes on with what is missing.
"""

import hashlib
import math
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from daskfc import FFCM, KFED, MUFC, Central, FedMAvg, OmniFC
from daskfc.clustering import DBSCAN, make_clusterer
from daskfc.clustering.views.nearest import exact_squared_distances
from daskfc.federation.methods.estimator import FederatedClusterer
from daskfc.metrics import kappa, nmi
from daskfc.stores import ClientStore
from pipelines.papers.federations import true_labels
from pipelines.papers.journal import Journal, Record, carry_out, command_line
from pipelines.papers.omnifc.distances import (
    SIZES,
    canonical_labels,
    canonical_rows,
    code_study,
    digest,
    opened,
    pooled_store,
    size_study,
    stored_distances,
    true_error,
)
from pipelines.papers.omnifc.tables import EXACT, render
from pipelines.papers.omnifc.values import P
from pipelines.papers.results import write_page

TOLERANCE = 1e-6  # of the tables: data on no grid are coded so finely that ties are kept
MIN_SAMPLES = 5  # of DBSCAN, scikit-learn's default
LEVELS = np.geomspace(1e-4, 0.5, 30)  # eps is looked for at these quantiles of the distances
CLUSTERERS: dict[str, Any] = {
    "SC": "spectral",
    "SC, Gaussian": {"spectral": {"affinity": "gaussian"}},
    "DBSCAN": {"dbscan": {"eps": 1.0}},  # eps: chosen below
    "HC": {"hierarchical": {"linkage": "ward"}},
    "KMed": "k-medoids",
    "KM": {"k-means": {"rows": "distances"}},
    "FCM": {"fuzzy-c-means": {"rows": "distances"}},
    "NMF": "nmf",
}


@dataclass(frozen=True)
class Dataset:
    """A data set of the paper, or one more, as it is used here."""

    file: str
    n_clusters: int
    n_clients: int
    grid: int | None = None  # samples are integers divided by it
    subsample: int | None = None
    unit_rows: bool = False

    def source(self, data: Path, folder: Path) -> dict[str, Any]:
        """Return the source of a storage file."""
        source: dict[str, Any] = {"path": str(data / self.file)}
        if self.grid is not None and self.grid > 1:
            source["scale"] = 1 / self.grid
        if self.subsample is not None:
            source["subsample"] = {"n": self.subsample, "seed": 0}
        if self.unit_rows:
            store = pooled_store(source, folder / "raw")
            X = store.rows(0, store.n_samples)
            path = folder / "unit.npz"
            np.savez(path, X=X / np.linalg.norm(X, axis=1, keepdims=True), y=true_labels(store))
            source = {"path": str(path)}
        return source


DATASETS = {
    "iris": Dataset("iris.npz", 3, 3),
    "iris-unit": Dataset("iris.npz", 3, 3, unit_rows=True),
    "digits": Dataset("digits.npz", 10, 10, grid=1),
    "coil20": Dataset("coil20.npz", 20, 20),
    "mnist-1000": Dataset("mnist.npz", 10, 10, grid=255, subsample=1000),
}


def chosen_eps(journal: Journal, name: str) -> float:
    """Return the radius that was chosen for a data set."""
    return next(
        float(r["eps"])
        for r in journal.records
        if r["kind"] == "eps" and r["dataset"] == name and r["min_samples"] == MIN_SAMPLES
    )


def eps_choices(name: str, store: ClientStore) -> Iterator[Record]:
    """Score pooled DBSCAN over a grid of radii and yield the best; uses the true labels."""
    X, y = canonical_rows({"pool": store}), canonical_labels({"pool": store})
    distances = np.sqrt(np.sort(exact_squared_distances(X)[np.triu_indices(len(X), 1)]))
    radii = dict.fromkeys(radius_at(distances, level) for level in LEVELS)
    for min_samples in (1, MIN_SAMPLES):  # 1: no sample is noise
        found = []
        for eps in radii:
            labels = DBSCAN(eps=eps, min_samples=min_samples).pooled(X, None, 0).labels
            counts = {"n_found": int(labels.max()) + 1, "n_noise": int((labels < 0).sum())}
            found.append({"eps": eps, "kappa": kappa(y, labels), "nmi": nmi(y, labels), **counts})
        best = max(found, key=lambda one: (one["kappa"], -one["eps"]))
        grid = [(one["eps"], one["kappa"]) for one in found]
        about = {"kind": "eps", "dataset": name, "min_samples": min_samples}
        yield {**about, **best, "grid": grid}


def radius_at(distances: np.ndarray, level: float) -> float:
    """Return a radius near a quantile of sorted distances, in the widest gap of the next hundred.

    A radius equal to a distance would let the last bit decide.
    """
    start = min(int(level * len(distances)), len(distances) - 2)
    near = distances[start : start + 100]
    widest = int(np.argmax(np.diff(near)))
    return float((near[widest] + near[widest + 1]) / 2)


def methods(data: Dataset, eps: float, first: bool) -> Iterator[tuple[str, FederatedClusterer]]:
    """Yield the name and the estimator of every fit on one partition."""
    by_default: dict[str, FederatedClusterer] = {}
    for name, spec in CLUSTERERS.items():
        clusterer = make_clusterer(spec)
        if name == "DBSCAN":
            clusterer = DBSCAN(eps=eps, min_samples=MIN_SAMPLES)
        k = None if clusterer.finds_n_clusters else data.n_clusters
        yield f"OmniFC {name}", OmniFC(k, clusterer=clusterer, tolerance=TOLERANCE)
        yield f"Central {name}", Central(k, clusterer=clusterer)
        if first and data.grid is None and name in EXACT:
            by_default[f"OmniFC default {name}"] = OmniFC(k, clusterer=clusterer)
    k = data.n_clusters
    yield "k-FED", KFED(k)
    yield "k-FED, √k", KFED(k, n_local_clusters=math.ceil(math.sqrt(k)))  # what its theory asks for
    yield "MUFC", MUFC(k)
    yield "FFCM", FFCM(k)
    yield "FFCM, 1.1", FFCM(k, fuzzifier=1.1)  # as the pooled fuzzy c-means here
    yield "FedMAvg", FedMAvg(k)
    yield from by_default.items()


def scored(labels: xr.DataArray, stores: Mapping[str, ClientStore]) -> Record:
    """Compare labels with the true ones, which the local stores keep apart for evaluation."""
    ids = np.concatenate([store.sample_ids() for store in stores.values()])
    true = np.concatenate([true_labels(store) for store in stores.values()])
    assert (labels.sample_id.values == ids).all()
    by_id = labels.values[np.argsort(ids)].astype(np.int64)
    sha = hashlib.sha256(by_id.tobytes()).hexdigest()
    return {"kappa": kappa(true, labels.values), "nmi": nmi(true, labels.values), "labels": sha}


def fits(
    name: str, p: float, source: Mapping[str, Any], journal: Journal, folder: Path
) -> Iterator[Record]:
    """Run all methods on one partition of one data set, in one federation."""
    data = DATASETS[name]
    partition = {"scheme": "label-skew", "skew": p, "clients": data.n_clients}
    with opened(source, folder, **partition) as (federation, stores):
        for method, model in methods(data, chosen_eps(journal, name), first=p == P[0]):
            workspace = folder / ("default" if "default" in method else "run")
            federation.workspace = str(workspace)
            started = time.monotonic()
            model.fit(federation)
            seconds = time.monotonic() - started
            record = {"kind": "fit", "dataset": name, "p": p, "method": method}
            yield {**record, **scored(model.labels_, stores), "seconds": seconds}
            if method.endswith("HC") and method.startswith("OmniFC"):
                # the server's folder now holds all distances, once
                tiles = stored_distances(workspace)
                error = true_error(tiles.panels(), canonical_rows(stores), data.grid)
                yield {**record, "kind": "bits", **error, "sha": digest(tiles)}


def parts_of_dataset(
    name: str, data: Path, folder: Path, journal: Journal
) -> Iterator[tuple[str, Iterable[Record]]]:
    """Yield the parts of one data set: the choice of eps, then the fits at each p."""
    source = DATASETS[name].source(data, folder)
    yield f"{name} eps", eps_choices(name, pooled_store(source, folder / "pool"))
    for p in P:
        yield f"{name} p={p}", fits(name, p, source, journal, folder / f"p{p}")


def parts_of_distances(data: Path, folder: Path) -> Iterator[tuple[str, Iterable[Record]]]:
    """Yield the two studies of the distances: Table 7 by its columns, and Fig. 5."""
    for n in SIZES:
        yield f"size {n}", size_study(data / "mnist.npz", folder / f"size-{n}", [n])
    yield "code", code_study(data / "mnist.npz", folder / "code")


SHOWN = (
    "dataset n p method data m n_segments n_colluding n_spares engine without eps kappa nmi rmse "
    "relative seconds refused"
).split()


def pieces(
    chosen: Iterable[str], data: Path, journal: Journal
) -> Iterator[tuple[str, Iterable[Record]]]:
    """Yield all parts; what each of those chosen leaves on disk goes before the next."""
    for name in chosen:
        with tempfile.TemporaryDirectory(prefix="paper-omnifc-") as folder:
            if name == "distances":
                yield from parts_of_distances(data, Path(folder))
            else:
                yield from parts_of_dataset(name, data, Path(folder), journal)


def main() -> None:
    """Read the command line, run what is missing, and write the page after every part."""
    args, chosen = command_line(__doc__, "omnifc", (*DATASETS, "distances"))
    journal = Journal(args.records)
    carry_out(
        pieces(chosen, args.data, journal),
        journal,
        write=lambda: write_page(args.out, render(journal.records)),
        shown=SHOWN,
    )


if __name__ == "__main__":
    main()
