"""The rows of a store as a labelled array that loads only what is indexed."""

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

if TYPE_CHECKING:
    from daskfc.stores.client import ClientStore

__all__ = ["lazy_dataset"]


class _Rows(BackendArray):
    """A store's features, read by the store itself, so that all its checks hold."""

    def __init__(self, store: "ClientStore") -> None:
        self._store = store
        self.shape = (store.n_samples, store.n_features)
        self.dtype = store.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(
            key, self.shape, indexing.IndexingSupport.BASIC, self._read
        )

    def _read(self, key: tuple[int | slice, ...]) -> np.ndarray:
        rows, columns = key
        asked = np.arange(self.shape[0])[rows]
        if not asked.size:
            return np.empty(self.shape, self.dtype)[rows, columns]
        first = int(asked.min())
        return self._store.stored(first, int(asked.max()) + 1)[asked - first, columns]


def lazy_dataset(store: "ClientStore") -> xr.Dataset:
    """Return what `ClientStore.dataset` does.

    Parameters
    ----------
    store : ClientStore
        Whose rows.
    """
    features = indexing.LazilyIndexedArray(_Rows(store))
    return xr.Dataset(
        {"features": (("sample", "feature"), features)},
        {"sample_id": ("sample", store.sample_ids()), "feature": list(store.feature_names)},
        {**store.attributes, "client": store.name},
    )
