"""Writing the stores of all clients in one pass over their source."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np

from daskfc.errors import StoreError
from daskfc.stores.client import ClientStore
from daskfc.stores.config import LayoutConfig
from daskfc.stores.dealing import Share
from daskfc.stores.layout import positions_of_repeats
from daskfc.stores.locations import check_space
from daskfc.stores.samples import Samples
from daskfc.stores.staging import store_exists
from daskfc.stores.writer import StoreWriter

__all__ = ["Progress", "views_of_store", "write_shares"]

Progress = Callable[[int, int], None]
"""Called with rows done and rows in all."""


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
    """Write clients' shares of a source; all are put in their places at the end.

    Parameters
    ----------
    samples : Samples
        The opened source.
    shares : mapping of str to Share
        Of every client.
    urls : mapping of str to str
        Of the stores to write, for some clients or all.
    layout : LayoutConfig
        How stores are laid out.
    overwrite : bool
        Whether stores that are there may be replaced.
    attributes : mapping
        What every store records of where it is from.
    progress : callable, optional
        Called with rows done and rows in all.
    storage : str
        Name of the storage, for messages.

    Raises
    ------
    StoreError
        When ids repeat, rows do not fit the layout, or the disk refuses; nothing is left then.
    """
    ids = samples.ids()
    repeats = positions_of_repeats(ids)
    if repeats is not None:
        raise StoreError(
            f"storage {storage!r}: sample ids of the source must differ; got {repeats[2]} "
            f"repeated, samples {repeats[0]} and {repeats[1]} are the first pair. Name another "
            f"source.ids or leave it out."
        )
    mine = {name: shares[name] for name in urls}
    itemsize = np.dtype(layout.dtype).itemsize
    needed = sum(len(share.rows) * (len(share.columns) * itemsize + 24) for share in mine.values())
    check_space(next(iter(urls.values())), needed, f"storage {storage!r}")
    with ExitStack() as stack:
        writers = {}
        for name, share in mine.items():
            steps = samples.steps(share.view)
            writers[name] = StoreWriter(
                urls[name],
                name,
                len(share.rows),
                len(share.columns),
                feature_names=[samples.feature_names[c] for c in share.columns],
                labelled=samples.labels is not None,
                classes=samples.classes,
                chunk_rows=layout.chunk_rows,
                dtype=layout.dtype,
                overwrite=overwrite,
                attributes={
                    **attributes,
                    **({} if share.view is None else {"view": share.view}),
                    **({"steps": steps} if steps else {}),
                },
                graph=share.graph,
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
            writer.close()


def views_of_store(url: str, storage_digest: str) -> tuple[str, ...] | None:
    """Return the views of the source that a store was built from, if it is one of a storage file.

    Parameters
    ----------
    url : str
        Where the store may be.
    storage_digest : str
        `Storage.digest`.

    Returns
    -------
    tuple of str or None
        None when no whole store of this storage file is there.

    Examples
    --------
    >>> from daskfc.stores.building import views_of_store
    >>> views_of_store("memory://doc/nothing.zarr", "") is None
    True
    """
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
