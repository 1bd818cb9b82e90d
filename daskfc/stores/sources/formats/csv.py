"""Read csv files: first check all of their lines, then have pandas read the numbers.

Every line is checked because pandas would cut a line that has too many fields, fill one that has
too few, and rename a column whose name comes twice.
"""

import codecs
import csv
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import fsspec
import pandas as pd

from daskfc.errors import StoreError
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.layout.samples import Samples
from daskfc.stores.sources import tables
from daskfc.stores.sources.source import Source

__all__ = ["Csv", "CsvFile"]

_OTHER_DELIMITERS = {";": "';'", "\t": "a tab", "|": "'|'"}
_REAL = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+[eE][+-]?\d+|\d+\.\d*[eE][+-]?\d+)")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


class Csv(Source):
    """A csv or tsv file: a first pass counts rows and reads labels and ids, a second features."""

    suffixes = (".csv", ".tsv", ".data")
    keys = tables.KEYS_OF_TABLES | set(
        "delimiter header decimal thousands na_values encoding dtype".split()
    )

    def columns(self, source: SourceConfig) -> list[str]:
        """Return the names of all columns, from the first line."""
        return CsvFile(source).names

    def open(self, source: SourceConfig) -> Samples:
        """Check every line, and read labels, ids and the different words."""
        file = CsvFile(source)
        columns = tables.feature_columns(source, file.names)
        n_samples = file.check_lines()
        wanted = tables.read_at_once(source)
        side = file.text_columns(wanted) if wanted and n_samples else pd.DataFrame()
        # as they are written
        text = dict.fromkeys([*(source.categorical or ()), *(source.dates or ())], str)

        def frames(rows: int) -> Iterator[pd.DataFrame]:
            options = {"usecols": columns, "dtype": text, "chunksize": rows, **file.options}
            with pd.read_csv(file.path, **options) as chunks:
                yield from chunks

        return tables.samples_of_table(
            source, n_samples, columns, side, frames, lambda row: f"line {file.line_of(row)}"
        )


def _with_mark(encoding: str) -> str:
    """Return the encoding that removes UTF-8's byte order mark, which would hide a first quote."""
    try:
        return "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding
    except LookupError:
        return encoding


class CsvFile:
    """A csv file, its columns known and its lines not yet checked.

    Raises StoreError if it is empty, not in its encoding, or lacks a line of names.
    """

    def __init__(self, source: SourceConfig) -> None:
        self.path = source.file
        tab = ".tsv" in self.path.rpartition("/")[2]
        self._delimiter = source.delimiter or ("\t" if tab else ",")
        self._encoding = _with_mark(source.encoding or "utf-8")
        self._headed = source.header is not False
        with self._told():
            first = next(self._records(), None)
        if first is None:
            raise StoreError(f"{self.path}: the file is empty. Correct source.path.")
        self.names = first[1] if self._headed else [str(i) for i in range(len(first[1]))]
        if self._headed:
            self._check_names(source)
        self.options: dict[str, Any] = {
            "sep": self._delimiter,
            "encoding": self._encoding,
            "decimal": source.decimal or ".",
            "thousands": source.thousands,
            "na_values": list(source.na_values or ()),
            "header": 0 if self._headed else None,
            "names": self.names,
            "index_col": False,
        }

    def _check_names(self, source: SourceConfig) -> None:
        names, path = self.names, self.path
        if len(names) == 1:
            for other, words in _OTHER_DELIMITERS.items():
                if other in names[0] and other != self._delimiter:
                    raise StoreError(
                        f"{path}: the first line has one field, which holds {words}. If that "
                        f"separates the fields, set source.delimiter: {other!r}, and where numbers "
                        "have decimal commas source.decimal: ','."
                    )
        twice = [name for name, count in Counter(names).items() if count > 1 and name.strip()]
        if twice:
            raise StoreError(
                f"{path}: columns must have different names; {twice[0]!r} comes twice in the first "
                "line. Rename one of them, or set source.header: false where no line has names."
            )
        if source.columns is None and any(not name.strip() for name in names):
            number = next(i for i, name in enumerate(names, start=1) if not name.strip())
            raise StoreError(
                f"{path}: every column must have a name; column {number} of {len(names)} has none, "
                "as row numbers that a program added. Name it, or list the features in "
                "source.columns."
            )
        numbers = all(_NUMBER.fullmatch(name.strip()) for name in names)
        if source.header is None and numbers and any(_REAL.fullmatch(n.strip()) for n in names):
            raise StoreError(
                f"{path}: the first line must name the columns; it holds numbers only, as a line "
                "of samples does. Set source.header: false, or true where these are names."
            )

    def check_lines(self) -> int:
        """Return the number of samples; raise for the first line with another number of fields."""
        count, width = 0, len(self.names)
        with self._told():
            for line, fields in self._samples():
                if len(fields) != width:
                    raise StoreError(
                        f"{self.path}: line {line} must have {width} fields, as the first line "
                        f"has; got {len(fields)}. Mend the line, put fields that hold "
                        f"{self._delimiter!r} in quotes, or correct source.delimiter."
                    )
                count += 1
        return count

    def text_columns(self, names: list[str]) -> pd.DataFrame:
        """Return columns as they are written."""
        options = {**self.options, "decimal": ".", "thousands": None}
        with pd.read_csv(self.path, usecols=names, dtype=str, chunksize=65536, **options) as chunks:
            return pd.concat(list(chunks))

    def line_of(self, row: int) -> int:
        """Return the number, from 1, of the line on which a sample, numbered from 0, begins."""
        for number, (line, _) in enumerate(self._samples()):
            if number == row:
                return line
        raise AssertionError(row)

    def _samples(self) -> Iterator[tuple[int, list[str]]]:
        records = self._records()
        if self._headed:
            next(records)
        return records

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the fields of every line that is not empty, after the number of its first line."""
        options = {"encoding": self._encoding, "newline": "", "compression": "infer"}
        with fsspec.open(self.path, "rt", **options) as file:
            reader = csv.reader(file, delimiter=self._delimiter)
            line = 1
            for fields in reader:
                if fields and (len(fields) > 1 or fields[0].strip()):
                    yield line, fields
                line = reader.line_num + 1

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except UnicodeDecodeError as error:
            raise StoreError(
                f"{self.path}: the file is no text in {self._encoding.removesuffix('-sig')}. Set "
                "source.encoding, such as latin-1, cp1252 or utf-16."
            ) from error
        except csv.Error as error:
            raise StoreError(
                f"{self.path}: the source cannot be read as csv ({error}); see that the file is "
                "whole and that source.format is right."
            ) from error
