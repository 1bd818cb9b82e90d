import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskfc.deploy import ExistingCluster, LocalCluster, load_cluster
from daskfc.deploy.config import config as config_module
from daskfc.deploy.config.settings import dask_settings
from daskfc.deploy.connections.reaching import address_in
from daskfc.deploy.processes.local import LocalParties
from daskfc.errors import ClusterError, InvalidInput

CONFIGS = Path(__file__).parents[2] / "cluster-configs"


def test_the_files_that_are_shipped_load():
    local = load_cluster(CONFIGS / "local.yaml")
    assert isinstance(local, LocalCluster)
    assert local.limits("client-1").memory_limit == 2_000_000_000
    existing = load_cluster(CONFIGS / "existing.yaml")
    assert isinstance(existing, ExistingCluster)
    assert existing.scheduler == "tcp://127.0.0.1:8786"
    assert load_cluster(None) == load_cluster({"cluster": "local"})
    assert load_cluster(local) is local


def test_limits_of_single_parties():
    config = load_cluster(
        {
            "cluster": "local",
            "worker": {"memory_limit": "1GB", "nthreads": 2},
            "parties": {"server": {"memory_limit": "4GB", "blas_threads": 2, "device": "cpu"}},
        }
    )
    assert config.limits("server").model_dump() == {
        "nthreads": 2,
        "blas_threads": 2,
        "device": "cpu",
        "memory_limit": 4_000_000_000,
    }
    assert config.limits("client-1").memory_limit == 1_000_000_000
    assert config.limits("client-1").device == "auto"
    assert config.limits("server-2") == config.limits("server")


@pytest.mark.parametrize(
    ("limits", "cores", "busy", "threads"),
    [
        ({}, 2, 1, 2),
        ({}, 2, 9, 1),
        ({}, 8, 3, 2),
        ({}, 64, 1, 7),  # work arrays of more take more than a twentieth of 2 GB
        ({"memory_limit": "32GB"}, 64, 1, 64),
        ({"memory_limit": "310MB"}, 64, 1, 1),
        ({"blas_threads": 3}, 2, 9, 3),
    ],
)
def test_parties_share_cores_and_each_has_one(monkeypatch, limits, cores, busy, threads):
    monkeypatch.setattr(config_module, "CPU_COUNT", cores)
    assert load_cluster({**LOCAL, "worker": limits}).limits("a").threads(busy) == threads


def test_an_address_is_a_running_cluster():
    found = load_cluster("tcp://10.0.0.1:8786")
    assert isinstance(found, ExistingCluster)
    assert found == load_cluster({"cluster": "existing", "scheduler": "tcp://10.0.0.1:8786"})


def test_an_address_of_tls_needs_certificates():
    with pytest.raises(
        InvalidInput, match=r"tls://10\.0\.0\.1:8786 asks for certificates, and none"
    ):
        load_cluster("tls://10.0.0.1:8786")


@pytest.mark.parametrize("content", [None, b"", b'{"address": "tc', b"\xff", b"[]", b'{"id": 3}'])
def test_a_scheduler_s_file_is_read_once_it_is_whole(tmp_path, content):
    place = tmp_path / "scheduler.json"
    if content is not None:
        place.write_bytes(content)
    with pytest.raises(ClusterError, match="no scheduler wrote its address there within 0 s"):
        address_in(str(place), wait=0)
    place.write_text('{"address": "tcp://10.0.0.1:8786"}')
    assert address_in(str(place), wait=0) == "tcp://10.0.0.1:8786"


def test_the_file_of_a_scheduler_is_beside_that_of_the_cluster(tmp_path):
    (tmp_path / "cluster.yaml").write_text("cluster: existing\nscheduler_file: told/scheduler.json")
    config = load_cluster(tmp_path / "cluster.yaml")
    assert (config.scheduler, config.scheduler_file) == (None, f"{tmp_path}/told/scheduler.json")
    found = config.at("tcp://10.0.0.1:8786")
    assert (found.scheduler, found.scheduler_file) == ("tcp://10.0.0.1:8786", None)
    for address, rule in (("tls://10.0.0.1:8786", "asks for certificates"), ("here", "must be")):
        with pytest.raises(InvalidInput, match=rf"told/scheduler\.json: .*{rule}"):
            config.at(address)


