"""Parties beside the plain workers of somebody's Dask cluster: the mode "trusted"."""

import itertools
import logging
import os
import signal
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
from distributed import Client, LocalCluster

from daskfc.deploy import load_cluster
from daskfc.deploy.config.config import SecurityFiles
from daskfc.deploy.processes import beside
from daskfc.deploy.processes.beside import Side, run_beside, stop_beside
from daskfc.deploy.processes.given_cluster import cluster_given, is_given
from daskfc.deploy.processes.trusted import TrustedParties
from daskfc.errors import ClusterError, DeadlineError, InvalidInput, PolicyRefused
from daskfc.federation import Federation
from daskfc.federation.driver.opening import open_existing, who_takes_part
from daskfc.protocols import OmniFC
from daskfc.runs.outcome.summary import unfinished_summary
from daskfc.testing.federation import stores_of

BLOBS = np.random.default_rng(0).normal(size=(24, 2)) + np.repeat([[0, 0], [9, 0]], 12, axis=0)
ROWS = {"a": BLOBS[::3], "b": BLOBS[1::3], "c": BLOBS[2::3]}
UNPROTECTED = "trusted: whoever runs the Dask cluster at {}, or may submit to it, can read what"


@pytest.fixture(scope="module")
def cluster():
    """One plain worker, of a cluster that can start more."""
    with LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        dashboard_address=None,
        silence_logs=logging.CRITICAL,
    ) as cluster:
        yield cluster


@pytest.fixture
def urls(tmp_path):
    return stores_of(tmp_path, ROWS)


@pytest.fixture
def sides():
    """Processes of sides below this one that no other test has left running."""
    others = {process.pid for process in processes_of_sides()}
    return lambda: [process for process in processes_of_sides() if process.pid not in others]


def processes_of_sides():
    words = ("daskfc", "party"), ("daskfc", "scheduler")
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            line = process.cmdline()
        except psutil.Error:
            continue
        if any(pair in itertools.pairwise(line) for pair in words):
            found.append(process)
    return found


@pytest.mark.slow
def test_a_fit_beside_plain_workers_is_that_of_a_local_federation(cluster, urls, sides):
    with Federation.connect(cluster, trusted=True, stores=urls) as federation:
        assert len(cluster.workers) == 4  # the cluster was asked for three more
        assert federation.clients == ("a", "b", "c")
        model = OmniFC(2, random_state=0).fit(federation)
        said = UNPROTECTED.format(cluster.scheduler_address)
        for told in (repr(federation), federation._repr_html_(), federation.trusted):
            assert said in told
        for told in (repr(model.ledger_), model.ledger_._repr_html_()):
            assert said in told
        labels = model.labels_
        assert len(sides()) > 0
    assert sides() == []
    assert len(cluster.worker_spec) == 1  # and none was left of what was started
    with Federation.local(urls) as federation:
        assert federation.trusted == ""
        assert "trusted" not in repr(federation)
        local = OmniFC(2, random_state=0).fit(federation)
        assert "trusted" not in repr(local.ledger_)
    np.testing.assert_array_equal(labels.values, local.labels_.values)
    assert labels["client"].values.tolist() == local.labels_["client"].values.tolist()


@pytest.mark.long
def test_a_policy_refuses_unless_it_says_so(cluster, urls, sides, tmp_path):
    (tmp_path / "site.yaml").write_text("maskers: {at_least: 1}\n")
    options = {"stores": {"b": urls["b"]}, "policies": {"b": str(tmp_path / "site.yaml")}}
    with pytest.raises(PolicyRefused, match="party 'b' refuses this by its rule 'trusted'"):
        Federation.connect(cluster, trusted=True, **options)
    assert sides() == []


@pytest.mark.long
@pytest.mark.slow
def test_a_worker_that_is_killed_ends_a_run_in_a_sentence(cluster, urls, sides):
    """Its party ends with it, and no process is left."""
    cluster.scale(2)
    where = {
        "cluster": "existing",
        "scheduler": cluster.scheduler_address,
        "deadline": "5s",
        "startup": "300s",
        "trusted": {"stores": {"b": urls["b"]}},
    }
    with Federation.connect(where) as federation:
        own = [one for one in sides() if "b" in one.cmdline()]  # the party, and what watches it
        [worker] = {one.parent() for one in own} - set(own)
        worker.send_signal(signal.SIGKILL)
        assert psutil.wait_procs(own, timeout=60)[1] == []
        with pytest.raises(DeadlineError, match="party 'b' did not answer within 5 s"):
            federation.start_run("r", random_state=0)
    assert sides() == []
    cluster.scale(1)


