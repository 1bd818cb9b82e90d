"""The unit of a view: what its networks take for 0 and for 1.

Networks see a view's columns with their means taken off, all of them divided by one number: labels
do not depend on the unit in which a client keeps its view, nor on where its columns begin. How
columns of one view compare is left as it is: it may mean something, as in histograms and images,
and where it does not, a preparation says so.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Units"]

Floats = NDArray[np.float64]

_DEVIATION = 0.2  # ours: of columns in [0, 1] at hand, for which the steps of training were found
_ROWS = 4096  # ours: at a time, so that no second copy in float64 is made


@dataclass(frozen=True)
class Units:
    """What is taken off columns, and what the rest is divided by.

    Parameters
    ----------
    centre : ndarray of shape (n_columns,), float64
        The means of the columns.
    scale : float
        Above 0.
    """

    centre: Floats
    scale: float

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
            In which the root mean square of all entries is 0.2; with scale 1 where rows are equal.

        Examples
        --------
        >>> import numpy as np
        >>> from daskfc.protocols.esfmc.units import Units
        >>> pixels = np.array([[0.0, 255.0, 7.0], [255.0, 0.0, 7.0]])
        >>> Units.of(pixels).applied(pixels).astype(float).round(3).tolist()
        [[-0.245, 0.245, 0.0], [0.245, -0.245, 0.0]]
        """
        with np.errstate(invalid="ignore", over="ignore"):
            centre: Floats = rows.mean(axis=0, dtype=np.float64)
        if not np.isfinite(centre).all():  # whoever takes such rows refuses and counts them
            return cls(np.zeros(len(centre)), 1.0)
        farthest = max(float(np.abs(part - centre).max()) for part in _parts(rows))
        if farthest == 0.0:
            return cls(centre, 1.0)
        # divided first, or squares of tiny and huge values would leave the range of floats
        squares = sum(float(np.square((part - centre) / farthest).sum()) for part in _parts(rows))
        return cls(centre, farthest * float(np.sqrt(squares / rows.size)) / _DEVIATION)

    def applied(self, rows: NDArray[np.floating]) -> NDArray[np.float32]:
        """Return rows in these units, as networks take them.

        Parameters
        ----------
        rows : ndarray of shape (n, n_columns), float
            Of the view: those that the units are of, or new ones.
        """
        parts = [((part - self.centre) / self.scale).astype(np.float32) for part in _parts(rows)]
        return np.concatenate(parts)


def _parts(rows: NDArray[np.floating]) -> Iterator[Floats]:
    for start in range(0, len(rows), _ROWS):
        yield rows[start : start + _ROWS].astype(np.float64)
