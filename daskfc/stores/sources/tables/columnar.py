"""Parquet, feather and Arrow: columns that are read a batch of rows at a time."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import fsspec
import pandas as pd

from daskfc.errors import StoreError
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.sources.tables.table import Table, TableFile, with_gaps


class Parquet(Table):
    """A parquet file, read a row group at a time."""

    suffixes = (".parquet", ".pq")

    def file(self, source: SourceConfig) -> TableFile:
        """Read the schema."""
        return _ParquetFile(source.file)


class Arrow(Table):
    """A feather or Arrow file, or a stream of Arrow, read a batch at a time."""

    suffixes = (".feather", ".arrow", ".arrows", ".ipc")

    def file(self, source: SourceConfig) -> TableFile:
        """Read the schema."""
        return _ArrowFile(source.file)


class _ParquetFile(TableFile):
    def __init__(self, path: str) -> None:
        from pyarrow import parquet  # here, as in `bundled`

        self._path = path
        with fsspec.open(path, "rb") as file:
            opened = parquet.ParquetFile(file)
            self.names = [str(name) for name in opened.schema_arrow.names]
            self._rows = int(opened.metadata.num_rows)

    def count(self) -> int:
        return self._rows

    def frames(
        self, columns: Sequence[str], rows: int, text: Collection[str] = ()
    ) -> Iterator[pd.DataFrame]:
        from pyarrow import parquet

        with fsspec.open(self._path, "rb") as file:
            for batch in parquet.ParquetFile(file).iter_batches(rows, columns=list(columns)):
                batch.validate(full=True)  # or damaged text is read from anywhere in memory
                yield _frame(batch)[list(columns)]


class _ArrowFile(TableFile):
    def __init__(self, path: str) -> None:
        self._path = path
        with _opened(path) as (schema, _):
            self.names = [str(name) for name in schema.names]

    def count(self) -> int:
        with _opened(self._path, [0]) as (_, batches):
            return sum(batch.num_rows for batch in batches)

    def frames(
        self, columns: Sequence[str], rows: int, text: Collection[str] = ()
    ) -> Iterator[pd.DataFrame]:
        wanted = [self.names.index(name) for name in columns]
        with _opened(self._path, sorted(wanted)) as (_, batches):
            for batch in batches:
                batch.validate(full=True)
                for start in range(0, batch.num_rows, rows):
                    yield _frame(batch.slice(start, rows))[list(columns)]


def _frame(batch: Any) -> pd.DataFrame:
    """Return a batch for pandas, with all digits of whole numbers where some are missing."""
    frame: pd.DataFrame = batch.to_pandas(ignore_metadata=True)
    for i, column in enumerate(batch.columns):
        kind = str(column.type)
        if column.null_count and kind.removeprefix("u") in ("int8", "int16", "int32", "int64"):
            frame.isetitem(i, with_gaps(kind).__from_arrow__(column))
    for told in (batch.schema.pandas_metadata or {}).get("columns", ()):
        name = told["name"]
        if told["pandas_type"] == "categorical" and name in frame:  # parquet has its numbers
            frame[name] = frame[name].astype("category")
    return frame


@contextmanager
def _opened(path: str, fields: Sequence[int] | None = None) -> Iterator[tuple[Any, Any]]:
    """Yield the schema and batches, one at a time: a data set's own would go on in a thread."""
    from pyarrow import ArrowException, ipc  # here, as in `bundled`

    options = ipc.IpcReadOptions(use_threads=False, included_fields=fields)
    try:
        with fsspec.open(path, "rb") as file:
            is_file = file.read(6) == b"ARROW1"
            file.seek(0)
            if not is_file:
                with ipc.open_stream(file, options=options) as stream:
                    yield stream.schema, stream
                return
            with ipc.open_file(file, options=options) as opened:
                numbers = range(opened.num_record_batches)
                yield opened.schema, (opened.get_batch(number) for number in numbers)
    except MemoryError as error:
        if not isinstance(error, ArrowException):
            raise
        raise StoreError(
            f"{path}: a batch of the file must fit into memory, and its head names a larger one. "
            "See that the file is whole, or write smaller batches."
        ) from error
