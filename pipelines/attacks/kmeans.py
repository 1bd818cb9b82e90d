"""The attack on rounds of k-means: sums over clusters that change by little are equations in rows.

After G. Yang, L. Luo, Q. Li, "Breaking privacy in federated clustering: perfect input
reconstruction via temporal correlations" (arXiv 2511.07073), whose attacker knows or finds which
rows are in which cluster; beside it one that knows nothing but what the server is told.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.preprocessing import StandardScaler

from daskfc.clustering.kernel_features import Kernel
from daskfc.privacy import rows_between_sums, rows_by_centres, terms_of_subset_sums
from daskfc.protocols.kcagc.maths.summed_distances import (
    CentresAtMeans,
    CentresAtNodes,
    centres_of,
    distances_to,
)
from daskfc.protocols.kcagc.maths.weighted_lloyd import LloydSettings, advance, begin
from daskfc.secure.kmeans import nearest_labels
from daskfc.secure.kmeans.lloyd import moments_of, row_moments

SETS = {
    "iris": (load_iris, 3),
    "breast cancer": (load_breast_cancer, 5),
    "digits": (load_digits, 10),
}
CASES = (("iris", 150), ("breast cancer", 200), ("breast cancer", 400), ("digits", 50),
         ("digits", 100), ("digits", 200), ("digits", 400))  # fmt: skip
STARTS_ROUNDS = ((1, 4), (1, 30), (10, 4), (10, 30))
PLACED = ((40, 1), (60, 1), (60, 2))  # dimensions, starts
FOUND = 1e-6  # of a standard deviation: a row that is met so nearly is found


class Opened(NamedTuple):
    """Sums that the server was told: `inside` has of every row whether it is in them, (q, n)."""

    counts: np.ndarray
    sums: np.ndarray
    squares: np.ndarray
    centres: tuple[np.ndarray, ...]
    inside: np.ndarray


def rows_of(name: str, n: int, embedded: bool = False) -> tuple[np.ndarray, int]:
    """Return n rows of a set, standardised, and how many clusters are looked for.

    Embedded, they are as many coordinates in the largest eigenvectors of a kernel matrix, which
    FederatedKernelKMeans clusters.
    """
    load, k = SETS[name]
    X = StandardScaler().fit_transform(load().data)
    X = X[np.random.default_rng(0).permutation(len(X))[:n]]
    if embedded:
        values, vectors = np.linalg.eigh(Kernel("gaussian", X.shape[1] ** 0.5).values(X, X))
        X = vectors[:, -k:] * np.sqrt(values[-k:] * n)
        X /= X.std(axis=0)
    return X, k


def inside_cells(centres: Sequence[np.ndarray], rows: np.ndarray) -> np.ndarray:
    """Return in which cells, of all centres that were told, rows lie: (q, n)."""
    cells = [nearest_labels(rows, own) == np.arange(len(own))[:, None] for own in centres]
    return np.vstack(cells)


def opened(rows: np.ndarray, k: int, n_init: int, rounds: int = 30) -> Opened:
    """Return the sums that Lloyd's algorithm opens: of each cluster, in each round of each start.

    So did k-means on sums; what it did beside, moving centres of the best start, opened more.
    """
    random, d = np.random.default_rng(0), rows.shape[1]
    told, values = [np.zeros((1, d))], [row_moments(rows, np.zeros((1, 1, d)))]
    starts = rows.mean(axis=0) + rows.std(axis=0) * random.standard_normal((n_init, k, d))
    for _ in range(rounds):
        told += [*starts]
        values.append(row_moments(rows, starts))
        after = moments_of(values[-1], starts).means
        if np.array_equal(after, starts):
            break
        starts = after
    n, sums, squares = np.split(np.vstack(values), [1, 1 + d], axis=1)
    c = np.vstack(told)
    squares = squares + 2 * c * sums + n * c**2
    return Opened(n[:, 0], sums + n * c, squares, tuple(told), inside_cells(told, rows))


def found_share(found: np.ndarray, rows: np.ndarray) -> float:
    """Return the share of rows that are among those found."""
    if not len(found):
        return 0.0
    return float((cKDTree(found).query(rows)[0] < FOUND * rows.shape[1] ** 0.5).mean())


def rows_recovered(told: Opened, rows: np.ndarray) -> tuple[float, float]:
    """Return the shares of rows found by sums alone, and by who knows all rows' clusters."""
    alone = rows_between_sums(*told[:3], lambda new: inside_cells(told.centres, new))
    inside, first = np.unique(told.inside, axis=0, return_index=True)
    terms = terms_of_subset_sums(inside, told.sums[first])
    return found_share(alone, rows), found_share(terms.values[terms.determined], rows)


def rows_placed(n_init: int, rounds: int = 30, n: int = 200, rank: int = 40) -> float:
    """Return the share of rows that kCAGC's server places by distances to centres, as written.

    Up to a rigid motion, of `rank` dimensions, as four participants with ten clusters have.
    """
    X, k = rows_of("digits", n)
    left, values, _ = np.linalg.svd(X, full_matrices=False)
    X = left[:, :rank] * values[:rank]
    settings = LloydSettings(k, seed=0, n_init=n_init, max_iter=rounds, ordered=False)
    state, weights, squared = begin(settings, np.ones(n)), [], []
    while state.request is not None:
        request = state.request
        assert isinstance(request, CentresAtNodes | CentresAtMeans)
        own = centres_of(request, np.eye(n), np.ones(n), k).reshape(-1, n)
        sums = distances_to(X, centres_of(request, X, np.ones(n), k))
        weights.append(own)
        squared.append(sums.reshape(n, -1))
        state = advance(state, sums)
    _, off = rows_by_centres(np.vstack(weights), np.hstack(squared))
    return float((off < 1e-3).mean())
