"""Write stores: of all clients in one pass over their source, or of one from its own files."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from daskfc.errors import StoreError
from daskfc.stores.building.at_hand import numbered
from daskfc.stores.dealing.config import LayoutConfig, SourceConfig
from daskfc.stores.dealing.dealing import Share
from daskfc.stores.layout.layout import check_different
from daskfc.stores.layout.locations import check_space
from daskfc.stores.layout.samples import Samples
from daskfc.stores.layout.staging import store_exists
from daskfc.stores.layout.writer import StoreWriter, bytes_needed
from daskfc.stores.sources.cells import MissingValues
from daskfc.stores.sources.readers import fingerprint, open_source
from daskfc.stores.store.client import ClientStore
from daskfc.stores.store.clusters import cluster_names

Progress = Callable[[int, int], None]
"""Called with rows done and rows in all."""


@dataclass(frozen=True)
class Origin:
    """The origin of a store: digests of its part of the storage file, and of its files or None."""

    digest: str
    fingerprint: str | None
    bundled: bool

    @classmethod
    def of(cls, source: SourceConfig, digest: str) -> Self:
        """Return the origin of a store that is made of a source now."""
        return cls(digest, fingerprint(source), source.dataset is not None)

    @property
    def attributes(self) -> dict[str, Any]:
        """What the store records of it."""
        return {"storage_digest": self.digest, "source_fingerprint": self.fingerprint}

    def is_past(self, name: str, store: ClientStore, file: str) -> bool:
        """Return whether a store is to follow an edit of the storage file; raise if that loses.

        Nothing is lost where its files are those that it was made from, or scikit-learn's, no
        samples were appended and no clusters put into it.
        """
        recorded, stamp = store.attributes, self.fingerprint
        same_source = stamp is None or recorded.get("source_fingerprint") == stamp
        if recorded.get("storage_digest") == self.digest and same_source:
            return False
        remade = recorded.get("source_fingerprint") == stamp and bool(stamp or self.bundled)
        more = [
            *(["samples were appended to it"] if recorded.get("appended") else []),
            *(["clusters were put into it"] if cluster_names(store) else []),
        ]
        if remade and not more and "storage_digest" in recorded:
            return True
        what = "another storage file" if same_source else "an earlier version of the source"
        raise StoreError(
            f"client {name!r}: the store {store.url} was made from {what}"
            f"{''.join(f', and {one}' for one in more)}; build again with 'daskfc stores build "
            f"{file} --overwrite', choose another root, or give the storage file another name."
        )


def keeping_gaps(source: SourceConfig, gaps: bool, write: Callable[[SourceConfig], None]) -> None:
    """Write a source; with `gaps`, one whose cells are empty as if it had said missing: keep."""
    try:
        write(source)
    except MissingValues:
        if not gaps or source.views is not None:
            raise
        write(source.model_copy(update={"missing": "keep"}))


def write_own(
    url: str,
    name: str,
    source: SourceConfig,
    *,
    origin: Origin,
    layout: LayoutConfig,
    overwrite: bool,
    progress: Progress | None,
) -> None:
    """Write the store of a client that has files of its own."""
    try:
        samples = open_source(source)
        if samples.views:
            raise StoreError("a client's own source is one table; name one view by 'features'.")
        write_samples(
            url,
            name,
            samples,
            chunk_rows=layout.chunk_rows,
            dtype=layout.dtype,
            overwrite=overwrite,
            attributes=origin.attributes,
            progress=progress,
        )
    except StoreError as error:
        told = str(error)
        raise type(error)(told if name in told else f"client {name!r}: {told}") from error


def write_samples(
    url: str,
    name: str,
    samples: Samples,
    *,
    chunk_rows: int = 1024,
    dtype: str | None = None,
    overwrite: bool = False,
    attributes: Mapping[str, Any] | None = None,
    graph: Any = None,
    progress: Progress | None = None,
) -> None:
    """Write a store of all samples, numbered if they have no ids; nothing is left on StoreError."""
    samples = numbered(samples, name)
    assert samples.sample_ids is not None
    with StoreWriter(
        url,
        name,
        samples.n_samples,
        len(samples.feature_names),
        feature_names=samples.feature_names,
        labelled=samples.labels is not None,
        classes=samples.classes,
        chunk_rows=chunk_rows,
        dtype=dtype,
        overwrite=overwrite,
        attributes={**(attributes or {}), **_done_to(samples)},
        graph=samples.graph if graph is None else graph,
        categories=samples.categories,
        missing=samples.missing,
    ) as writer:
        start = 0
        for block in samples.blocks(max(chunk_rows, 1024)):
            stop = start + len(block)
            part = None if samples.labels is None else samples.labels[start:stop]
            writer.append(block, samples.sample_ids[start:stop], part)
            start = stop
            if progress is not None:
                progress(start, samples.n_samples)


def write_shares(
    samples: Samples,
    shares: Mapping[str, Share],
    urls: Mapping[str, str],
    *,
    layout: LayoutConfig,
    overwrite: bool,
    attributes: Mapping[str, Any],
    progress: Progress | None,
    storage: str,
) -> None:
    """Write clients' shares to `urls` in one pass, all or none: a StoreError leaves nothing."""
    ids = samples.ids()
    way_out = "Name another source.ids or leave it out."
    check_different(ids, f"storage {storage!r}", way_out, of=" of the source", places="samples")
    mine = {name: shares[name] for name in urls}
    shapes = [(len(share.rows), len(share.columns)) for share in mine.values()]
    needed = sum(bytes_needed(*shape, layout.dtype) for shape in shapes)
    check_space(next(iter(urls.values())), needed, f"storage {storage!r}")
    with ExitStack() as stack:
        writers = {}
        for name, share in mine.items():
            columns = [samples.feature_names[c] for c in share.columns]
            words = {c: samples.categories[c] for c in columns if c in samples.categories}
            writers[name] = StoreWriter(
                urls[name],
                name,
                len(share.rows),
                len(share.columns),
                feature_names=columns,
                labelled=samples.labels is not None,
                classes=samples.classes,
                chunk_rows=layout.chunk_rows,
                dtype=layout.dtype,
                overwrite=overwrite,
                attributes={
                    **attributes,
                    **({} if share.view is None else {"view": share.view}),
                    **_done_to(samples, share.view),
                },
                graph=share.graph,
                categories=words,
                missing=samples.missing,
            )
            stack.callback(writers[name].abort)  # does nothing once closed
        start = 0
        for block in samples.blocks(max(layout.chunk_rows, 1024)):
            stop = start + len(block)
            for name, writer in writers.items():
                rows = mine[name].within(start, stop)
                if len(rows):
                    labels = None if samples.labels is None else samples.labels[start + rows]
                    part = block[np.ix_(rows, mine[name].columns)]
                    writer.append(part, ids[start + rows], labels)
            start = stop
            if progress is not None:
                progress(start, samples.n_samples)
        for writer in writers.values():
            writer.check()  # all of them, before any store is in its place
        for writer in writers.values():
            writer.close()


