"""A process that has imported what tests take of other packages, and runs each pytest in a fork.

Half of what a short pytest costs are these imports. Nothing of daskfc or its tests is among them:
they are changed. `tests.deploy.forked.Launcher` starts it as a program, and asks it.
"""

import importlib
import json
import os
import runpy
import sys

TAKEN = (
    "click", "cryptography.x509", "dask.array", "distributed",
    "numpy", "pandas", "psutil", "pyarrow.parquet", "pydantic", "pytest", "rich",
    "scipy.optimize", "scipy.sparse.linalg", "scipy.stats", "sklearn.cluster", "sklearn.datasets",
    "sklearn.metrics", "sklearn.mixture", "sklearn.pipeline", "xarray", "yaml",
)  # fmt: skip


def _become(words: list[str], out: str, cwd: str, env: dict[str, str]) -> None:
    """Be ``python -m MODULE ...``."""
    os.setsid()
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for stream in (1, 2):
        os.dup2(os.open(out, os.O_WRONLY | os.O_APPEND), stream)
    sys.path[:0] = ["", *env["PYTHONPATH"].split(os.pathsep)]
    sys.argv = words[1:]
    runpy.run_module(words[1], run_name="__main__", alter_sys=True)


def _serve() -> None:
    for name in TAKEN:
        importlib.import_module(name)
    sys.path.remove(os.path.dirname(os.path.abspath(__file__)))
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    for line in requests:
        asked = json.loads(line)
        if isinstance(asked, int):
            told = os.waitstatus_to_exitcode(os.waitpid(asked, 0)[1])
        elif (told := os.fork()) == 0:
            requests = answers = None
            _become(**asked)
            return
        print(told, file=answers, flush=True)


if __name__ == "__main__":
    _serve()
