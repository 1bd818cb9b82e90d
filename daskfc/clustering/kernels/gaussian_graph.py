"""The graph of a Gaussian kernel on distances that are in memory one block at a time."""

from collections.abc import Callable, Iterator

import numpy as np
from scipy.sparse.linalg import LinearOperator

from daskfc.arrays import Floats, Ints
from daskfc.clustering.kernels.products import near_leading
from daskfc.clustering.views.views import DistanceBlocks, Places, symmetric_product
from daskfc.linalg.laplacian import NormalisedAdjacency, components_of_rows

_BITS = 21  # bits of a float64 that a pass counts by: 2 million counts
_FEW = 1 << 23  # up to so many values are sorted: 64 MiB


def gaussian_graph(view: DistanceBlocks, gamma: float, k: int, seed: int) -> NormalisedAdjacency:
    """Return the graph with weights exp(-γ D), recomputed in every product, for k eigenvectors."""
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
                np.fill_diagonal(D, 0.0)  # no loops: a node far from all has a small degree
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
    near = near_leading(kernel, n, min(2 * k + 10, n // 2), seed, least=k) / root[:, None]
    return NormalisedAdjacency(matrix, root, components, near)


def median_apart(view: DistanceBlocks) -> float:
    """Return the median of the squared distances above 0; 0.0 if there are none."""

    def apart() -> Iterator[Floats]:
        for rows, columns, D in view.upper():
            part = D[np.triu_indices(len(D), 1)] if rows == columns else D.ravel()
            yield part[part > 0]

    middle = ranked(apart, lambda n: ((n - 1) // 2, n // 2) if n else ())
    return float(middle.mean()) if middle.size else 0.0


def ranked(
    pieces: Callable[[], Iterator[Floats]], places: Callable[[int], tuple[int, ...]]
) -> Floats:
    """Return the values at nearby ranks, ascending, from 0, without all values in memory.

    `pieces` is called for each pass and yields values >= 0; `places` maps their number to ranks.
    Positive float64 sort like their bits: a pass counts values by 21 bits; the next collects the
    candidates, or counts by the next 21 bits if over 8 million are left.
    """
    below = _counted(pieces, 0, 63).cumsum()
    wanted = places(int(below[-1]))
    if not wanted:
        return np.empty(0)
    low, high = np.searchsorted(below, [wanted[0], wanted[-1]], side="right")
    before = below[low - 1] if low else 0
    if below[high] - before <= _FEW:
        between = _collected(pieces, int(low), int(high), 63 - _BITS)
        return np.take(between, np.array(wanted) - before)
    return np.array([_nth_smallest(pieces, place) for place in wanted])


def _counted(pieces: Callable[[], Iterator[Floats]], first: int, shift: int) -> Ints:
    """Count the values that equal `first` but for the last `shift` bits, by their next 21 bits."""
    counts = np.zeros(1 << _BITS, dtype=np.int64)
    for part in pieces():
        bits = part.view(np.int64)
        inside = bits if shift == 63 else bits[bits >> shift == first >> shift]
        counts += np.bincount((inside - first) >> (shift - _BITS), minlength=1 << _BITS)
    return counts


def _collected(pieces: Callable[[], Iterator[Floats]], low: int, high: int, shift: int) -> Floats:
    """Return the sorted values that, without their last `shift` bits, are from `low` to `high`."""
    found = []
    for part in pieces():
        keys = part.view(np.int64) >> shift
        found.append(part[(keys >= low) & (keys <= high)])
    return np.sort(np.concatenate(found))


def _nth_smallest(pieces: Callable[[], Iterator[Floats]], n: int) -> float:
    first, shift = 0, 63
    while shift > 0:
        counts = _counted(pieces, first, shift)
        shift -= _BITS
        before = counts.cumsum()
        key = int(np.searchsorted(before, n, side="right"))
        n -= int(before[key] - counts[key])
        first += key << shift
        if counts[key] <= _FEW:
            alike = first >> shift
            return float(_collected(pieces, alike, alike, shift)[n])
    return float(np.int64(first).view(np.float64))
