"""Python processes of sites, forked from one that has imported what they import.

To start one by itself takes some five seconds of processor time for imports: its own, and those of
the process that it forks its workers from, which is a fork here too.
"""

import atexit
import functools
import gc
import importlib
import json
import multiprocessing
import os
import runpy
import select
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from multiprocessing import util
from pathlib import Path

TAKEN = ("daskfc.cli.sites.scheduler", "daskfc.deploy.config.config", "daskfc.federation")


class Forked:
    """A process, as `subprocess.Popen` has it."""

    def __init__(self, launcher, pid, args):
        self._launcher = launcher
        self._ended = os.pidfd_open(pid)
        self.pid, self.args, self.returncode = pid, args, None

    def poll(self):
        return self._code(0)

    def wait(self, timeout=None):
        if self._code(timeout) is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

    def send_signal(self, sig):
        if self.poll() is None:
            os.kill(self.pid, sig)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def _code(self, timeout):
        if self.returncode is None and select.select([self._ended], [], [], timeout)[0]:
            self.returncode = self._launcher.ask(self.pid)
            os.close(self._ended)
        return self.returncode


class Launcher:
    """A program that forks others: it answers a command by its process, and that by how it ended.

    Parameters
    ----------
    program : path
        This file, or one with commands of its own.
    """

    def __init__(self, program=__file__):
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [sys.executable, str(program)], stdin=pipe, stdout=pipe, start_new_session=True
        )

    def start(self, words, out, **how):
        """Start Python with words after it, in a session of its own, with its outputs in one file.

        `cwd` and `env` are those of this process by default; of what else there is, `_become` says.
        """
        asked = {"words": words, "out": str(out), "cwd": os.getcwd(), "env": dict(os.environ)}
        return Forked(self, self.ask({**asked, **how}), words)

    def ask(self, asked):
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def end(self):
        """End it; what it has started goes on."""
        self._process.communicate()


@functools.cache
def launcher():
    """Return the one of this process, and end it with it."""
    started = Launcher()
    atexit.register(started.end)
    return started


def _run_and_end(function, *args, **options):
    """Run as a whole program; libraries that were loaded before a fork may hang at exit()."""
    code = 1
    try:
        function(*args, **options)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if not stream.closed:
            stream.flush()
    os._exit(code)


def _fork_in_place_of_python(_path, args, fds):
    """Do as `multiprocessing.util.spawnv_passfds` with ``python -c CODE``."""
    if pid := os.fork():
        return pid
    kept = sorted({0, 1, 2, *fds})
    for low, high in zip(kept, [*kept[1:], os.sysconf("SC_OPEN_MAX")], strict=True):
        os.closerange(low + 1, high)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    util._finalizer_registry.clear()
    atexit._clear()
    sys.orig_argv = [os.fsdecode(word) for word in args]
    _run_and_end(exec, args[-1], {"__name__": "__main__"})


def _become(words, out, cwd, env, before=""):
    """Be the process that a command would start, after some code of its test's."""
    os.setsid()
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    tempfile.tempdir = None
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    file = os.open(out, os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(file, stream)
    os.close(file)
    atexit.register(gc.freeze)  # as a command does: to look for garbage in all takes long
    multiprocessing.current_process().authkey = os.urandom(32)
    util.spawnv_passfds = _fork_in_place_of_python
    sys.path[:0] = ["", cwd]
    exec(before)
    kind, what, *others = words
    sys.argv = [kind if kind == "-c" else what, *others]
    if kind == "-c":
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
    else:
        runpy.run_module(what, run_name="__main__", alter_sys=True)


def _serve():
    from daskfc.deploy.config.settings import THREADS
    from daskfc.deploy.processes.spawn import _PRELOAD

    for name, value in THREADS.items():
        os.environ.setdefault(name, str(value))
    for name in (*_PRELOAD, *TAKEN):
        if name != "daskfc.deploy.processes.last_out":  # for processes that parties are forked from
            importlib.import_module(name)
    gc.freeze()
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    for line in requests:
        asked = json.loads(line)
        if isinstance(asked, int):
            told = os.waitstatus_to_exitcode(os.waitpid(asked, 0)[1])
        elif (told := os.fork()) == 0:
            requests.close()
            answers.close()
            _run_and_end(_become, **asked)
        print(told, file=answers, flush=True)


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[2])  # in place of this file's folder
    _serve()
