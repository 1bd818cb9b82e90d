"""The units of a view: the offset of each column and the common scale for the networks.

The smallest value is subtracted from every column, and all are divided by the range of the widest:
labels do not depend on a view's unit and offsets, and columns that span [0, 1] do not change. The
columns' relative scale is kept, as it has a meaning in histograms and images; a preparation can
change it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from daskfc.arrays import Floats
from daskfc.errors import InvalidInput

_SOME = 10_000  # ours: rows at most whose quantiles are looked at
_LOST = 1e5  # ours: networks compute in float32, of seven digits
_ROWS = 4096  # ours: rows at a time, so that there is no second copy in float64


@dataclass(frozen=True)
class Units:
    """Units of a view: `low` (n_columns,) is subtracted from rows, then `width` > 0 divides."""

    low: Floats
    width: float

    @classmethod
    def of(cls, rows: NDArray[np.floating]) -> "Units":
        """Return the units of all rows of a client's view; the width is 1 if all are equal.

        Raises
        ------
        InvalidInput
            Where few values are so far from others that float32 tells these no more apart.
        """
        low = rows.min(axis=0).astype(np.float64)
        width = float((rows.max(axis=0).astype(np.float64) - low).max())
        if not np.isfinite(width):  # training refuses such rows later
            return cls(np.zeros(len(low)), 1.0)
        some = rows[:: -(-len(rows) // _SOME)].astype(np.float64)
        most = np.ptp(np.percentile(some, (5, 95), axis=0), axis=0).max()
        if 0.0 < most * _LOST < width:
            raise InvalidInput(
                "a view's widest column spans more than 100,000 times what nine tenths of the "
                "values of any column do, as with codes for missing values: networks would see "
                "all samples alike. Take these out, or give the step 'clip' in 'prepare'."
            )
        return cls(low, width or 1.0)

    def applied(self, rows: NDArray[np.floating]) -> NDArray[np.float32]:
        """Return old or new rows of the view in these units, for the networks."""
        found = np.empty(rows.shape, np.float32)
        for start in range(0, len(rows), _ROWS):
            part = rows[start : start + _ROWS].astype(np.float64)
            found[start : start + _ROWS] = (part - self.low) / self.width
        return found
