"""Errors as one line on standard error, and the exit code that says whether anything started."""

import logging
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click

from daskfc.errors import ClusterError, DaskfcError, InvalidInput, PrivacyError
from daskfc.runs import Run, RunFailed

__all__ = ["BAD_INPUT", "FAILED", "exits", "signals_as_interrupt"]

FAILED = 1
BAD_INPUT = 2

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _say(text: str) -> None:
    click.echo(" ".join(text.split()), err=True)


@contextmanager
def signals_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM (a service stopped, a batch system's limit) and SIGHUP as Ctrl-C.

    The first signal ends the run, which then cleans up undisturbed by any other.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are not ours to handle
        return
    told = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal told
        if not told:
            told = True
            raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    # What is ignored stays so: under nohup, a terminal that closes ends nothing.
    ours = [number for number, handler in before.items() if handler not in (signal.SIG_IGN, None)]
    for number in ours:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])


def _hint(run: Run | None) -> str:
    if run is None:
        return ""
    try:
        resumable = run.summary["resumable"]
    except InvalidInput:  # its folder was removed or spoilt
        resumable = False
    return f" Resume with: daskfc resume {run.folder}" if resumable else ""


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
        _say(f"daskfc: interrupted.{_hint(run)}")
        sys.exit(FAILED)
    except RunFailed as error:
        _say(f"daskfc: {error}")
        sys.exit(FAILED)
    except (InvalidInput, ClusterError, PrivacyError) as error:  # of a run that never started
        _say(f"daskfc: {error}")
        sys.exit(BAD_INPUT)
    except DaskfcError as error:
        _say(f"daskfc: {error}")
        sys.exit(FAILED)
    except Exception as error:
        with tempfile.NamedTemporaryFile(
            "w", prefix="daskfc-", suffix=".log", delete=False, encoding="utf-8"
        ) as file:
            traceback.print_exc(file=file)
        logging.getLogger("daskfc.cli").debug("unexpected", exc_info=True)
        _say(
            f"daskfc: unexpected {type(error).__name__}; the traceback is in {Path(file.name)}. "
            "Please report it."
        )
        sys.exit(FAILED)
