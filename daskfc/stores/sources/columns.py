"""Readers of tables with columns: csv, parquet, feather, libsvm."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as pf
import pyarrow.parquet as pq
from sklearn.datasets import load_svmlight_file

from daskfc.errors import StoreError
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.layout.layout import default_names
from daskfc.stores.layout.locations import expand
from daskfc.stores.layout.samples import Samples, encode_labels, reading
from daskfc.stores.layout.spelling import Spelling
from daskfc.stores.sources.cells import Cells, words_of
from daskfc.stores.sources.csv_files import CsvFile

__all__ = ["column_names", "read_csv", "read_feather", "read_libsvm", "read_parquet"]


def column_names(source: SourceConfig) -> list[str]:
    """Return the names of all columns of a csv, parquet or feather file, from its head alone."""
    path = expand(str(source.path))
    if path.endswith((".parquet", ".pq")) or source.format == "parquet":
        with reading(path, "parquet"), fsspec.open(path, "rb") as file:
            return [str(name) for name in pq.ParquetFile(file).schema_arrow.names]
    if path.endswith(".feather") or source.format == "feather":
        with reading(path, "feather"), fsspec.open(path, "rb") as file:
            return [str(name) for name in pa.ipc.open_file(file).schema.names]
    with reading(path, "csv"):
        return CsvFile(source).names


def _feature_columns(source: SourceConfig, there: Sequence[str], path: str) -> list[str]:
    """Return the feature columns: those named, or all but labels and ids."""
    sides = filter(None, (source.labels, source.ids))
    named = [*(source.columns or ()), *sides, *(source.categorical or ()), *(source.dates or ())]
    for name in named:
        if name not in there:
            raise StoreError(
                f"{path}: the column {name!r} named by the source is not there; the columns are "
                f"{', '.join(there[:12])}{', ...' if len(there) > 12 else ''}."
            )
    if source.columns is not None:
        kinds = [*(source.categorical or ()), *(source.dates or ())]
        if other := [name for name in kinds if name not in source.columns]:
            raise StoreError(
                f"{path}: the column {other[0]!r} is categorical or a date, and not among "
                "source.columns. Add it there, or leave it out here."
            )
        return list(source.columns)
    return [name for name in there if name not in (source.labels, source.ids)]


def _words(values: pd.Series) -> np.ndarray:
    """Return labels that were read as text: as numbers where all are."""
    numbers = pd.to_numeric(values, errors="coerce")
    if numbers.notna().eq(values.notna()).all():
        return numbers.to_numpy(dtype=np.float64)
    return values.to_numpy(dtype=object)


def read_csv(source: SourceConfig) -> Samples:
    """Open a csv or tsv file, compressed or not.

    A first pass counts rows and reads labels and ids, a second reads features in blocks.
    """
    path = expand(str(source.path))
    with reading(path, "csv"):
        file = CsvFile(source)
        columns = _feature_columns(source, file.names, path)
        n_samples = file.check_lines()
        wanted = _read_at_once(source)
        side = _text_columns(file, wanted) if wanted and n_samples else pd.DataFrame()
    labels, classes, ids = _side_columns(side, source, path) if n_samples else (None, None, None)
    words = _words_by_column(side, source, path) if n_samples else {}
    cells = Cells(
        path,
        lambda row: f"line {file.line_of(row)}",
        source.dtype,
        source.decimal or ".",
        source.thousands,
        words,
        source.dates or (),
        source.missing == "keep",
        _spelling(source),
    )
    text = dict.fromkeys([*words, *(source.dates or ())], str)  # as they are written

    def blocks(rows: int) -> Iterator[np.ndarray]:
        start = 0
        with (
            reading(path, "csv"),
            pd.read_csv(
                path, usecols=columns, dtype=text, chunksize=rows, **file.options
            ) as chunks,
        ):
            for frame in chunks:
                yield cells.numbers(frame[columns], start)
                start += len(frame)

    return _samples(n_samples, columns, blocks, (labels, classes, ids), cells)


def _read_at_once(source: SourceConfig) -> list[str]:
    """Return the columns that must be known before features are read in blocks."""
    return [name for name in (source.labels, source.ids, *(source.categorical or ())) if name]


def _words_by_column(
    side: pd.DataFrame, source: SourceConfig, path: str
) -> dict[str, tuple[str, ...]]:
    spelling = _spelling(source)
    return {
        name: words_of(side[name], f"{path}: column {name!r}", spelling)
        for name in source.categorical or ()
    }


def _spelling(source: SourceConfig) -> Spelling:
    return Spelling(source.words or {}, source.decimal or ".", source.thousands)


_Sides: TypeAlias = "tuple[np.ndarray | None, tuple[str, ...] | None, np.ndarray | None]"


def _samples(
    n: int,
    columns: Sequence[str],
    blocks: Callable[[int], Iterator[np.ndarray]],
    sides: _Sides,
    cells: Cells,
) -> Samples:
    labels, classes, ids = sides
    return Samples(
        n,
        tuple(columns),
        blocks,
        labels,
        classes,
        ids,
        categories=dict(cells.words),
        missing=cells.missing,
        words=cells.spelling.words,
    )


def _text_columns(file: CsvFile, names: list[str]) -> pd.DataFrame:
    options = {**file.options, "decimal": ".", "thousands": None}
    with pd.read_csv(file.path, usecols=names, dtype=str, chunksize=65536, **options) as chunks:
        return pd.concat(list(chunks))


def _side_columns(side: pd.DataFrame, source: SourceConfig, path: str) -> _Sides:
    labels = classes = ids = None
    if source.labels is not None:
        column = side[source.labels]
        values = column.to_numpy() if column.dtype.kind in "iuf" else _words(column)
        labels, classes = encode_labels(values, f"{path}:{source.labels}")
    if source.ids is not None:
        missing = int(side[source.ids].isna().sum())
        if missing:
            raise StoreError(f"{path}: {missing} samples have no id in column {source.ids!r}.")
        ids = side[source.ids].to_numpy().astype(str)
    return labels, classes, ids


def read_parquet(source: SourceConfig) -> Samples:
    """Open a parquet file; labels and ids are read at once, features a row group at a time."""

    def opened(file: Any) -> tuple[int, list[str], pd.DataFrame]:
        table = pq.ParquetFile(file)
        side = table.read(columns=_read_at_once(source)).to_pandas()
        return table.metadata.num_rows, table.schema_arrow.names, side

    def batches(file: Any, rows: int, columns: list[str]) -> Iterator[pa.RecordBatch]:
        yield from pq.ParquetFile(file).iter_batches(batch_size=rows, columns=columns)

    return _read_arrow(source, "parquet", opened, batches)


def read_feather(source: SourceConfig) -> Samples:
    """Open a feather (Arrow) file; its feature columns are in memory while blocks are read."""

    def opened(file: Any) -> tuple[int, list[str], pd.DataFrame]:
        names = pa.ipc.open_file(file).schema.names
        file.seek(0)
        wanted = [name for name in _read_at_once(source) if name in names]
        side = pf.read_table(file, columns=wanted or names[:1], memory_map=False)
        return side.num_rows, names, side.to_pandas()

    def batches(file: Any, rows: int, columns: list[str]) -> Iterator[pa.RecordBatch]:
        table = pf.read_table(file, columns=columns, memory_map=False).combine_chunks()
        yield from table.to_batches(max_chunksize=rows)

    return _read_arrow(source, "feather", opened, batches)


def _read_arrow(
    source: SourceConfig,
    format: str,
    opened: Callable[[Any], tuple[int, list[str], pd.DataFrame]],
    batches: Callable[[Any, int, list[str]], Iterator[pa.RecordBatch]],
) -> Samples:
    path = expand(str(source.path))
    with reading(path, format), fsspec.open(path, "rb") as file:
        n_samples, names, side = opened(file)
        columns = _feature_columns(source, names, path)
    labels, classes, ids = _side_columns(side, source, path)

    cells = Cells(
        path,
        lambda row: f"row {row + 1}",
        words=_words_by_column(side, source, path),
        dates=source.dates or (),
        missing=source.missing == "keep",
        spelling=_spelling(source),
    )

    def blocks(rows: int) -> Iterator[np.ndarray]:
        start = 0
        with reading(path, format), fsspec.open(path, "rb") as file:
            for batch in batches(file, rows, columns):
                yield cells.numbers(batch.to_pandas()[columns], start)
                start += len(batch)

    return _samples(n_samples, columns, blocks, (labels, classes, ids), cells)


def read_libsvm(source: SourceConfig) -> Samples:
    """Open a libsvm (svmlight) file; kept sparse in memory, returned dense in blocks.

    Labels are the first field of every line, and must be integers.
    """
    path = expand(str(source.path))
    with reading(path, "libsvm"), fsspec.open(path, "rb", compression="infer") as file:
        matrix, targets = load_svmlight_file(file)
    labels, _ = encode_labels(targets, path)

    def blocks(rows: int) -> Iterator[np.ndarray]:
        for start in range(0, matrix.shape[0], rows):
            yield matrix[start : start + rows].toarray()

    return Samples(matrix.shape[0], default_names(matrix.shape[1]), blocks, labels)
