"""Parquet, read a row group at a time."""

from collections.abc import Iterator

import fsspec
import pandas as pd
import pyarrow.parquet as pq

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
        with fsspec.open(source.file, "rb") as file:
            return [str(name) for name in pq.ParquetFile(file).schema_arrow.names]

    def open(self, source: SourceConfig) -> Samples:
        """Read labels, ids and columns of words."""
        with fsspec.open(source.file, "rb") as file:
            table = pq.ParquetFile(file)
            side = table.read(columns=tables.read_at_once(source)).to_pandas()
        columns = tables.feature_columns(source, table.schema_arrow.names)

        def frames(rows: int) -> Iterator[pd.DataFrame]:
            with fsspec.open(source.file, "rb") as file:
                for batch in pq.ParquetFile(file).iter_batches(batch_size=rows, columns=columns):
                    yield batch.to_pandas()

        return tables.samples_of_table(source, table.metadata.num_rows, columns, side, frames)
