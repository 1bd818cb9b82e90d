"""A scheduler and parties of separate sites, each in its own process, as `daskfc party` runs it."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from distributed import Client

import daskfc
from daskfc.deploy.certificates.authority import Authority
from daskfc.deploy.connections.reaching import address_in
from daskfc.errors import ClusterError, InvalidInput, StoreError
from daskfc.federation import Federation, serve_party
from daskfc.federation.identity.versions import HERE
from daskfc.protocols import OmniFC
from daskfc.testing.federation import stores_of
from tests.deploy.forked import launcher
from tests.federation import steps

pytestmark = pytest.mark.slow

ROWS = {"hospital-a": np.array([[1.0, 2.0], [3.0, 4.0]]), "hospital-b": np.array([[10.0, 20.0]])}


# As on the loopback without a file, and with the steps of these tests.
POLICY = """
raw: allow
ids: allow
labels: allow
stores: any
maskers: {at_least: 1}
packages: [tests]
"""


class Site:
    """Processes of a test, ended with it."""

    def __init__(self, folder):
        self.folder = folder
        self.running = []
        self.policy = folder / "site.yaml"
        self.policy.write_text(POLICY)

    def start(self, *command, program=None, before="", **environment):
        """Start Python, in a fork, or another program."""
        log = self.folder / f"{len(self.running)}.log"
        log.touch()
        if program is None:
            process = launcher().start(command, log, before=before)
        else:
            env = {**os.environ, "PYTHONPATH": os.getcwd(), **environment}
            with log.open("w") as file:
                process = subprocess.Popen(
                    [program, *command], stdout=file, stderr=file, env=env, start_new_session=True
                )
        self.running.append(process)
        return process

    def scheduler(self, *options):
        file = self.folder / "scheduler.json"
        self.start(
            *("-m", "daskfc", "scheduler", "--host", options[0], "--port", "0"),
            *("--scheduler-file", str(file), *options[1:]),
        )
        return address_in(str(file), wait=120)

    def said(self, process):
        return (self.folder / f"{self.running.index(process)}.log").read_text()

    def party(self, name, address, **options):
        options.setdefault("policy", str(self.policy))
        code = (
            "from daskfc.federation import serve_party; "
            "from daskfc.deploy.config.config import SecurityFiles; "
            f"serve_party({name!r}, scheduler={address!r}, **{options!r})"
        )
        if "security" in options:
            code = code.replace(
                repr(options["security"]), f"SecurityFiles(**{options['security']})"
            )
        return self.start("-c", code)

    def end(self):
        for process in self.running:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        slow = []
        for process in self.running:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                slow.append(process.args)
                process.wait()
        assert not slow


@pytest.fixture
def site(tmp_path):
    site = Site(tmp_path)
    yield site
    site.end()


def cluster_of(address, **changes):
    return {"cluster": "existing", "scheduler": address, "startup": "300s", **changes}


def test_sites_start_their_own_parties(site, tmp_path):
    urls = stores_of(tmp_path, ROWS)
    address = site.scheduler("127.0.0.1")
    cluster = cluster_of(address)
    with pytest.raises(ClusterError, match=r"party 'hospital-a', 'server' is not at tcp://127"):
        Federation.connect({**cluster, "startup": "0.5s"}, clients=["hospital-a"])
    folder = tmp_path / "a-files"
    own = {"workspace": str(folder), "narrates": True}
    first = site.party("hospital-a", address, store=urls["hospital-a"], **own)
    second = site.party("hospital-b", address, store=urls["hospital-b"])
    site.party("server", address)
    named = {"clients": ["hospital-b", "hospital-a"], "name": "trial"}
    with Federation.connect(cluster, **named) as federation:
        assert federation.clients == ("hospital-b", "hospital-a")
        assert federation.dashboard_link is None
        federation.start_run("r1", random_state=0, workspace=str(tmp_path / "run"), deadline_s=60)
        asked = federation.ask(steps.row_sum)
        total = federation.publish(steps.total_message, asked)
        np.testing.assert_array_equal(total.values, [14.0, 26.0])
        before = federation.publish(steps.secret_trace, party="hospital-a").values
        pid = federation.publish(steps.where, party="hospital-a").pid
        assert pid != first.pid
        os.kill(pid, signal.SIGKILL)
        after = federation.publish(steps.secret_trace, party="hospital-a").values
        np.testing.assert_array_equal(before, after)
        assert (folder / "runs" / "trial" / "r1" / "ledger.jsonl").exists()
        senders = {row.sender for row in federation.ledger}
        assert senders == {"hospital-a", "hospital-b", "server"}
        assert federation.limits()["server"] == 2_000_000_000
    with (
        Client(address, set_as_default=False) as client,
        Federation.connect(client, clients=["hospital-b"]) as federation,
    ):
        assert federation.dask_client is not client  # one that goes straight to parties
        assert (federation.clients, federation.trusted) == (("hospital-b",), "")
        federation.start_run("r2", random_state=0)
        total = federation.publish(steps.total_message, federation.ask(steps.row_sum))
        np.testing.assert_array_equal(total.values, [10.0, 20.0])
    with pytest.raises(ClusterError, match=r"at tcp.*: a party of that name is there already"):
        serve_party("hospital-a", scheduler=address, store=urls["hospital-a"])
    expected = {**cluster, "expect": ["hospital-a", "hospital-b"]}
    with Federation.connect(expected) as federation:
        assert federation.clients == ("hospital-a", "hospital-b")
    first.send_signal(signal.SIGTERM)
    assert first.wait(60) == 0
    told = (site.folder / f"{site.running.index(first)}.log").read_text()
    lines = [line.partition(": ")[2] for line in told.splitlines()]
    assert lines[:3] == [
        f"holds 2 samples x 2; joins the scheduler at {address}",
        "joined; waits for runs, Ctrl-C ends it",
        lines[2],
    ]
    assert lines[2].startswith("run opening-")
    at = lines.index("run r1 begins")
    assert lines[at + 1 : at + 3] == [
        "asked for row_sum",
        "sends Vector to server, masked, 16 bytes",
    ]
    assert sum(line == "asked for secret_trace" for line in lines) == 2  # by each of two processes
    assert (site.folder / f"{site.running.index(second)}.log").read_text() == ""
    site.running[0].kill()  # the scheduler: its parties end by themselves
    for process in site.running[1:]:
        assert process.wait(60) == 0


@pytest.mark.long
def test_a_run_that_is_done_leaves_ledgers_and_logs_in_workspaces(site, tmp_path):
    groups = np.repeat([[0.0, 0.0], [9.0, 9.0]], 6, axis=0)
    rows = {
        name: groups + np.random.default_rng(seed).normal(size=groups.shape)
        for seed, name in enumerate(("hospital-a", "hospital-b"))
    }
    urls, address = stores_of(tmp_path, rows), site.scheduler("127.0.0.1")
    files = {name: tmp_path / "files" / name for name in (*rows, "server")}
    for name, folder in files.items():
        site.party(name, address, store=urls.get(name), workspace=str(folder))
    done = daskfc.run(
        {"method": "FedSC", "params": {"n_clusters": 2, "rounds": 2}},
        cluster={**cluster_of(address), "expect": list(rows)},
        runs_dir=tmp_path / "runs",
        name="r",
    )
    assert done.status == "done"
    left = {path.name for path in files["server"].glob("runs/r/work-*/**/*") if path.is_file()}
    assert left == {"ledger.jsonl"}
    own = {path.name for name in rows for path in files[name].glob("runs/r/*/*")}
    assert own == {"ledger.jsonl"}
    assert all(not list(files[name].glob("*/ledger.jsonl")) for name in rows)


def test_a_scheduler_writes_to_a_folder_of_its_own_alone(site, tmp_path, monkeypatch):
    """Dask's is one of all users, and Python would look for modules there."""
    temporary = tmp_path / "t"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    site.scheduler("127.0.0.1")
    (made,) = temporary.iterdir()
    assert made.name.startswith("daskfc-")
    (scheduler,) = site.running
    scheduler.send_signal(signal.SIGTERM)
    assert scheduler.wait(60) == 0
    assert list(temporary.iterdir()) == []


