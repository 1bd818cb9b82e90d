"""Parquet, read a row group at a time."""

from __future__ import annotations

from collections.abc import Iterator

import fsspec
import pandas as pd
import pyarrow.parquet as pq

from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.layout.locations import expand
from daskfc.stores.layout.samples import Samples
from daskfc.stores.sources.source import Source
from daskfc.stores.sources.tables import (
    KEYS_OF_TABLES,
    feature_columns,
    read_at_once,
    samples_of_table,
)

__all__ = ["Parquet"]


class Parquet(Source):
    """A parquet file; labels and ids are read at once, features a row group at a time."""

    suffixes = (".parquet", ".pq")
    keys = KEYS_OF_TABLES

    def columns(self, source: SourceConfig) -> list[str]:
        """Return the names of all columns."""
        with fsspec.open(expand(str(source.path)), "rb") as file:
            return [str(name) for name in pq.ParquetFile(file).schema_arrow.names]

    def open(self, source: SourceConfig) -> Samples:
        """Read labels, ids and columns of words."""
        path = expand(str(source.path))
        with fsspec.open(path, "rb") as file:
            table = pq.ParquetFile(file)
            side = table.read(columns=read_at_once(source)).to_pandas()
        columns = feature_columns(source, table.schema_arrow.names, path)

        def frames(rows: int) -> Iterator[pd.DataFrame]:
            with fsspec.open(path, "rb") as file:
                for batch in pq.ParquetFile(file).iter_batches(batch_size=rows, columns=columns):
                    yield batch.to_pandas()

        return samples_of_table(source, path, table.metadata.num_rows, columns, side, frames)
