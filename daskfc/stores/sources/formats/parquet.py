"""Parquet, read a row group at a time."""

from collections.abc import Iterator

import fsspec
import pandas as pd

from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.layout.samples import Samples
from daskfc.stores.sources import tables
from daskfc.stores.sources.source import Source

__all__ = ["Parquet"]


class Parquet(Source):
    """A parquet file; labels and ids are read at once, features a row group at a time."""

    suffixes = (".parquet", ".pq")
    keys = tables.KEYS_OF_TABLES

    def columns(self, source: SourceConfig) -> list[str]:
        """Return the names of all columns."""
        from pyarrow import parquet  # here, as in `bundled`

        with fsspec.open(source.file, "rb") as file:
            return [str(name) for name in parquet.ParquetFile(file).schema_arrow.names]

    def open(self, source: SourceConfig) -> Samples:
        """Read labels, ids and columns of words."""
        from pyarrow import parquet

        with fsspec.open(source.file, "rb") as file:
            table = parquet.ParquetFile(file)
            read = table.read(columns=tables.read_at_once(source))
            read.validate(full=True)
            side = read.to_pandas()
        columns = tables.feature_columns(source, table.schema_arrow.names)

        def frames(rows: int) -> Iterator[pd.DataFrame]:
            with fsspec.open(source.file, "rb") as file:
                batches = parquet.ParquetFile(file).iter_batches(rows, columns=columns)
                for batch in batches:
                    batch.validate(full=True)  # or damaged text is read from anywhere in memory
                    yield batch.to_pandas()

        return tables.samples_of_table(source, table.metadata.num_rows, columns, side, frames)
