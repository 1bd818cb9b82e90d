"""What must hold whatever comes in: bounded work and memory, one sentence, no code of the input."""

import contextlib
import importlib
import os
import pkgutil
import resource
import signal
import sys
import warnings

import psutil
from hypothesis import HealthCheck, settings

import daskfc
from daskfc.errors import DaskfcError, PartyError

TIMES = int(os.environ.get("FUZZ_TIMES", "0"))  # set by tests.fuzz.run: other inputs each time
SECONDS = 10.0  # of the processor, for inputs of some kB
MOST_BYTES = 512 << 20  # of memory that is touched
_ROOM = 4 << 30  # of addresses: so that no fault takes the machine with it
_LONGEST = 3000  # characters of a sentence
# What neither reading nor refusing does. Modules that are not loaded yet are imported by their
# name in what came in, or not at all: `everything_loaded` has loaded the others.
_BANNED = {
    "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "os.startfile",
    "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.putenv",
    "subprocess.Popen", "pickle.find_class", "socket.connect", "socket.bind", "shutil.rmtree",
    "ctypes.dlopen", "code.__new__", "marshal.loads", "exec", "import", "webbrowser.open",
}  # fmt: skip


def fuzzed(examples):
    """Return how often a property is tried; always alike, unless `make fuzz` asks for more."""
    return settings(
        derandomize=not TIMES,
        max_examples=examples * max(TIMES, 1),
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )


class TookTooLong(BaseException):
    """What came in keeps the processor busy."""


class _Seen:
    now: list[str] | None = None


def _note(event, given):
    if _Seen.now is not None and event in _BANNED:
        # Python compiles what dataclasses and namedtuples are made of, with no module of its own.
        _Seen.now.append(f"{event}: {str(given[:1])[:200]}")


sys.addaudithook(_note)


def everything_loaded():
    """Import what any name of daskfc imports, so that what is imported later is not daskfc's."""
    for module in pkgutil.walk_packages(daskfc.__path__, "daskfc."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                importlib.import_module(module.name)


def _peak():
    """Return the most bytes of memory since `_forget_peak`; 0 where the system does not say."""
    with contextlib.suppress(OSError), open("/proc/self/status", encoding="ascii") as file:
        return next((int(line.split()[1]) << 10 for line in file if line[:6] == "VmHWM:"), 0)
    return 0


def _forget_peak():
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def _too_long(number, frame):
    raise TookTooLong(f"more than {SECONDS} s of the processor")


@contextlib.contextmanager
def watched():
    """Fail when what runs within takes too much, or does anything but read."""
    _forget_peak()
    before = _peak()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = psutil.Process().memory_info().vms + _ROOM
    handler = signal.signal(signal.SIGPROF, _too_long)
    if sys.platform == "linux" and (soft == resource.RLIM_INFINITY or soft > most):
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    _Seen.now = seen = []
    try:
        yield
    finally:
        _Seen.now = None
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert seen == [], seen
    taken = _peak() - before
    assert taken < MOST_BYTES, f"{taken} bytes of memory"


def answer(read, *refusals):
    """Return what reading gives, or None where it is refused with one sentence of daskfc."""
    try:
        with watched():
            return read()
    except (DaskfcError, *refusals) as error:
        if isinstance(error, DaskfcError):
            told = str(error)
            assert "\n" not in told, told
            of_a_step = isinstance(error, PartyError)  # whose last word may be a type of error
            assert told.endswith((".", ".)")) or of_a_step, told
            assert len(told) < _LONGEST, told[:_LONGEST]
        return None
