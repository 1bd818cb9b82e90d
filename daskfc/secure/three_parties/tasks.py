"""What three parties compute on the shares of all samples: a program, and how its bits are read."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from daskfc.secure.shared import Bits, DensityClusters, Lloyd, Numbers, Party, Program

__all__ = ["CentresOfShares", "DensityOfShares", "LabelTask"]


class LabelTask(Protocol):
    """A clustering of shared samples (n, d), and what its planes of bits say."""

    def program(self, party: Party, x: Numbers) -> Program[Bits]:
        """Return planes (planes, words) of all samples' labels, one sample a bit."""
        ...

    def labels(self, planes: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Return labels (n,) of samples from their bits (planes, n)."""
        ...


@dataclass(frozen=True)
class CentresOfShares:
    """k-means that starts at some of the samples, by their places among all (n_clusters,)."""

    lloyd: Lloyd
    start: tuple[int, ...]

    def program(self, party: Party, x: Numbers) -> Program[Bits]:
        """Return one-hot rows; see `LabelTask`."""
        rows, _ = yield from self.lloyd.fit(party, x, x[list(self.start)])
        return rows

    def labels(self, planes: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Return the row in which a sample's bit is set; see `LabelTask`."""
        found: NDArray[np.int64] = planes.argmax(axis=0).astype(np.int64)
        return found


@dataclass(frozen=True)
class DensityOfShares:
    """DBSCAN; noise is -1."""

    clusters: DensityClusters

    def program(self, party: Party, x: Numbers) -> Program[Bits]:
        """Return planes of numbers of clusters; see `LabelTask`."""
        return self.clusters.fit(party, x)

    def labels(self, planes: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Return numbers of clusters, whose highest one stands for noise; see `LabelTask`."""
        weights = np.int64(1) << np.arange(len(planes), dtype=np.int64)
        found = weights @ planes.astype(np.int64)
        found[found == weights.sum()] = -1
        return found
