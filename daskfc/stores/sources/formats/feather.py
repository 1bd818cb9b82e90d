"""Feather, which is Arrow's own file."""

from __future__ import annotations

from collections.abc import Iterator

import fsspec
import pandas as pd
import pyarrow as pa
import pyarrow.feather as pf

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

__all__ = ["Feather"]


class Feather(Source):
    """A feather file; its feature columns are in memory while blocks are read."""

    suffixes = (".feather",)
    keys = KEYS_OF_TABLES

    def columns(self, source: SourceConfig) -> list[str]:
        """Return the names of all columns."""
        with fsspec.open(expand(str(source.path)), "rb") as file:
            return [str(name) for name in pa.ipc.open_file(file).schema.names]

    def open(self, source: SourceConfig) -> Samples:
        """Read labels, ids and columns of words."""
        path = expand(str(source.path))
        names = self.columns(source)
        columns = feature_columns(source, names, path)
        with fsspec.open(path, "rb") as file:
            wanted = read_at_once(source) or names[:1]
            side = pf.read_table(file, columns=wanted, memory_map=False).to_pandas()

        def frames(rows: int) -> Iterator[pd.DataFrame]:
            with fsspec.open(path, "rb") as file:
                table = pf.read_table(file, columns=columns, memory_map=False).combine_chunks()
                for batch in table.to_batches(max_chunksize=rows):
                    yield batch.to_pandas()

        return samples_of_table(source, path, len(side), columns, side, frames)
