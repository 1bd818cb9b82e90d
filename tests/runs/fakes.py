"""A federation without workers and a method on it: enough to run a run."""

import warnings

import numpy as np
import pandas as pd
import xarray as xr
from sklearn.base import BaseEstimator

from daskfc.checks import check_params, integer, one_of
from daskfc.errors import PartyError
from daskfc.federation import Ledger
from daskfc.federation.driver.contract import Contract, store_summary
from daskfc.stores import ClientStore

PIPELINE = {
    "method": "Fake",
    "params": {"n_clusters": 3},
    "metrics": ["kappa", "nmi"],
    "seeds": [0, 1],
}


class FakeFederation:
    """Client stores and a place for progress; steps of clients run right here."""

    opened = 0
    dashboard_link = run_id = None

    def __init__(self, record, pipeline):
        type(self).opened += 1
        self.stores = {
            name: ClientStore.open(client["store"])
            for name, client in record["storage"]["clients"].items()
        }
        self.clients = tuple(self.stores)
        self.workspace = self.preparation = None
        self.ledger = self.opening_ledger = Ledger([])
        self.contract = Contract.of({n: store_summary(store) for n, store in self.stores.items()})
        self.on_progress = None
        self.n_results = 0

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return None

    def start_run(self, run_id, *, random_state, workspace=None, request=None):
        row = ledger_row(message="EvaluationLabels", receiver="caller", protection="plain")
        self.ledger = Ledger([row])

    def end_run(self):
        self.ended = True

    def publish(self, step, *, party):
        assert party == "clients"
        return {name: step(store) for name, store in self.stores.items()}

    def peak_memory(self):
        return dict.fromkeys((*self.clients, "server"), 100_000_000)


def ledger_row(**changes):
    row = {
        "run": "r", "round": 0, "step": "encode", "sender": "client-1", "receiver": "server",
        "message": "CodedRows", "protection": "coded", "shapes": {"residues": [4, 10]},
        "dtypes": {"residues": "uint8"}, "payload_bytes": 40, "wire_bytes": 300, "time": 1.0,
        "task": "t",
    }  # fmt: skip
    return {**row, **changes}


class FakeMethod(BaseEstimator):
    """Label samples by their first feature.

    Notes
    -----
    -----
    Privacy: none whatsoever.
    """

    _params = {  # noqa: RUF012
        "n_clusters": integer(low=1),
        "clusterer": one_of("spectral", "dbscan"),
        "random_state": integer(low=0),
    }
    split = "samples"
    needs_raw = False
    fits: list = []  # noqa: RUF012 - what was fitted, over all instances
    trouble: dict = {}  # noqa: RUF012 - seed -> exception to raise once

    def __init__(self, n_clusters, *, clusterer="spectral", random_state=0):
        self.n_clusters = n_clusters
        self.clusterer = clusterer
        self.random_state = random_state

    def check(self, n_clients=None):
        check_params("Fake", self.get_params(deep=False), self._params)

    released = ()
    released_before = ()
    remembered: list = []  # noqa: RUF012 - what the fits were told, over all instances

    def can_start_again(self):
        return True

    def remember(self, released):
        FakeMethod.remembered.append(tuple(released))

    def fit(self, federation, y=None):
        FakeMethod.fits.append((type(self).__name__, self.random_state))
        federation.n_results += 3
        federation.on_progress("distances", 1, 2)
        if self.random_state in FakeMethod.trouble:
            trouble = FakeMethod.trouble.pop(self.random_state)
            if not isinstance(trouble, Warning):
                raise trouble
            warnings.warn(trouble, stacklevel=2)
        labels, clients, ids = [], [], []
        for name, store in federation.stores.items():
            first = store.rows(0, store.n_samples)[:, 2]
            labels.append(np.digitize(first, [2.5, 4.9]) + self.random_state)
            clients += [name] * store.n_samples
            ids += list(store.sample_ids())
        self.labels_ = xr.DataArray(
            np.concatenate(labels).astype(np.int64),
            dims="sample",
            coords={
                "client": ("sample", np.array(clients)),
                "sample_id": ("sample", np.array(ids)),
            },
            name="label",
        )
        rows = [ledger_row(sender=name, time=float(i)) for i, name in enumerate(federation.clients)]
        rows.append(ledger_row(sender="server", receiver="client-1", message="Plan", time=9.0))
        self.ledger_ = Ledger(rows)
        self.timing_ = {"distances_s": 0.1, "total_s": 0.2}
        return self


class FakeCentral(FakeMethod):
    """The same labels, from raw data."""

    def fit(self, federation, y=None):
        super().fit(federation)
        self.ledger_ = Ledger([ledger_row(message="RawRows", protection="raw")])
        return self


def party_error():
    return PartyError("client-1", "encode", "MemoryError")


def frame(*rows):
    return pd.DataFrame([ledger_row(**row) for row in rows])
