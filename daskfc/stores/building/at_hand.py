"""Turn arrays, tables, sparse matrices or the path of a file into `Samples`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd
import xarray as xr
from scipy import sparse

from daskfc.checks import checked
from daskfc.errors import InvalidInput, StoreError
from daskfc.naming import correction
from daskfc.stores.building.labelled import array_of_table, samples_of_array
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.layout.layout import default_names
from daskfc.stores.layout.samples import (
    Samples,
    blocks_of,
    encode_labels,
    ids_as_text,
    unmasked,
)
from daskfc.stores.layout.spelling import Spelling, WordMap, word_map
from daskfc.stores.sources.cells import Cells, words_of
from daskfc.stores.sources.readers import open_source

if TYPE_CHECKING:
    from dask.array import Array

_KEYWORDS = {"ids": "sample_ids", "columns": "feature_names"} | {
    name: name for name in ("categorical", "dates", "dtype", "labels")
}
Given: TypeAlias = (
    "np.ndarray | pd.DataFrame | xr.DataArray | xr.Dataset | Array | sparse.sparray | str "
    "| PathLike[str]"
)
Column: TypeAlias = "str | Sequence[Any] | np.ndarray | None"


@contextmanager
def told_by_keywords() -> Iterator[None]:
    """Name Python's keywords, in place of a storage file's keys, in what data at hand raise."""
    try:
        yield
    except (StoreError, InvalidInput) as error:
        text = str(error).replace("source.missing: keep", "missing='keep'")
        for key, word in _KEYWORDS.items():
            text = re.sub(rf"source\.{key}\b(?!:)", f"'{word}'", text)
        error.args = (text,)
        raise


def samples_at_hand(
    data: Any,
    *,
    sample_ids: Column = None,
    labels: Column = None,
    columns: Sequence[str] | None = None,
    categorical: Sequence[str] | None = None,
    dates: Sequence[str] | None = None,
    missing: str | None = None,
    words: WordMap | None = None,
    cells: Mapping[str, Any] | None = None,
    where: str = "the samples",
) -> Samples:
    """Return an array, list, table, DataArray, Dataset, sparse array or path as samples.

    `sample_ids` and `labels` are values or a column's name; ids default to an index other than 0,
    1, ..., or a DataArray's coordinates. `columns` picks columns, or names those of an array, and
    `cells` are further keys of a file's source.
    """
    kinds = {"categorical": categorical, "dates": dates, "missing": missing, "words": words}
    if isinstance(data, str | PathLike):
        return _of_file(fspath(data), sample_ids, labels, columns, {**kinds, **(cells or {})})
    if missing not in (None, "keep"):
        raise StoreError(f"{where}: missing must be 'keep' or None; got {missing!r}.")
    if isinstance(data, pd.DataFrame):
        return _of_frame(data, sample_ids, labels, columns, kinds, where)
    if hasattr(data, "to_dask_array") and hasattr(data, "columns"):
        sides = [name for name in (sample_ids, labels) if isinstance(name, str)]
        _check_columns([*(columns or ()), *sides], [*map(str, data.columns)], where)
        sample_ids, labels = (
            data[one].compute().to_numpy() if isinstance(one, str) else one
            for one in (sample_ids, labels)
        )
        named = columns or [name for name in data.columns if name not in sides]
        data = array_of_table(data, named, where)
    if categorical or dates or words:
        raise StoreError(
            f"{where}: an array has no columns with names that could be categorical or dates; give "
            "a DataFrame."
        )
    if isinstance(sample_ids, str) or isinstance(labels, str):
        raise StoreError(
            f"{where}: an array has no columns with names to take ids or labels from; give one "
            "value a sample."
        )
    if isinstance(data, xr.DataArray | xr.Dataset) or hasattr(data, "__dask_graph__"):
        return _with_sides(
            samples_of_array(data, columns, missing, where), sample_ids, labels, where
        )
    is_sparse = sparse.issparse(data)
    rows: Any = sparse.csr_array(data) if is_sparse else _as_array(data, where)
    if rows.ndim != 2:
        raise StoreError(
            f"{where}: at least one sample, in rows and columns, is needed; got shape "
            f"{rows.shape}. Give a table of shape (samples, features)."
        )
    names = default_names(rows.shape[1]) if columns is None else tuple(map(str, columns))
    samples = Samples(rows.shape[0], names, blocks_of(rows), missing=missing == "keep")
    return _with_sides(samples, sample_ids, labels, where)


def _as_array(data: Any, where: str) -> np.ndarray:
    try:
        some = isinstance(data, list | tuple) and any(map(np.ma.isMaskedArray, data))
        return unmasked(np.ma.array(data) if some else data)
    except ValueError:
        raise StoreError(
            f"{where}: all rows must have as many numbers; they differ. Mend the shorter ones."
        ) from None


def _of_file(
    path: str, ids: Column, labels: Column, columns: Sequence[str] | None, kinds: Mapping[str, Any]
) -> Samples:
    given = {"sample_ids": ids, "labels": labels}
    for key, value in given.items():
        if not (value is None or isinstance(value, str)):
            raise StoreError(f"{path}: {key} of a file must be the name of a column or an array.")
    keys = {"ids": ids, "labels": labels, "columns": None if columns is None else list(columns)}
    return open_source(checked(SourceConfig, {"path": path, **keys, **kinds}, path))


def source_at(place: str, keys: Mapping[str, Any]) -> SourceConfig:
    """Return the checked source of a file, or of a database for a URI and a query."""
    if "sql" in keys and "://" in place:
        uri = {"uri": place, **keys}
        return checked(SourceConfig, uri, "the database")  # its URI names a user
    return checked(SourceConfig, {"path": place, **keys}, place)


def _of_frame(
    frame: pd.DataFrame,
    ids: Column,
    labels: Column,
    columns: Sequence[str] | None,
    kinds: Mapping[str, Any],
    where: str,
) -> Samples:
    listed = [*(kinds["categorical"] or ()), *(kinds["dates"] or ())]
    named = [*(columns or ()), *(name for name in (ids, labels) if isinstance(name, str)), *listed]
    there = [str(name) for name in frame.columns]
    _check_columns(named, there, where)
    if len(set(there)) < len(there):
        twice = next(name for name in there if there.count(name) > 1)
        raise StoreError(
            f"{where}: columns must have different names; {twice!r} comes twice. Rename one."
        )
    frame = frame.set_axis(there, axis=1)
    sides = [name for name in (ids, labels) if isinstance(name, str)]
    names = [str(name) for name in columns or ()] or [n for n in there if n not in sides]
    if ids is None and not isinstance(frame.index, pd.RangeIndex):
        ids = frame.index.to_numpy()
    own_ids = frame[ids].to_numpy() if isinstance(ids, str) else ids
    own_labels = frame[labels].to_numpy() if isinstance(labels, str) else labels
    of_words = [n for n in names if n in (kinds["categorical"] or ())
                or isinstance(frame[n].dtype, pd.CategoricalDtype)]  # fmt: skip
    spelling = Spelling(_checked_words(kinds["words"], where))
    lists = {n: words_of(frame[n], f"{where}: column {n!r}", spelling) for n in of_words}
    cells = Cells(
        where,
        lambda row: f"row {row + 1}",
        words=lists,
        dates=[n for n in names if n in (kinds["dates"] or ()) or frame[n].dtype.kind == "M"],
        missing=kinds["missing"] == "keep",
        spelling=spelling,
    )
    samples = cells.samples(
        len(frame),
        names,
        lambda n: (frame.iloc[start : start + n] for start in range(0, len(frame), n)),
    )
    return _with_sides(samples, own_ids, own_labels, where)


def _check_columns(named: Sequence[str], there: Sequence[str], where: str) -> None:
    if missing := [name for name in named if str(name) not in there]:
        raise StoreError(
            f"{where}: the column {missing[0]!r} is not there; the columns are "
            f"{', '.join(there[:12])}{', ...' if len(there) > 12 else ''}. "
            f"{correction(missing[0], there)}"
        )


def _checked_words(words: Any, where: str) -> WordMap:
    try:
        found: WordMap = word_map(words or {})
    except ValueError as error:
        raise InvalidInput(f"{where}: 'words' {error}.") from None
    return found


def _with_sides(samples: Samples, ids: Any, labels: Any, where: str) -> Samples:
    """Add ids and labels, each as many as samples."""
    for what, values in (("ids", ids), ("labels", labels)):
        if values is not None and np.ndim(values) and len(values) != samples.n_samples:
            raise StoreError(
                f"{where}: {what} must be as many as samples; got {len(values)} for "
                f"{samples.n_samples}."
            )
    found, classes = (None, None) if labels is None else encode_labels(labels, where)
    own = samples.sample_ids if ids is None else ids_as_text(ids, where)
    return replace(samples, sample_ids=own, labels=found, classes=classes)


def numbered(samples: Samples, client: str) -> Samples:
    """Return samples, with ids ``client/0``, ``client/1``, ... where they have none."""
    if samples.sample_ids is not None:
        return samples
    ids = [f"{client}/{i}" for i in range(samples.n_samples)]
    return replace(samples, sample_ids=np.array(ids))
