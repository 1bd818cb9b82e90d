"""Whose data a run is on: counted, and opened with no more rights than its methods need."""

import numpy as np
import pytest

from daskfc.federation.driver.contract import Contract
from daskfc.runs import check_pipeline, load_pipeline
from daskfc.runs.pipeline.parties import locate, open_federation
from daskfc.stores import write_store
from daskfc.testing.federation import stores_of


class Opened:
    """What a federation was asked to be."""

    def __init__(self, clients, options):
        self.clients = clients
        self.options = options
        self.contract = Contract(dict.fromkeys(clients, ("x0",)), {})

    @classmethod
    def local(cls, storage, **options):
        return cls(list(storage), options)

    @classmethod
    def connect(cls, cluster, **options):
        return cls(options["clients"], options)


@pytest.fixture
def opened(monkeypatch):
    monkeypatch.setattr("daskfc.runs.pipeline.parties.Federation", Opened)


POOLED = {"method": "central", "params": {"n_clusters": 2}}


def clients_of(urls):
    return {"clients": {name: {"store": url} for name, url in urls.items()}}


@pytest.mark.parametrize(
    ("methods", "allowed"),
    [
        (["OmniFC"], False),
        (["OmniFC", "k-FED", "MUFC"], False),
        (["OmniFC", "k-FED", "central"], True),
        (["central"], True),
    ],
    ids=["one", "several", "beside", "itself"],
)
def test_raw_data_may_move_only_where_a_method_pools_it(opened, tmp_path, methods, allowed):
    found = locate(POOLED, clients_of(stores_of(tmp_path, {"a": np.eye(3)})), None).record
    record = {**found, "run_id": "r"}
    pipeline = load_pipeline(
        {"method": methods[0], "params": {"n_clusters": 2}, "compare": methods[1:]}
    )
    checked = check_pipeline(pipeline)
    assert open_federation(record, checked).options["allow_raw"] is allowed


@pytest.mark.parametrize("said_by", ["storage", "cluster"])
def test_the_clients_of_a_running_cluster_are_those_that_are_named(opened, said_by):
    cluster = {"cluster": "existing", "scheduler": "tcp://127.0.0.1:1"}
    storage = None
    if said_by == "storage":
        storage = clients_of({name: f"/elsewhere/{name}.zarr" for name in ("a", "b")})
    else:
        cluster["expect"] = ["a", "b"]
    pipeline = load_pipeline({"method": "k-FED", "params": {"n_clusters": 2}})
    record = {**locate(pipeline, storage, cluster).record, "run_id": "nightly"}
    checked = check_pipeline(pipeline)
    options = open_federation(record, checked).options
    assert (options["clients"], options["name"]) == (["a", "b"], "nightly")


def test_samples_that_all_clients_hold_are_counted_once(tmp_path):
    apart = stores_of(tmp_path / "apart", {"a": np.eye(3), "b": np.eye(3)})
    assert locate(POOLED, clients_of(apart), None).record["n_samples"] == 6
    shared = {name: str(tmp_path / f"{name}.zarr") for name in "ab"}
    for name, url in shared.items():
        write_store(url, name, np.eye(3), ["x", "y", "z"])
    assert locate(POOLED, clients_of(shared), None).record["n_samples"] == 3
    assert locate(POOLED, clients_of({"a": shared["a"]}), None).record["n_samples"] == 3
