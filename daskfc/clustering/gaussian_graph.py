"""The graph of a Gaussian kernel on distances of which a block at a time is in memory."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from daskfc.clustering.kernel_products import near_leading
from daskfc.clustering.views import DistanceBlocks, Places, symmetric_product
from daskfc.linalg.laplacian import NormalisedAdjacency, components_of_rows

__all__ = ["gaussian_graph", "median_apart", "nth_smallest"]

Floats = NDArray[np.float64]

_BITS = 21  # of a float64, looked at in a pass: 2 million counts
_FEW = 1 << 20  # values that are sorted: 8 MiB


def gaussian_graph(view: DistanceBlocks, gamma: float, k: int, seed: int) -> NormalisedAdjacency:
    """Return the graph with weights exp(-γ D), whose products compute these anew.

    Parameters
    ----------
    view : DistanceBlocks
        Squared distances.
    gamma : float
        γ, in inverse squared units of the data.
    k : int
        Number of eigenvectors that are wanted of it.
    seed : int
        Of the vectors near to these.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.clustering import DistanceBlocks
    >>> from daskfc.clustering.gaussian_graph import gaussian_graph
    >>> view = DistanceBlocks.of_points(np.array([[0.0], [1.0], [99.0], [98.0]]))
    >>> gaussian_graph(view, 1.0, 2, seed=0).components.tolist()
    [0, 0, 1, 1]
    """
    n = view.n

    def kernel(rows: Places, columns: Places) -> Floats:
        K = view.block(rows, columns)
        K *= -gamma
        return np.exp(K, out=K)

    def weights() -> Iterator[tuple[slice, slice, Floats]]:
        for rows, columns, D in view.upper():
            D *= -gamma
            np.exp(D, out=D)
            if rows == columns:
                np.fill_diagonal(D, 0.0)  # a node that is far from all keeps its small degree
            yield rows, columns, D

    degrees = symmetric_product(weights(), np.ones((n, 1)))[:, 0]
    root = np.sqrt(np.where(degrees > 0, degrees, 1.0))

    def product(x: Floats) -> Floats:
        scaled = symmetric_product(weights(), x.reshape(n, -1) / root[:, None])
        scaled /= root[:, None]
        return scaled.reshape(x.shape)

    everyone = slice(0, n)
    matrix = LinearOperator((n, n), matvec=product, matmat=product, dtype=np.float64)
    components = components_of_rows(lambda i: kernel(slice(i, i + 1), everyone)[0], n)
    near = near_leading(kernel, n, min(2 * k + 10, n // 2), seed) / root[:, None]
    return NormalisedAdjacency(matrix, root, components, near)


def median_apart(view: DistanceBlocks) -> float:
    """Return the median of the squared distances above 0; 0.0 where there are none.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.clustering import DistanceBlocks
    >>> from daskfc.clustering.gaussian_graph import median_apart
    >>> median_apart(DistanceBlocks.of_points(np.array([[0.0], [1.0], [3.0]])))
    4.0
    """

    def apart() -> Iterator[Floats]:
        for rows, columns, D in view.upper():
            part = D[np.triu_indices(len(D), 1)] if rows == columns else D.ravel()
            yield part[part > 0]

    count = sum(part.size for part in apart())
    if count == 0:
        return 0.0
    return sum(nth_smallest(apart, one) for one in ((count - 1) // 2, count // 2)) / 2


def nth_smallest(pieces: Callable[[], Iterator[Floats]], n: int) -> float:
    """Return the n-th smallest of many values, from 0 on, without holding them.

    Parameters
    ----------
    pieces : callable
        Called for every pass; gives the values, at least 0, in arrays.
    n : int
        Below their number.

    Notes
    -----
    Positive float64 are in the order of their bits: a pass counts the first 21 of these, the next
    one, where there are more than a million alike, the next 21.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.clustering.gaussian_graph import nth_smallest
    >>> nth_smallest(lambda: iter([np.array([3.0, 1.0]), np.array([2.0])]), 1)
    2.0
    """
    first, shift = 0, 63
    while shift > 0:
        counts = np.zeros(1 << _BITS, dtype=np.int64)
        for part in pieces():
            bits = part.view(np.int64)
            inside = bits if shift == 63 else bits[bits >> shift == first >> shift]
            keys = (inside - first) >> (shift - _BITS)
            counts += np.bincount(keys, minlength=1 << _BITS)
        shift -= _BITS
        before = counts.cumsum()
        key = int(np.searchsorted(before, n, side="right"))
        n -= int(before[key] - counts[key])
        first += key << shift
        if counts[key] <= _FEW:
            alike = [part[part.view(np.int64) >> shift == first >> shift] for part in pieces()]
            return float(np.partition(np.concatenate(alike), n)[n])
    return float(np.int64(first).view(np.float64))
