"""Append samples to a store: it is written anew beside itself and then takes its own place.

A reader sees the old store or the new one. A run that is reading it gets an error at its next rows,
since the store's metadata have changed (see `ClientStore`).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from daskfc.errors import InvalidInput, StoreError
from daskfc.stores.building.at_hand import Given, samples_at_hand, source_at
from daskfc.stores.building.building import Progress, described, write_samples
from daskfc.stores.layout.layout import positions_of_repeats
from daskfc.stores.layout.locations import local_path, resolve_url
from daskfc.stores.layout.samples import Samples, stacked
from daskfc.stores.layout.spelling import renumbered
from daskfc.stores.layout.staging import sweep
from daskfc.stores.sources.cells import as_ids
from daskfc.stores.sources.readers import open_source
from daskfc.stores.store.client import ClientStore
from daskfc.stores.store.clusters import cluster_names

_CHUNK_ROWS = 1024  # as of a new store
_WRITTEN_ANEW = (
    *("format", "version", "client", "categories", "missing", "feature_names"),
    *("content_digest", "build_id", "complete", "appended", "words", "chosen_dtype"),
)


def append_store(
    url: str,
    files: Sequence[str],
    *,
    source: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    r"""Append the samples of files to one client's store.

    Parameters
    ----------
    url : str
        URL or path of the store.
    files : sequence of str
        Paths or URLs, or patterns of them, with the columns of the store in its order.
    source : mapping, optional
        Columns of words, the mapping of words, whether cells may be empty, and what cells mean
        (dates, date_format, na_values, censored, multiply) are the store's, by column, where not
        given here.
    progress : callable, optional
        Called with rows done and rows in all, those of the old store included.

    Returns
    -------
    dict
        A row about the store, see `Storage.inspect`, with the number of ``appended`` samples and
        the names of clusters that were ``left_out``.

    Raises
    ------
        For a URL without a store, a store with a graph or scaled features, other columns, and
        samples that the store has already. The store is unchanged then.

    Notes
    -----
    A type that was chosen by the store's values is chosen again by all samples, see `write_store`;
    a type that was given stays. Evaluation labels grow with the store; the key of its pseudonyms
    and what it records of its source stay. Clusters that ``daskfc labels --into-store`` put there
    lack the new samples, and are left out.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from daskfc.stores import add_store, append_store
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name, text in {"a": "id,age\np1,61\n", "new": "id,age\np2,58\n"}.items():
    ...     _ = (folder / f"{name}.csv").write_text(text)
    >>> store = f"{folder}/a.zarr"
    >>> _ = add_store("a", [f"{folder}/a.csv"], store, source={"ids": "id"})
    >>> append_store(store, [f"{folder}/new.csv"], source={"ids": "id"})["samples"]
    2
    """
    with _alone(url) as store:
        known = {
            "categorical": list(store.categories) or None,
            "missing": "keep" if store.missing else None,
            "words": store.attributes.get("words"),
            **_cells_of(store, source or {}),
        }
        keys = {key: value for key, value in {**known, **(source or {})}.items() if value}
        for key, own in known.items():
            if isinstance(own, Mapping) and isinstance(keys.get(key), Mapping):
                keys[key] = {**own, **keys[key]}
        sources = [source_at(file, keys) for file in files]
        names = [one.where for one in sources]
        new = stacked([open_source(one) for one in sources], names)
        return _grow(store, new, ", ".join(names), keys.get("labels") is not None, progress)


def append_samples(
    url: str,
    features: Given,
    sample_ids: str | Sequence[Any] | np.ndarray | None = None,
    labels: str | Sequence[Any] | np.ndarray | None = None,
    *,
    feature_names: Sequence[str] | None = None,
    dates: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Append an array, a table or a file of samples to one client's store.

    Parameters
    ----------
    url : str
        URL or path of the store.
    features, sample_ids, labels, feature_names, dates
        As in `write_store`; an array has the columns of the store, unless it names others. Cells
        of a file mean what they mean to `append_store`; numbers of an array or a table are taken
        as they are, in the units of the store.

    Returns
    -------
    dict
        As for `append_store`.

    Raises
    ------
    StoreError
        As for `append_store`.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.stores import append_samples, write_store
    >>> write_store("memory://doc/grown.zarr", "a", np.eye(2), ["p1", "p2"], overwrite=True)
    >>> append_samples("memory://doc/grown.zarr", np.ones((1, 2)), ["p3"])["samples"]
    3
    """
    with _alone(url) as store:
        file = isinstance(features, str | os.PathLike)
        table = file or hasattr(features, "columns")
        sides = {"ids": sample_ids, "labels": labels, "dates": dates}
        cells = _cells_of(store, sides) if file else {}
        unnamed = feature_names is None and not table and not hasattr(features, "coords")
        samples = samples_at_hand(
            features,
            sample_ids=sample_ids,
            labels=labels,
            columns=_names_for(features, store) if unnamed else feature_names,
            categorical=list(store.categories) or None if table else None,
            dates=cells.pop("dates", None) or dates,
            missing="keep" if store.missing else None,
            words=store.attributes.get("words") if table else None,
            cells=cells,
            where=f"the new samples of client {store.name!r}",
        )
        return _grow(store, samples, "the new samples", labels is not None, None)


