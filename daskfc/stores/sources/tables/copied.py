"""Rows that can be read once alone, copied a batch at a time so that they can be read again."""

import pickle
import weakref
from collections.abc import Collection, Iterable, Iterator, Sequence
from tempfile import SpooledTemporaryFile
from typing import Any

import numpy as np
import pandas as pd

from daskfc.errors import StoreError
from daskfc.stores.sources.tables.table import TableFile, with_gaps

BATCH = 8192
"""Rows of a batch (ours)."""

_IN_MEMORY = 64_000_000  # ours: bytes; what is smaller touches no disk


class Copied(TableFile):
    """Batches of rows in a file of this process, which has no name and ends with it.

    A column has the type that it would have if all rows were read at once.
    """

    def __init__(self, batches: Iterable[pd.DataFrame]) -> None:
        self._file = SpooledTemporaryFile(max_size=_IN_MEMORY)
        weakref.finalize(self, self._file.close)
        self._places: list[int] = []
        self._rows = 0
        found: list[_Kinds] = []
        for frame in batches:
            self.names = [str(name) for name in frame.columns]
            found = found or [_Kinds() for _ in self.names]
            for i, kinds in enumerate(found):
                kinds.see(frame.iloc[:, i])
            if len(frame):
                self._keep(frame)
        self._types = {name: kinds.common() for name, kinds in zip(self.names, found, strict=True)}

    def _keep(self, frame: pd.DataFrame) -> None:
        self._places.append(self._file.tell())
        self._rows += len(frame)
        try:
            pickle.dump(frame, self._file, protocol=5)  # nobody else can write there
        except OSError as error:
            raise StoreError(
                f"the rows of a query need space for a copy, and the temporary folder has none "
                f"({error.strerror}). Free some, or name another folder by TMPDIR."
            ) from None

    def count(self) -> int:
        """Return the number of rows."""
        return self._rows

    def frames(
        self, columns: Sequence[str], rows: int, text: Collection[str] = ()
    ) -> Iterator[pd.DataFrame]:
        """Yield rows in their order."""
        for place in self._places:
            self._file.seek(place)
            frame = pickle.load(self._file)
            frame.columns = self.names
            typed = {name: _typed(frame[name], self._types[name]) for name in columns}
            for start in range(0, len(frame), rows):
                yield pd.DataFrame(
                    {name: one.iloc[start : start + rows] for name, one in typed.items()}
                )


class _Kinds:
    """The types of a column's batches, and whether whole numbers have gaps among them."""

    def __init__(self) -> None:
        self.types: set[Any] = set()
        self.gaps = False

    def see(self, column: pd.Series) -> None:
        if column.notna().any():
            own = column.dtype
            if own.kind in "iu" and not isinstance(own, np.dtype):  # pandas' own, for gaps
                gaps = bool(column.isna().any())
                own, self.gaps = np.dtype(own.name.lower()), self.gaps or gaps
            self.types.add(own)
        elif len(column):
            self.gaps = True

    def common(self) -> Any:
        """Return the type of all rows."""
        types = self.types
        if types and all(isinstance(one, np.dtype) and one.kind in "iuf" for one in types):
            found = np.result_type(*types)
            return with_gaps(found.name) if self.gaps and found.kind in "iu" else found
        if len(types) != 1 or (self.gaps and types == {np.dtype(bool)}):
            return np.dtype(object)
        return next(iter(types))


def _typed(column: pd.Series, wanted: Any) -> pd.Series:
    if column.isna().all():
        return pd.Series([None] * len(column), dtype=wanted)
    if wanted.kind == "O" and column.dtype.kind == "f" and (column.dropna() % 1 == 0).all():
        column = column.astype("Int64")  # whole numbers that gaps made floats, beside words
    whole = wanted.kind == "O" and column.dtype.kind in "iu"
    return column.astype(object).where(column.notna(), None) if whole else column.astype(wanted)
