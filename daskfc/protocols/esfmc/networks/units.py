"""The unit of a view: where its networks take columns to begin, and what they take for 1.

Networks see every column from its smallest value on, and all of a view divided by the range of its
widest column: labels do not depend on the unit in which a client keeps its view, nor on where its
columns begin, and columns that are in [0, 1] already stay as they are. How columns of one view
compare is left as it is: it means something in histograms and images, and where it does not, a
preparation says so.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Units"]

_ROWS = 4096  # ours: at a time, so that there is no second copy in float64


@dataclass(frozen=True)
class Units:
    """Units of a view: `low` (n_columns,) is subtracted from rows, then `width` > 0 divides."""

    low: NDArray[np.float64]
    width: float

    @classmethod
    def of(cls, rows: NDArray[np.floating]) -> "Units":
        """Return the units of all rows of a client's view; the width is 1 where all are equal."""
        low = rows.min(axis=0).astype(np.float64)
        width = float((rows.max(axis=0).astype(np.float64) - low).max())
        if not np.isfinite(width):  # whoever takes such rows refuses and counts them
            return cls(np.zeros(len(low)), 1.0)
        return cls(low, width or 1.0)

    def applied(self, rows: NDArray[np.floating]) -> NDArray[np.float32]:
        """Return rows of the view, old or new, in these units, as networks take them."""
        found = np.empty(rows.shape, np.float32)
        for start in range(0, len(rows), _ROWS):
            part = rows[start : start + _ROWS].astype(np.float64)
            found[start : start + _ROWS] = (part - self.low) / self.width
        return found
