"""An SSH server of a test's own, for whoever runs the test, on a port of the loopback address."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import psutil

from tests.deployments.slurm_cluster import until
from tests.ports import free_port

__all__ = ["SshServer"]

_CONF = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
PidFile {folder}/pid
AuthorizedKeysFile {authorized}
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
UsePAM no
StrictModes no
SetEnv {environment}
"""


class SshServer:
    """A context manager; `sessions` are the processes of those who logged in.

    Parameters
    ----------
    authorized : path
        File of the public keys that may log in.
    **environment
        What those who logged in find in their environment.
    """

    def __init__(self, authorized, **environment):
        self.folder = Path(tempfile.mkdtemp(prefix="sshd-"))
        self.port = free_port()
        given = " ".join(f"{name}={value}" for name, value in environment.items())
        text = _CONF.format(
            folder=self.folder, port=self.port, authorized=authorized, environment=given
        )
        (self.folder / "sshd_config").write_text(text)

    def __enter__(self):
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
        key = self.folder / "host_key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
        # It starts itself again by its path for every connection, which must be a whole one.
        with (self.folder / "log").open("w") as log:
            self._process = subprocess.Popen(
                [sshd, "-D", "-e", "-f", str(self.folder / "sshd_config")],
                stdin=subprocess.DEVNULL,
                stderr=log,
            )
        until((self.folder / "pid").exists, self.told)
        return self

    def told(self):
        return (self.folder / "log").read_text()

    def sessions(self):
        return psutil.Process(self._process.pid).children(recursive=True)

    def connections(self):
        return psutil.Process(self._process.pid).children()

    def __exit__(self, *_):
        try:
            until(lambda: not self.sessions(), lambda: f"they stay: {self.sessions()}", limit=60)
        finally:
            for one in self.sessions():
                one.kill()
            self._process.terminate()
            self._process.wait()
            shutil.rmtree(self.folder)
