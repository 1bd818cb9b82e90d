"""Clients' data at rest: Zarr stores, the sources behind them, and how samples are dealt."""

from daskfc.stores.building.appending import append_samples, append_store
from daskfc.stores.building.storage import Storage, load_storage
from daskfc.stores.building.write import add_store, write_store
from daskfc.stores.dealing.partitions import PARTITIONS
from daskfc.stores.layout.samples import Samples
from daskfc.stores.layout.staging import store_exists
from daskfc.stores.layout.writer import StoreWriter
from daskfc.stores.sources.readers import SOURCES
from daskfc.stores.sources.source import Source
from daskfc.stores.store.client import ClientStore

__all__ = [
    "PARTITIONS",
    "SOURCES",
    "ClientStore",
    "Samples",
    "Source",
    "Storage",
    "StoreWriter",
    "add_store",
    "append_samples",
    "append_store",
    "load_storage",
    "store_exists",
    "write_store",
]
