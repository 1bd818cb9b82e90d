"""Who takes part, and joining a running scheduler: with a roll call and a clock of the test's."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from daskfc.deploy import load_cluster
from daskfc.deploy.config import config as config_module
from daskfc.errors import ClusterError, InvalidInput
from daskfc.federation import Federation
from daskfc.federation.driver import opening
from daskfc.federation.driver.opening import (
    _find_parties,
    _in_order,
    _store_urls,
    check_party_name,
    open_existing,
    open_local,
    who_takes_part,
)
from daskfc.federation.identity.versions import HERE
from daskfc.federation.worker.nanny import PartyNanny
from daskfc.stores import ClientStore
from daskfc.testing.federation import stores_of

ADDRESS = "tcp://10.0.0.1:8786"


def config_of(**options):
    return load_cluster({"cluster": "existing", "scheduler": ADDRESS, **options})


def exactly(sentence):
    return f"^{re.escape(sentence)}$"


# -- who takes part -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "9", "client-1", "x" * 63])
def test_names_that_folders_and_keys_can_have(name):
    assert check_party_name(name) is None
    assert check_party_name(name, "server") is None


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a b",
        ".a",
        "-a",
        "_a",
        "a/b",
        "é",
        "x" * 64,
        "a\n",
        "server",
        "server-2",
        "caller",
        "clients",
    ],
)
def test_other_names_are_refused(name):
    with pytest.raises(
        InvalidInput,
        match=exactly(
            "the name of a client must have up to 63 letters, digits, '.', '_' or '-', and not be "
            f"'server', 'server-2' and so on, 'caller' or 'clients'; got {name!r}. Rename it."
        ),
    ):
        check_party_name(name)


def test_the_server_is_called_so():
    assert check_party_name("server", "server") is None
    assert check_party_name("server-2", "server worker") is None
    assert check_party_name("server-0") is None
    assert check_party_name("server-two") is None


def test_people_count_so():
    names = {"client-10", "client-2", "client-1", "a", "10", "9", "b2c10", "b2c9", "server"}
    assert _in_order(names) == [
        "9", "10", "a", "b2c9", "b2c10", "client-1", "client-2", "client-10", "server"
    ]  # fmt: skip
    assert _in_order(set()) == []


@pytest.mark.parametrize(
    ("named", "expected", "found"),
    [
        (None, ["b", "a"], ("b", "a")),
        ([], ["b", "a"], ("b", "a")),
        (["b", "a"], None, ("b", "a")),
        (["a", "c", "b"], ["c", "b", "a"], ("a", "c", "b")),  # in the order of the caller
        (iter(["a"]), None, ("a",)),
    ],
)
def test_clients_are_named_by_the_caller_or_by_the_file(named, expected, found):
    assert who_takes_part(config_of(expect=expected), named) == found


def test_somebody_says_who_takes_part():
    with pytest.raises(
        InvalidInput,
        match=exactly(
            f"nothing says which clients of {ADDRESS} take part. Name them in a storage file "
            "(clients: [a, b]), in the cluster's file (expect: [a, b]), or by clients=."
        ),
    ):
        who_takes_part(config_of(), None)


@pytest.mark.parametrize("named", [("a", "c"), ("a",), ("a", "b", "c"), ("a", "a", "b")])
def test_caller_and_file_name_the_same(named):
    with pytest.raises(
        InvalidInput,
        match=exactly(
            f"the cluster's file expects b, a, and {', '.join(named)} were named to take part. "
            "Correct one of them."
        ),
    ):
        who_takes_part(config_of(expect=["b", "a"]), named)


@pytest.mark.parametrize(
    ("named", "expected"), [(["a", "server"], None), (None, ["a", "server"]), (["a"], ["server"])]
)
def test_names_are_checked_whoever_gives_them(named, expected):
    with pytest.raises(InvalidInput, match=r"the name of a client must .* got 'server'"):
        who_takes_part(config_of(expect=expected), named)


# -- waiting for the parties ----------------------------------------------------------------------


class Clock:
    """Time that passes only where somebody sleeps."""

    def __init__(self):
        self.now = 100.0
        self.slept = []
        self.shortest = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        assert len(self.slept) < 100, "it sleeps without end"
        self.now += max(seconds, self.shortest)


class Answers:
    """A roll call whose parties are there from some question on."""

    def __init__(self, **since):
        self.since = since
        self.asked = []

    def ask(self, op):
        self.asked.append(op)
        there = {name for name, first in self.since.items() if len(self.asked) >= first}
        return {name: None if name.startswith("plain") else f"{name}!" for name in there}


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(opening, "time", clock)
    return clock


def test_parties_that_are_there_are_described_at_once(clock):
    parties = Answers(a=1, b=1, server=1, other=1)
    found = _find_parties(parties, config_of(), ("a", "b", "server"))
    assert found == {name: f"{name}!" for name in ("a", "b", "server", "other")}
    assert parties.asked == ["daskfc_describe"]
    assert clock.slept == []


def test_parties_that_start_are_waited_for(clock):
    parties = Answers(a=3, server=5)
    assert set(_find_parties(parties, config_of(deadline=60), ("a", "server"))) == {"a", "server"}
    assert len(parties.asked) == 5
    assert clock.slept == [0.2] * 4


@pytest.mark.parametrize(
    ("options", "waited"),
    [({"deadline": 3}, 3), ({"deadline": 300, "startup": 2.5}, 2.5), ({"startup": 4}, 4)],
)
def test_parties_that_do_not_come_are_named(clock, options, waited):
    with pytest.raises(
        ClusterError,
        match=exactly(
            f"party 'b', 'server' is not at {ADDRESS} after {waited:g} s; there is 'a-2', 'a-10'. "
            "Start it with 'daskfc party NAME --store URL (none for the server) --scheduler "
            f"{ADDRESS}', or correct the names."
        ),
    ):
        _find_parties(
            Answers(**{"a-10": 1, "a-2": 1}), config_of(**options), ("a-2", "b", "server")
        )
    assert waited <= clock.now - 100.0 < waited + 0.3


def test_a_server_that_does_not_come_needs_no_store(clock):
    with pytest.raises(ClusterError) as refusal:
        _find_parties(Answers(a=1), config_of(deadline=1), ("a", "server"))
    assert f"party 'server' is not at {ADDRESS} after 1 s; there is 'a'. Start it with 'daskfc " \
        f"party NAME --scheduler {ADDRESS}', or" in str(refusal.value)  # fmt: skip


def test_a_worker_of_the_server_that_does_not_come_is_named(clock):
    parties = Answers(a=1, server=1)
    with pytest.raises(ClusterError, match=r"'server-2' is not at .* 'daskfc party NAME --sched"):
        _find_parties(parties, config_of(deadline=1), ("a", "server", "server-2"))


def test_nobody_is_there(clock):
    with pytest.raises(ClusterError, match=r"after 1 s; there is nobody. Start it with"):
        _find_parties(Answers(), config_of(deadline=1), ("a", "server"))


def test_the_end_of_the_wait_is_one_question_more(clock, monkeypatch):
    monkeypatch.setattr(clock, "shortest", 0.5)
    parties = Answers()
    with pytest.raises(ClusterError, match="after 1 s"):
        _find_parties(parties, config_of(deadline=1), ("a", "server"))
    assert len(parties.asked) == 3  # at 0, at 0.5 and at 1 s


def test_a_worker_without_guard_is_refused_at_once(clock):
    parties = Answers(**{"a": 1, "server": 1, "plain-10": 1, "plain-2": 1})
    with pytest.raises(
        ClusterError,
        match=exactly(
            f"worker 'plain-2', 'plain-10' of {ADDRESS} is a plain Dask worker without the guard. "
            "Stop it and start parties with 'daskfc party', or, where whoever runs the cluster may "
            "read the data, have them started beside it by Federation.connect(..., trusted=True, "
            "stores=...)."
        ),
    ):
        _find_parties(parties, config_of(), ("a", "server"))
    assert clock.slept == []


# -- joining --------------------------------------------------------------------------------------


class DaskClient:
    """Takes no calls but the one that closes it."""

    def __init__(self):
        self.closed = []

    def close(self, timeout):
        self.closed.append(timeout)


@pytest.fixture
def cluster(monkeypatch):
    """A scheduler of the test's, and what it was asked."""
    client = DaskClient()
    told = SimpleNamespace(client=client, connected=[], scheduler=dict(HERE), parties={})
    told.parties = {
        name: {"memory_limit": limit, "versions": HERE}
        for name, limit in {"a": 10, "b": None, "server": 30, "other": 40}.items()
    }

    def connect(*args, **kwargs):
        told.connected.append((args, kwargs))
        return client

    class RollCall:
        def __init__(self, given):
            assert given is client

        def scheduler_versions(self):
            return told.scheduler

        def ask(self, op):
            return told.parties

    monkeypatch.setattr(opening, "connect_client", connect)
    monkeypatch.setattr(opening, "RollCall", RollCall)
    monkeypatch.setattr(
        "daskfc.federation.identity.versions.get_versions",
        lambda packages: {"packages": {"daskfc": HERE["daskfc"]}},
    )
    return told