def _cells_of(store: ClientStore, source: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys by which the store's cells were read, for columns that new files have."""
    sides = [source.get("ids"), source.get("labels"), *dict(source.get("pivot") or {}).values()]
    there = {*store.feature_names, *(name for name in sides if isinstance(name, str))}
    found = dict(store.attributes.get("cells", {}))
    found["dates"] = source.get("dates") or [n for n in found.get("dates", ()) if n in there]
    if not found["dates"]:
        found.pop("date_format", None)
    for key, own in found.items():
        if isinstance(own, Mapping):
            named = found["dates"] if key == "date_format" else there
            found[key] = {name: rule for name, rule in own.items() if name in named}
    return found


def rows_of_before(store: ClientStore, digest: str) -> int:
    """Return how many first rows the store had at that `content_digest`; 0 if it never had it."""
    now = {"samples": store.n_samples, "content_digest": store.attributes["content_digest"]}
    known = [now, *store.attributes.get("appended", ())]
    return next((int(one["samples"]) for one in known if one["content_digest"] == digest), 0)


def _names_for(features: Any, store: ClientStore) -> tuple[str, ...] | None:
    """Return the store's columns for an array that is as wide."""
    try:
        wide = np.shape(features)[1:] == (store.n_features,)
    except ValueError:  # rows of different lengths, refused where they are read
        return None
    return store.feature_names if wide else None


@contextmanager
def _alone(url: str) -> Iterator[ClientStore]:
    """Open a store, locked against other appends where it lies on a local disk."""
    url = resolve_url(url)
    path = local_path(url)
    if path is None:
        yield ClientStore.open(url)
        return
    path = path.resolve()  # behind a link, which stays
    url = resolve_url(str(path))
    sweep(path)
    ClientStore.open(url)  # raises for anything but a store
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _in_use(url) from None
        except OSError:
            pass  # a file system without locks: the last reads still notice another writer
        if not os.path.samestat(os.fstat(handle), os.stat(path)):
            raise _in_use(url)  # another's new one has just taken its place
        yield ClientStore.open(url)
    finally:
        os.close(handle)


def _in_use(url: str) -> StoreError:
    return StoreError(
        f"{url}: samples are being appended to the store by another process; wait until it is "
        "done, and append again."
    )


def _grow(
    store: ClientStore, new: Samples, where: str, named: bool, progress: Progress | None
) -> dict[str, Any]:
    """Write the store's samples and the new ones in its place."""
    _check_kind(store, new, where)
    _check_columns(store, new, where)
    new = _with_labels(store, _with_ids(store, new, where), where, named)
    whole = stacked([_samples_of(store, new), new], [store.url, where])
    whole = replace(whole, cells={})  # what the store recorded stays
    before = {"samples": store.n_samples, "content_digest": store.attributes["content_digest"]}
    past = store.attributes.get("appended", [])
    left_out = cluster_names(store)
    kept = {key: value for key, value in store.attributes.items() if key not in _WRITTEN_ANEW}
    write_samples(
        store.url,
        store.name,
        whole,
        # a store with fewer rows than a chunk has one chunk of that size
        chunk_rows=store.chunk_rows if store.chunk_rows < store.n_samples else _CHUNK_ROWS,
        # new samples may need another type; one that was given by hand stays
        dtype=None if store.attributes["chosen_dtype"] else store.dtype.name,
        overwrite=True,
        attributes={**kept, "appended": [*past, before]},
        progress=progress,
    )
    row = described(store.name, ClientStore.open(store.url))
    return {**row, "appended": new.n_samples, "left_out": left_out}


def _check_kind(store: ClientStore, new: Samples, where: str) -> None:
    """Raise unless the new samples are a table, and the store one that rows can be appended to."""
    whose = f"client {store.name!r}: samples cannot be appended to the store {store.url}"
    if store.has_graph:
        raise StoreError(
            f"{whose}: it has a graph, and rows do not say how new samples are joined to those "
            "that are there. Build it again of all samples and their graph."
        )
    if store.scaling:
        raise StoreError(
            f"{whose}: its features went through scaling ({store.scaling}) when it was built, by "
            "numbers of the samples of that day. Build it again of all samples, or without scaling "
            "and with 'prepare' in the pipeline."
        )
    if new.views or new.graph is not None:
        raise StoreError(
            f"{whose}: {where} must be a table; got a graph or several views. Give a table of the "
            "store's own columns."
        )
    if new.n_samples < 1:
        raise StoreError(f"{whose}: there are none in {where}. Give at least one.")


def _check_columns(store: ClientStore, new: Samples, where: str) -> None:
    """Raise for other columns than the store has, or for other kinds of them."""
    wanted, got = store.feature_names, new.feature_names
    lacking = [name for name in wanted if name not in got]
    surplus = [name for name in got if name not in wanted]
    what = ""
    if lacking:
        what = f"column {lacking[0]!r} is missing"
    elif surplus:
        what = f"column {surplus[0]!r} is one too many"
    elif got != wanted:
        i = next(i for i, name in enumerate(wanted) if name != got[i])
        what = f"column {got[i]!r} comes where {wanted[i]!r} is expected"
    if what:
        raise StoreError(
            f"{where}: new samples must have the columns of client {store.name!r}'s store, in its "
            f"order; {what}. Mend the file, name its ids and labels, or list the features as "
            "'columns' (--columns)."
        )
    words, numbers = set(store.categories), set(new.categories)
    if differ := sorted(words ^ numbers):
        kinds = ("words", "numbers") if differ[0] in words else ("numbers", "words")
        raise StoreError(
            f"{where}: column {differ[0]!r} holds {kinds[0]} in the store of client "
            f"{store.name!r} and {kinds[1]} here. Mend it, or correct 'categorical' "
            "(--categorical)."
        )
    if new.missing and not store.missing:
        raise StoreError(
            f"{where}: no value may be missing, for the store of client {store.name!r} has them "
            "all. Fill the gaps, or build the store again with missing: keep (--keep-missing)."
        )


def _with_ids(store: ClientStore, new: Samples, where: str) -> Samples:
    """Return the new samples with ids, none of which the store has."""
    there = store.sample_ids()
    ids = new.sample_ids
    if ids is None:
        numbered = [f"{store.name}/{i}" for i in range(store.n_samples + new.n_samples)]
        if there.tolist() != numbered[: store.n_samples]:
            raise StoreError(
                f"{where}: the samples of client {store.name!r} have ids of their own, and new "
                "ones need them too. Name their column as 'ids' (--id)."
            )
        ids = np.array(numbered[store.n_samples :])
    # those of tables have no blanks around them, which others may have
    known = np.flatnonzero(np.isin(as_ids(pd.Series(ids)), as_ids(pd.Series(there))))
    if len(known):
        raise StoreError(
            f"{where}: samples must be new to the store of client {store.name!r}; "
            f"{len(known)} of {len(ids)} ids are there already, the first is that of row "
            f"{int(known[0]) + 1}. Leave them out; nothing was appended."
        )
    repeats = positions_of_repeats(ids)
    if repeats is not None:
        raise StoreError(
            f"{where}: sample ids must differ; {repeats[2]} are repeated, rows {repeats[0] + 1} "
            f"and {repeats[1] + 1} are the first pair. Leave one out."
        )
    return replace(new, sample_ids=ids)


def _with_labels(store: ClientStore, new: Samples, where: str, named: bool) -> Samples:
    """Return the new samples with labels if the store has some, of the same kind."""
    if not store.has_labels and not named:
        return replace(new, labels=None, classes=None)  # an array found by its usual name
    if store.has_labels != (new.labels is not None):
        rule = "has labels for evaluation, and new samples need them too. Name their column as"
        other = "has no labels for evaluation. Leave out"
        raise StoreError(
            f"{where}: the store of client {store.name!r} {rule if store.has_labels else other} "
            "'labels' (--label)."
        )
    if (store.classes is None) != (new.classes is None):
        kinds = ("whole numbers", "words") if store.classes is None else ("words", "whole numbers")
        raise InvalidInput(
            f"{where}: labels must be {kinds[0]}, as in the store of client {store.name!r}; got "
            f"{kinds[1]}. Mend the column."
        )
    return new


def _samples_of(store: ClientStore, new: Samples) -> Samples:
    """Return the stored samples, as they are, with the words of all samples."""
    words = {
        name: tuple(sorted({*own, *new.categories[name]})) for name, own in store.categories.items()
    }

    def blocks(rows: int) -> Iterator[np.ndarray]:
        for start in range(0, store.n_samples, rows):
            block = store.stored(start, min(start + rows, store.n_samples))
            yield renumbered(block, store.feature_names, store.categories, words)

    return Samples(
        store.n_samples,
        store.feature_names,
        blocks,
        store.labels(),
        store.classes,
        store.sample_ids(),
        categories=words,
        missing=store.missing,
    )
