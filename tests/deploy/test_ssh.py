"""What SSH is told to start, and how it is ended: hosts are the test's own, and start nothing."""

import asyncio
import shlex
import sys
from types import SimpleNamespace

import pytest
from pydantic import ValidationError

from daskfc.deploy import ExistingCluster, load_cluster
from daskfc.deploy.config.config import SshHost
from daskfc.deploy.processes import ssh
from daskfc.deploy.processes.ssh import SshParties, command_of
from daskfc.errors import ClusterError, InvalidInput
from daskfc.federation.driver.opening import open_existing, who_takes_part
from tests.deployments.slurm_cluster import until

ADDRESS = "tcp://127.0.0.1:8786"
CERTIFICATE = {"ca": "/etc/ca.pem", "cert": "/etc/cert.pem", "key": "/etc/key.pem"}


def content(**changes):
    hosts = {name: {"host": f"{name}.example"} for name in ("scheduler", "server", "a", "b")}
    return {
        "cluster": "ssh", "scheduler": ADDRESS, "known_hosts": "known_hosts", "hosts": hosts,
        **changes,
    }  # fmt: skip


def hosts_with(**more):
    return content()["hosts"] | more


# -- the file -------------------------------------------------------------------------------------


def test_it_is_an_existing_cluster_that_is_started_first(tmp_path):
    path = tmp_path / "ssh.yaml"
    path.write_text(
        "cluster: ssh\nscheduler: tcp://127.0.0.1:8786\nknown_hosts: known_hosts\n"
        "client_key: ../key\ndeadline: 7s\n"
        "hosts: {scheduler: {host: s}, server: {host: s}, b: {host: b}, a: {host: a}}\n"
    )
    config = load_cluster(path)
    assert isinstance(config, ExistingCluster)
    assert who_takes_part(config, None) == ("b", "a")
    assert (config.scheduler, config.deadline, config.startup) == (ADDRESS, 7, 300)
    assert config.ssh.known_hosts == str(tmp_path / "known_hosts")
    assert config.ssh.client_key == str(tmp_path.parent / "key")
    assert load_cluster(config.model_dump(mode="json")) == config  # as a run that is resumed does


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"known_hosts": None}, "key 'known_hosts'"),
        ({"scheduler": "h"}, "key 'scheduler': must be the address of a Dask scheduler"),
        ({"hosts": {"a": {"host": "a"}}}, "must name where scheduler, server runs as well"),
        ({"server": {"workers": 2}}, "must name where server-2 runs as well"),
        ({"hosts": hosts_with(**{"server-2": {"host": "h"}})}, "names server-2, and the server ha"),
        ({"hosts": {"scheduler": {"host": "h"}, "server": {"host": "h"}}}, "at least one client"),
        ({"hosts": hosts_with(server={"host": "h", "store": "x"})}, "server of 'hosts' holds no"),
        (
            {"hosts": hosts_with(a={"host": "h", "password": "x"})},
            "'hosts.a.password' is not known",
        ),
        ({"hosts": hosts_with(a={"host": "h", "port": 0})}, "key 'hosts.a.port'"),
        ({"scheduler": "tls://10.0.0.1:8786"}, "asks for certificates, and none are given"),
        (
            {"scheduler": "tls://10.0.0.1:8786", "security": CERTIFICATE},
            "scheduler of 'hosts' needs certificates for tls://10.0.0.1:8786",
        ),
    ],
)
def test_wrong_content_is_one_sentence(changes, sentence):
    with pytest.raises(InvalidInput) as refusal:
        load_cluster(content(**changes))
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)


# -- what is started ------------------------------------------------------------------------------


def test_a_host_is_told_names_and_paths_as_its_shell_takes_them():
    host = SshHost(host="h", python="/opt/a b/python", store="s3://b/$x;y", policy="it's.yaml",
                   workspace="w", keep=30)  # fmt: skip
    words = shlex.split(command_of("a", host, ADDRESS).partition("exec ")[2])
    assert words[:5] == ["/opt/a b/python", "-m", "daskfc", "party", "a"]
    assert words[words.index("--store") + 1] == "s3://b/$x;y"
    assert words[words.index("--policy") + 1] == "it's.yaml"
    assert words[words.index("--keep") + 1] == "30"
    assert "--device" not in words  # which an older daskfc there does not know
    words = shlex.split(command_of("a", SshHost(host="h", device="cpu"), ADDRESS))
    assert words[words.index("--device") + 1] == "cpu"
    with pytest.raises(ValidationError, match="keep"):
        SshHost(host="h", keep=0)


def test_a_store_that_is_not_named_is_that_of_the_hosts_environment():
    told = command_of("a", SshHost(host="h"), ADDRESS)
    assert told.endswith('--store "${DASKFC_STORE:?the store of a}"')
    for name in ("server", "server-2", "server-10", "scheduler"):
        assert "--store" not in command_of(name, SshHost(host="h"), ADDRESS)
    for name in ("server-room", "servers", "scheduler-2"):
        assert command_of(name, SshHost(host="h"), ADDRESS).count("--store") == 1
        config = load_cluster(content(hosts=hosts_with(**{name: {"host": "h"}})))
        assert name in who_takes_part(config, None)