def test_who_joins_has_what_the_parties_tell(cluster):
    config = config_of(deadline=7, connect=3, security={"ca": "ca", "cert": "c", "key": "k"})
    opened = open_existing(config, clients=["b", "a"])
    assert opened.dask_client is cluster.client
    assert (opened.clients, opened.deadline) == (("b", "a"), 7)
    assert opened.server_workers == ()
    assert opened.limits == {"a": 10, "b": None, "server": 30}
    assert opened.contract is None
    assert opened.processes is None
    ((where, how),) = cluster.connected
    assert where == (ADDRESS,)
    assert how == {"timeout": 3, "security": config.security}
    assert config.security is not None
    assert cluster.client.closed == []
    opened.closing.close()
    assert cluster.client.closed == [2]


@pytest.mark.parametrize(
    ("fault", "match"),
    [
        (lambda told: told.scheduler.update(dask="2024.1.0"), "^the scheduler runs dask 2024.1.0"),
        (
            lambda told: told.parties["a"].update(versions={**HERE, "daskfc": "0.0"}),
            "^party 'a' runs daskfc 0.0 and this process",
        ),
        (
            lambda told: told.parties["server"].update(versions={**HERE, "python": "2.7"}),
            "^party 'server' runs python 2.7 and",
        ),
        (lambda told: told.parties["b"].pop("versions"), "^party 'b' runs daskfc unknown and"),
        (lambda told: told.parties.update(other=None), "worker 'other' of .* without the guard"),
    ],
)
def test_who_may_not_join_is_disconnected(cluster, fault, match):
    fault(cluster)
    with pytest.raises(ClusterError, match=match):
        open_existing(config_of(expect=["a", "b"]))
    assert cluster.client.closed == [2]


