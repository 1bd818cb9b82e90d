"""Run OmniFC on all 70,000 samples of MNIST and write docs/results/omnifc-mnist.md.

    DASKFC_DATA=FOLDER python -m pipelines.papers.omnifc.full_mnist [--only 'spectral;k-means']

FOLDER holds mnist.npz with X (70000, 784) uint8 and y. Ten clients, one worker process each, every
process limited to 2 GB. A run that is done already is only read; one that broke off is continued.
"spectral, pooled" and "dbscan, pooled" are the same clusterers on the raw rows at the server.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import daskfc as fc
from pipelines.papers.results import markdown_table, number, write_page

ROOT = Path(__file__).parents[3]
ROWS = {"rows": "distances"}  # as the paper does
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "spectral": ("exact graph of 9 neighbours", {"clusterer": "spectral"}),
    "spectral, pooled": ("of raw rows, at the server", {"clusterer": "spectral"}),
    "dbscan": (
        "exact radius graph; eps 1500, min_samples 5",
        {"clusterer": {"dbscan": {"eps": 1500.0}}, "n_clusters": None},
    ),
    "dbscan, pooled": (
        "of raw rows, at the server",
        {"clusterer": {"dbscan": {"eps": 1500.0}}, "n_clusters": None},
    ),
    "k-means": ("exact coordinates", {"clusterer": "k-means"}),
    "k-means, pooled": ("raw rows, at the server", {"clusterer": "k-means"}),
    "k-means on rows": (
        "landmarks",
        {"clusterer": {"k-means": ROWS}, "distances": "landmark"},
    ),
    "fuzzy-c-means on rows": (
        "landmarks",
        {"clusterer": {"fuzzy-c-means": ROWS}, "distances": "landmark"},
    ),
    "nmf": (
        "landmarks, 60 passes",
        {"clusterer": {"nmf": {"max_iter": 60}}, "distances": "landmark"},
    ),
}

POOLED_CLUSTER = {  # all rows at once need more than 2 GB
    "cluster": "local",
    "worker": {"nthreads": 1, "blas_threads": 1, "memory_limit": "2GB"},
    "parties": {"server": {"memory_limit": "8GB"}},
}


def folder_of(name: str, runs_dir: Path) -> Path:
    """Return where a run is kept."""
    return runs_dir / f"mnist-{name.replace(', ', '-').replace(' ', '-')}"


def summary_of(name: str, runs_dir: Path) -> dict[str, Any] | None:
    """Return the summary of a run that is done, or None."""
    path = folder_of(name, runs_dir) / "summary.json"
    if not path.exists():
        return None
    summary: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return summary if summary["status"] == "done" else None


def tell(stage: str, done: int, total: int) -> None:
    """Print how far a run is, in one line that is written over."""
    share = f" {done / total:4.0%}" if total else ""
    print(f"\r{stage}{share}".ljust(60), end="", file=sys.stderr, flush=True)


def carry_out(name: str, runs_dir: Path) -> None:
    """Start a run, or continue it."""
    folder, pooled = folder_of(name, runs_dir), name.endswith("pooled")
    if folder.exists():
        fc.resume(folder)
        return
    fc.run(
        str(ROOT / "pipelines" / "omnifc.yaml"),
        storage=str(ROOT / "storage" / "mnist.yaml"),
        cluster=POOLED_CLUSTER if pooled else str(ROOT / "cluster-configs" / "local.yaml"),
        params=RUNS[name][1],
        overrides=["compare=[]", "ids=clear", *(["method=central"] if pooled else [])],
        runs_dir=str(runs_dir),
        name=folder.name,
        progress=tell,
    )


def row_of(name: str, summary: dict[str, Any]) -> list[str]:
    """Return the cells of one run."""
    (scores,) = summary["metrics"].values()
    timing, peak = summary["timing"], summary["peak_memory_bytes"]
    clients = max(bytes_ for party, bytes_ in peak.items() if party != "server")
    return [
        name,
        RUNS[name][0],
        *(number(scores[key]["mean"], 4) for key in ("kappa", "nmi")),
        number(timing["total_s"], 0),
        *(number(timing.get(key), 0) for key in ("distances_s", "clustering_s")),
        number(summary["communication"]["wire_bytes"] / 1e9, 1),
        number(clients / 1e6, 0),
        number(peak["server"] / 1e6, 0),
    ]


def labels_by_id(folder: Path) -> np.ndarray:
    """Return the labels of a run in the order of the sample ids."""
    stored = xr.open_zarr(folder / "labels.zarr", consolidated=False)
    labels: np.ndarray = stored.labels.values.reshape(-1)[np.argsort(stored.sample_id.values)]
    return labels


def same_labels(runs_dir: Path) -> str:
    """Say whether OmniFC's labels are those of the pooled clusterer, sample by sample."""
    said = []
    for name in ("spectral", "dbscan", "k-means"):
        folders = [folder_of(run, runs_dir) for run in (name, f"{name}, pooled")]
        if all((folder / "summary.json").exists() for folder in folders):
            a, b = (labels_by_id(folder) for folder in folders)
            said.append(f"{name}: {int((a == b).sum()):,} of {len(a):,} labels are the same")
    return f"\n\nOmniFC beside the pooled clusterer: {'; '.join(said)}." if said else ""


def main() -> None:
    """Run what is asked for and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default=";".join(RUNS), help="runs, separated by semicolons")
    parser.add_argument("--runs-dir", type=Path, default=Path("runs"))
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results" / "omnifc-mnist.md")
    asked = parser.parse_args()
    for name in asked.only.split(";"):
        if summary_of(name, asked.runs_dir) is None:
            carry_out(name, asked.runs_dir)
    found = {name: summary_of(name, asked.runs_dir) for name in RUNS}
    rows = [row_of(name, summary) for name, summary in found.items() if summary is not None]
    header = ["clusterer", "distances", "kappa", "NMI", "run, s", "distances, s", "clustering, s"]
    header += ["wire, GB", "peak of a client, MB", "of the server, MB"]
    write_page(
        asked.out,
        "# Full MNIST\n\n"
        "Written by `python -m pipelines.papers.omnifc.full_mnist`. OmniFC on all 70,000 × 784 "
        "samples, 10 clients (label skew 0.75), l = 1, t = 2, six evaluators of which one is a "
        "spare, 4 primes, no error (pixels are integers). Eleven worker processes of one BLAS "
        f"thread on {os.cpu_count()} cores, each limited to 2 GB (the server of pooled "
        "runs: 8 GB); `run` is the wall time of the whole command's work with one seed, start of "
        "the workers included.\n\n"
        + markdown_table(header, rows, left=2)
        + same_labels(asked.runs_dir),
    )


if __name__ == "__main__":
    main()
