"""Turn errors into one line on standard error and an exit code."""

import os
import signal
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from daskfc.errors import (
    ClusterError,
    DaskfcError,
    InvalidInput,
    NotAdmitted,
    PrivacyError,
    RunHeld,
    StoreAway,
)
from daskfc.runs.outcome.failures import RunFailed

if TYPE_CHECKING:
    from daskfc.runs import Run  # a party and a scheduler need nothing of it

FAILED = 1
BAD_INPUT = 2
LATER = os.EX_TEMPFAIL  # 75: nothing was started, and the same command may succeed at another time

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_MOMENT = 0.05  # seconds


def _note(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    """Tell a warning as a sentence, without the place in the code where it arose."""
    kind = "Note" if issubclass(category, UserWarning) else category.__name__
    click.echo(" ".join(f"{kind}: {message}".split()), err=True)


class _Interrupt:
    """Raises KeyboardInterrupt at the first signal, and again if a destructor swallowed it."""

    def __init__(self) -> None:
        self._told = self._ended = False
        self._hook = sys.unraisablehook
        self._before = {number: signal.getsignal(number) for number in _SIGNALS}
        # Ignored signals stay ignored: under nohup, closing the terminal ends nothing.
        ignored = (signal.SIG_IGN, None)
        self._ours = [number for number, how in self._before.items() if how not in ignored]

    def begin(self) -> None:
        for number in self._ours:
            signal.signal(number, self._interrupt)
        sys.unraisablehook = self._raise_later

    def end(self) -> None:
        self._ended = True
        sys.unraisablehook = self._hook
        for number in self._ours:
            signal.signal(number, self._before[number])

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if not self._told:
            self._told = True
            raise KeyboardInterrupt

    def _raise_later(self, unraisable: "sys.UnraisableHookArgs") -> None:
        if not (self._told and issubclass(unraisable.exc_type, KeyboardInterrupt)):
            self._hook(unraisable)
            return
        again = threading.Timer(_MOMENT, self._send)
        again.daemon = True
        again.start()
        self._told = False

    def _send(self) -> None:
        if not self._ended:
            os.kill(os.getpid(), self._ours[0])


@contextmanager
def signals_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM (a service stopped, a batch system's limit) and SIGHUP as Ctrl-C.

    The first signal ends the run, and later ones do not disturb its clean-up. A signal during a
    destructor, where an exception would end nothing, is raised again a moment later.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are not ours to handle
        return
    interrupt = _Interrupt()
    interrupt.begin()
    try:
        yield
    finally:
        interrupt.end()


@contextmanager
def serves_until_told() -> Iterator[None]:
    """Take a signal, whenever it comes, as the normal end of a party or a scheduler.

    Handlers are set before any waiting, as process 1 of a container gets no other signals.
    """
    with suppress(KeyboardInterrupt), signals_as_interrupt():
        yield


def _hint(run: "Run | None") -> str:
    if run is None:
        return ""
    try:
        resumable, is_done = run.summary["resumable"], run.status == "done"
    except InvalidInput:  # its folder was removed or damaged
        resumable = is_done = False
    if is_done:  # only files that nobody needs were still to be removed
        return f" The run is done; see: daskfc report {run.folder}"
    return f" Resume with: daskfc resume {run.folder}" if resumable else ""


class Ended(SystemExit):
    """The end of the process, with its exit code and the sentence that was printed."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(code)
        self.sentence = sentence


def _end(code: int, sentence: str) -> NoReturn:
    sentence = " ".join(sentence.split())
    click.echo(f"daskfc: {sentence}", err=True)
    raise Ended(code, sentence)


@contextmanager
def exits(*, run: "Run | None" = None) -> Iterator[None]:
    """Turn errors into one line and an exit code; `run` is what an interrupt leaves behind."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _note
            yield
    except click.ClickException:
        raise
    except KeyboardInterrupt:
        _end(FAILED, f"interrupted.{_hint(run)}")
    except RunFailed as error:
        _end(FAILED, str(error))
    except (RunHeld, StoreAway) as error:
        _end(LATER, str(error))
    except (InvalidInput, NotAdmitted, PrivacyError) as error:  # of a run that never started
        _end(BAD_INPUT, str(error))
    except ClusterError as error:
        _end(LATER, str(error))
    except DaskfcError as error:
        _end(FAILED, str(error))
    except Exception as error:
        with tempfile.NamedTemporaryFile(
            "w", prefix="daskfc-", suffix=".log", delete=False, encoding="utf-8"
        ) as file:
            traceback.print_exc(file=file)
        _end(
            FAILED,
            f"unexpected {type(error).__name__}; the traceback is in {Path(file.name)}. Please "
            "report it.",
        )
