"""kCAGC, Theorem 1: whether its conditions hold on a graph.

Notation    paper              here
            X, C               rows, each row's centre
            c                  `separations`: the largest for which (10) or (14) holds, by pair
            1-good             `good`: nodes with the proximity condition, Definition 2
            (12)               `restricted`
"""

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from daskfc.baselines.maths.gcc import cluster_gcc, gcc_features
from daskfc.linalg import divide_rows, singular_coordinates, squared_row_norms
from daskfc.linalg.graph_filter import filter_features
from daskfc.protocols.kcagc.maths.intersections import local_clusters
from pipelines.papers.journal import Record

__all__ = ["GRAPHS", "conditions", "good", "measured", "restricted", "separations", "spread"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

# Clusters, the paper's order of the filter, and GCC's options.
GRAPHS: dict[str, tuple[int, int, dict[str, Any]]] = {
    "Cora": (7, 9, {"filter_order": 12, "tf_idf": True}),
    "Pubmed": (3, 60, {"filter_order": 150, "tf_idf": False}),
}


def _means(X: Floats, labels: Ints) -> tuple[Floats, Ints]:
    """Return the clusters' means and sizes; labels have no gaps."""
    sizes = np.bincount(labels)
    member = sparse.csr_array((np.ones(len(X)), (labels, np.arange(len(X)))))
    return np.asarray(member @ X) / sizes[:, None], sizes


def spread(X: Floats, labels: Ints) -> float:
    """Return the spectral norm |X - C|."""
    left = X - _means(X, labels)[0][labels]
    gram = left.T @ left if left.shape[1] <= len(left) else left @ left.T
    return float(np.sqrt(max(np.linalg.eigvalsh(gram)[-1], 0.0)))


def separations(X: Floats, labels: Ints) -> Floats:
    """Return, for every pair of clusters, the largest c with |μ_p - μ_q| ≥ c (Δ_p + Δ_q)."""
    means, sizes = _means(X, labels)
    delta = np.sqrt(len(sizes) / sizes) * spread(X, labels)
    return np.array(
        [
            np.linalg.norm(means[p] - means[q]) / (delta[p] + delta[q])
            for p, q in combinations(range(len(sizes)), 2)
        ]
    )


def good(X: Floats, labels: Ints) -> Bools:
    """Return which nodes have the proximity condition (15), the local ones with X^l."""
    means, sizes = _means(X, labels)
    norm, found = spread(X, labels), np.ones(len(X), dtype=bool)
    for q in range(len(sizes)):
        rows = np.flatnonzero(labels == q)
        for p in range(len(sizes)):
            if p == q:
                continue
            length = float(np.linalg.norm(means[p] - means[q]))
            along = (X[rows] - means[q]) @ (means[p] - means[q]) / max(length, 1e-300)
            nearer = np.abs(length - along) - np.abs(along)
            found[rows] &= nearer >= (sizes[p] ** -0.5 + sizes[q] ** -0.5) * norm
    return found


def restricted(X: Floats, labels: Ints, local: Floats) -> Bools:
    """Return which nodes have the restricted proximity condition (12); `local` is X - Ĉ."""
    means, sizes = _means(X, labels)
    norm = spread(X, labels)
    rest = float(np.linalg.norm(local, 2))
    away = np.linalg.norm(X[:, None, :] - means[None], axis=2)
    own = sizes[labels].astype(np.float64)
    gaps = away - away[np.arange(len(X)), labels][:, None]
    needed = (sizes[None] ** -0.5 + own[:, None] ** -0.5) * norm + 2.0 * rest / own[:, None] ** 0.5
    holds = gaps >= needed
    holds[np.arange(len(X)), labels] = True
    return np.asarray(holds.all(axis=1))


def conditions(X: Floats, labels: Ints) -> Record:
    """Return c of the worst and the median pair, and the share of nodes that are 1-good."""
    c = separations(X, labels)
    share = float(good(X, labels).mean())
    return {"least": float(c.min()), "median": float(np.median(c)), "good": share}


def _read(folder: Path, name: str) -> tuple[Any, Any, Ints]:
    """Return features, adjacency and classes of a graph."""
    with np.load(folder / f"{name.lower()}.npz") as file:
        X = sparse.csr_array((file["X_data"], file["X_indices"], file["X_indptr"]), file["X_shape"])
        ones = np.ones(len(file["A_indices"]))
        A = sparse.csr_array((ones, file["A_indices"], file["A_indptr"]), file["A_shape"])
        y = np.unique(file["y"], return_inverse=True)[1].astype(np.int64)
    return X.astype(np.float64), A, y


def measured(folder: Path, name: str, participants: tuple[int, ...]) -> Iterator[Record]:
    """Yield the conditions on pooled features, and on those of some numbers of participants."""
    k, order, gcc = GRAPHS[name]
    X, A, y = _read(folder, name)
    about = {"kind": "kcagc", "graph": name, "k": k}
    smooth = np.asarray(filter_features(A, X, order=order))
    U = singular_coordinates(smooth, k, "U")
    found = local_clusters(U, k, seed=0)
    yield {**about, "rows": "AGC, pooled", "of": "classes", **conditions(U, y)}
    yield {**about, "rows": "AGC, pooled", "of": "AGC's clusters", **conditions(U, found)}
    features = gcc_features(X, A, **gcc)
    labels = cluster_gcc(X, A, k, seed=0, **gcc)
    yield {**about, "rows": "GCC, pooled", "of": "classes", **conditions(features, y)}
    yield {**about, "rows": "GCC, pooled", "of": "GCC's clusters", **conditions(features, labels)}
    for L in participants:
        yield from _collaborative(smooth, y, k, L, about)


def _collaborative(smooth: Floats, y: Ints, k: int, L: int, about: Record) -> Iterator[Record]:
    columns = np.array_split(np.arange(smooth.shape[1]), L)
    for basis in ("global-norm", "U"):
        kind: Any = "U" if basis == "U" else "scaled"
        rows = [singular_coordinates(smooth[:, own], k, kind) for own in columns]
        alone = rows
        if basis != "U":
            alone = [divide_rows(own, squared_row_norms(own)) for own in rows]
            norms = np.sum([squared_row_norms(own) for own in rows], axis=0)
            rows = [divide_rows(own, norms) for own in rows]
        local = [local_clusters(own, k, seed=number) for number, own in enumerate(alone)]
        own = [conditions(X, labels) for X, labels in zip(alone, local, strict=True)]
        X = np.hstack(rows)
        left = np.hstack(
            [
                part - _means(part, labels)[0][labels]
                for part, labels in zip(rows, local, strict=True)
            ]
        )
        told = {**about, "rows": f"{L} participants, basis {basis}", "L": L, "basis": basis}
        told |= {
            "local least": min(one["least"] for one in own),
            "local median": float(np.median([one["median"] for one in own])),
            "local bad": 1.0 - min(one["good"] for one in own),
        }
        for of, labels in {"classes": y, "k-means": local_clusters(X, k, seed=0)}.items():
            share = float(restricted(X, labels, left).mean())
            yield {**told, "of": of, **conditions(X, labels), "restricted": share}
