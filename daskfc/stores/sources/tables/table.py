"""What sources with named columns share, from an opened file to `Samples`."""

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from daskfc.errors import StoreError
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.layout.samples import Samples, encode_labels
from daskfc.stores.layout.spelling import Spelling
from daskfc.stores.sources.cells import (
    WHOLE,
    Cells,
    Fault,
    as_ids,
    as_text,
    by_column,
    check_digits,
    numbers_of,
    words_of,
)
from daskfc.stores.sources.source import Source

KEYS_OF_TABLES = frozenset(
    "columns labels ids categorical dates date_format missing words na_values censored multiply "
    "rename pivot".split()
)
_OF_CELLS = ("dates", "date_format", "na_values", "censored", "multiply")  # a store records them
_UNNAMED = re.compile(r"__index_level_\d+__")  # an index of pandas in parquet and feather
_ROWS = 65536  # ours: read at a time where all of a few columns are wanted


class TableFile(ABC):
    """An opened file: the names of its columns, its number of rows, and frames of its rows."""

    names: Sequence[str]

    @abstractmethod
    def count(self) -> int:
        """Return the number of samples, once all rows were looked at."""

    @abstractmethod
    def frames(
        self, columns: Sequence[str], rows: int, text: Collection[str] = ()
    ) -> Iterator[pd.DataFrame]:
        """Yield these columns, so many rows at a time; those of `text` as they are written."""

    def place(self, row: int) -> str:
        """Return where a sample, numbered from 0, stands in the file."""
        return f"row {row + 1}"


@dataclass
class Held(TableFile):
    """A table in memory, whose places in the file are words, or the number of the row."""

    frame: pd.DataFrame
    places: Sequence[str] | None = None

    def __post_init__(self) -> None:
        self.names = [str(name) for name in self.frame.columns]

    def count(self) -> int:
        """Return the number of rows."""
        return len(self.frame)

    def frames(
        self, columns: Sequence[str], rows: int, text: Collection[str] = ()
    ) -> Iterator[pd.DataFrame]:
        """Yield slices."""
        for start in range(0, len(self.frame), rows):
            yield self.frame.iloc[start : start + rows][list(columns)]

    def place(self, row: int) -> str:
        """Return the place that was given."""
        return super().place(row) if self.places is None else self.places[row]


def with_gaps(kind: str) -> Any:
    """Return pandas' own type of whole numbers, of which some may be missing: of int64, Int64."""
    return pd.api.types.pandas_dtype(kind.replace("u", "U").replace("i", "I"))


