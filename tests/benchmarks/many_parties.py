"""A federation of many clients in few processes, against a scheduler and a server as they are."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import psutil

from daskfc import Federation
from daskfc.deploy.connections.reaching import address_in
from tests.benchmarks.light_parties import POLICY

ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def light_federation(folder, n, n_hosts):
    """Yield a federation of so many clients, the scheduler's process, and those of parties."""
    folder.mkdir()
    (folder / "policy.yaml").write_text(POLICY)
    file = folder / "scheduler.json"
    names = [f"client-{i}" for i in range(n)]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    running, log = [], (folder / "log").open("w")

    def run(*words):
        command = [sys.executable, "-m", *words]
        running.append(subprocess.Popen(command, env=env, stderr=log))

    try:
        run("daskfc", "scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", file)
        address_in(str(file), wait=600)
        for host in range(n_hosts):
            run("tests.benchmarks.light_parties", file, folder, *names[host::n_hosts])
        run("tests.benchmarks.light_parties", file, folder, "server")
        cluster = {"cluster": "existing", "scheduler_file": str(file), "startup": 600,
                   "connect": 60, "deadline": 600}  # fmt: skip
        with Federation.connect(cluster, clients=names) as federation:
            yield federation, [psutil.Process(one.pid) for one in running]
    finally:
        for one in reversed(running):  # the scheduler last: parties say goodbye to it
            one.terminate()
            try:
                one.wait(10)
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()
        log.close()
