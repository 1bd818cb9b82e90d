"""Read csv files: first check all of their lines, then have pandas read the numbers.

Every line is checked because pandas would cut a line that has too many fields, fill one that has
too few, and rename a column whose name comes twice.
"""

import codecs
import csv
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import fsspec
import pandas as pd

from daskfc.errors import StoreError
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.sources.cells import GAPS
from daskfc.stores.sources.tables.table import KEYS_OF_TABLES, Table, TableFile, check_names

_OTHER_DELIMITERS = {";": "';'", "\t": "a tab", "|": "'|'"}
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


class Csv(Table):
    """A csv or tsv file: a first pass checks all lines and counts rows, a second reads them."""

    suffixes = (".csv", ".tsv", ".data")
    keys = KEYS_OF_TABLES | set("delimiter header decimal thousands encoding dtype".split())

    def file(self, source: SourceConfig) -> TableFile:
        """Read the first line."""
        return CsvFile(source)


def _are_samples(names: list[str]) -> bool:
    """Return whether names are numbers, and neither years nor 0, 1, ... as programs number them."""
    if not all(_NUMBER.fullmatch(name) for name in names):
        return False
    counted = re.fullmatch("[01]|(19|20)[0-9]{2}", names[0])
    return not (counted and names == [str(int(names[0]) + i) for i in range(len(names))])


def _with_mark(encoding: str) -> str:
    """Return the encoding that removes UTF-8's byte order mark, which would hide a first quote."""
    try:
        return "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding
    except LookupError:
        return encoding


class CsvFile(TableFile):
    """A csv file, its columns known and its lines not yet checked.

    Raises StoreError if it is empty, not in its encoding, or lacks a line of names.
    """

    def __init__(self, source: SourceConfig) -> None:
        self.path = source.file
        tab = ".tsv" in self.path.rpartition("/")[2]
        self._delimiter = source.delimiter or ("\t" if tab else ",")
        self._encoding = _with_mark(source.encoding or "utf-8")
        self._headed, self._grouped = source.header is not False, source.thousands is not None
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
            "header": 0 if self._headed else None,
            "names": self.names,
            "index_col": False,
            "keep_default_na": False,
            "low_memory": False,  # or one column of a chunk may have words and numbers
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
        line, way_out = (
            " in the first line",
            ", or set source.header: false where no line has names",
        )
        check_names(names, source, line, way_out)
        if source.header is None and _are_samples([name.strip() for name in names]):
            raise StoreError(
                f"{path}: the first line must name the columns; it holds numbers only, as a line "
                "of samples does. Set source.header: false, or true where these are names."
            )

    def count(self) -> int:
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

    def frames(
        self, columns: Sequence[str], rows: int, text: Collection[str] = ()
    ) -> Iterator[pd.DataFrame]:
        """Yield columns as pandas reads them."""
        # pandas would read 110.0 as 1100 where points group digits, so `Cells` reads those numbers
        of_text = columns if self._grouped else [name for name in columns if name in text]
        gaps = {name: [""] if name in of_text else list(GAPS) for name in columns}
        options = {**self.options, "dtype": dict.fromkeys(of_text, str), "na_values": gaps}
        with pd.read_csv(self.path, usecols=list(columns), chunksize=rows, **options) as chunks:
            for chunk in chunks:
                yield chunk[list(columns)]

    def place(self, row: int) -> str:
        """Return the line on which a sample begins."""
        return f"line {self._line_of(row)}"

    def _line_of(self, row: int) -> int:
        """Return its number, from 1; samples are numbered from 0."""
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