@pytest.mark.slow
def test_plain_workers_are_no_parties_unless_the_caller_says_so(cluster, urls, sides):
    with Client(cluster, set_as_default=False) as client:
        for given in (client, cluster):
            with pytest.raises(ClusterError, match=r"without the guard.*trusted=True, stores="):
                Federation.connect(given, clients=["a", "b"])
    assert sides() == []


@pytest.mark.parametrize(
    "options",
    [
        {"trusted": True},
        {"stores": {"a": "a.zarr"}},
        {"trusted": True, "stores": {}},
        {"policies": {"a": "a.yaml"}},
        {"trusted": True, "stores": {"a": 3}},
        {"trusted": True, "stores": {"a": "a.zarr"}, "policies": ["a"]},
    ],
)
def test_trust_and_stores_go_together(options):
    with pytest.raises(InvalidInput, match="trusted=True goes with stores="):
        open_existing("tcp://127.0.0.1:9", clients=["a"], **options)


# -- which cluster --------------------------------------------------------------------------------


def test_what_is_a_connection():
    assert is_given(SimpleNamespace(scheduler_address="gateway://example.org:80/x"))
    for other in (None, "tcp://10.0.0.1:8786", {"cluster": "existing"}, SimpleNamespace()):
        assert not is_given(other)


def test_a_cluster_is_joined_at_its_address_by_the_certificates_of_its_files(tmp_path):
    files = {key: str(tmp_path / f"{key}.pem") for key in ("ca", "cert", "key")}
    security = SimpleNamespace(
        tls_ca_file=files["ca"], tls_client_cert=files["cert"], tls_client_key=files["key"]
    )
    given = SimpleNamespace(scheduler_address="tls://10.0.0.1:8786", security=security)
    with pytest.raises(InvalidInput, match="the certificates of the Client must be files"):
        cluster_given(given, trusted=False)
    for file in files.values():
        open(file, "w").close()
    found = cluster_given(given, trusted=False)
    assert (found.scheduler, found.security) == (given.scheduler_address, SecurityFiles(**files))
    assert found.trusted is None
    assert cluster_given(given, trusted=True).security is None
    plain = SimpleNamespace(scheduler_address="tcp://10.0.0.1:8786", security=None)
    assert cluster_given(plain, trusted=False).security is None


def test_a_connection_that_cannot_be_waited_for():
    given = SimpleNamespace(scheduler_address="tcp://10.0.0.1:8786", asynchronous=True)
    with pytest.raises(InvalidInput, match="asynchronous"):
        cluster_given(given, trusted=True)


def trusted_of(**changes):
    start = {"stores": {"a": "a.zarr", "b": "b.zarr"}}
    told = {"cluster": "existing", "scheduler": "tcp://10.0.0.1:8786", "startup": "0.1s"}
    return load_cluster({**told, "trusted": start, **changes})


def test_who_takes_part_has_a_store():
    assert who_takes_part(trusted_of(), None) == ("a", "b")
    assert who_takes_part(trusted_of(expect=["b", "a"]), None) == ("b", "a")
    other = {"stores": {"a": "a.zarr", "b": "b.zarr"}, "policies": {"c": "c.yaml"}}
    with pytest.raises(InvalidInput, match="policies of c"):  # a rule of nobody's holds for nobody
        who_takes_part(trusted_of(trusted=other), None)
    for clients, expect in ((None, ["a"]), (["a"], None), (["a", "b", "c"], None)):
        with pytest.raises(InvalidInput):
            who_takes_part(trusted_of(expect=expect), clients)


class Connected(Client):
    """A connection to two workers, beside one of which a party of another federation is."""

    cluster = None
    scheduler = "there"

    def __init__(self):
        pass

    def __del__(self):
        pass

    def nthreads(self):
        return {"tcp://10.0.0.3:1": 1, "tcp://10.0.0.2:1": 1, "tcp://10.0.0.1:1": 1}

    def processing(self):
        return {"tcp://10.0.0.2:1": ("daskfc-party|a-1",), "tcp://10.0.0.1:1": (("x", 0), "y")}


