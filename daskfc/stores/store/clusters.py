"""Clusters that a run found, kept in the store of the samples: arrays ``clusters/<name>``.

They lie beside the features and change nothing that a method reads; a store that is written again
has none.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import zarr

from daskfc.errors import InvalidInput, StoreError
from daskfc.folders import check_folder_name
from daskfc.stores.layout.chunk_sizes import bounded
from daskfc.stores.layout.content import understood
from daskfc.stores.layout.layout import array_options
from daskfc.stores.layout.locations import zarr_store
from daskfc.stores.store.client import ClientStore

_GROUP = "clusters"


def write_clusters(
    store: ClientStore,
    name: str,
    clusters: np.ndarray,
    fits: Sequence[str],
    *,
    overwrite: bool = False,
) -> None:
    """Write clusters, (n_samples, n_fits) int64 in the store's order; `fits` names the columns."""
    check_new_clusters(store, name, overwrite=overwrite)
    values = np.ascontiguousarray(clusters, dtype=np.int64)
    shape = (store.n_samples, len(fits))
    if values.shape != shape:
        raise InvalidInput(
            f"clusters of client {store.name!r} must have shape {shape}; got {values.shape}. Give "
            "a row for each sample and a column for each fit."
        )
    try:
        root = zarr.open_group(zarr_store(store.url, read_only=False), mode="r+", zarr_format=3)
        group = root.require_group(_GROUP)
        array = group.create_array(
            name,
            dtype="int64",
            overwrite=True,
            **array_options(shape, (min(store.chunk_rows, len(values)), len(fits)), _AXES),
        )
        array[:] = values
        array.attrs.update({"fits": list(fits), "complete": True})  # last: it is whole
    except OSError as error:
        raise StoreError(
            f"client {store.name!r}: clusters cannot be written into the store {store.url} "
            f"({type(error).__name__}). Make it writable, or write them into a file."
        ) from error


def check_new_clusters(store: ClientStore, name: str, *, overwrite: bool = False) -> None:
    """Raise if a name for clusters is not valid, or is taken and not to be overwritten."""
    check_folder_name("set of clusters", name)
    root = zarr.open_group(zarr_store(store.url, read_only=True), mode="r", zarr_format=3)
    there = root.get(f"{_GROUP}/{name}")
    begun = isinstance(there, zarr.Array) and "complete" not in there.attrs  # somebody was killed
    if there is not None and not begun and not overwrite:
        raise InvalidInput(
            f"client {store.name!r}: the store {store.url} has clusters called {name!r}. "
            "Choose another name, or ask for them to be replaced."
        )


_AXES = ("sample", "fit")


def read_clusters(store: ClientStore, name: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return clusters, (n_samples, n_fits) int64, and names of fits; InvalidInput without them."""
    with understood(store.url):
        return _read_clusters(store, name)


def _read_clusters(store: ClientStore, name: str) -> tuple[np.ndarray, tuple[str, ...]]:
    root = zarr.open_group(zarr_store(store.url, read_only=True), mode="r", zarr_format=3)
    array = root.get(f"{_GROUP}/{name}")
    if not isinstance(array, zarr.Array) or array.attrs.get("complete") is not True:
        raise InvalidInput(
            f"client {store.name!r}: the store {store.url} has no clusters called {name!r}. "
            "Correct the name, or write them with 'daskfc labels RUN --into-store NAME'."
        )
    fits: Any = array.attrs["fits"]
    return np.asarray(bounded(array, store.url)[:]), tuple(str(fit) for fit in fits)


def cluster_names(store: ClientStore) -> list[str]:
    """Return the names of the complete clusters in a store, in alphabetical order."""
    root = zarr.open_group(zarr_store(store.url, read_only=True), mode="r", zarr_format=3)
    group = root.get(_GROUP)
    if not isinstance(group, zarr.Group):
        return []
    whole = (name for name, array in group.arrays() if array.attrs.get("complete") is True)
    return sorted(whole)
