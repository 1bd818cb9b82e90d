"""A side of a federation as a process beside this one, which ends when this one does."""

import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence

from daskfc.deploy.processes.scratch import scratch_folder
from daskfc.folders import write_private

_POLICY = "DASKFC_POLICY"
_LINES = 20  # of a side's output that are kept
# The pipe is closed however this process ends. The process in between is small: Python alone.
_UNTIL_THE_PIPE_ENDS = """
import os, subprocess, sys, threading
side = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
def watch():
    os.read(0, 1)
    side.terminate()
    try:
        side.wait(20)
    except subprocess.TimeoutExpired:
        side.kill()
threading.Thread(target=watch, daemon=True).start()
os._exit(side.wait() & 255)
"""
_sides: dict[str, "Side"] = {}  # beside this process, by their tokens


class Side:
    """A command of daskfc in a process that ends with this one; `words` must hold no secrets."""

    def __init__(self, words: Sequence[str]) -> None:
        self._told: deque[str] = deque(maxlen=_LINES)
        run = [sys.executable, "-c", _UNTIL_THE_PIPE_ENDS, sys.executable, "-m", "daskfc", *words]
        self._process = subprocess.Popen(
            run,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C reaches this process alone
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            self._told.extend(words for line in lines if (words := line.strip()))

    @property
    def told(self) -> str:
        """Its last line of output."""
        return self._told[-1] if self._told else "it told nothing"

    def wait(self, limit: float | None = None) -> bool:
        """Return whether it has ended within `limit` seconds."""
        self._reader.join(limit)
        return not self._reader.is_alive()

    def stop(self) -> None:
        """Tell it to end; safe to call again."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def close(self) -> None:
        """Tell it to end, and wait until it has."""
        self.stop()
        self._process.wait()
        self.wait()


def tls_options(ca: str, cert: str, key: str) -> list[str]:
    """Return the options of a command for its certificates."""
    return ["--tls-ca-file", ca, "--tls-cert", cert, "--tls-key", key]


def run_beside(
    token: str, words: Sequence[str], files: Mapping[str, bytes], policy: str | None
) -> str:
    """Run a party beside this process, a plain Dask worker, and return its last line of output.

    `stop_beside` finds it by `token`. DASKFC_POLICY of the site takes precedence over `policy`.
    """
    with scratch_folder() as folder:
        for name, content in files.items():
            write_private(folder / name, content)
        tls = tls_options(*(f"{folder}/{one}.pem" for one in ("ca", "cert", "key")))
        policy = os.environ.get(_POLICY) or policy
        own = [] if policy is None else ["--policy", policy]
        side = _sides[token] = Side([*words, *own, *tls])
        try:
            side.wait()
        finally:
            side.close()
            del _sides[token]
        return side.told


def stop_beside(token: str) -> None:
    """Tell a party that runs beside this process to end, if there is one."""
    if token in _sides:
        _sides[token].stop()
