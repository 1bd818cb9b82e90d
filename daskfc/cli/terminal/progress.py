"""Progress on standard error, once something takes more than two seconds."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from daskfc.federation.driver.stage import Notice, Stage

PATIENCE_S = 2.0  # what is over sooner needs no bar
SILENCE_S = 10.0  # without a terminal a line comes at least so often


class _Bar:
    """A bar for the whole, or for the stage where no share of the whole is known.

    Above it stays a line for each stage that took long. Without a terminal there is a line for each
    stage, and one every ten seconds.
    """

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        self._console = console
        self._clock = clock
        self._started = clock()
        self._stage, self._done, self._total = "", 0, 0
        self._began = self._told = self._started
        self._announced = ""
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._task: TaskID | None = None
        self._whole = False  # whether the bar is that of the whole
        self._share: float | None = None
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=console,
            transient=True,
        )
        threading.Thread(target=self._tell_again, daemon=True).start()

    def __call__(self, stage: str, done: int, total: int) -> None:
        if isinstance(stage, Notice):
            self._console.print(stage, style=None, soft_wrap=True)
            return
        self._share = getattr(stage, "share", None)
        stage = stage.with_unit if isinstance(stage, Stage) else stage
        with self._lock:
            begins = stage != self._stage
            if begins:
                self._end_stage()
                self._began = self._clock()
            self._stage, self._done, self._total = stage, done, total
            if self._clock() - self._started < PATIENCE_S:
                return
            if self._console.is_terminal:
                self._draw(begins)
            elif stage != self._announced:
                self._write()

    def _draw(self, begins: bool) -> None:
        share = self._share
        words, done, total = self._stage, float(self._done), float(self._total)
        if total:
            words += f"  {self._done:,} of {self._total:,}"
        if share is not None:
            done, total = share, 1.0
        if self._task is None:
            self._bar.start()
        if self._task is None or (begins and not self._whole) or self._whole != (share is not None):
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task(words, total=total or None)
            self._whole = share is not None
        self._bar.update(self._task, description=words, completed=done, total=total or None)

    def _end_stage(self) -> None:
        """Leave a line on the terminal for a stage that took long."""
        took = self._clock() - self._began
        if self._console.is_terminal and self._stage and took >= PATIENCE_S:
            self._console.print(f"{took:5.0f} s  {self._stage}", style=None, soft_wrap=True)

    def _write(self) -> None:
        """Write a line: seconds since the start, the stage, how far it is, and what is left."""
        now = self._clock()
        line = f"{now - self._started:5.0f} s  {self._stage}"
        if self._total and self._done:
            line += f"  {self._done:,} of {self._total:,}, {self._done / self._total:.0%}"
            left = (now - self._began) * (self._total - self._done) / self._done
            if self._stage == self._announced and left:
                line += f", about {left:.0f} s left"
        self._console.print(line, style=None, soft_wrap=True)
        self._announced, self._told = self._stage, now

    def tell_again(self) -> None:
        """Write a line if none was written for long; on a terminal begin a long stage's bar."""
        with self._lock:
            if self._console.is_terminal:
                waited = self._clock() - self._started >= PATIENCE_S
                if self._task is None and self._stage and waited and not self._over.is_set():
                    self._draw(begins=True)
                return
            late = self._clock() - max(self._told, self._started + PATIENCE_S) >= SILENCE_S
            if late and self._stage and not self._over.is_set():
                self._write()

    def _tell_again(self) -> None:
        while not self._over.wait(SILENCE_S / 10):
            self.tell_again()

    def stop(self) -> None:
        self._over.set()
        with self._lock:
            if self._task is not None:
                self._bar.stop()
            self._end_stage()


@contextmanager
def shown_progress(
    console: Console | None = None, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[str, int, int], None]]:
    """Yield ``progress(stage, done, total)``, which shows stages; `total` is 0 if not known."""
    bar = _Bar(console or Console(stderr=True, highlight=False), clock)
    try:
        yield bar
    finally:
        bar.stop()
