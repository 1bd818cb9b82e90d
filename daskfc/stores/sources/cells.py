"""Convert the cells of a table to numbers, or report the first bad cell and its place."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from daskfc.errors import StoreError
from daskfc.stores.layout.samples import Samples
from daskfc.stores.layout.spelling import Spelling

__all__ = ["Cells", "words_of"]

LONGEST_WORD = 64  # ours: bytes of a category; clients agree on categories by sums of that many
_DAY = np.timedelta64(1, "D")

_LARGEST = 2**53  # whole numbers up to here are numbers of float64
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}.*|\d{1,2}[./-]\d{1,2}[./-]\d{2,4}.*")
_GROUPED = re.compile(r"[+-]?\d{1,3}([,.' ])\d{3}(\1\d{3})*([.,]\d+)?")
_COMMA = re.compile(r"[+-]?\d*,\d+")
_MISSING = frozenset("? - -- . .. * ! missing unknown none nil n.a. n.d. n/d".split())


@dataclass(frozen=True)
class Cells:
    """How the cells of one file become numbers: words 0, 1, ..., dates days since 1970-01-01.

    `place` turns a sample's number into its place in the file, in words; with `missing` an empty
    cell becomes NaN; `dtype` is one NumPy type, or one by column.
    """

    path: str
    place: Callable[[int], str]
    dtype: str | Mapping[str, str] | None = None
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    dates: Sequence[str] = ()
    missing: bool = False
    spelling: Spelling = field(default_factory=Spelling)

    def numbers(self, frame: pd.DataFrame, start: int) -> np.ndarray:
        """Return features of samples from number `start` on; StoreError for the first bad cell."""
        frame = frame.assign(
            **{name: self._days(frame[name], start) for name in frame.columns if name in self.dates}
        )
        for name in frame.columns:
            if name in self.words:
                number = {word: float(i) for i, word in enumerate(self.words[name])}
                spelt = _spelt(frame[name], self.spelling)
                frame[name] = spelt.map(number).astype(np.float64)
            elif not pd.api.types.is_numeric_dtype(frame[name].dtype):
                self._refuse_words(frame[name], start)
        typed = {name: self._typed(frame[name], start) for name in frame.columns}
        found = np.result_type(*(column.dtype for column in typed.values()))
        if found.kind == "f":
            for name, column in typed.items():
                self._refuse_rounding(name, column, start)
        block = np.column_stack([column.astype(found, copy=False) for column in typed.values()])
        if found.kind == "f":
            self._refuse_gaps(block, list(map(str, frame.columns)), start)
        return block

    def samples(
        self,
        n_samples: int,
        columns: Sequence[str],
        frames: Callable[[int], Iterable[pd.DataFrame]],
    ) -> Samples:
        """Return samples of these columns, which `frames` reads so many rows at a time."""

        def blocks(rows: int) -> Iterator[np.ndarray]:
            start = 0
            for frame in frames(rows):
                yield self.numbers(frame[columns], start)
                start += len(frame)

        return Samples(
            n_samples,
            tuple(columns),
            blocks,
            categories=dict(self.words),
            missing=self.missing,
            words=self.spelling.words,
        )

    def _refuse_gaps(self, block: np.ndarray, names: Sequence[str], start: int) -> None:
        bad = np.isinf(block) if self.missing else ~np.isfinite(block)
        if not bad.any():
            return
        row, column = np.argwhere(bad)[0]
        others = int(bad.sum()) - 1
        more = f" (and {others} more in the next {len(block)} samples)" if others else ""
        got, way_out = (
            "a missing value or infinity",
            ("Fill it in; or set source.missing: keep, and have the pipeline prepare: [impute]."),
        )
        if self.missing:
            got, way_out = "infinity", "Correct it, or leave the field empty."
        raise StoreError(
            f"{self._at(start + int(row), names[column])} features must be finite numbers; got "
            f"{got}{more}. {way_out}"
        )

    def _days(self, column: pd.Series, start: int) -> pd.Series:
        """Return dates as days since 1970-01-01, NaN where there is none."""
        if column.dtype.kind == "M":
            found = column
        else:
            text = _as_words(column)
            found = pd.to_datetime(text, format="ISO8601", errors="coerce", utc=True)
            wrong = found.isna() & text.notna()
            if wrong.any():
                at = self._at(start + int(np.flatnonzero(wrong.to_numpy())[0]), str(column.name))
                raise StoreError(
                    f"{at} dates must be written as 2026-03-31, with or without a time; this one "
                    "is not. Write it so, or leave the column out of source.dates."
                )
        if found.dt.tz is not None:
            found = found.dt.tz_convert("UTC").dt.tz_localize(None)
        return (found - pd.Timestamp(0)) / _DAY

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
        decimal, thousands = self.spelling.decimal, self.spelling.thousands
        plain = text if thousands is None else text.str.replace(thousands, "")
        if decimal != ".":  # a dot is part of no number then
            plain = plain.str.replace(".", "?").str.replace(decimal, ".")
        wrong = column.notna() & pd.to_numeric(plain, errors="coerce").isna()
        if wrong.any():
            first = int(np.flatnonzero(wrong.to_numpy())[0])
            got, way_out = _described(text.iloc[first], decimal)
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
    """Return what a cell looks like, such as "a word", without its value, and what may be done."""
    if _DATE.fullmatch(word):
        leave = "Name the column in source.dates, or leave it out by source.columns."
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
        "Name the column in source.categorical, as source.labels or as source.ids, or list the "
        "features in source.columns."
    )


def words_of(column: pd.Series, where: str, spelling: Spelling | None = None) -> tuple[str, ...]:
    """Return the different words of a column, sorted; raise for words of more than 64 bytes."""
    words = tuple(sorted(_spelt(column, spelling or Spelling()).dropna().unique()))
    if any(len(word.encode()) > LONGEST_WORD for word in words):
        raise StoreError(
            f"{where}: words of a categorical column must have at most {LONGEST_WORD} bytes; some "
            "have more. Shorten them, or leave the column out."
        )
    return words


def _spelt(column: pd.Series, spelling: Spelling) -> pd.Series:
    """Return words in the spelling of all clients, missing where there is none."""
    text = _as_words(column)
    return text.map({word: spelling.of(word, str(column.name)) for word in text.dropna().unique()})


def _as_words(column: pd.Series) -> pd.Series:
    """Return cells as text without blanks around it, missing where nothing is left."""
    if column.dtype.kind == "f" and (column.dropna() % 1 == 0).all():
        column = column.astype("Int64")  # whole numbers that gaps made floats: 1, not 1.0
    text = column.astype("string").str.strip()
    return text.mask(text == "").astype(object)


def _numpy_type(dtype: Any) -> np.dtype[Any]:
    # pandas' own nullable types become float64, where a missing value is NaN
    return dtype if isinstance(dtype, np.dtype) and dtype.kind != "b" else np.dtype(np.float64)