def test_versions_of_others_do_not_matter(cluster):
    del cluster.parties["other"]["versions"]
    assert open_existing(config_of(expect=["a", "b"])).clients == ("a", "b")


def test_more_memory_than_the_machine_has_is_refused(tmp_path):
    urls = stores_of(tmp_path, {"a": np.eye(3)})
    cluster = {"cluster": "local", "parties": {"server": {"memory_limit": "100TB"}}}
    with pytest.raises(InvalidInput, match=r"of party 'server' must be at most .* got 100000 GB"):
        Federation.local(urls, cluster=cluster)


def test_a_file_of_another_kind_is_refused():
    with pytest.raises(
        InvalidInput,
        match=exactly("Federation.connect needs a cluster file with 'cluster: existing'."),
    ):
        open_existing({"cluster": "local"})
    with pytest.raises(
        InvalidInput, match=exactly("Federation.local needs a cluster file with 'cluster: local'.")
    ):
        Federation.local({"a": "url"}, cluster={"cluster": "existing", "scheduler": ADDRESS})


def test_a_local_federation_has_clients_that_its_file_knows(tmp_path):
    with pytest.raises(
        InvalidInput,
        match=exactly("a federation needs at least one client; the storage names none."),
    ):
        Federation.local({})
    with pytest.raises(InvalidInput, match=r"the name of a client must have .* got 'caller'"):
        Federation.local({"caller": "url"})
    limits = {"nthreads": 1}
    local = {"cluster": "local", "parties": dict.fromkeys(["z", "a", "server", "y"], limits)}
    with pytest.raises(
        InvalidInput,
        match=exactly(
            "the cluster's file sets limits of y, z, which the storage does not name; its clients "
            "are a, b. Correct the name."
        ),
    ):
        Federation.local({"a": tmp_path / "a", "b": "b"}, cluster=local)


