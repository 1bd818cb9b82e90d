"""Samples of tables with named columns, for csv, parquet and feather."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from daskfc.errors import StoreError
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.layout.samples import Samples, encode_labels
from daskfc.stores.layout.spelling import Spelling
from daskfc.stores.sources.cells import Cells, words_of

__all__ = ["KEYS_OF_TABLES", "feature_columns", "read_at_once", "samples_of_table"]

KEYS_OF_TABLES = frozenset("columns labels ids categorical dates missing words".split())


def feature_columns(source: SourceConfig, there: Sequence[str]) -> list[str]:
    """Return the feature columns: those named, or all but labels and ids."""
    sides = filter(None, (source.labels, source.ids))
    named = [*(source.columns or ()), *sides, *(source.categorical or ()), *(source.dates or ())]
    for name in named:
        if name not in there:
            raise StoreError(
                f"{source.file}: the column {name!r} named by the source is not there; the columns "
                f"are {', '.join(there[:12])}{', ...' if len(there) > 12 else ''}."
            )
    if source.columns is not None:
        kinds = [*(source.categorical or ()), *(source.dates or ())]
        if other := [name for name in kinds if name not in source.columns]:
            raise StoreError(
                f"{source.file}: the column {other[0]!r} is categorical or a date, and not among "
                "source.columns. Add it there, or leave it out here."
            )
        return list(source.columns)
    return [name for name in there if name not in (source.labels, source.ids)]


def read_at_once(source: SourceConfig) -> list[str]:
    """Return the columns that must be known before features are read in blocks."""
    return [name for name in (source.labels, source.ids, *(source.categorical or ())) if name]


def samples_of_table(
    source: SourceConfig,
    n_samples: int,
    columns: Sequence[str],
    side: pd.DataFrame,
    frames: Callable[[int], Iterable[pd.DataFrame]],
    place: Callable[[int], str] = lambda row: f"row {row + 1}",
) -> Samples:
    """Return samples of `columns`, read by `frames`, with labels, ids and words from `side`."""
    labels, classes, ids = _side_columns(side, source) if n_samples else (None, None, None)
    spelling = Spelling(source.words or {}, source.decimal or ".", source.thousands)
    words = {
        name: words_of(side[name], f"{source.file}: column {name!r}", spelling)
        for name in source.categorical or ()
        if n_samples
    }
    dates, missing = source.dates or (), source.missing == "keep"
    cells = Cells(source.file, place, source.dtype, words, dates, missing, spelling)
    samples = cells.samples(n_samples, columns, frames)
    return replace(samples, labels=labels, classes=classes, sample_ids=ids)


def _side_columns(side: pd.DataFrame, source: SourceConfig) -> tuple[Any, ...]:
    labels = classes = ids = None
    if source.labels is not None:
        column = side[source.labels]
        values = column.to_numpy() if column.dtype.kind in "iuf" else _words(column)
        labels, classes = encode_labels(values, f"{source.file}:{source.labels}")
    if source.ids is not None:
        missing = int(side[source.ids].isna().sum())
        if missing:
            raise StoreError(
                f"{source.file}: {missing} samples have no id in column {source.ids!r}."
            )
        ids = side[source.ids].to_numpy().astype(str)
    return labels, classes, ids


def _words(values: pd.Series) -> np.ndarray:
    """Return labels that were read as text, as numbers if all of them are numbers."""
    numbers = pd.to_numeric(values, errors="coerce")
    if numbers.notna().eq(values.notna()).all():
        return numbers.to_numpy(dtype=np.float64)
    return values.to_numpy(dtype=object)
