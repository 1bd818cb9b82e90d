"""docs/deploy/ssh.md, typed as it stands there, and a driver that is killed."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest
import yaml
from click.testing import CliRunner

import daskfc as fc
from daskfc.cli import main
from daskfc.deploy.connections.reaching import reach
from daskfc.errors import ClusterError, NotAdmitted
from daskfc.federation import Federation
from daskfc.runs import Run
from daskfc.yaml_files import read_yaml
from tests.deployments.slurm_cluster import until, why_not
from tests.deployments.ssh_server import SshServer
from tests.ports import free_port
from tests.test_three_sites import Terminal, blocks, commands

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "deploy" / "ssh.md"
CLIENTS = ("hospital-a", "hospital-b", "hospital-c")
_MISSING = why_not("sshd", "ssh-keygen", "ssh-keyscan")
if importlib.util.find_spec("asyncssh") is None:
    _MISSING = _MISSING or "asyncssh is not there: pip install 'daskfc[ssh]'"

pytestmark = [
    pytest.mark.deploy,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(_MISSING), reason=_MISSING),
]


class Hosts:
    """One SSH server for all hosts, and the page as it reads for it."""

    def __init__(self, folder, server):
        self.folder, self.server = folder, server
        port = free_port()
        text = PAGE.read_text(encoding="utf-8")
        for said, meant in (
            ("8786", str(port)),
            ("2222", str(server.port)),
            ("/srv/", f"{folder}/"),
            ("/opt/daskfc/bin/python", sys.executable),
        ):
            assert said in text
            text = text.replace(said, meant)
        self.page = text

    def type(self, text):
        terminal = Terminal(self.folder)
        for kind, block in blocks(text):
            if kind == "yaml":
                name = block.partition("\n")[0].removeprefix("# ")
                (self.folder / name).write_text(block)
            else:
                for place, command, told in commands(block):
                    terminal.types(place, command, told)

    def type_before_runs(self):
        """Type what makes keys, stores and files, and begin no run."""
        self.type(self.page.partition("```console\n$ daskfc run")[0])

    def give_certificates(self):
        """Issue one to each side, name them in the cluster file, and have TLS spoken."""
        cluster = self.cluster()
        roles = {"scheduler": "scheduler", "server": "server", "ana": "submitter"}
        assert cluster["hosts"].keys() == {"scheduler", "server", *CLIENTS}
        daskfc("certs", "init")
        for name, role in {**roles, **dict.fromkeys(CLIENTS, "client")}.items():
            daskfc("certs", "issue", "--role", role, name)
            own = self.folder / "ca" / "parties" / name
            files = {key: str(own / f"{key}.pem") for key in ("ca", "cert", "key")}
            (cluster if name == "ana" else cluster["hosts"][name])["security"] = files
        cluster["scheduler"] = cluster["scheduler"].replace("tcp://", "tls://")
        cluster["deadline"] = "15s"
        (self.folder / "cluster.yaml").write_text(yaml.safe_dump(cluster))

    def side(self, name):
        """Return the process that was started for a side, and that of its connection."""
        words = ("scheduler", "--host") if name == "scheduler" else ("party", name)
        (found,) = [one for one in self.server.sessions() if set(words) <= set(one.cmdline())]
        connections = {one.pid for one in self.server.connections()}
        (connection,) = [one for one in found.parents() if one.pid in connections]
        return found, connection

    def cluster(self):
        return read_yaml((self.folder / "cluster.yaml").read_text(), "cluster.yaml")

    def undisturbed(self):
        """Run the same on worker processes of this one."""
        stores = {name: {"store": str(self.folder / f"{name}.zarr")} for name in CLIENTS}
        pipeline = str(self.folder / "pipeline.yaml")
        return fc.run(pipeline, storage={"clients": stores}, runs_dir=self.folder / "others")


@pytest.fixture
def hosts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own = {"DASKFC_STORE": tmp_path / "hospital-c.zarr", "PYTHONPATH": ROOT}
    with SshServer(tmp_path / "authorized_keys", **own) as server:
        yield Hosts(tmp_path, server)


def daskfc(*words):
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output


def check_same(run, other):
    found, wanted = run.all_labels, other.all_labels
    np.testing.assert_array_equal(found["client"], wanted["client"])
    np.testing.assert_array_equal(found, wanted)
    assert np.unique(found).size == 3


def test_the_page_is_what_happens(hosts):
    hosts.type(hosts.page)
    until(lambda: not hosts.server.sessions(), hosts.server.told)
    check_same(Run(hosts.folder / "runs" / "first"), hosts.undisturbed())


def test_no_party_outlives_a_driver_that_is_killed(hosts):
    hosts.type_before_runs()
    command = ["daskfc", "run", "pipeline.yaml", "--cluster", "cluster.yaml", "--name", "first"]
    driver = subprocess.Popen(
        [sys.executable, "-m", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        run = hosts.folder / "runs" / "first"
        until(lambda: (run / "fits" / "OmniFC-0").exists(), hosts.server.told, limit=300)
        alive = hosts.server.sessions()
        assert len([one for one in alive if "daskfc" in one.cmdline()]) == 5
    finally:
        driver.kill()
        driver.wait()
    _, left = psutil.wait_procs(alive, 60)
    for one in left:
        one.kill()
    assert left == []
    daskfc("resume", "runs/first")
    check_same(Run(run), hosts.undisturbed())


def test_over_tls_no_party_outlives_a_connection_that_drops(hosts):
    hosts.type_before_runs()
    hosts.give_certificates()
    command = ["daskfc", "run", "pipeline.yaml", "--cluster", "cluster.yaml", "--name", "first"]
    log, run = hosts.folder / "log", hosts.folder / "runs" / "first"
    with log.open("w") as file:
        driver = subprocess.Popen([sys.executable, "-m", *command], stdout=file, stderr=file)
    try:
        begun = run / "fits" / "OmniFC-0"
        until(lambda: begun.exists() or driver.poll() is not None, log.read_text, limit=300)
        assert driver.poll() is None, log.read_text()
        address = hosts.cluster()["scheduler"]
        with pytest.raises(NotAdmitted, match="TLS is spoken there"):
            reach(address.replace("tls://", "tcp://"), wait=15, what="a stranger")
        alive = hosts.server.sessions()
        party, connection = hosts.side("hospital-b")
        dropped = [party, *party.children(recursive=True)]
        connection.kill()
        _, left = psutil.wait_procs(dropped, 60)
        assert left == []
        assert driver.wait(120) == 1
    finally:
        driver.kill()
        driver.wait()
    last = log.read_text().splitlines()[-1]
    assert "'hospital-b'" in last
    assert last.endswith("Resume with: daskfc resume runs/first")
    _, left = psutil.wait_procs(alive, 60)
    assert left == []
    daskfc("resume", "runs/first")
    check_same(Run(run), hosts.undisturbed())
    until(lambda: not hosts.server.sessions(), hosts.server.told)


def test_a_host_with_another_key_is_not_believed(hosts):
    hosts.type_before_runs()
    known = (hosts.folder / "known_hosts").read_text().splitlines()
    key = (hosts.folder / "key.pub").read_text().split()[1]
    swapped = [" ".join([*line.split()[:2], key]) for line in known if "ed25519" in line]
    (hosts.folder / "known_hosts").write_text("\n".join(swapped) + "\n")
    with pytest.raises(
        ClusterError, match=r"port \d+, cannot be logged in to by SSH \(HostKeyNotVerifiable\)"
    ):
        Federation.connect(hosts.cluster())
    until(lambda: not hosts.server.sessions(), hosts.server.told)
    assert hosts.server.told().count("Accepted publickey") == 0
