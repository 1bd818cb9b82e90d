"""Find the smallest type that holds the values of columns, as rows arrive."""

from typing import Any

import numpy as np

TOLERATED = 1e-6  # of a column's standard deviation
_FAR = 16.0  # ours: ratio to the deviation of the middle half from which a few values dominate it
_ROWS = 128  # ours: of a block, whose middle half is looked at
_NORMAL = 1.349  # of a normal distribution, the middle half over the standard deviation

_SHORT = ("uint8", "int8", "uint16", "int16")
_LONG = ("uint32", "int32")


class ColumnRounding:
    """How rounding to the smaller float `dtype` changes columns of rows that arrive in blocks.

    A type holds a column if no value moves by more than `TOLERATED` standard deviations and no
    whole number at all; missing values do not count. Where a few far values, such as codes,
    dominate the deviation, that of the middle half replaces it, or other values would be merged.
    """

    def __init__(self, n_features: int, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        self._count, self._mean, self._squares, self._furthest = np.zeros((4, n_features))
        self._whole = np.zeros(n_features, dtype=bool)  # a whole number became another one
        self._middles: list[np.ndarray] = []  # width of the middle half, of each block
        self._integers = True  # so far, and none is missing
        self._lowest, self._highest = 0.0, 0.0

    def add(self, rows: np.ndarray) -> None:
        """Add the next rows, (rows, n_features) float64, finite or NaN."""
        for first in range(0, len(rows), _ROWS):  # parts that fit the cache
            self._add(rows[first : first + _ROWS])
        if len(rows):
            self._middles.append(_middle_half(rows[:: max(1, len(rows) // _ROWS)]))

    def _add(self, rows: np.ndarray) -> None:
        whole = rows == np.rint(rows)
        self._integers &= bool(whole.all())
        if self._integers:
            self._lowest = min(self._lowest, float(rows.min(initial=0)))
            self._highest = max(self._highest, float(rows.max(initial=0)))
        there = ~np.isnan(rows)
        with np.errstate(over="ignore", invalid="ignore"):
            off = np.abs(rows - rows.astype(self._dtype))
            count = there.sum(axis=0)
            mean = rows.sum(axis=0, where=there) / np.maximum(count, 1)
            squares = np.square(rows - mean).sum(axis=0, where=there)
            # merges the moments of two sets: Chan, Golub and LeVeque, 1983
            both = np.maximum(self._count + count, 1)
            step = mean - self._mean
            self._squares += squares + step**2 * self._count * (count / both)
            self._mean += step * (count / both)
        self._count += count
        np.maximum(self._furthest, off.max(axis=0, initial=0, where=there), out=self._furthest)
        self._whole |= (whole & (off > 0)).any(axis=0)

    def moved(self) -> np.ndarray:
        """Return for each column whether the type does not hold it."""
        with np.errstate(invalid="ignore"):
            deviation = np.sqrt(self._squares / np.maximum(self._count, 1))
            middle = np.median(self._middles, axis=0) / _NORMAL if self._middles else deviation
            deviation = np.where((middle > 0) & (_FAR * middle < deviation), middle, deviation)
            far = ~(self._furthest <= TOLERATED * deviation)
        found: np.ndarray = far | np.isinf(self._furthest) | self._whole
        return found

    def smallest(self, *, gaps: bool = False) -> np.dtype[Any]:
        """Return the smallest type that holds every column; an integer type only without `gaps`."""
        if (short := self._integer_type(_SHORT)) is not None and not gaps:
            return short
        if not self.moved().any():
            return self._dtype
        long = None if gaps else self._integer_type(_LONG)
        return np.dtype(np.float64) if long is None else long

    def _integer_type(self, names: tuple[str, ...]) -> np.dtype[Any] | None:
        for name in names if self._integers else ():
            limits = np.iinfo(name)
            if limits.min <= self._lowest and self._highest <= limits.max:
                return np.dtype(name)
        return None


def _middle_half(rows: np.ndarray) -> np.ndarray:
    """Return the width of the middle half of each column's values; 0 of a column without any."""
    last = np.maximum((~np.isnan(rows)).sum(axis=0) - 1, 0)
    ends = np.stack([last // 4, last - last // 4])
    low, high = np.take_along_axis(np.sort(rows, axis=0), ends, axis=0)  # NaN is sorted last
    with np.errstate(over="ignore"):
        return np.where(np.isnan(high), 0, high - low)