def typed(cells: pd.DataFrame, found: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return objects as columns of one type; whole numbers keep their digits where some lack."""
    found = cells.infer_objects() if found is None else found
    for i, dtype in enumerate(found.dtypes):
        column = cells.iloc[:, i]
        there = column.dropna()
        if dtype.kind != "f" or not 0 < len(there) < len(column):
            continue
        if all(isinstance(cell, int) for cell in there):
            low, high = min(there), max(there)
            ends = {kind: np.iinfo(kind) for kind in ("int64", "uint64")}
            held = [kind for kind, end in ends.items() if end.min <= low and high <= end.max]
            if held:
                own = column.where(column.notna(), None)
                found.isetitem(i, pd.array(own.tolist(), dtype=with_gaps(held[0])))
    return found


def whole(file: TableFile, columns: Sequence[str], text: Collection[str] = ()) -> pd.DataFrame:
    """Return columns of all rows."""
    frames = list(file.frames(columns, _ROWS, text))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=list(columns))


class Table(Source):
    """A format whose files are one table with named columns; a subclass opens a file."""

    keys = KEYS_OF_TABLES

    @abstractmethod
    def file(self, source: SourceConfig) -> TableFile:
        """Open the file as it is, by its header if that is enough."""

    def columns(self, source: SourceConfig) -> list[str]:
        """Return the names of all columns, as the source names them."""
        return list(self.told(source).names)

    def told(self, source: SourceConfig) -> TableFile:
        """Open the file, with columns renamed and codes for gaps empty."""
        file = self.file(source)
        check_names(file.names, source)
        if source.rename or source.na_values:
            return _Told(file, source)
        return file

    def open(self, source: SourceConfig) -> Samples:
        """Read labels, ids and columns of words; features are read in blocks."""
        return self.read(source)

    def read(self, source: SourceConfig, faults: list[Fault] | None = None) -> Samples:
        """Open a source; with `faults` its blocks list bad cells there instead of raising."""
        file = self.told(source)
        known = list(file.names)
        if source.pivot is not None:
            file = _pivoted(file, source)
            source = source.model_copy(update={"ids": source.ids or source.pivot.rows})
        for rule in (source.date_format, source.censored, source.multiply, source.dtype):
            if isinstance(rule, dict):
                _check_there(list(rule), [*file.names, *known], source.file)
        columns = _feature_columns(source, file.names)
        n_samples = file.count()
        of_words = source.categorical or ()
        wanted = [name for name in (source.labels, source.ids, *of_words) if name]
        side = whole(file, wanted, wanted) if wanted and n_samples else pd.DataFrame()
        labels, classes, ids = _side_columns(side, source) if n_samples else (None, None, None)
        cells = cells_of(source, file, faults)
        words = {
            name: words_of(side[name], f"{source.file}: column {name!r}", cells.spelling)
            for name in of_words
            if n_samples
        }
        text = {*of_words, *(source.dates or ())}
        samples = replace(cells, words=words).samples(
            n_samples, columns, lambda rows: file.frames(columns, rows, text)
        )
        told = {key: getattr(source, key) for key in _OF_CELLS}
        told = {key: own for key, own in told.items() if own is not None}
        return replace(samples, labels=labels, classes=classes, sample_ids=ids, cells=told)


def cells_of(source: SourceConfig, file: TableFile, faults: list[Fault] | None = None) -> Cells:
    """Return how the cells of a source become numbers, but for its words."""
    return Cells(
        source.file,
        file.place,
        source.dtype,
        {},
        source.dates or (),
        source.missing == "keep",
        spelling_of(source),
        source.date_format,
        source.censored,
        source.multiply or {},
        faults,
    )


def spelling_of(source: SourceConfig) -> Spelling:
    """Return how a source spells words and numbers."""
    return Spelling(source.words or {}, source.decimal or ".", source.thousands)


def listed(names: Sequence[str]) -> str:
    """Return names for a sentence, twelve at most."""
    return f"{', '.join(names[:12])}{', ...' if len(names) > 12 else ''}"


def check_names(
    names: Sequence[str], source: SourceConfig, where: str = "", way_out: str = ""
) -> None:
    """Raise unless all columns have a name of their own."""
    path = source.where
    twice = [name for name, count in Counter(names).items() if count > 1 and name.strip()]
    if twice:
        raise StoreError(
            f"{path}: columns must have different names; {twice[0]!r} comes twice{where}. Rename "
            f"one of them{way_out}."
        )
    if source.columns is not None or source.pivot is not None:
        return
    told = (source.ids, source.labels, *(source.rename or ()))
    for number, name in enumerate(names, start=1):
        if name in told or not (name.strip() == "" or _UNNAMED.fullmatch(name)):
            continue
        raise StoreError(
            f"{path}: every column must have a name; column {number} of {len(names)} has none, "
            "as row numbers that a program added. Name it, or list the features in "
            "source.columns."
        )


@dataclass
class _Told(TableFile):
    """A file with its columns renamed, and with empty cells where codes stand for no value."""

    file: TableFile
    source: SourceConfig
    names: Sequence[str] = field(init=False)

    def __post_init__(self) -> None:
        there, path = list(self.file.names), self.source.file
        rename = self.source.rename or {}
        if strange := [name for name in rename if name not in there]:
            raise StoreError(
                f"{path}: source.rename must name columns that are there; {strange[0]!r} is "
                f"not, the columns are {listed(there)}. Correct it."
            )
        self.names = [rename.get(name, name) for name in there]
        self._there = dict(zip(self.names, there, strict=True))
        if len(self._there) < len(there):
            twice = next(name for name in self.names if list(self.names).count(name) > 1)
            raise StoreError(
                f"{path}: columns must have different names; with source.rename {twice!r} "
                "comes twice. Give another name."
            )
        if isinstance(self.source.na_values, dict):
            _check_there(list(self.source.na_values), self.names, path)

    def count(self) -> int:
        return self.file.count()

    def place(self, row: int) -> str:
        return self.file.place(row)

    def frames(
        self, columns: Sequence[str], rows: int, text: Collection[str] = ()
    ) -> Iterator[pd.DataFrame]:
        own = [self._there[name] for name in columns]
        of_text = [self._there[name] for name in text]
        for frame in self.file.frames(own, rows, of_text):
            named = frame.set_axis(list(columns), axis=1)
            if self.source.na_values:
                named = named.apply(lambda one: _emptied(one, self.source))
            yield named


def _emptied(column: pd.Series, source: SourceConfig) -> pd.Series:
    """Return a column without the cells that are one of the codes: numbers, times or words."""
    name, spelling = str(column.name), spelling_of(source)
    codes = by_column(source.na_values, name) or ()
    written = pd.Series(list(codes), dtype=object).str.strip()
    # as the file writes numbers, or as YAML does
    numbers = numbers_of(written, spelling).fillna(pd.to_numeric(written, errors="coerce")).dropna()
    with np.errstate(over="ignore"):  # and as 32 bits hold fractions, in files that widened them
        short = numbers.astype(np.float32).astype(np.float64)
    numbers = pd.concat([numbers, short[(numbers % 1 != 0) & np.isfinite(short)]])
    if pd.api.types.is_numeric_dtype(column.dtype):
        if column.dtype.kind not in "iu":
            coded = _are_numbers(column, numbers)
            return column.mask(coded) if coded.any() else column
        # in float64 two numbers of many digits may be one
        whole = [int(code) for code in map(str, codes) if re.fullmatch(WHOLE, code.strip())]
        coded = column.isin(whole) | (column.isin(numbers) & (column.abs() < 1 << 53))
        if not coded.any():
            return column
        return column.astype(with_gaps(column.dtype.name.lower())).mask(coded)
    text = as_text(column)
    if pd.api.types.infer_dtype(column, skipna=True).startswith("date"):
        own = pd.to_datetime(column, errors="coerce", utc=True)
        coded = own.isin(_times(written).dropna())
    else:
        values = numbers_of(text, spelling)
        coded = text.isin(written) | (_are_numbers(values, numbers) & (values.abs() < 1 << 53))
        if name in (source.dates or ()):
            form = by_column(source.date_format, name)
            codes_of = pd.concat([_times(written), _times(written, form)]).dropna()
            coded |= _times(text, form).isin(codes_of)
    found = column.copy()
    found[coded] = None  # pandas 2.2 warns where `mask` does so
    return found


def _times(words: pd.Series, form: str | None = None) -> pd.Series:
    """Return words as times, NaT where they are none."""
    return pd.to_datetime(words, format=form or "ISO8601", errors="coerce", utc=True)


def _are_numbers(column: pd.Series, numbers: pd.Series) -> pd.Series:
    """Return which cells are one of the numbers, but for the last digit of their type."""
    kind = "float32" if column.dtype.name.lower() == "float32" else "float64"
    cells = column.to_numpy(dtype=kind, na_value=np.nan)
    alike = [np.isclose(cells, one, rtol=1e-15, atol=0) for one in numbers.to_numpy(dtype=kind)]
    return pd.Series(np.any(alike, axis=0) if alike else False, index=column.index)


def _pivoted(file: TableFile, source: SourceConfig) -> TableFile:
    """Return a long table, of one row a measurement, as one with a row a sample."""
    pivot, path = source.pivot, source.file
    assert pivot is not None
    sides = [pivot.rows, pivot.names]
    _check_there([*sides, pivot.values], file.names, path)
    frame = whole(file, [*sides, pivot.values], sides)
    values = replace(cells_of(source, file), missing=True).numbers(frame[[pivot.values]], 0)
    for name in sides:
        check_digits(frame[name], f"{path}: column {name!r}")
    frame = pd.DataFrame({name: as_text(frame[name]) for name in sides}).assign(value=values[:, 0])
    if empty := int(frame[sides].isna().any(axis=1).sum()):
        raise StoreError(
            f"{path}: every row of a long table must say whose measurement it is and of what; "
            f"{empty} of {len(frame)} lack it. Fill in {pivot.rows!r} and {pivot.names!r}, or "
            "leave these rows out."
        )
    order = frame[pivot.rows].unique()  # as samples are first seen; measurements as all sites can
    frame = frame.dropna()
    again = int(frame.duplicated(sides).sum())
    if again and pivot.several is None:
        raise StoreError(
            f"{path}: source.pivot needs one row for each sample and measurement; {again} of "
            f"{len(frame)} rows are further ones. Set source.pivot.several: mean, median, first, "
            "last, min or max."
        )
    table = frame.groupby(sides, sort=False)["value"].agg(pivot.several or "first").unstack()
    table = table.reindex(order)[sorted(table.columns)].rename_axis(pivot.rows).reset_index()
    table.columns.name = None
    return Held(table, [f"sample {row + 1}" for row in range(len(table))])


def _check_there(named: Sequence[str], there: Sequence[str], path: str) -> None:
    for name in named:
        if name not in there:
            raise StoreError(
                f"{path}: the column {name!r} named by the source is not there; the columns are "
                f"{listed(list(there))}."
            )


def _feature_columns(source: SourceConfig, there: Sequence[str]) -> list[str]:
    """Return the feature columns: those named, or all but labels and ids."""
    sides = [name for name in (source.labels, source.ids) if name]
    kinds = [*(source.categorical or ()), *(source.dates or ())]
    _check_there([*(source.columns or ()), *sides, *kinds], there, source.file)
    if source.columns is not None:
        if other := [name for name in kinds if name not in source.columns]:
            raise StoreError(
                f"{source.file}: the column {other[0]!r} is categorical or a date, and not among "
                "source.columns. Add it there, or leave it out here."
            )
        return list(source.columns)
    return [name for name in there if name not in sides]


def _side_columns(side: pd.DataFrame, source: SourceConfig) -> tuple[Any, ...]:
    labels = classes = ids = None
    if source.labels is not None:
        column = side[source.labels]
        values = column.to_numpy() if column.dtype.kind in "iuf" else _words(column)
        labels, classes = encode_labels(values, f"{source.file}:{source.labels}")
    if source.ids is not None:
        column = side[source.ids]
        check_digits(column, f"{source.file}: column {source.ids!r}")
        named = as_ids(column)
        missing = int(named.isna().sum())
        if missing:
            raise StoreError(
                f"{source.file}: {missing} samples have no id in column {source.ids!r}."
            )
        ids = named.to_numpy().astype(str)
    return labels, classes, ids


def _words(values: pd.Series) -> np.ndarray:
    """Return labels that were read as text, as numbers if all of them are numbers."""
    text = as_text(values)
    if text.str.fullmatch(WHOLE).eq(True).all():
        whole = [int(word) for word in text]
        if all(abs(one) < 1 << 63 for one in whole):
            return np.array(whole, dtype=np.int64)
    numbers = pd.to_numeric(text, errors="coerce")
    if numbers.notna().eq(text.notna()).all():
        return numbers.to_numpy(dtype=np.float64)
    return text.to_numpy(dtype=object)