def test_a_worker_without_the_guard_is_refused(site):
    address = site.scheduler("127.0.0.1")
    plain = site.start(
        *("-m", "distributed.cli.dask_worker", address, "--name", "hospital-a", "--no-nanny"),
        *("--resources", "hospital-a=1e9", "--no-dashboard", "--host", "127.0.0.1"),
        *("--local-directory", str(site.folder)),
        program=sys.executable,
    )
    site.party("server", address)
    with pytest.raises(ClusterError, match=r"worker 'hospital-a' of .* plain Dask worker without"):
        Federation.connect(cluster_of(address), clients=["hospital-a"])
    plain.kill()  # it may not end by itself once its scheduler is gone
    plain.wait()


def test_another_version_is_named_before_a_run(site, tmp_path, monkeypatch):
    urls = stores_of(tmp_path, {"hospital-a": ROWS["hospital-a"]})
    address = site.scheduler("127.0.0.1")
    with monkeypatch.context() as elsewhere:  # no party yet: the scheduler's comes first
        elsewhere.setitem(HERE, "distributed", "2024.1.0")
        with pytest.raises(ClusterError, match=r"^the scheduler runs distributed 20.* 2024\.1\.0;"):
            Federation.connect(cluster_of(address), clients=["hospital-a"])
    site.party("hospital-a", address, store=urls["hospital-a"])
    site.party("server", address)
    with monkeypatch.context() as elsewhere:
        elsewhere.setitem(HERE, "daskfc", "0.0.1")
        with pytest.raises(ClusterError, match=r"party 'server' runs daskfc .* 0\.0\.1") as refusal:
            Federation.connect(cluster_of(address), clients=["hospital-a"])
        assert "party 'hospital-a' runs daskfc" in str(refusal.value)
        assert "the scheduler runs" not in str(refusal.value)
    with Federation.connect(cluster_of(address), clients=["hospital-a"]) as federation:
        assert federation.clients == ("hospital-a",)


