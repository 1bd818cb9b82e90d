"""Cluster MNIST by UMAP and HDBSCAN, federated and pooled, and write docs/results/omnifc-umap.md.

    DASKFC_DATA=FOLDER python -m pipelines.papers.omnifc.umap_mnist [--samples 2000] [--only NAME]

FOLDER holds mnist.npz with X (70000, 784) uint8 and y. Ten clients, of which each has one digit
mostly, one worker process each. A run that is done already is only read. Needs daskfc[umap].
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

import daskfc as fc
from daskfc.metrics import METRICS
from pipelines.papers.omnifc.full_mnist import labels_by_id, tell
from pipelines.papers.results import markdown_table, number, write_page

ROOT = Path(__file__).parents[3]
SEED, SCORES = 0, ("ari", "nmi", "kappa")
GRAPH = {"n_neighbors": 30, "min_dist": 0.0}
CORE, SMALLEST = 10, 500  # min_samples; min_cluster_size, in proportion of fewer than 70,000
RUNS = {
    "OmniFC": "federated",
    "central": "the same clusterer on the pooled rows, at the server",
    "umap-learn": "and scikit-learn's HDBSCAN on the pooled rows; no seed, all cores",
}
MEMORY = {
    "cluster": "local",
    "worker": {"nthreads": 1, "blas_threads": 1, "memory_limit": "2GB"},
    "parties": {"server": {"memory_limit": "8GB"}},
}


def density(n: int) -> dict[str, int]:
    """Return the parameters of HDBSCAN for n samples."""
    return {"min_cluster_size": max(CORE, SMALLEST * n // 70_000), "min_samples": CORE}


def storage_of(n: int) -> dict[str, Any]:
    """Return the storage of ten clients, of whose samples three in four are one digit."""
    part: dict[str, Any] = {"subsample": {"n": n, "seed": SEED}} if n < 70_000 else {}
    return {
        "source": {"path": str(Path(os.environ["DASKFC_DATA"]) / "mnist.npz"), **part},
        "partition": {"scheme": "label-skew", "clients": 10, "skew": 0.75, "seed": SEED},
        "layout": {"chunk_rows": 1024, "dtype": "uint8"},
    }


def through_daskfc(name: str, n: int, folder: Path) -> dict[str, Any]:
    """Run OmniFC, or the same clusterer on pooled rows, and return scores, times and memory."""
    clusterer = {"umap": {**GRAPH, "then": {"hdbscan": density(n)}}}
    path = folder / f"umap-{name}-{n}"
    fc.run(
        {"method": name, "params": {"clusterer": clusterer}, "metrics": list(SCORES)},
        storage=storage_of(n),
        cluster=MEMORY,
        overrides=[f"seeds=[{SEED}]", "ids=clear"],
        runs_dir=str(folder),
        name=path.name,
        progress=tell,
    )
    summary = json.loads((path / "summary.json").read_text(encoding="utf-8"))
    (scores,) = summary["metrics"].values()
    labels = labels_by_id(path)
    return {
        **{key: scores[key]["mean"] for key in SCORES},
        "clusters": int(labels.max()) + 1,
        "noise": int((labels < 0).sum()),
        "seconds": summary["timing"]["total_s"],
        "server": summary["peak_memory_bytes"]["server"],
    }


def pooled(n: int) -> dict[str, Any]:
    """Return the same of umap-learn and scikit-learn in this process, with their imports."""
    with np.load(Path(os.environ["DASKFC_DATA"]) / "mnist.npz") as stored:
        X, y = stored["X"], stored["y"].astype(np.int64)
    some = np.sort(np.random.default_rng(SEED).permutation(len(X))[:n])
    X, y = X[some].astype(np.float32), y[some]
    begun = time.perf_counter()
    from sklearn.cluster import HDBSCAN  # imports are part of the time
    from umap import UMAP

    places = UMAP(**GRAPH).fit_transform(X)
    labels = HDBSCAN(**density(n), copy=True).fit_predict(places.astype(np.float64))
    seconds = time.perf_counter() - begun
    return {
        **{key: float(METRICS[key](y, labels)) for key in SCORES},
        "clusters": int(labels.max()) + 1,
        "noise": int((labels < 0).sum()),
        "seconds": seconds,
    }


def same_labels(n: int, folder: Path) -> str:
    """Say how many labels of OmniFC are those of the pooled clusterer, sample by sample."""
    paths = [folder / f"umap-{name}-{n}" for name in ("OmniFC", "central")]
    if not all((path / "summary.json").exists() for path in paths):
        return ""
    one, other = (labels_by_id(path) for path in paths)
    return f"\n\nOf {n:,} labels of OmniFC {int((one == other).sum()):,} are those of `central`."


def main() -> None:
    """Run what is asked for and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--samples", type=int, default=70_000)
    parser.add_argument("--only", choices=RUNS, help="one of the runs; all by default")
    parser.add_argument("--runs-dir", type=Path, default=Path("runs"))
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results" / "omnifc-umap.md")
    asked = parser.parse_args()
    n, folder = asked.samples, asked.runs_dir.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    kept = {name: folder / f"umap-{name}-{n}.json" for name in RUNS}
    for name, path in kept.items():
        if asked.only in (None, name) and not path.exists():
            found = pooled(n) if name == "umap-learn" else through_daskfc(name, n, folder)
            path.write_text(json.dumps(found))
    rows = []
    for name, path in kept.items():
        if path.exists():
            found = json.loads(path.read_text())
            rows.append([
                name, RUNS[name], *(number(found[key], 3) for key in SCORES),
                *(str(found[key]) for key in ("clusters", "noise")), number(found["seconds"], 0),
                number(found["server"] / 1e6, 0) if "server" in found else "–",
            ])  # fmt: skip
    header = ["run", "how", "adjusted Rand", "NMI", "kappa", "clusters", "noise", "run, s"]
    write_page(
        asked.out,
        "# MNIST by UMAP and HDBSCAN\n\n"
        f"Written by `python -m pipelines.papers.omnifc.umap_mnist`. {n:,} × 784 samples, raw "
        f"pixels, 10 clients (label skew 0.75); {GRAPH['n_neighbors']} neighbours, a map of two "
        f"dimensions with min_dist 0, HDBSCAN with min_samples {CORE} and min_cluster_size "
        f"{density(n)['min_cluster_size']}: the example of umap-learn's documentation, not chosen "
        "by us. OmniFC and `central` take the clusters of HDBSCAN's tree that have the largest "
        "modularity in UMAP's graph (`selection`), scikit-learn those that persist longest. "
        f"One process and one BLAS thread a party on {os.cpu_count()} cores; `run` is the "
        "wall time of the whole command with one seed, start of processes and compiling included. "
        "Noise counts as a cluster of its own in all scores.\n\n"
        + markdown_table([*header, "of the server, MB"], rows, left=2)
        + same_labels(n, folder),
    )


if __name__ == "__main__":
    main()
