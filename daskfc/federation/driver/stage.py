"""Stages of a fit, and notices, by which its progress is reported; a notebook's cell shows them."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any, Self

from daskfc.html_tables import notebook

_EVERY_S = 0.1  # ours: between two changes of the line below a cell


class Notice(str):
    """A progress message that stays readable when the next stage begins."""

    __slots__ = ()


class Stage(str):
    """The name of a stage, with the plural of what is counted in it, or "".

    `share` is that of the whole run which is done, in [0, 1]; None where it is not known.
    """

    __slots__ = ("share", "unit")
    unit: str
    share: float | None

    def __new__(cls, name: str, unit: str = "", share: float | None = None) -> Self:
        """See the class."""
        stage = super().__new__(cls, name)
        stage.unit, stage.share = unit, share
        return stage

    @property
    def with_unit(self) -> str:
        """The name, and what is counted in it."""
        return f"{self} ({self.unit})" if self.unit else str(self)


class _Line:
    """One line below a cell that tells the stage, with a bar where its end is known."""

    def __init__(self, display: Any, what: str) -> None:
        self._display, self._what = display, what
        self._began = time.monotonic()
        self._stage, self._shown = "", float("-inf")
        self._handle = display.display(display.HTML(escape(what)), display_id=True)

    def __call__(self, stage: str, done: int, total: int) -> None:
        if isinstance(stage, Notice):
            self._display.display(self._display.HTML(escape(stage)))
            return
        now = time.monotonic()
        if stage == self._stage and done < total and now - self._shown < _EVERY_S:
            return
        self._stage, self._shown = stage, now
        words = stage.with_unit if isinstance(stage, Stage) else stage
        share = getattr(stage, "share", None)
        far = f"{done:,} of {total:,}" if total else "…"
        if share is not None:
            self._show(f"{escape(words)} {far} {_bar(share, 1)} {share:.0%}")
        else:
            self._show(f"{escape(words)} {f'{_bar(done, total)} ' if total else ''}{far}")

    def end(self, how: str) -> None:
        self._show(escape(f"{how} after {time.monotonic() - self._began:.1f} s"))

    def _show(self, html: str) -> None:
        self._handle.update(self._display.HTML(f"{escape(self._what)}: {html}"))


def _bar(done: float, total: int) -> str:
    return f'<progress value="{done:.4g}" max="{total}"></progress>'


@contextmanager
def shown_in_cell(what: str) -> Iterator[Callable[[str, int, int], None] | None]:
    """Yield ``progress(stage, done, total)`` that shows below a notebook's cell; None elsewhere."""
    display = notebook()
    if display is None:
        yield None
        return
    line = _Line(display, what)
    try:
        yield line
    except BaseException:
        line.end("stopped")
        raise
    line.end("done")


@contextmanager
def followed_in_cell(federation: Any, what: str) -> Iterator[None]:
    """Show a federation's stages below a notebook's cell, unless its caller is told them."""
    if federation.on_progress is not None:
        yield
        return
    with shown_in_cell(what) as federation.on_progress:
        try:
            yield
        finally:
            federation.on_progress = None
