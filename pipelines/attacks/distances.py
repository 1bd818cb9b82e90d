"""The attack on distances by rows that are known."""

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.preprocessing import StandardScaler

from daskfc.privacy import rows_by_distances

SETS = {"wine": load_wine, "breast cancer": load_breast_cancer, "digits": load_digits}
KNOWN = (0, 1, 2, 4, 8, 16)


def rows_beside_known(name: str, known: int, draws: int = 100) -> tuple[float, float]:
    """Return how far off rows are that OmniFC's server places beside some that it knows.

    Features are standardised over all samples, so that their mean is known to be zero as well.
    Errors are over a row's distance from the mean: 1 is to know nothing but that.

    Returns
    -------
    float
        The median over all other rows and over draws of the known ones.
    float
        The same over those that lie nearest to what is known, a hundredth of the rows; the distance
        that is left tells the server which they are.
    """
    X = StandardScaler().fit_transform(SETS[name]().data)
    random, all_rows, nearest = np.random.default_rng(0), [], []
    for _ in range(draws):
        own = random.permutation(len(X))[:known]
        points = np.vstack([np.zeros(X.shape[1]), X[own]])
        others = np.delete(X, own, axis=0)
        rows, left = rows_by_distances(points, cdist(others, points, "sqeuclidean"))
        norms = np.linalg.norm(others, axis=1)
        off = np.linalg.norm(rows - others, axis=1) / norms
        all_rows.append(np.median(off))
        nearest.append(np.median(off[np.argsort(left / norms)[: len(off) // 100 or 1]]))
    return float(np.median(all_rows)), float(np.median(nearest))
