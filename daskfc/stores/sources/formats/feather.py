"""Feather files, which are Arrow's own."""

from collections.abc import Iterator, Sequence
from typing import Any

import fsspec
import pandas as pd

from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.layout.samples import Samples
from daskfc.stores.sources import tables
from daskfc.stores.sources.source import Source

__all__ = ["Feather"]


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
                for batch in _batches(file, columns):
                    batch.validate(full=True)
                    for start in range(0, batch.num_rows, rows):
                        yield batch.slice(start, rows).to_pandas()

        return tables.samples_of_table(source, n_samples, columns, side, frames)


def _opened(file: Any) -> Any:
    from pyarrow import dataset  # here, as in `bundled`

    return dataset.FeatherFileFormat().make_fragment(file)


def _batches(file: Any, columns: Sequence[str]) -> Iterator[Any]:
    """Read one batch at a time: a data set's own would go on reading in a thread."""
    from pyarrow import ipc  # here, as in `bundled`

    with ipc.open_file(file) as opened:
        wanted = [opened.schema.get_field_index(name) for name in columns]
    options = ipc.IpcReadOptions(use_threads=False, included_fields=sorted(wanted))
    with ipc.open_file(file, options=options) as opened:
        for number in range(opened.num_record_batches):
            yield opened.get_batch(number).select(columns)