def test_a_server_has_one_worker_unless_more_are_asked_for():
    for kind in (LOCAL, EXISTING):
        assert load_cluster(kind).server.workers == 1
        assert load_cluster({**kind, "server": {"workers": 3}}).server.workers == 3


LOCAL, EXISTING = {"cluster": "local"}, {"cluster": "existing", "scheduler": "tcp://h:1"}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({**LOCAL, "works": 1}, "the cluster: key 'works' is not known there"),
        ({**LOCAL, "worker": {"threads": 1}}, "key 'worker.threads' is not known there"),
        ({**LOCAL, "worker": {"nthreads": 0}}, "key 'worker.nthreads': must be at least 1"),
        ({**LOCAL, "worker": {"memory_limit": "a lot"}}, "must be a number of bytes such as 2GB"),
        ({**LOCAL, "worker": {"device": "gpu"}}, "must be 'auto' or 'cpu'"),
        ({**LOCAL, "worker": {"memory_limit": "309MB"}}, "must be at least 310MB"),
        ({**LOCAL, "server": {"workers": 0}}, "key 'server.workers': must be at least 1"),
        ({**EXISTING, "server": {"workers": 65}}, "key 'server.workers': must be at most 64"),
        ({**LOCAL, "deadline": "0s"}, "must be a time above 0; got '0s'"),
        ({**LOCAL, "deadline": "soon"}, "must be a time such as 60s"),
        ({"cluster": "existing"}, "one of the keys 'scheduler', its address, and 'scheduler_file'"),
        ({**EXISTING, "scheduler_file": "f"}, "one of the keys 'scheduler', its address, and"),
        ({**EXISTING, "scheduler": "localhost"}, "key 'scheduler': must be the address of a Dask"),
        ({**EXISTING, "security": {"ca": "a"}}, "key 'security.cert' is required and missing"),
        ({"cluster": "slurm"}, "key 'cluster' must be 'local', 'existing' or 'ssh'; got 'slurm'"),
        ({}, "key 'cluster' must be 'local', 'existing' or 'ssh'; got 'nothing'"),
    ],
)
def test_wrong_content_is_one_sentence(content, sentence):
    with pytest.raises(InvalidInput) as refusal:
        load_cluster(content)
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_promises_cannot_be_configured_away():
    own = {"distributed": {"worker": {"memory": {"spill": 0.7}}, "comm": {"shard": "1MiB"}}}
    settings = dask_settings(own)
    assert settings["distributed.worker.memory.spill"] is False
    assert settings["distributed.comm.shard"] == "1MiB"


@given(st.dictionaries(st.text(), st.none() | st.integers() | st.text(), max_size=3))
def test_no_content_raises_anything_else(content):
    try:
        load_cluster({**LOCAL, **content})
    except InvalidInput:
        assert content


def test_a_client_whose_name_begins_like_the_servers_is_a_client():
    limits = {"server": {"memory_limit": "4GB"}, "server-room": {"nthreads": 2}}
    config = load_cluster({**LOCAL, "parties": {"server": limits["server"]}})
    assert config.limits("server-2").memory_limit == config.limits("server").memory_limit == 4e9
    assert config.limits("server-room").memory_limit == config.limits("a").memory_limit != 4e9
    assert load_cluster({**LOCAL, "parties": limits}).limits("server-room").nthreads == 2


@pytest.mark.slow
def test_limits_of_parties_reach_their_workers():
    class Noted:
        """Stands for the process that watches a worker."""

        found: ClassVar = {}

        def __init__(self, address, *, party, nthreads, memory_limit, **_):
            self.found[party.name] = nthreads, memory_limit

        def __await__(self):
            return asyncio.sleep(0).__await__()

        async def close(self, **_):
            pass

    limits = {"a": {"nthreads": 2}, "b": {"memory_limit": "3GB"}}
    config = load_cluster({**LOCAL, "parties": limits})
    parties = {name: SimpleNamespace(name=name, scratch="") for name in limits}
    LocalParties(config, parties, Noted).close()
    others = config.limits("c")
    assert Noted.found == {"a": (2, others.memory_limit), "b": (others.nthreads, 3_000_000_000)}
