"""Convert the cells of a table to numbers, or tell the bad ones and their places."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import numpy as np
import pandas as pd

from daskfc.errors import StoreError
from daskfc.stores.layout.samples import Samples
from daskfc.stores.layout.spelling import Spelling

LONGEST_WORD = 64  # ours: bytes of a category; clients agree on categories by sums of that many
_DAY = np.timedelta64(1, "D")

WHOLE = r"[+-]?\d+"
"""The pattern of a whole number."""

_LARGEST = 2**53  # whole numbers up to here are numbers of float64
_DATE = re.compile(r"\d{4}[-/]\d{1,2}[-/]\d{1,2}.*|\d{1,2}[./-]\d{1,2}[./-]\d{2,4}.*")
_GROUPED = re.compile(r"[+-]?\d{1,3}([,.' ])\d{3}(\1\d{3})*([.,]\d+)?")
_COMMA = re.compile(r"[+-]?\d*,\d+")
_BOUND = re.compile(r"([<>≤≥]=?)\s*([+-]?[\d.,' ]+)")

GAPS = (
    *("", "NA", "N/A", "n/a", "#N/A", "#N/A N/A", "#NA", "<NA>", "NULL", "null", "None"),
    *("NaN", "nan", "-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
)
"""Cells of numbers and dates that are empty, as pandas has them; among words, only the first is."""

_MISSING = frozenset(
    [*"? - -- . .. * ! missing unknown nil n.a. n.d. n/d".split(), *map(str.lower, GAPS[1:])]
)


class MissingValues(StoreError):
    """Empty cells where the source does not say that there may be some."""


@dataclass(frozen=True)
class Fault:
    """A cell that is no feature: its sample's number from 0, what it holds, rule and way out."""

    column: str
    row: int
    cell: str
    rule: str
    way_out: str


