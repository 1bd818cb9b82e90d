"""Feather, which is Arrow's own file."""

from collections.abc import Iterator

import fsspec
import pandas as pd
import pyarrow as pa
import pyarrow.feather as pf

from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.layout.samples import Samples
from daskfc.stores.sources import tables
from daskfc.stores.sources.source import Source

__all__ = ["Feather"]


class Feather(Source):
    """A feather file; its feature columns are in memory while blocks are read."""

    suffixes = (".feather",)
    keys = tables.KEYS_OF_TABLES

    def columns(self, source: SourceConfig) -> list[str]:
        """Return the names of all columns."""
        with fsspec.open(source.file, "rb") as file:
            return [str(name) for name in pa.ipc.open_file(file).schema.names]

    def open(self, source: SourceConfig) -> Samples:
        """Read labels, ids and columns of words."""
        names = self.columns(source)
        columns = tables.feature_columns(source, names)
        with fsspec.open(source.file, "rb") as file:
            wanted = tables.read_at_once(source) or names[:1]
            side = pf.read_table(file, columns=wanted, memory_map=False).to_pandas()

        def frames(rows: int) -> Iterator[pd.DataFrame]:
            with fsspec.open(source.file, "rb") as file:
                table = pf.read_table(file, columns=columns, memory_map=False).combine_chunks()
                for batch in table.to_batches(max_chunksize=rows):
                    yield batch.to_pandas()

        return tables.samples_of_table(source, len(side), columns, side, frames)