def test_every_side_has_its_own_certificate():
    host = SshHost(host="h", security=CERTIFICATE)
    told = command_of("scheduler", host, "tls://10.0.0.1:8786")
    assert told == (
        "umask 077; exec python3 -m daskfc scheduler --host 10.0.0.1 --port 8786 "
        "--tls-ca-file /etc/ca.pem --tls-cert /etc/cert.pem --tls-key /etc/key.pem"
    )


# -- starting and stopping ------------------------------------------------------------------------


class Process:
    """A program at a terminal: it ends at Ctrl-C, or when `ends` is set."""

    def __init__(self, net, name):
        self.net, self.name, self.ends = net, name, asyncio.Event()
        self.stdin = SimpleNamespace(write=self.typed)
        self.stdout = self.lines()

    async def lines(self):
        yield "12:00:00 a: starts\r\n"
        if self.name in self.net.fails:
            yield "daskfc: no store.\r\n"
            return
        await self.ends.wait()
        if self.name in self.net.lost:
            raise OSError("no route")

    def typed(self, text):
        self.net.events.append((self.name, text))
        self.ends.set()

    async def wait_closed(self):
        self.net.events.append((self.name, "ended"))


class Connection:
    def __init__(self, net, name):
        self.net, self.name = net, name

    async def create_process(self, command, *, term_type, encoding, errors):
        assert term_type  # without a terminal a party would outlive its connection
        self.net.commands[self.name] = command
        return Process(self.net, self.name)

    def close(self):
        self.net.events.append((self.name, "left"))

    async def wait_closed(self):
        if self.name in self.net.lost:
            raise OSError("no route")


class Net:
    """Stands for asyncssh."""

    class Error(Exception):
        """As asyncssh's."""

    def __init__(self, fails=(), refuses=(), lost=()):
        self.lost = lost
        self.fails, self.refuses, self.events, self.commands, self.options = (
            fails,
            refuses,
            [],
            {},
            {},
        )

    async def connect(self, host, port, **options):
        name = host.partition(".")[0]
        if name in self.refuses:
            raise self.Error("no")
        self.options[name] = {"port": port, **options}
        return Connection(self, name)


@pytest.fixture
def started(tmp_path, monkeypatch):
    (tmp_path / "known_hosts").touch()
    monkeypatch.chdir(tmp_path)

    def start(net, **changes):
        monkeypatch.setattr(ssh, "_asyncssh", lambda: net)
        config = load_cluster(content(**changes))
        return SshParties(config.ssh, config.scheduler)

    return start


def test_the_package_is_asked_for_when_it_is_needed(monkeypatch):
    net = Net()
    monkeypatch.setitem(sys.modules, "asyncssh", net)
    assert ssh._asyncssh() is net


def test_the_scheduler_ends_first_then_its_parties_and_then_the_connections(started, tmp_path):
    net = Net()
    hosts = hosts_with(a={"host": "a.example", "user": "me", "port": 2222})
    parties = started(net, hosts=hosts, keepalive="7s")
    assert list(net.commands) == list(hosts)
    own = {"known_hosts": str(tmp_path / "known_hosts"), "config": None, "keepalive_interval": 7}
    assert net.options["b"].items() >= {"port": 22, **own}.items()
    assert "username" not in net.options["b"]
    assert net.options["a"].items() >= {"port": 2222, "username": "me", **own}.items()
    parties.check()
    parties.close()
    assert net.events[:2] == [("scheduler", "\x03"), ("scheduler", "ended")]
    others = {"server", "a", "b"}
    assert set(net.events[2:5]) == {(name, "\x03") for name in others}
    assert set(net.events[5:8]) == {(name, "ended") for name in others}
    assert set(net.events[8:]) == {(name, "left") for name in (*others, "scheduler")}
    parties.close()
    assert len(net.events) == 12


def test_a_party_that_has_ended_is_named_with_what_it_told_last(started):
    net = Net(fails=["a"])
    parties = started(net)
    try:
        until(lambda: parties._sides["a"].ended, lambda: net.events)
        with pytest.raises(
            ClusterError, match=r"^'a' at a\.example has ended: daskfc: no store\.$"
        ):
            parties.check()
    finally:
        parties.close()


def test_a_host_that_is_not_there_is_named_and_the_others_are_left(started):
    net = Net(refuses=["a"])
    with pytest.raises(ClusterError, match=r"^'a' at a\.example, port 22, cannot be logged in to"):
        started(net)
    assert {name for name, what in net.events if what == "left"} == {"scheduler", "server", "b"}


def test_a_host_that_is_lost_keeps_no_other_from_ending(started):
    net = Net(lost=["a", "scheduler"])
    started(net).close()
    told = {name for name, what in net.events if what == "\x03"}
    left = {name for name, what in net.events if what == "left"}
    assert told == left == {"scheduler", "server", "a", "b"}


def test_what_ssh_needs_is_looked_at_first(started, tmp_path):
    (tmp_path / "known_hosts").unlink()
    with pytest.raises(InvalidInput, match="the key 'known_hosts' of the cluster's file must be a"):
        started(Net())


def test_the_extra_is_named_where_it_is_missing(monkeypatch, tmp_path):
    def missing(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(ssh.importlib, "import_module", missing)
    with pytest.raises(InvalidInput, match=r"Install it with: pip install 'daskfc\[ssh\]'\."):
        open_existing(content())
