"""Feather files, which are Arrow's own."""

from collections.abc import Iterator
from typing import Any

import fsspec
import pandas as pd

from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.layout.samples import Samples
from daskfc.stores.sources import tables
from daskfc.stores.sources.source import Source

__all__ = ["Feather"]

# One batch in memory; reading ahead would hold all feature columns.
_NO_MORE = {"batch_readahead": 0, "fragment_readahead": 0, "use_threads": False}


class Feather(Source):
    """A feather file, validated batch by batch: damaged text is not read beyond its end."""

    suffixes = (".feather",)
    keys = tables.KEYS_OF_TABLES

    def columns(self, source: SourceConfig) -> list[str]:
        """Return the names of all columns."""
        with fsspec.open(source.file, "rb") as file:
            return [str(name) for name in _opened(file).physical_schema.names]

    def open(self, source: SourceConfig) -> Samples:
        """Read labels, ids and columns of words."""
        columns = tables.feature_columns(source, self.columns(source))
        with fsspec.open(source.file, "rb") as file:
            opened = _opened(file)
            n_samples = opened.count_rows()
            table = opened.to_table(columns=tables.read_at_once(source))
            table.validate(full=True)
            side = table.to_pandas()

        def frames(rows: int) -> Iterator[pd.DataFrame]:
            with fsspec.open(source.file, "rb") as file:
                opened = _opened(file)
                for batch in opened.to_batches(columns=columns, batch_size=rows, **_NO_MORE):
                    batch.validate(full=True)
                    yield batch.to_pandas()

        return tables.samples_of_table(source, n_samples, columns, side, frames)


def _opened(file: Any) -> Any:
    from pyarrow import dataset  # here, as in `bundled`

    return dataset.FeatherFileFormat().make_fragment(file)