@dataclass(frozen=True)
class Cells:
    """How the cells of one file become numbers: words 0, 1, ..., dates days since 1970-01-01.

    `place` turns a sample's number into its place in the file, in words; with `missing` an empty
    cell becomes NaN. The first bad cell raises, without its value; with `faults` all are listed
    there, with their values, and become NaN. See `SourceConfig` for the others.
    """

    path: str
    place: Callable[[int], str]
    dtype: str | Mapping[str, str] | None = None
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    dates: Sequence[str] = ()
    missing: bool = False
    spelling: Spelling = field(default_factory=Spelling)
    date_format: str | Mapping[str, str] | None = None
    censored: str | Mapping[str, str] | None = None
    multiply: Mapping[str, float] = field(default_factory=dict)
    faults: list[Fault] | None = None

    def numbers(self, frame: pd.DataFrame, start: int) -> np.ndarray:
        """Return features of samples from number `start` on; StoreError for the first bad cell."""
        typed = {str(name): self._column(frame[name], start) for name in frame.columns}
        found = np.result_type(*(column.dtype for column in typed.values()))
        if found.kind == "f":
            for name, column in typed.items():
                self._check_rounding(pd.Series(column, name=name), start)
        block = np.column_stack([column.astype(found, copy=False) for column in typed.values()])
        if found.kind == "f":
            self._check_gaps(block, list(typed), start)
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

    def _column(self, column: pd.Series, start: int) -> np.ndarray:
        """Return one column as numbers of its own type."""
        name = str(column.name)
        if name in self.words:
            number = {word: float(i) for i, word in enumerate(self.words[name])}
            column = _spelt(column, self.spelling).map(number).astype(np.float64)
        elif name in self.dates:
            column = self._days(_without_gaps(column), start)
        elif not pd.api.types.is_numeric_dtype(column.dtype):
            if isinstance(column.dtype, pd.CategoricalDtype):  # also of numbers, as codes
                rule = "features must be numeric; got a category"
                way_out = "Name the column in source.categorical, or write it as numbers."
                self._check(column, column.notna(), start, rule, way_out)
            column = self._read(_without_gaps(column), start)
        if name in self.multiply:
            column = column * self.multiply[name]
        return self._typed(column, start)

    def _check_gaps(self, block: np.ndarray, names: Sequence[str], start: int) -> None:
        bad = np.isinf(block) if self.missing else ~np.isfinite(block)
        if not bad.any():
            return
        rule, way_out = (
            "features must be finite numbers; got a missing value or infinity",
            "Fill it in; or set source.missing: keep, and have the pipeline prepare: [impute].",
        )
        if self.missing:
            rule = "features must be finite numbers; got infinity"
            way_out = "Correct it, or leave the field empty."
        told = {(fault.column, fault.row) for fault in self.faults or ()}
        for row, column in np.argwhere(bad):
            at = (names[column], start + int(row))
            if self.faults is None:
                others = int(bad.sum()) - 1
                more = f" (and {others} more in the next {len(block)} samples)" if others else ""
                kind = StoreError if self.missing else MissingValues
                raise kind(f"{self._at(at[1], at[0])} {rule}{more}. {way_out}")
            if at not in told:
                self.faults.append(Fault(*at, "", rule, way_out))

    def _days(self, column: pd.Series, start: int) -> pd.Series:
        """Return dates as days since 1970-01-01, NaN where there is none."""
        own = by_column(self.date_format, str(column.name))
        if column.dtype.type is date:  # Arrow's days, which have no zone to ask for
            found = column.astype("datetime64[s]")
        elif column.dtype.kind == "M":
            found = column
        else:
            text = as_text(column)
            text = text.mask(text.str.lower().isin(["now", "today"]))  # of this day, to pandas
            found = (
                pd.to_datetime(column, errors="coerce", utc=True)
                if pd.api.types.infer_dtype(column, skipna=True) in ("date", "datetime")
                else pd.to_datetime(text, format=own or "ISO8601", errors="coerce", utc=True)
            )
            self._check(
                column,
                found.isna() & as_text(column).notna(),
                start,
                f"dates must be written as {'2026-03-31' if own is None else own}, "
                f"{'with or without a time' if own is None else 'as source.date_format says'}; "
                "this one is not",
                "Write it so, set source.date_format, such as '%d.%m.%Y', or leave the column out "
                "of source.dates.",
            )
        if getattr(found.dt, "tz", None) is not None:
            found = found.dt.tz_convert("UTC").dt.tz_localize(None)
        return (found - pd.Timestamp(0).as_unit("s")) / _DAY  # nanoseconds end in 2262

    def _at(self, row: int, name: str) -> str:
        return f"{self.path}: {self.place(row)}, column {name!r}:"

    def _check(
        self, column: pd.Series, wrong: Any, start: int, rule: str | None = None, way_out: str = ""
    ) -> None:
        """Raise for the first wrong cell, or list all; without a rule its look decides."""
        name = str(column.name)
        for row in np.flatnonzero(np.asarray(wrong, dtype=bool)):
            cell = str(column.iloc[row]).strip()
            got, then = (None, way_out) if rule else _look_of(cell, self.spelling.decimal)
            said = rule or f"features must be numeric; got {got}"
            if self.faults is None:
                raise StoreError(f"{self._at(start + int(row), name)} {said}. {then}")
            self.faults.append(Fault(name, start + int(row), cell, said, then))

    def _typed(self, column: pd.Series, start: int) -> np.ndarray:
        if column.dtype != _numpy_type(column.dtype):  # pandas' own, which becomes float64
            self._check_rounding(column, start)
        values = column.to_numpy(dtype=_numpy_type(column.dtype))
        wanted = by_column(self.dtype, str(column.name))
        if wanted is None:
            return values
        with np.errstate(over="ignore", invalid="ignore"):
            cast = values.astype(wanted)
        lost = ~np.isfinite(cast) if cast.dtype.kind == "f" else cast != values
        lost &= np.isfinite(values)
        self._check(
            column,
            lost,
            start,
            f"source.dtype says {wanted}, which cannot hold what is there",
            "Choose another type, or leave the column out of it.",
        )
        return cast if cast.dtype.kind == "f" or np.isfinite(values).all() else values

    def _check_rounding(self, column: pd.Series, start: int) -> None:
        if column.dtype.kind in "iu":
            self._check(
                column,
                ((column > _LARGEST) | (column < -_LARGEST)).fillna(False),
                start,
                "whole numbers above 2**53 would be rounded beside fractions and empty cells",
                "If they are ids, name the column as source.ids; or leave it out.",
            )

    def _read(self, column: pd.Series, start: int) -> pd.Series:
        """Return a column of text as numbers, a limit such as <30 as source.censored says."""
        if pd.api.types.infer_dtype(column, skipna=True) == "boolean":
            return column.astype(np.float64)
        text = as_text(column).reset_index(drop=True)
        found = numbers_of(text, self.spelling)
        wrong = text.notna() & found.isna()
        rule = by_column(self.censored, str(column.name))
        if rule is not None and wrong.any():
            bounds = text[wrong].str.extract(f"^{_BOUND.pattern}$")
            limits = numbers_of(bounds[1], self.spelling).dropna()
            if rule == "half":
                below = bounds[0][limits.index].str.startswith(("<", "≤"))
                limits = limits.where(~below.astype(bool), np.minimum(limits, limits / 2))
            found = found.astype(np.float64)
            found[limits.index] = np.nan if rule == "missing" else limits
            wrong[limits.index] = False
        self._check(column, wrong, start)
        digits = text.str.fullmatch(WHOLE).eq(True)
        self._check(
            column,
            digits & (found.abs() >= _LARGEST),
            start,
            "features must be numeric; got one of too many digits",
            "Name the column as source.ids, or leave it out.",
        )
        return found


