"""A process that has imported what tests take of other packages, and runs each pytest in a fork.

Half of what a short pytest costs are these imports. Nothing of daskfc is among them: it is changed.
"""

import importlib
import json
import os
import runpy
import select
import subprocess
import sys
from typing import Any, Self

TAKEN = (
    "click", "cryptography.x509", "dask.array", "distributed",
    "numpy", "pandas", "psutil", "pyarrow.parquet", "pydantic", "pytest", "rich",
    "scipy.optimize", "scipy.sparse.linalg", "scipy.stats", "sklearn.cluster", "sklearn.datasets",
    "sklearn.metrics", "sklearn.mixture", "sklearn.pipeline", "xarray", "yaml",
)  # fmt: skip


class Warm:
    """Starts commands ``python -m MODULE ...`` as `subprocess.Popen` does, one at a time."""

    pid: int

    def __init__(self) -> None:
        pipe = subprocess.PIPE
        self._server = subprocess.Popen([sys.executable, __file__], stdin=pipe, stdout=pipe)

    def __call__(self, command: list[str], *, cwd: Any, env: Any, stdout: Any, **_: Any) -> Self:
        """Start a command in a session of its own, with both its outputs in one file."""
        words = {"argv": command[2:], "cwd": str(cwd), "env": dict(env), "out": stdout.name}
        self._say(words)
        self.pid = self._told()
        return self

    def wait(self, limit_s: float) -> int:
        """Return how the command ended."""
        self._say(limit_s)
        code = self._told()
        if code is None:
            raise subprocess.TimeoutExpired("pytest", limit_s)
        return int(code)

    def _say(self, words: Any) -> None:
        assert self._server.stdin
        self._server.stdin.write(json.dumps(words).encode() + b"\n")
        self._server.stdin.flush()

    def _told(self) -> Any:
        assert self._server.stdout
        return json.loads(self._server.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self._server.communicate()


def _become(argv: list[str], cwd: str, env: dict[str, str], out: str) -> None:
    os.setsid()
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for stream in (1, 2):
        os.dup2(os.open(out, os.O_WRONLY | os.O_APPEND), stream)
    sys.path[:0] = ["", *env["PYTHONPATH"].split(os.pathsep)]
    sys.argv = argv
    runpy.run_module(argv[0], run_name="__main__", alter_sys=True)


def _serve() -> None:
    for name in TAKEN:
        importlib.import_module(name)
    sys.path.remove(os.path.dirname(os.path.abspath(__file__)))
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    for line in requests:
        if (pid := os.fork()) == 0:
            requests = answers = None
            _become(**json.loads(line))
            return
        print(pid, file=answers, flush=True)
        ended, code = os.pidfd_open(pid), None
        if select.select([ended], [], [], json.loads(requests.readline()))[0]:
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.close(ended)
        print(json.dumps(code), file=answers, flush=True)


if __name__ == "__main__":
    _serve()
