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
    """What is taken off columns, and what the rest is divided by.

    Parameters
    ----------
    low : ndarray of shape (n_columns,), float64
        Where each column begins.
    width : float
        Above 0.
    """

    low: NDArray[np.float64]
    width: float

    @classmethod
    def of(cls, rows: NDArray[np.floating]) -> "Units":
        """Return the units of a client's own view.

        Parameters
        ----------
        rows : ndarray of shape (n, n_columns), float
            All of the client.

        Returns
        -------
        Units
            With width 1 where all rows are equal.

        Examples
        --------
        >>> import numpy as np
        >>> from daskfc.protocols.esfmc.units import Units
        >>> pixels = np.array([[0.0, 204.0, 7.0], [255.0, 0.0, 7.0]])
        >>> Units.of(pixels).applied(pixels).astype(float).round(3).tolist()
        [[0.0, 0.8, 0.0], [1.0, 0.0, 0.0]]
        """
        low = rows.min(axis=0).astype(np.float64)
        width = float((rows.max(axis=0).astype(np.float64) - low).max())
        if not np.isfinite(width):  # whoever takes such rows refuses and counts them
            return cls(np.zeros(len(low)), 1.0)
        return cls(low, width or 1.0)

    def applied(self, rows: NDArray[np.floating]) -> NDArray[np.float32]:
        """Return rows in these units, as networks take them.

        Parameters
        ----------
        rows : ndarray of shape (n, n_columns), float
            Of the view: those that the units are of, or new ones.
        """
        found = np.empty(rows.shape, np.float32)
        for start in range(0, len(rows), _ROWS):
            part = rows[start : start + _ROWS].astype(np.float64)
            found[start : start + _ROWS] = (part - self.low) / self.width
        return found
