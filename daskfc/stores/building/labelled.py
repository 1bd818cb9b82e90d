"""Samples of arrays of xarray and Dask, read a block at a time."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from daskfc.errors import StoreError
from daskfc.stores.layout.layout import default_names
from daskfc.stores.layout.samples import Samples, ids_as_text
from daskfc.stores.store.lazy_rows import WORDS


def samples_of_array(
    data: Any, columns: Sequence[str] | None, missing: str | None, where: str
) -> Samples:
    """Return the samples of an array of xarray or Dask, computed as blocks are read.

    A Dataset has them as ``features``. Dask's chunks of rows are computed in turn, each once.
    """
    gaps, spelling = missing == "keep", {}
    if isinstance(data, xr.Dataset):
        if data.data_vars and "features" not in data and len(data.dims) == 1:  # one a feature
            data = data.to_dataarray("feature").T.to_dataset(name="features")
        if "features" not in data:
            raise StoreError(
                f"{where}: a Dataset must have a variable 'features' of samples and features, or "
                "variables along the samples alone; it has "
                f"{', '.join(map(str, data.data_vars)) or 'none'}. Give one DataArray."
            )
        gaps = gaps or bool(data.attrs.get("missing"))
        spelling, data = data.attrs.get("words", {}), data["features"]
    data = xr.DataArray(data)
    if data.ndim != 2:
        raise StoreError(
            f"{where}: an array must have samples and features; got the dimensions "
            f"{', '.join(map(str, data.dims)) or 'none'}. Select or stack them."
        )
    if any(math.isnan(size) for size in data.shape):
        raise StoreError(
            f"{where}: how many samples Dask's chunks hold is not known. Call "
            "compute_chunk_sizes() on the array before."
        )
    sample, feature = data.dims
    ids = next((data.coords[name] for name in (sample, "sample_id") if name in data.coords), None)
    if columns is None and feature in data.coords:
        columns = data.coords[feature].to_numpy().tolist()
    names = default_names(data.shape[1]) if columns is None else tuple(map(str, columns))
    rows, words = data.variable, _words(data, names, where)

    def blocks(n: int) -> Iterator[np.ndarray]:
        start = 0
        for stop in _ends(rows, n):
            block = rows[start:stop].to_numpy()
            _check_words(block, names, words, start, where)
            for at in range(0, len(block), n):
                yield block[at : at + n]
            start = stop

    return Samples(
        rows.shape[0],
        names,
        blocks,
        sample_ids=None if ids is None else ids_as_text(ids.to_numpy(), where),
        categories=words,
        missing=gaps,
        words=spelling,
    )


def array_of_table(table: Any, columns: Sequence[str], where: str) -> xr.DataArray:
    """Return columns of a Dask DataFrame, all numbers, as an array that is not computed yet."""
    words = [name for name in columns if table.dtypes[name].kind not in "biuf"]
    if words:
        raise StoreError(
            f"{where}: column {words[0]!r} of a Dask DataFrame holds no numbers, and its words are "
            "known only once all is read. Give table.compute(), or leave the column out."
        )
    rows = table[list(columns)].to_dask_array(lengths=True)
    return xr.DataArray(rows, dims=("sample", "feature"), coords={"feature": list(columns)})


def _ends(rows: xr.Variable, n: int) -> Iterator[int]:
    """Yield where blocks end: after whole chunks of Dask, at least one, of up to n rows."""
    n_rows = rows.shape[0]
    sizes = (
        [min(n, n_rows - at) for at in range(0, n_rows, n)]
        if rows.chunks is None
        else rows.chunks[0]
    )
    start = stop = 0
    for size in sizes:
        if start < stop and stop + size - start > n:
            yield stop
            start = stop
        stop += size
    if start < stop:
        yield stop


def _words(data: xr.DataArray, names: Sequence[str], where: str) -> dict[str, tuple[str, ...]]:
    """Return the words of columns of words, which a store's dataset has as a coordinate."""
    if WORDS not in data.coords:
        return {}
    try:
        told = [json.loads(one) if one else None for one in data.coords[WORDS].to_numpy().tolist()]
        listed = dict(zip(names, told, strict=True))
        return {name: tuple(map(str, words)) for name, words in listed.items() if words is not None}
    except (TypeError, ValueError):
        pass
    raise StoreError(
        f"{where}: the coordinate {WORDS!r} must have a list of words in JSON, or nothing, for "
        f"each feature, as ClientStore.dataset gives it. Leave it out by drop_vars({WORDS!r})."
    )


def _check_words(
    block: np.ndarray,
    names: Sequence[str],
    words: Mapping[str, Sequence[str]],
    start: int,
    where: str,
) -> None:
    """Raise for numbers that stand for no word, as after arithmetic on columns of words."""
    for name, listed in words.items():
        column = block[:, names.index(name)]
        known = np.isnan(column) | np.isin(column, np.arange(len(listed)))
        if not known.all():
            raise StoreError(
                f"{where}: column {name!r} holds words, 0 to {len(listed) - 1}; row "
                f"{start + int(np.argmin(known))} has another number. Compute with the other "
                f"columns alone, or make it one of numbers by drop_vars({WORDS!r})."
            )