def test_too_few_workers_are_counted():
    with pytest.raises(ClusterError, match=r"has 2 workers without a party after .*each of 3 part"):
        TrustedParties(trusted_of(), ["a", "b", "server"], Connected())


def test_a_cluster_that_has_gone_is_one_sentence(monkeypatch):
    monkeypatch.setattr(Connected, "scheduler", None)
    with pytest.raises(ClusterError, match=r"does not answer any more \(the connection was lost"):
        TrustedParties(trusted_of(), ["a", "server"], Connected())


def test_a_cluster_is_asked_for_as_many_as_lack_and_for_as_few_as_before(monkeypatch):
    asked = []
    monkeypatch.setattr(Connected, "cluster", SimpleNamespace(scale=asked.append))
    with pytest.raises(ClusterError, match="has 2 workers"):
        TrustedParties(trusted_of(), ["a", "b", "server"], Connected())
    assert asked == [4, 3]


def test_summaries_of_failed_runs_say_it_too():
    record = {"run_id": "r", "status": "failed", "cluster": trusted_of().model_dump(mode="json")}
    told = unfinished_summary(record)["privacy"]["statement"]
    assert told.startswith(UNPROTECTED.format("tcp://10.0.0.1:8786"))
    guarded = load_cluster("tcp://10.0.0.1:8786").model_dump(mode="json")
    assert unfinished_summary({**record, "cluster": guarded})["privacy"] == {}


# -- beside a worker ------------------------------------------------------------------------------


@pytest.fixture
def started(monkeypatch):
    """What is started beside this process, in place of a party."""
    told = []

    class Started:
        told = "it ended."

        def __init__(self, words):
            told.append(words)

        def wait(self):
            return True

        def stop(self):
            told.append("stopped")

        def close(self):
            told.append(sorted(os.listdir(os.path.dirname(told[0][-1]))))

    monkeypatch.setattr(beside, "Side", Started)
    return told


@pytest.mark.parametrize(
    ("own", "given", "found"),
    [(None, None, None), (None, "g", "g"), ("own", "g", "own"), ("own", None, "own")],
)
def test_a_sites_own_policy_goes_before_the_callers(started, monkeypatch, own, given, found):
    monkeypatch.delenv("DASKFC_POLICY", raising=False)
    if own is not None:
        monkeypatch.setenv("DASKFC_POLICY", own)
    files = {name: b"" for name in ("ca.pem", "cert.pem", "key.pem")}
    assert run_beside("t", ["party", "a"], files, given) == "it ended."
    [words, there] = started
    assert words[:2] == ["party", "a"]
    assert words[2:-6] == ([] if found is None else ["--policy", found])
    assert there == ["ca.pem", "cert.pem", "key.pem"]
    assert not os.path.exists(os.path.dirname(words[-1]))
    assert beside._sides == {}
    stop_beside("t")  # nobody is there any more


@contextmanager
def pretended(code):
    """A side whose program is another."""
    old = beside._UNTIL_THE_PIPE_ENDS
    beside._UNTIL_THE_PIPE_ENDS = old.replace("sys.argv[1:]", f"[sys.executable, '-c', {code!r}]")
    try:
        yield
    finally:
        beside._UNTIL_THE_PIPE_ENDS = old


def test_bytes_that_are_no_text_hide_no_last_words():
    with pretended(r"import os; os.write(2, b'joined \xff\n')"):
        side = Side([])
    assert side.wait(60)
    side.close()
    assert side.told == "joined \ufffd"


@pytest.mark.slow
def test_a_side_ends_with_the_pipe_and_its_last_words_are_kept():
    with pretended(
        "import sys, time; print('joined', file=sys.stderr, flush=True); time.sleep(99)"
    ):
        side = Side([])
    while side.told != "joined":
        side.wait(0.05)
    assert not side.wait(0.05)
    side.stop()
    side.close()
    assert side.wait(0)
    assert side.told == "joined"


def test_a_cluster_within_this_process_is_reached_here():
    trusted = object.__new__(TrustedParties)
    trusted._client = SimpleNamespace(scheduler=SimpleNamespace(address="inproc://10.9.8.7/1/1"))
    assert trusted._own_host() == "127.0.0.1"
