"""Notify the targets of ``--notify`` when a run ends, however it ends."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from daskfc.cli.terminal.exits import FAILED, Ended
from daskfc.errors import InvalidInput
from daskfc.runs import Run
from daskfc.runs.outcome.alerts import NotTold, outcome_of, tell_outcome

__all__ = ["Ending", "told_of_the_end"]


class Ending:
    """The run that a command carries out, and the targets to notify of its end."""

    def __init__(self) -> None:
        self.targets: Sequence[str] = ()
        self.run: Run | None = None
        self.was_done = False

    def of(self, run: Run) -> None:
        """Set the run, before it is carried out."""
        self.run, self.was_done = run, run.status == "done"

    def summary(self) -> dict[str, Any]:
        """Return the run's summary; empty if there is none."""
        if self.run is None:
            return {}
        try:
            return self.run.summary
        except InvalidInput:  # its folder is gone: nothing was started
            return {}


@contextmanager
def told_of_the_end() -> Iterator[Ending]:
    """Notify the `targets` that the block sets how it ended, unless the run was done before."""
    ending = Ending()
    code, sentence = FAILED, None
    try:
        yield ending
        code = 0
    except Ended as end:
        code, sentence = int(str(end.code)), end.sentence
        raise
    finally:
        if not ending.was_done:
            name = None if ending.run is None else ending.run.folder.name
            summary = ending.summary()
            outcome = outcome_of(code, name=name, error=sentence, summary=summary)
            for target in ending.targets:
                try:
                    tell_outcome(target, outcome)
                except NotTold as error:
                    click.echo(f"Note: {error}", err=True)
