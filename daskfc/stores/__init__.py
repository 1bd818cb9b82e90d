"""Clients' data at rest: Zarr stores, the sources behind them, and how samples are dealt."""

from daskfc.stores.appending import append_samples, append_store
from daskfc.stores.client import ClientStore
from daskfc.stores.partitions import PARTITIONS
from daskfc.stores.readers import READERS
from daskfc.stores.staging import store_exists
from daskfc.stores.storage import Storage, load_storage
from daskfc.stores.write import add_store, write_store
from daskfc.stores.writer import StoreWriter

__all__ = [
    "PARTITIONS",
    "READERS",
    "ClientStore",
    "Storage",
    "StoreWriter",
    "add_store",
    "append_samples",
    "append_store",
    "load_storage",
    "store_exists",
    "write_store",
]