def _done_to(samples: Samples, view: str | None = None) -> dict[str, Any]:
    """Return, for a store to record, the steps, words and keys that made its values."""
    done = {"steps": samples.steps(view), "words": samples.words, "cells": samples.cells}
    return {key: value for key, value in done.items() if value}


def described(name: str, store: ClientStore) -> dict[str, Any]:
    """Return a row about a client's store; see `Storage.inspect`."""
    return {
        "client": name,
        "url": store.url,
        "samples": store.n_samples,
        "features": store.n_features,
        "dtype": store.dtype.name,
        "chunks": -(-store.n_samples // store.chunk_rows),
        "bytes_on_disk": store.bytes_on_disk(),
        "labels": store.has_labels,
        **({"edges": store.n_edges} if store.has_graph else {}),
        **({} if store.view is None else {"view": store.view}),
        **({"scaling": store.scaling} if store.scaling else {}),
        **({"to prepare": store.unprepared} if store.unprepared else {}),
    }


def views_of_store(url: str, storage_digest: str) -> tuple[str, ...] | None:
    """Return the source's views that a store was built from; None without a whole one."""
    if not store_exists(url):
        return None
    try:
        known = ClientStore.open(url).attributes
    except StoreError:
        return None
    names = known.get("storage_views")
    if names is None or known.get("storage_digest") != storage_digest:
        return None
    return tuple(str(name) for name in names)
