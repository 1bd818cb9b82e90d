"""A square matrix in a file, for matrices that a clusterer changes and that exceed memory."""

import tempfile
import weakref
from typing import Self

import numpy as np
from numpy.typing import NDArray

from daskfc.arrays import Floats, Ints

_ITEM = np.dtype(np.float64).itemsize


class RowFile:
    """An n × n float64 matrix in a file, by rows; not mapped, as mapped pages count as memory."""

    def __init__(self, n: int, folder: str | None = None) -> None:
        self.n = n
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)
        self._file.truncate(n * n * _ITEM)
        self._close = weakref.finalize(self, self._file.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def write(self, start: int, rows: Floats) -> None:
        """Write whole rows (b, n) from number `start` on."""
        self._write(start * self.n, rows)

    def _write(self, place: int, values: NDArray[np.floating]) -> None:
        left = np.ascontiguousarray(values, dtype=np.float64).data.cast("B")
        self._file.seek(place * _ITEM)
        while left:
            left = left[self._file.write(left) :]

    def write_part(self, rows: slice, columns: slice, values: NDArray[np.floating]) -> None:
        """Write some columns of some rows."""
        for row, part in zip(range(rows.start, rows.stop), values, strict=True):
            self._write(row * self.n + columns.start, part)

    def read(self, start: int, stop: int) -> Floats:
        """Return rows, (stop - start, n)."""
        rows = np.empty((stop - start, self.n))
        left = rows.data.cast("B") if rows.size else memoryview(b"")
        self._file.seek(start * self.n * _ITEM)
        while left:
            left = left[self._file.readinto(left) :]
        return rows

    def row(self, i: int) -> Floats:
        """Return one row, (n,)."""
        return np.asarray(self.read(i, i + 1)[0])

    def rows(self, places: Ints) -> Floats:
        """Return some rows, (b, n)."""
        found = np.empty((places.size, self.n))
        for target, place in zip(found, places.tolist(), strict=True):
            target[:] = self.row(place)
        return found