SIDES = [
    ("server", "server"), ("client", "hospital-a"), ("scheduler", "scheduler"), ("submitter", "me"),
]  # fmt: skip


def _certificates(folder, sides=SIDES):
    """Make an authority and the certificate of each side, as a cluster file names it."""
    authority = Authority.create(folder / "ca")
    files = {}
    for role, name in sides:
        authority.issue(role, name)
        own = authority.folder_of(name)
        files[name] = {key: str(own / f"{key}.pem") for key in ("ca", "cert", "key")}
    return files


def test_everything_runs_over_tls(site, tmp_path):
    files = _certificates(tmp_path)
    urls = stores_of(tmp_path, {"hospital-a": ROWS["hospital-a"]})
    address = site.scheduler(
        "127.0.0.1",
        *("--tls-ca-file", files["scheduler"]["ca"]),
        *("--tls-cert", files["scheduler"]["cert"], "--tls-key", files["scheduler"]["key"]),
    )
    assert address.startswith("tls://")
    site.party("hospital-a", address, store=urls["hospital-a"], security=files["hospital-a"])
    site.party("server", address, security=files["server"])
    with pytest.raises(InvalidInput, match="asks for certificates, and none are given"):
        Federation.connect(cluster_of(address), clients=["hospital-a"])
    with Federation.connect(
        cluster_of(address, security=files["me"]), clients=["hospital-a"]
    ) as federation:
        federation.start_run("r1", random_state=0, deadline_s=60)
        total = federation.publish(steps.total_message, federation.ask(steps.row_sum))
        np.testing.assert_array_equal(total.values, [4.0, 6.0])


@pytest.mark.long
def test_clients_answer_to_a_worker_of_the_server_over_tls(site, tmp_path):
    """Blocks that it decodes go to it by its own certificate, by steps that sites approved."""
    clients = [f"hospital-{letter}" for letter in "abc"]
    files = _certificates(
        tmp_path,
        [*SIDES, ("client", "hospital-b"), ("client", "hospital-c"), ("server", "server-2")],
    )
    random = np.random.default_rng(0)
    rows = {name: random.integers(0, 5, (8, 3)) + [[0.0], [60.0]] * 4 for name in clients}
    urls = stores_of(tmp_path / "stores", rows)
    address = site.scheduler(
        "127.0.0.1",
        *("--tls-ca-file", files["scheduler"]["ca"]),
        *("--tls-cert", files["scheduler"]["cert"], "--tls-key", files["scheduler"]["key"]),
    )
    site.policy.write_text(POLICY.replace("packages: [tests]\n", ""))  # no other steps
    for name in clients:
        site.party(name, address, store=urls[name], security=files[name])
    for name in ("server", "server-2"):
        site.party(name, address, security=files[name])
    cluster = cluster_of(address, security=files["me"], server={"workers": 2})
    with Federation.connect(cluster, clients=clients) as federation:
        model = OmniFC(2, clusterer="hierarchical", distances="blocks", tile=8).fit(federation)
    labels = model.labels_.values.reshape(3, 4, 2)
    assert (labels == labels[0, 0]).all()
    assert len(set(labels[0, 0])) == 2
    routes = {(r.sender, r.receiver) for r in model.ledger_ if r.message == "CodedDistances"}
    assert routes == {(name, server) for name in clients for server in ("server", "server-2")}


def test_nobody_at_the_address_is_an_error_in_time(tmp_path):
    began = time.monotonic()
    with pytest.raises(ClusterError, match=r"no Dask scheduler answered at tcp://127\.0\.0\.1:9"):
        Federation.connect(cluster_of("tcp://127.0.0.1:9", connect="1s"), clients=["a"])
    with pytest.raises(ClusterError, match="party 'server' could not join the scheduler at tcp"):
        serve_party("server", scheduler="tcp://127.0.0.1:9", wait=1.0)
    assert time.monotonic() - began < 30  # and not the minute that parties have to come


def test_wrong_parties_start_nothing(tmp_path):
    address = "tcp://127.0.0.1:9"
    with pytest.raises(InvalidInput, match="the server holds no data"):
        serve_party("server", scheduler=address, store="x")
    with pytest.raises(InvalidInput, match="party 'a' needs a store"):
        serve_party("a", scheduler=address)
    with pytest.raises(InvalidInput, match="got 'a b'"):
        serve_party("a b", scheduler=address, store="x")
    with pytest.raises(StoreError):
        serve_party("a", scheduler=address, store=str(tmp_path / "none.zarr"))
    with pytest.raises(InvalidInput, match="memory_limit"):
        serve_party("server", scheduler=address, memory_limit="much")