def is_date(word: str) -> bool:
    """Return whether a word looks like a date."""
    return _DATE.fullmatch(word) is not None


def is_bound(word: str) -> bool:
    """Return whether a word looks like a limit, such as <30."""
    return _BOUND.fullmatch(word) is not None


def _without_gaps(column: pd.Series) -> pd.Series:
    """Return cells of numbers or dates, empty where a word says so."""
    if column.dtype.kind != "O":  # numbers or times
        return column
    found = column.copy()
    found[as_text(column).isin(GAPS)] = None
    return found


def is_gap(word: str) -> bool:
    """Return whether a word commonly stands for a missing value."""
    return word.lower() in _MISSING


def by_column(rule: Any, column: str) -> Any:
    """Return what a key says of one column: one value for all, or a mapping of columns."""
    return rule.get(column) if isinstance(rule, Mapping) else rule


def numbers_of(text: pd.Series, spelling: Spelling) -> pd.Series:
    """Return words as numbers, by a file's decimal mark and groups of digits; else NaN."""
    plain = text
    if spelling.thousands is not None:
        mark, point = re.escape(spelling.thousands), re.escape(spelling.decimal)
        grouped = text.str.fullmatch(rf"[+-]?\d{{1,3}}({mark}\d{{3}})+({point}\d*)?").eq(True)
        plain = text.copy()
        plain[grouped] = text[grouped].str.replace(spelling.thousands, "")
        plain[plain.str.contains(mark).eq(True)] = "?"
    if spelling.decimal != ".":  # a dot is part of no number then
        plain = plain.str.replace(".", "?").str.replace(spelling.decimal, ".")
    return pd.to_numeric(plain, errors="coerce")


def _look_of(word: str, decimal: str) -> tuple[str, str]:
    """Return what a cell looks like, without its value, and what may be done."""
    if is_date(word):
        leave = "Name the column in source.dates, or leave it out by source.columns."
        return "a date", leave
    if is_bound(word):
        return "a limit in place of a number", (
            "Set source.censored: limit, half or missing, for what such limits become."
        )
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
    if decimal != "." and word.count(".") == 1 and word.replace(".", "").isdigit():
        return "a decimal point where source.decimal is another mark", (
            "Write all numbers of the file in one way."
        )
    if is_gap(word):
        return repr(word), "Set source.na_values if it stands for a missing value."
    return "a word", (
        "Name the column in source.categorical, as source.labels or as source.ids, or list the "
        "features in source.columns."
    )


def words_of(column: pd.Series, where: str, spelling: Spelling | None = None) -> tuple[str, ...]:
    """Return the different words of a column, sorted; raise for words of more than 64 bytes."""
    check_digits(column, where)
    words = tuple(sorted(_spelt(column, spelling or Spelling()).dropna().unique()))
    if any(len(word.encode()) > LONGEST_WORD for word in words):
        raise StoreError(
            f"{where}: words of a categorical column must have at most {LONGEST_WORD} bytes; some "
            "have more. Shorten them, or leave the column out."
        )
    return words


def _spelt(column: pd.Series, spelling: Spelling) -> pd.Series:
    """Return words in the spelling of all clients, missing where there is none."""
    text = as_text(column)
    return text.map({word: spelling.of(word, str(column.name)) for word in text.dropna().unique()})


def check_digits(column: pd.Series, where: str) -> None:
    """Raise for words that were read as float64 and may have lost their last digits."""
    if column.dtype == object:  # words, with numbers among them
        column = column[[isinstance(cell, float) for cell in column]].astype(np.float64)
    if column.dtype.kind == "f" and (column.abs() >= _LARGEST).any():
        raise StoreError(
            f"{where}: words and ids must be text or whole numbers; got numbers with more than 15 "
            "digits as fractions, of which some may be one. Write the column as text."
        )


def as_text(column: pd.Series) -> pd.Series:
    """Return cells as text without blanks around it, missing where nothing is left."""
    if column.dtype.kind == "f" and (column.dropna() % 1 == 0).all():
        column = column.astype("Int64")  # whole numbers that gaps made floats: 1, not 1.0
    text = column.astype("string").str.strip()
    return text.mask(text == "").astype(object)


def as_ids(column: pd.Series) -> pd.Series:
    """Return ids as text in NFC without blanks around it, missing where nothing is left."""
    return as_text(column).str.normalize("NFC")


def _numpy_type(dtype: Any) -> np.dtype[Any]:
    # pandas' own nullable types become float64, where a missing value is NaN
    return dtype if isinstance(dtype, np.dtype) and dtype.kind != "b" else np.dtype(np.float64)
