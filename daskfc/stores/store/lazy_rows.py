"""The rows of a store as a labelled array that loads only what is indexed, by Dask if asked."""

import json
from typing import Any, TypeAlias

import numpy as np
import xarray as xr
from dask import config
from dask.utils import parse_bytes
from xarray.backends import BackendArray
from xarray.core import indexing

from daskfc.errors import StoreError

WORDS = "categories"
"""The coordinate with the words of columns: arithmetic may drop attributes, and no coordinate."""

_Store: TypeAlias = Any  # a ClientStore, whose module imports this one


class _Rows(BackendArray):
    """A store's features, read by the store; tasks have its version, so that two never mix."""

    def __init__(self, store: _Store, writing: tuple[str, str], prepared: bool) -> None:
        self._store, self._writing, self._prepared = store, writing, prepared
        self.shape = (store.n_samples, store.n_features)
        self.dtype = store.dtype

    def __reduce__(self) -> tuple[Any, ...]:
        return (_Rows, (self._store, self._writing, self._prepared))

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(
            key, self.shape, indexing.IndexingSupport.BASIC, self._read
        )

    def _read(self, key: tuple[int | slice, ...]) -> Any:
        if _writing(self._store) != self._writing:
            raise StoreError(
                f"client {self._store.name!r}: the store {self._store.url} was replaced while it "
                "was in use; make its dataset again."
            )
        rows, columns = key
        asked = np.arange(self.shape[0])[rows]
        if not asked.size:
            return np.empty(self.shape, self.dtype)[rows, columns]
        first = int(asked.min())
        read = self._store.rows_of_any_size if self._prepared else self._store.stored
        return read(first, int(asked.max()) + 1)[asked - first, columns]


def lazy_dataset(store: _Store, chunks: Any = None, *, prepared: bool = False) -> xr.Dataset:
    """Return the dataset of `ClientStore.dataset`, of rows as written or as a step gets them."""
    features = indexing.LazilyIndexedArray(_Rows(store, _writing(store), prepared))
    attributes = {**store.attributes, "client": store.name}
    if prepared:
        attributes |= {"categories": store.categories, "missing": store.missing}
    dataset = xr.Dataset({"features": (("sample", "feature"), features)}, attrs=attributes)
    if chunks is not None:
        dataset = dataset.chunk(_whole_chunks(store) if chunks == "auto" else chunks)
    words = attributes.get("categories") or {}
    listed = [json.dumps(list(words[n])) if n in words else "" for n in store.feature_names]
    coordinates: dict[str, Any] = {
        "sample_id": ("sample", store.sample_ids()),
        "feature": list(store.feature_names),
    }
    return dataset.assign_coords(coordinates | ({WORDS: ("feature", listed)} if words else {}))


def _writing(store: _Store) -> tuple[str, str]:
    return store.build_id, store.digest


def _whole_chunks(store: _Store) -> dict[str, int]:
    """Return whole rows, as many of the store's chunks as Dask's ``array.chunk-size`` takes."""
    most = parse_bytes(config.get("array.chunk-size"))
    a_chunk = store.chunk_rows * store.n_features * store.dtype.itemsize
    return {"sample": store.chunk_rows * max(most // a_chunk, 1), "feature": store.n_features}
