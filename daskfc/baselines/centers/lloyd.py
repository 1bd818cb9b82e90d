"""k-means over rows that are read block by block, and weighted k-means over a few points.

k-means++ seeds, Lloyd's rounds and the nearest centre are computed in passes over a client's store,
with one block of rows in memory.
"""

import hashlib
import warnings

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from daskfc.errors import InvalidInput, PrivacyError
from daskfc.secure.kmeans import nearest_labels
from daskfc.stores import ClientStore


def assign(data: ClientStore, centers: np.ndarray) -> np.ndarray:
    """Return the nearest centre of every row, int64 ``(n,)``; the lower index on ties."""
    labels = np.empty(data.n_samples, dtype=np.int64)
    for start, rows in data.blocks():
        labels[start : start + len(rows)] = nearest_labels(rows, centers)
    return labels


def means_of(data: ClientStore, labels: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """Return means ``(k, d)`` of rows by label >= 0; one without rows is `otherwise`'s row."""
    sums = np.zeros_like(otherwise)
    counts = np.zeros(len(otherwise))
    for start, rows in data.blocks():
        of_block = labels[start : start + len(rows)]
        member = (of_block[:, None] == np.arange(len(otherwise))).astype(np.float64)
        sums += member.T @ rows
        counts += member.sum(axis=0)
    present = counts > 0
    means = otherwise.copy()
    means[present] = sums[present] / counts[present, None]
    return means


def lloyd(
    data: ClientStore, centers: np.ndarray, *, max_iterations: int
) -> tuple[np.ndarray, np.ndarray]:
    """Run Lloyd's rounds until no label changes; return centres ``(k, d)`` and labels ``(n,)``."""
    labels = assign(data, centers)
    for _ in range(max_iterations):
        centers = means_of(data, labels, otherwise=centers)
        moved = assign(data, centers)
        unchanged = np.array_equal(moved, labels)
        labels = moved
        if unchanged:
            break
    return centers, labels


def lloyd_of_many(
    data: ClientStore, centers: np.ndarray, *, max_iterations: int, least: int
) -> tuple[np.ndarray, np.ndarray]:
    """Run `lloyd` until no cluster has fewer than `least` rows; refuse fewer rows than that.

    With more than one, what is returned are means of as many rows, also where rounds end early.
    """
    if data.n_samples < least:
        raise PrivacyError(
            f"a client's clusters are told of at least {least} samples each here; client "
            f"{data.name!r} has fewer samples. Leave it out, or agree on a smaller 'smallest'."
        )
    centers, labels = lloyd(data, centers, max_iterations=max_iterations)
    while least > 1 and (sizes := np.bincount(labels, minlength=len(centers))).min() < least:
        fewer = np.delete(centers, sizes.argmin(), axis=0)
        centers, labels = lloyd(data, fewer, max_iterations=max_iterations)
    return centers if least == 1 else means_of(data, labels, otherwise=centers), labels


def kmeans_plus_plus(data: ClientStore, n_centers: int, random: np.random.Generator) -> np.ndarray:
    """Draw `n_centers` rows as centres, each with a probability in proportion to its cost.

    Arthur and Vassilvitskii (2007), without greedy trials: one pass over the rows per centre. There
    are fewer centres if there are fewer different rows; the rows' order does not matter.
    """
    order = _order(data)
    first = int(order[random.integers(data.n_samples)])
    centers = [data.rows(first, first + 1)[0]]
    cost = np.full(data.n_samples, np.inf)
    while len(centers) < n_centers:
        newest = centers[-1]
        for start, rows in data.blocks():
            part = cost[start : start + len(rows)]
            # differences, not inner products: a row equal to a centre must cost exactly 0
            np.minimum(part, np.square(rows - newest).sum(axis=1), out=part)
        mass = cost[order]
        total = mass.sum()
        if total == 0:
            break
        drawn = int(np.searchsorted(np.cumsum(mass), random.random() * total, side="right"))
        drawn = min(drawn, int(np.flatnonzero(mass)[-1]))  # rounding may exceed the total
        chosen = int(order[drawn])
        centers.append(data.rows(chosen, chosen + 1)[0])
    return np.array(centers)


def _order(data: ClientStore) -> np.ndarray:
    """Return the order of rows by a digest of their values."""
    digests = [
        hashlib.blake2b(row.tobytes(), digest_size=8).digest()
        for _, rows in data.blocks()
        for row in np.ascontiguousarray(rows, dtype=np.float64) + 0.0  # turns -0.0 into 0.0
    ]
    return np.argsort(np.frombuffer(b"".join(digests), dtype=np.uint64), kind="stable")


def weighted_k_means(
    points: np.ndarray, weights: np.ndarray, n_clusters: int, seed: int, *, n_init: int = 10
) -> tuple[np.ndarray, float]:
    """Return centres and inertia of weighted points; refuse fewer different ones than clusters."""
    distinct = len(np.unique(points, axis=0))
    if distinct < n_clusters:
        raise InvalidInput(
            f"the clients sent {distinct} different local centres and {n_clusters} clusters were "
            "asked for. Lower 'n_clusters', or let every client find more local clusters."
        )
    model = KMeans(n_clusters, n_init=n_init, random_state=seed)
    with warnings.catch_warnings():
        # points that differ only by rounding may share a centre
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(points, sample_weight=weights)
    return np.asarray(model.cluster_centers_, dtype=np.float64), float(model.inertia_)
