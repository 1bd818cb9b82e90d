"""Sums of counts that also count the clients with any, so that small groups stay hidden.

A client adds one number for both, so a masked sum of them costs no more than one of counts.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfc.secure.sums.total import Total
from daskfc.site import Smallest

_HOLDER = 2.0**33  # ours: above all samples of all clients
LARGEST_COUNT = 2.0 * _HOLDER
"""Public bound on what one client adds for a count."""


class Held(NamedTuple):
    """Counts of samples over all clients, and how many clients have any of them, in one shape."""

    counts: NDArray[np.int64]
    holders: NDArray[np.int64]

    def enough(self, smallest: Smallest) -> NDArray[np.bool_]:
        """Return where samples and clients are as many as a run requires to reveal a count."""
        found: NDArray[np.bool_] = self.counts >= smallest.samples
        return found & (self.holders >= smallest.clients)


def counts_and_holder(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a client's counts plus 2**33 where they are above 0, which counts the clients."""
    return counts + _HOLDER * (counts > 0)


def held_counts(total: Total) -> Held:
    """Return counts over all clients, and how many clients have any."""
    holders, counts = np.divmod(np.rint(total.values), _HOLDER)
    return Held(counts.astype(np.int64), holders.astype(np.int64))
