"""Sites with lines of a wide area between them, on one machine, and fits from one of them.

The first site has scheduler, server and driver, as whoever runs the server would; each client is a
site of its own, `daskfc party` in a network namespace (`tests.benchmarks.lines`), with TLS and the
policy that holds without a file.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from daskfc.baselines import KFED, FedMAvg
from daskfc.deploy.certificates.authority import Authority
from daskfc.federation import Federation
from daskfc.protocols import ESFMC, KCAGC, FederatedKernelKMeans, FedSC, OmniFC

ROOT = Path(__file__).parents[2]
METHODS = {
    one.__name__: one for one in (OmniFC, FedSC, FederatedKernelKMeans, KCAGC, ESFMC, KFED, FedMAvg)
}


class Row(NamedTuple):
    """What is told of a message."""

    sender: str
    receiver: str
    message: str
    wire_bytes: int
    time: float


def can_make_lines():
    """Return whether this process may make network namespaces with devices of its own."""
    try:
        lines = subprocess.run(
            [sys.executable, "-m", "tests.benchmarks.lines", "1"],
            input=b"", capture_output=True, cwd=ROOT, timeout=60, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return False
    return lines.returncode == 0


def told_of(model, seconds):
    """Return what is told of a fit."""
    rows = [Row(*(getattr(row, name) for name in Row._fields)) for row in model.ledger_]
    labels = [int(one) for one in model.labels_.values]
    return {"seconds": seconds, "labels": labels, "rows": rows}


def fitted(federation, method, params):
    """Fit, and return what is told of it."""
    model = METHODS[method](**params)
    start = time.perf_counter()
    model.fit(federation)
    return told_of(model, time.perf_counter() - start)


class WideSites:
    """Sites that are started together; a context manager, which ends them.

    Parameters
    ----------
    folder : Path
        For certificates, logs and workspaces.
    urls : dict of str to str
        The clients' stores.
    """

    def __init__(self, folder, urls):
        self.folder, self.urls = folder, urls
        folder.mkdir()
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_):
        self._stack.close()

    def _start(self):
        words = (sys.executable, "-m", "tests.benchmarks.lines", str(1 + len(self.urls)))
        self._lines = self._begun("lines", *words, talks=True)
        told = json.loads(self._lines.stdout.readline())
        self._enter = told["namespaces"]
        hosts = told["addresses"]
        files, address = self._certificates(), f"tls://{hosts[0]}:8786"
        place = ("--host", hosts[0], "--port", "8786")
        self._at(0, "scheduler", "scheduler", *place, *_flags(files["scheduler"]))
        for site, name in enumerate(("server", *self.urls)):
            store = ("--store", self.urls[name]) if name in self.urls else ()
            own = ("--workspace", str(self.folder / f"{name}-files"), "--host", hosts[site])
            where = ("--scheduler", address, "--wait", "5m")
            self._at(site, name, "party", name, *where, *own, *store, *_flags(files[name]))
        cluster = {
            "cluster": "existing", "scheduler": address, "startup": 300, "deadline": 600,
            "connect": 120, "security": files["me"],
        }  # fmt: skip
        code = (
            f"from tests.benchmarks.wide_sites import drive; drive({cluster!r}, {[*self.urls]!r})"
        )
        inside = ("nsenter", f"--net={self._enter[0]}", sys.executable, "-c", code)
        self._driver = self._begun("driver", *inside, talks=True)
        self._said(self._driver)

    def _at(self, site, name, *words):
        inside = ("nsenter", f"--net={self._enter[site]}", sys.executable, "-m", "daskfc")
        self._begun(name, *inside, *words)

    def _begun(self, name, *words, talks=False):
        pipe = subprocess.PIPE if talks else subprocess.DEVNULL
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        with (self.folder / f"{name}.log").open("w") as log:
            out = subprocess.PIPE if talks else log
            started = subprocess.Popen(
                words, stdin=pipe, stdout=out, stderr=log, text=True, cwd=ROOT, env=env
            )
        self._stack.callback(_ended, started)
        return started

    def _certificates(self):
        authority, files = Authority.create(self.folder / "ca"), {}
        roles = {"scheduler": "scheduler", "server": "server", "me": "submitter"}
        for name, role in {**roles, **dict.fromkeys(self.urls, "client")}.items():
            authority.issue(role, name)
            own = authority.folder_of(name)
            files[name] = {key: str(own / f"{key}.pem") for key in ("ca", "cert", "key")}
        return files

    def set_lines(self, latency, bandwidth, slow_start=True):
        """Set what all lines do from now on: seconds one way, bytes a second or None."""
        told = {"latency": latency, "bandwidth": bandwidth, "slow_start": slow_start}
        self._ask(self._lines, told)

    def fit(self, method, params):
        """Fit at the first site; return seconds, labels and the ledger's rows."""
        found = self._ask(self._driver, {"method": method, "params": params})
        return {**found, "rows": [Row(*row) for row in found["rows"]]}

    def _ask(self, process, told):
        process.stdin.write(json.dumps(told) + "\n")
        process.stdin.flush()
        return self._said(process)

    def _said(self, process):
        line = process.stdout.readline()
        if not line:
            logs = {log.name: log.read_text()[-2000:] for log in self.folder.glob("*.log")}
            raise RuntimeError("\n".join(f"{name}: {text}" for name, text in logs.items() if text))
        return json.loads(line)


def _ended(process):
    if process.stdin is not None:
        process.stdin.close()
    process.terminate()
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _flags(files):
    names = {"ca": "--tls-ca-file", "cert": "--tls-cert", "key": "--tls-key"}
    return [word for key, flag in names.items() for word in (flag, files[key])]


def drive(cluster, clients):
    """Fit what standard input asks for, a line each, until it ends: the driver's process."""
    with Federation.connect(cluster, clients=clients) as federation:
        print(json.dumps({"clients": federation.clients}), flush=True)
        for line in sys.stdin:
            print(json.dumps(fitted(federation, **json.loads(line))), flush=True)
