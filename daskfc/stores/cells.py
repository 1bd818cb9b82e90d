"""Cells of a table as numbers, or a sentence on the first that is none, and where it lies."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from daskfc.errors import StoreError

__all__ = ["Cells"]

_LARGEST = 2**53  # whole numbers up to here are numbers of float64
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}.*|\d{1,2}[./-]\d{1,2}[./-]\d{2,4}.*")
_GROUPED = re.compile(r"[+-]?\d{1,3}([,.' ])\d{3}(\1\d{3})*([.,]\d+)?")
_COMMA = re.compile(r"[+-]?\d*,\d+")
_MISSING = frozenset("? - -- . .. * ! missing unknown none nil n.a. n.d. n/d".split())


@dataclass(frozen=True)
class Cells:
    """How the cells of one file become numbers.

    Parameters
    ----------
    path : str
        Of the file, for messages.
    place : callable
        From a sample's number to where it lies in the file, in words.
    dtype : str, or mapping of str to str, optional
        NumPy's names of the types that features must have, of all or by column.
    decimal, thousands : str, optional
        How the file writes numbers.
    """

    path: str
    place: Callable[[int], str]
    dtype: str | Mapping[str, str] | None = None
    decimal: str = "."
    thousands: str | None = None

    def numbers(self, frame: pd.DataFrame, start: int) -> np.ndarray:
        """Return a block of features.

        Parameters
        ----------
        frame : DataFrame
            Feature columns of consecutive samples.
        start : int
            Number of the first one.

        Raises
        ------
        StoreError
            For the first cell that is no finite number, or one that its type cannot hold.
        """
        for name in frame.columns:
            if not pd.api.types.is_numeric_dtype(frame[name].dtype):
                self._refuse_words(frame[name], start)
        typed = {name: self._typed(frame[name], start) for name in frame.columns}
        found = np.result_type(*(column.dtype for column in typed.values()))
        if found.kind == "f":
            for name, column in typed.items():
                self._refuse_rounding(name, column, start)
        block = np.column_stack([column.astype(found, copy=False) for column in typed.values()])
        missing = ~np.isfinite(block) if found.kind == "f" else np.zeros(block.shape, bool)
        if missing.any():
            row, column = np.argwhere(missing)[0]
            others = int(missing.sum()) - 1
            more = f" (and {others} more in the next {len(block)} samples)" if others else ""
            raise StoreError(
                f"{self._at(start + int(row), str(frame.columns[column]))} features must be finite "
                f"numbers; got a missing value or infinity{more}. Fill it in, or leave out such "
                "samples or columns."
            )
        return block

    def _at(self, row: int, name: str) -> str:
        return f"{self.path}: {self.place(row)}, column {name!r}:"

    def _typed(self, column: pd.Series, start: int) -> np.ndarray:
        values = column.to_numpy(dtype=_numpy_type(column.dtype))
        by_column = self.dtype if isinstance(self.dtype, Mapping) else {}
        wanted = self.dtype if isinstance(self.dtype, str) else by_column.get(str(column.name))
        if wanted is None:
            return values
        with np.errstate(over="ignore", invalid="ignore"):
            cast = values.astype(wanted)
        lost = ~np.isfinite(cast) if cast.dtype.kind == "f" else cast != values
        lost &= np.isfinite(values)
        if lost.any():
            row = start + int(np.flatnonzero(lost)[0])
            raise StoreError(
                f"{self._at(row, str(column.name))} source.dtype says {wanted}, which cannot hold "
                "what is there. Choose another type, or leave the column out of it."
            )
        return cast if cast.dtype.kind == "f" or np.isfinite(values).all() else values

    def _refuse_rounding(self, name: Any, column: np.ndarray, start: int) -> None:
        if column.dtype.kind not in "iu":
            return
        large = (column > _LARGEST) | (column < -_LARGEST)
        if large.any():
            raise StoreError(
                f"{self._at(start + int(np.flatnonzero(large)[0]), str(name))} whole numbers above "
                "2**53 would be rounded beside columns with fractions. If they are ids, name the "
                "column as source.ids; or leave it out."
            )

    def _refuse_words(self, column: pd.Series, start: int) -> None:
        text = column.astype(str).str.strip()
        plain = text if self.thousands is None else text.str.replace(self.thousands, "")
        if self.decimal != ".":  # a dot is part of no number then
            plain = plain.str.replace(".", "?").str.replace(self.decimal, ".")
        wrong = column.notna() & pd.to_numeric(plain, errors="coerce").isna()
        if wrong.any():
            first = int(np.flatnonzero(wrong.to_numpy())[0])
            got, way_out = _described(text.iloc[first], self.decimal)
        else:  # numbers that no type of NumPy holds
            first = int(plain.str.len().to_numpy().argmax())
            got, way_out = (
                "one of too many digits",
                "Name the column as source.ids, or leave it out.",
            )
        raise StoreError(
            f"{self._at(start + first, str(column.name))} features must be numeric; got {got}. "
            f"{way_out}"
        )


def _described(word: str, decimal: str = ".") -> tuple[str, str]:
    """Say what a cell looks like without its value, and what may be done.

    Examples
    --------
    >>> from daskfc.stores.cells import _described
    >>> _described("3,75")[0], _described("?")[0], _described("often")[0]
    ('a comma in a number', "'?'", 'a word')
    """
    if _DATE.fullmatch(word):
        leave = "Leave the column out by source.columns, or put numbers of days in its place."
        return "a date", leave
    grouped = _GROUPED.fullmatch(word)
    if grouped and grouped[1] == ",":
        return "a comma in a number", (
            "Set source.thousands: ',' if commas group digits, or source.decimal: ',' if they are "
            "decimal commas."
        )
    if grouped and (grouped[1] != decimal or grouped[3] or grouped[2]):
        comma = decimal != "," and (grouped[3] or "").startswith(",")
        more = ", and source.decimal: ','" if comma else ""
        return "grouped digits", f"Set source.thousands: {grouped[1]!r}{more}."
    if _COMMA.fullmatch(word):
        return "a comma in a number", "Set source.decimal: ',' if it is a decimal comma."
    if word.lower() in _MISSING:
        return repr(word), "Set source.na_values if it stands for a missing value."
    return "a word", (
        "Name the column as source.labels or source.ids, or list the features in source.columns."
    )


def _numpy_type(dtype: Any) -> np.dtype[Any]:
    # pandas' own nullable types become float64, where a missing value is NaN
    return dtype if isinstance(dtype, np.dtype) and dtype.kind != "b" else np.dtype(np.float64)