def test_a_process_is_started_for_every_party(tmp_path, monkeypatch):
    started, closed, client = [], [], DaskClient()

    class Processes:
        address, loop = "tcp://127.0.0.1:1", object()

        def __init__(self, *given):
            started.append(given)
            assert all(Path(party.scratch).is_dir() for party in given[1].values())

        def close(self):
            closed.append(list(client.closed))

    def connect(address, *, timeout, loop):
        assert (address, timeout, loop) == (Processes.address, 10, Processes.loop)
        return client

    monkeypatch.setattr(opening, "LocalParties", Processes)
    monkeypatch.setattr(opening, "connect_client", connect)
    monkeypatch.setattr(config_module, "CPU_COUNT", 7)
    urls = stores_of(tmp_path, {"b": np.eye(2), "a": np.eye(2)}, columns={"a": "xy", "b": "zx"})
    opened = open_local(
        urls,
        cluster={
            "cluster": "local",
            "deadline": 7,
            "latency": 0.5,
            "bandwidth": "8Mbit",
            "worker": {"memory_limit": "1GB"},
            "parties": {
                "a": {"memory_limit": "3GB", "blas_threads": 2, "device": "cpu"},
                "server": {"nthreads": 2},
            },
        },
    )
    with opened.closing:
        ((config, parties, nanny),) = started
        assert (config.deadline, nanny) == (7, PartyNanny)
        assert list(parties) == ["b", "a", "server"]
        told = {name: (p.name, p.role, p.store, p.threads) for name, p in parties.items()}
        assert told == {
            "b": ("b", "client", urls["b"], 3),  # of seven cores that two clients have
            "a": ("a", "client", urls["a"], 2),
            "server": ("server", "server", None, 4),  # in 1 GB
        }
        assert {name: party.device for name, party in parties.items()} == {
            "b": "auto", "a": "cpu", "server": "auto",
        }  # fmt: skip
        assert {(party.latency, party.bandwidth) for party in parties.values()} == {(0.5, 1e6)}
        assert {party.folder for party in parties.values()} == {None}
        assert [Path(party.scratch).name for party in parties.values()] == list(parties)
        assert opened.dask_client is client
        assert (opened.clients, opened.deadline) == (("b", "a"), 7)
        assert opened.limits == {"b": 10**9, "a": 3 * 10**9, "server": 10**9}
        assert opened.contract.columns == {"b": ("z", "x"), "a": ("x", "y")}
        builds = {name: ClientStore.open(url).build_id for name, url in urls.items()}
        assert opened.contract.builds == builds
        assert {store.name for store in opened.contract.readable.values()} == set(urls)
        assert isinstance(opened.processes, Processes)
        assert closed == []
        scratch = Path(parties["a"].scratch).parent
    assert closed == [[2]]  # the connection first, then the processes
    assert not scratch.exists()


def test_stores_that_are_missing_are_built_in_the_folder_of_the_caller(tmp_path, monkeypatch):
    class Storage:
        def ensure(self, root):
            return {"a": f"{root}/a.zarr"}

    given = []
    monkeypatch.setattr(opening, "load_storage", lambda source: given.append(source) or Storage())
    assert _store_urls("storage.yaml", "root") == {"a": "root/a.zarr"}
    assert _store_urls({"partition": {}}, None) == {"a": "None/a.zarr"}
    assert given == ["storage.yaml", {"partition": {}}]
    assert _store_urls({"a": tmp_path, "b": "s3://b"}, "root") == {
        "a": str(tmp_path),
        "b": "s3://b",
    }
    assert len(given) == 2


def test_the_folder_of_the_caller_is_that_of_the_stores(monkeypatch):
    told = []
    storage = SimpleNamespace(ensure=lambda root: told.append(root) or {})
    monkeypatch.setattr(opening, "load_storage", lambda source: storage)
    for options in ({}, {"root": "root"}):
        with pytest.raises(InvalidInput, match="at least one client"):
            open_local("storage.yaml", **options)
    assert told == [None, "root"]


def test_a_scheduler_that_runs_is_joined(federation):
    address = federation.processes.address
    config = {"cluster": "existing", "scheduler": address, "deadline": 9, "startup": 5}
    opened = open_existing(config, clients=["client-3", "client-1"])
    with opened.closing:
        assert opened.clients == ("client-3", "client-1")
        names = (*opened.clients, "server")
        assert opened.limits == {name: federation.limits()[name] for name in names}
        assert opened.dask_client.scheduler.address == address
    assert opened.dask_client.status == "closed"
