"""Write one client's store from arrays, tables or files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from daskfc.errors import StoreError
from daskfc.stores.building.at_hand import Given, samples_at_hand, source_at, told_by_keywords
from daskfc.stores.building.building import Progress, described, write_samples
from daskfc.stores.dealing.names import client_name
from daskfc.stores.layout.layout import default_names
from daskfc.stores.layout.samples import Samples, encode_labels, ids_as_text, stacked
from daskfc.stores.layout.spelling import WordMap
from daskfc.stores.sources.readers import open_source
from daskfc.stores.store.client import ClientStore


@told_by_keywords()
def write_store(
    url: str,
    name: str,
    features: Given | Iterable[np.ndarray],
    sample_ids: str | Sequence[Any] | np.ndarray | None = None,
    labels: str | Sequence[Any] | np.ndarray | None = None,
    *,
    feature_names: Sequence[str] | None = None,
    categorical: Sequence[str] | None = None,
    dates: Sequence[str] | None = None,
    missing: str | None = None,
    words: WordMap | None = None,
    chunk_rows: int = 1024,
    dtype: str | None = None,
    overwrite: bool = False,
    graph: Any = None,
) -> None:
    """Write one client's store.

    Parameters
    ----------
    url : str
        Where: a URL of fsspec or a path.
    name : str
        The client's name.
    features : array_like, DataFrame, DataArray, Dataset, sparse array, path, or iterator of blocks
        Samples in rows, of finite numbers. A path names a file as `source.path` of a storage file
        does; an iterator, such as a generator, gives one block of rows at a time. Arrays of Dask,
        also in a DataArray or a dataset of `ClientStore.dataset`, and its tables of numbers are
        never in memory as a whole.
    sample_ids : str or sequence, optional
        One id a row, all different; or the column of a table that holds them. By default a table's
        own index if it has one, else the client's name and a number.
    labels : str or sequence, optional
        Integers or words, for evaluation only, kept in a group apart; or the column of a table.
    feature_names : sequence of str, optional
        The feature columns of a table, all but ids and labels by default; or names for those of an
        array, x0, x1, ... by default.
    categorical, dates : sequence of str, optional
        Columns of a table with words, which ``prepare: [one-hot]`` turns into features, and with
        dates, which become days since 1970-01-01; pandas' own types of both need not be named.
    missing : "keep", optional
        Values may be missing, as NaN or an empty cell; ``prepare: [impute]`` fills them.
    words : mapping, optional
        Replacements of words, as ``{"M": "male"}``, or by column; equal numbers, 1 and 1.0, are one
        word anyway. The store keeps them, for samples appended later and for new samples.
    chunk_rows : int
        Rows of one chunk.
    dtype : str, optional
        Stored type of the features: by default the smallest that holds them, an integer type of
        whole numbers, or float32 where it moves no value by more than a millionth of its column's
        standard deviation, and no whole number; else float64.
    overwrite : bool
        Whether an existing store may be replaced.
    graph : sparse array of shape (n_samples, n_samples), optional
        Symmetric adjacency of the samples.

    Raises
    ------
    StoreError
        For bad input, a store that is there already, or a place that cannot be written.

    Notes
    -----
    Dask's chunks of rows are computed one after the other, each once, also to find the type; two
    are in memory, with 1024 rows or a chunk of the store. A value that many chunks need, such as
    the mean of a column, is computed for each of them: compute it before. A Dataset keeps ids,
    names of features, words and gaps, and no labels, graph or name of a view.

    Examples
    --------
    >>> import pandas as pd
    >>> from daskfc.stores import ClientStore, write_store
    >>> table = pd.DataFrame({"id": ["p7", "p9"], "age": [61, 58], "kind": ["a", "b"]})
    >>> write_store("memory://doc/b.zarr", "hospital-a", table, "id", "kind", overwrite=True)
    >>> store = ClientStore.open("memory://doc/b.zarr")
    >>> store.feature_names, store.rows(0, 2).tolist()
    (('age',), [[61.0], [58.0]])
    """
    _check_name(name)
    where = f"client {name!r}"
    options: dict[str, Any] = {"chunk_rows": chunk_rows, "dtype": dtype, "overwrite": overwrite}
    if isinstance(features, Iterator):
        samples = _of_blocks(features, sample_ids, labels, feature_names, where)
    else:
        samples = samples_at_hand(
            features,
            sample_ids=sample_ids,
            labels=labels,
            columns=feature_names,
            categorical=categorical,
            dates=dates,
            missing=missing,
            words=words,
            where=where,
        )
    write_samples(url, name, samples, graph=graph, **options)


def add_store(
    name: str,
    files: Sequence[str],
    url: str | None = None,
    *,
    source: Mapping[str, Any],
    dtype: str | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Build the store of one client from its files, one after the other.

    Parameters
    ----------
    name : str
        The client's name.
    files : sequence of str
        Paths or URLs, or patterns of them, all with the same columns; or, with ``sql`` in `source`,
        URIs of databases.
    url : str, optional
        Where; ``stores/NAME.zarr`` by default.
    source : mapping
        Keys of `SourceConfig` beside the path.
    dtype, overwrite
        As in `write_store`.
    progress : callable, optional
        Called with rows done and rows in all.

    Returns
    -------
    dict
        A row about the store; see `Storage.inspect`.

    Raises
    ------
    StoreError, InvalidInput
        For wrong keys, and as `write_store`.
    """
    url = url or f"stores/{name}.zarr"
    sources = [source_at(file, source) for file in files]
    samples = stacked([open_source(one) for one in sources], [one.where for one in sources])
    _check_name(name)
    write_samples(url, name, samples, dtype=dtype, overwrite=overwrite, progress=progress)
    return described(name, ClientStore.open(url))


def _check_name(name: str) -> None:
    try:
        client_name(name)
    except ValueError as error:
        raise StoreError(f"client {name!r}: {error}. Rename it.") from None


def _of_blocks(
    blocks: Any, ids: Any, labels: Any, names: Sequence[str] | None, where: str
) -> Samples:
    """Return samples from an iterator of blocks, which can be read once."""
    first = next(blocks, None)
    if first is None or np.ndim(first) != 2:
        raise StoreError(
            f"{where} must have at least one sample, in rows and columns; got "
            f"{'no block' if first is None else f'shape {np.shape(first)}'}."
        )
    if ids is None or isinstance(ids, str):
        raise StoreError(f"{where}: rows that come in blocks need one id each in 'sample_ids'.")
    own = ids_as_text(ids, where)
    if labels is not None and len(labels) != len(own):
        raise StoreError(
            f"{where} must have one label a sample; got {len(labels)} labels and {len(own)} ids."
        )
    found, classes = (None, None) if labels is None else encode_labels(labels, where)

    def again(rows: int) -> Iterator[np.ndarray]:
        yield first
        yield from blocks

    columns = default_names(first.shape[1]) if names is None else tuple(names)
    return Samples(len(own), columns, again, found, classes, own)
