"""Errors as one line on standard error, and the exit code that says whether anything started."""

import logging
import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

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
from daskfc.runs import Run, RunFailed

__all__ = [
    "BAD_INPUT", "FAILED", "LATER", "Ended", "exits", "serves_until_told", "signals_as_interrupt",
]  # fmt: skip

FAILED = 1
BAD_INPUT = 2
LATER = os.EX_TEMPFAIL  # 75: nothing was started, and the same command may succeed at another time

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_MOMENT = 0.05  # seconds


def _say(text: str) -> None:
    click.echo(" ".join(text.split()), err=True)


class _Interrupt:
    """Turns the first signal into a KeyboardInterrupt, and sees to it that it is not lost."""

    def __init__(self) -> None:
        self._told = self._ended = False
        self._hook = sys.unraisablehook
        self._before = {number: signal.getsignal(number) for number in _SIGNALS}
        # What is ignored stays so: under nohup, a terminal that closes ends nothing.
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

    The first signal ends the run, which then cleans up undisturbed by any other. One that comes
    while Python runs a destructor, where no exception ends anything, counts a moment later.
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
    """Take a signal for the end that a party or a scheduler is to have, whenever it comes.

    Handlers are there before anything is waited for: process 1 of a container hears no other
    signals.
    """
    with suppress(KeyboardInterrupt), signals_as_interrupt():
        yield


def _hint(run: Run | None) -> str:
    if run is None:
        return ""
    try:
        resumable, is_done = run.summary["resumable"], run.status == "done"
    except InvalidInput:  # its folder was removed or spoilt
        resumable = is_done = False
    if is_done:  # only what nobody needs any more was still to be removed
        return f" The run is done; see: daskfc report {run.folder}"
    return f" Resume with: daskfc resume {run.folder}" if resumable else ""


class Ended(SystemExit):
    """The end of the process: its exit code, and the sentence that was printed.

    Parameters
    ----------
    code : int
        Of the process.
    sentence : str
        Why.
    """

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(code)
        self.sentence = sentence


def _end(code: int, sentence: str) -> NoReturn:
    _say(f"daskfc: {sentence}")
    raise Ended(code, " ".join(sentence.split()))


@contextmanager
def exits(*, run: Run | None = None) -> Iterator[None]:
    """Turn errors into one line and an exit code.

    Parameters
    ----------
    run : Run, optional
        The run that an interrupt leaves behind.
    """
    try:
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
        logging.getLogger("daskfc.cli").debug("unexpected", exc_info=True)
        _end(
            FAILED,
            f"unexpected {type(error).__name__}; the traceback is in {Path(file.name)}. Please "
            "report it.",
        )
