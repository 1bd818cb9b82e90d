"""OmniFC over five skewed clients beside pooled scikit-learn, on many public data sets.

    python -m pipelines.papers.omnifc.battery --data FOLDER [--only iris,wine]

It writes docs/results/omnifc-public-data.md, and takes a quarter of an hour. FOLDER holds the files
that `public_data` names; seven sets come with scikit-learn. With `--records FILE` every finished
set is kept there, and a second start goes on with what is missing.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist
from sklearn import cluster
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import NearestNeighbors

from daskfc import Federation, OmniFC
from daskfc.clustering.views.order import order_of_points
from daskfc.seeds import generator
from daskfc.stores.dealing.partitions import label_skew
from pipelines.papers.federations import holding
from pipelines.papers.journal import Journal, Record, carry_out, command_line
from pipelines.papers.omnifc.battery_tables import render
from pipelines.papers.public_data import DATASETS, Samples
from pipelines.papers.results import write_page

CLIENTS = 5
SKEW = 0.75
MIN_SAMPLES = 5  # of DBSCAN; the smallest cluster of HDBSCAN
ORDERS = 4  # in which scikit-learn clusters once more, where labels differ
LARGE = 200_000  # numbers of a set with which one order must do
NEIGHBOURS = 10

EXACT: dict[str, Any] = {
    "ward": {"hierarchical": {"linkage": "ward"}},
    "single": {"hierarchical": {"linkage": "single"}},
    "HDBSCAN": {"hdbscan": {"min_cluster_size": MIN_SAMPLES}},
    "DBSCAN": "dbscan",  # with the radius of the data set
}
SEEDED: dict[str, Any] = {"k-means": "k-means", "spectral": "spectral"}


def radius_of(X: np.ndarray) -> float:
    """Return DBSCAN's radius: that in which nine of ten samples are core, between two distances.

    A radius equal to a distance would let the last bit decide.
    """
    if len(X) <= MIN_SAMPLES:
        raise ValueError(f"{len(X)} samples have no {MIN_SAMPLES} neighbours")
    to_last, _ = NearestNeighbors(n_neighbors=MIN_SAMPLES).fit(X).kneighbors(X)
    distances = np.unique(pdist(X))
    start = int(np.searchsorted(distances, np.quantile(to_last[:, -1], 0.9)))
    start = min(start, len(distances) - 2)
    near = distances[start : start + max(2, min(100, len(distances) // 100))]
    widest = int(np.argmax(np.diff(near)))
    return float((near[widest] + near[widest + 1]) / 2)


def pooled(name: str, X: np.ndarray, k: int, eps: float, seed: int = 0) -> np.ndarray:
    """Return the labels that scikit-learn gives all samples in one place."""
    made = {
        "ward": lambda: cluster.AgglomerativeClustering(k, linkage="ward"),
        "single": lambda: cluster.AgglomerativeClustering(k, linkage="single"),
        "HDBSCAN": lambda: cluster.HDBSCAN(min_cluster_size=MIN_SAMPLES, copy=True, n_jobs=-1),
        "DBSCAN": lambda: cluster.DBSCAN(eps=eps, min_samples=MIN_SAMPLES),
        "k-means": lambda: cluster.KMeans(k, n_init=10, random_state=seed),
        "spectral": lambda: cluster.SpectralClustering(
            k, affinity="nearest_neighbors", n_neighbors=NEIGHBOURS, random_state=seed
        ),
    }
    labels: np.ndarray = made[name]().fit_predict(X)
    return labels


def in_order(name: str, X: np.ndarray, k: int, eps: float, seed: int = 0) -> np.ndarray:
    """Return scikit-learn's labels where it reads the rows in OmniFC's order.

    Where distances are equal the order decides; that of a pooled table has no meaning.
    """
    order = order_of_points(X)
    return order.back(pooled(name, X[order.places], k, eps, seed))


def federated(federation: Federation, name: str, k: int, eps: float) -> np.ndarray:
    """Return the labels that OmniFC gives samples at their clients, by row."""
    clusterer = {"dbscan": {"eps": eps, "min_samples": MIN_SAMPLES}} if name == "DBSCAN" else None
    finds = name in ("HDBSCAN", "DBSCAN")
    model = OmniFC(
        None if finds else k, clusterer=clusterer or {**EXACT, **SEEDED}[name], random_state=0
    ).fit(federation)
    rows = model.labels_["sample_id"].to_numpy().astype(int)
    labels = np.empty(len(rows), np.int64)
    labels[rows] = model.labels_.to_numpy()
    return labels


def inertia(X: np.ndarray, labels: np.ndarray) -> float:
    """Return the squared distances of samples to the means of their clusters, summed."""
    return float(
        sum(
            np.square(X[labels == k] - X[labels == k].mean(axis=0)).sum() for k in np.unique(labels)
        )
    )


def other_orders(
    name: str, X: np.ndarray, k: int, eps: float, reference: np.ndarray
) -> dict[str, float]:
    """Return the least index of scikit-learn to itself: rows in other orders, columns in others.

    Other rows break ties in other ways; other columns round sums in other ways.
    """
    found: dict[str, list[float]] = {"rows": [], "columns": []}
    chance = generator(0, "battery", "orders")
    for _ in range(ORDERS if X.size <= LARGE else 1):
        rows, columns = chance.permutation(len(X)), chance.permutation(X.shape[1])
        again = np.empty_like(reference)
        again[rows] = pooled(name, X[rows], k, eps)
        found["rows"].append(adjusted_rand_score(reference, again))
        turned = pooled(name, np.ascontiguousarray(X[:, columns]), k, eps)
        found["columns"].append(adjusted_rand_score(reference, turned))
    return {kind: min(values) for kind, values in found.items()}


def compared(name: str, data: Samples, eps: float, federation: Federation) -> Record:
    """Compare one clusterer's labels."""
    X, k = data.X, data.n_clusters
    started = time.monotonic()
    here = federated(federation, name, k, eps)
    seconds = time.monotonic() - started
    reference = in_order(name, X, k, eps)
    index = float(adjusted_rand_score(reference, here))
    record: Record = {"clusterer": name, "index": index, "seconds": seconds}
    record["clusters"] = len(np.unique(here[here >= 0]))
    if name == "k-means":
        record["inertia"] = inertia(X, here) / inertia(X, reference)
    if name in SEEDED:
        record["seed"] = float(adjusted_rand_score(reference, in_order(name, X, k, eps, seed=1)))
    if name != "k-means" and index < 1.0:
        record |= other_orders(name, X, k, eps, reference)
    return record


def on_dataset(name: str, folder: Path) -> Iterator[Record]:
    """Cluster one data set in one federation, and all of it in one place."""
    data = DATASETS[name].samples(folder)
    n, d = data.X.shape
    eps = radius_of(data.X)
    about = {"kind": "battery", "data": name, "n": n, "d": d, "k": data.n_clusters, "eps": eps}
    parts = label_skew(data.y, CLIENTS, skew=SKEW, seed=0)
    with holding(data.X, data.y, parts) as federation:
        for clusterer in (*EXACT, *SEEDED):
            yield {**about, **compared(clusterer, data, eps, federation)}


def main() -> None:
    """Read the command line, run what is missing, and write the page after every data set."""
    args, chosen = command_line(__doc__ or "", "omnifc-public-data", tuple(DATASETS))
    journal = Journal(args.records)
    carry_out(
        [(name, on_dataset(name, args.data)) for name in chosen],
        journal,
        write=lambda: write_page(args.out, render(journal.records)),
        shown="data clusterer n d k index rows columns seed inertia seconds".split(),
    )


if __name__ == "__main__":
    main()
