"""daskfc: cluster data that may not be pooled, on Dask.

Each client's data stays in its own store, handled by its own worker; only declared messages leave
a client, and every one of them is counted in a ledger.
"""

from importlib.metadata import version as _version

from daskfc.baselines import FFCM, KFED, MUFC, Central, FedMAvg
from daskfc.errors import (
    ClusterError,
    DaskfcError,
    DeadlineError,
    EgressRefused,
    InvalidInput,
    PartyError,
    PrivacyError,
    ResourceRefused,
    StoreError,
)
from daskfc.federation import Federation, Ledger, Message
from daskfc.protocols import KCAGC, FedSC, OmniFC
from daskfc.runs import Run, RunFailed, load, resume, run
from daskfc.runs import known_methods as known_methods  # where it was before daskfc.runs had it
from daskfc.secure.prepare import Prepare
from daskfc.stores import ClientStore, Storage, load_storage, write_store

__version__ = _version("daskfc")

__all__ = [
    "FFCM",
    "KCAGC",
    "KFED",
    "MUFC",
    "Central",
    "ClientStore",
    "ClusterError",
    "DaskfcError",
    "DeadlineError",
    "EgressRefused",
    "FedMAvg",
    "FedSC",
    "Federation",
    "InvalidInput",
    "Ledger",
    "Message",
    "OmniFC",
    "PartyError",
    "Prepare",
    "PrivacyError",
    "ResourceRefused",
    "Run",
    "RunFailed",
    "Storage",
    "StoreError",
    "load",
    "load_storage",
    "resume",
    "run",
    "write_store",
]
