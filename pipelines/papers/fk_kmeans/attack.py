"""What the server makes of a Gram matrix of random features: its samples, where they are few.

The paper's Theorem 4 holds that AᵀA says nothing of A. The server has drawn the features itself,
and `daskfc.protocols.fk_kmeans.privacy.rows_in_span` looks for the samples. Of one client, as the
paper's server sees it, and of the sum over M clients, as ours does.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist, pdist
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_limits

from daskfc.clustering.kernels.width import interpoint_width
from daskfc.protocols.fk_kmeans.features import FeatureSettings
from daskfc.protocols.fk_kmeans.maths.dspgd import weighted
from daskfc.protocols.fk_kmeans.privacy import rows_in_span
from daskfc.seeds import generator
from pipelines.papers.fk_kmeans.values import CLIENTS
from pipelines.papers.journal import Record

__all__ = ["ATTACKED", "CLOSE", "FEATURES", "MOST_STARTS", "STARTS", "attacks", "sizes_of"]

Floats = NDArray[np.float64]

FEATURES = (40, 100, 200)  # D
SIZES = (5, 10, 20, 40, 80, 160)  # n_m, samples of a client
CLOSE = 0.01  # of the mean distance of two samples
STARTS = 16  # for every sample that is in the matrix …
MOST_STARTS = 1000  # … and these at most


def _iris() -> Floats:
    return np.unique(load_iris().data.astype(np.float64), axis=0)


def _digits() -> Floats:
    X = load_digits().data.astype(np.float64)
    return np.asarray(PCA(8, svd_solver="full").fit_transform(X), dtype=np.float64)


ATTACKED = {"iris": _iris, "digits, 8 principal components": _digits}


def sizes_of(name: str) -> list[int]:
    """Return those n_m for which there are samples of M clients."""
    return [size for size in SIZES if CLIENTS * size <= len(ATTACKED[name]())]


def attacks(name: str, n_features: int, size: int, seed: int) -> Iterator[Record]:
    """Yield what is found of a client's samples: from its own matrix, then from the sum.

    Parameters
    ----------
    name : str
        A key of `ATTACKED`.
    n_features : int
        D.
    size : int
        n_m, samples of each client; there must be so many for all of them.
    seed : int
        Of samples, features and starts.
    """
    X = ATTACKED[name]()
    random = generator(seed, "paper", "attack", name, n_features, size)
    clients = X[random.choice(len(X), CLIENTS * size, replace=False)].reshape(CLIENTS, size, -1)
    settings = FeatureSettings("gaussian", 3, n_features, seed)
    draw = settings.drawn(interpoint_width(X), 1, X.shape[1])
    grams = []
    for rows in clients:
        W = weighted(draw.of(rows), np.empty((size, 0)), 1)  # of the first iteration
        grams.append(W.T @ W)
    distance = float(pdist(X).mean())
    low, high = X.min(axis=0), X.max(axis=0)  # the server may know what values there are
    for masked, gram, among in ((False, grams[0], size), (True, sum(grams), CLIENTS * size)):
        starts = random.uniform(low, high, (min(STARTS * among, MOST_STARTS), X.shape[1]))
        with threadpool_limits(limits=1):  # the matrices are small
            found = rows_in_span(np.asarray(gram), draw, starts)
        nearest = cdist(clients[0], found.rows).min(axis=1) / distance
        yield {
            "kind": "attack",
            "data": name,
            "columns": X.shape[1],
            "D": n_features,
            "size": size,
            "masked": masked,
            "seed": seed,
            "rank": found.rank,
            "starts": len(starts),
            "share": float(np.mean(nearest <= CLOSE)),
            "median": float(np.median(nearest)),
        }
