"""Average and complete linkage by chains of nearest neighbours, on rows in a file.

Method      F. Murtagh, "A survey of recent advances in hierarchical clustering algorithms", The
            Computer Journal 26, 1983. Pairs are merged in the order of fastcluster's
            implementation, so that ties end as they do there.
Here        The row of a cluster A has for each sample x the sum, or the largest, of distances of
            x to A's samples. The row of a merged cluster follows from the two rows, and the
            distance of A to another cluster from A's row alone: no column is ever written.
"""

import numpy as np

from daskfc.arrays import Floats, Ints
from daskfc.clustering.blocks.row_file import RowFile
from daskfc.clustering.views.views import DistanceBlocks


def linkage_by_chains(view: DistanceBlocks, linkage: str) -> Floats:
    """Return scipy's merges, (n - 1, 4), of Euclidean distances in a file of 8 n² bytes."""
    with RowFile(view.n, view.folder) as file:
        for start, panel in view.panels():
            file.write(start, np.sqrt(panel, out=panel))
        return _in_scipys_layout(_Chains(file, linkage).merges(), view.n)


class _Chains:
    """The remaining clusters, each named by the number of its last sample."""

    def __init__(self, file: RowFile, linkage: str) -> None:
        self._file, self._average = file, linkage == "average"
        self._owner = np.arange(file.n)  # of each sample
        self._sizes = np.ones(file.n)
        self._left = np.ones(file.n, dtype=bool)

    def _distances(self, a: int) -> Floats:
        """Return a cluster's distances to the remaining ones, infinite to itself and all others."""
        row, n = self._file.row(a), self._file.n
        if self._average:
            sums = np.bincount(self._owner, weights=row, minlength=n)
            found: Floats = sums / (self._sizes * self._sizes[a])
        else:
            found = np.zeros(n)
            np.maximum.at(found, self._owner, row)
        found[~self._left] = np.inf
        found[a] = np.inf
        return found

    def _merge(self, a: int, b: int) -> None:
        """Merge the first cluster into the second."""
        one, other = self._file.row(a), self._file.row(b)
        both = one + other if self._average else np.maximum(one, other)
        self._file.write(b, both[None])
        self._owner[self._owner == a] = b
        self._sizes[b] += self._sizes[a]
        self._left[a] = False

    def merges(self) -> list[tuple[int, int, float]]:
        """Return the merged clusters and their distances, in the order found."""
        found: list[tuple[int, int, float]] = []
        chain: list[int] = []
        for _ in range(self._file.n - 1):
            del chain[-2:]  # the two that were merged
            if len(chain) < 2:
                chain = [int(self._left.argmax())]
                distances = self._distances(chain[0])
                after = int(distances.argmin())
            else:
                after = chain.pop()
                distances = self._distances(chain[-1])
            nearest = float(distances[after])
            while True:
                before = chain[-1]
                chain.append(after)
                distances = self._distances(after)
                distances[chain] = np.inf  # none of these is nearer, up to rounding
                closest = int(distances.argmin())
                if not distances[closest] < nearest:  # the two are each other's nearest
                    break
                nearest, after = float(distances[closest]), closest
            found.append((min(before, after), max(before, after), nearest))
            self._merge(*found[-1][:2])
        return found


def _in_scipys_layout(merges: list[tuple[int, int, float]], n: int) -> Floats:
    """Return merges by height, with clusters numbered in this order."""
    pairs = np.array([pair[:2] for pair in merges])
    heights = np.array([pair[2] for pair in merges])
    order = np.argsort(heights, kind="stable")
    result = np.empty((n - 1, 4))
    parent, size = np.arange(2 * n - 1), np.ones(2 * n - 1)
    for row, ends in enumerate(pairs[order].tolist()):
        first, second = sorted(_top(parent, one) for one in ends)
        parent[[first, second]] = n + row
        size[n + row] = size[first] + size[second]
        result[row] = first, second, heights[order[row]], size[n + row]
    return result


def _top(parent: Ints, one: int) -> int:
    """Return the cluster that now contains a sample."""
    while parent[one] != one:
        parent[one] = parent[parent[one]]
        one = int(parent[one])
    return one
