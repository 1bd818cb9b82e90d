"""Who asked to be told how a run ended is told, whatever the end."""

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
    """What is known of a run while it lasts, and who is told of its end."""

    def __init__(self) -> None:
        self.targets: Sequence[str] = ()
        self.run: Run | None = None
        self.was_done = False

    def of(self, run: Run) -> None:
        """Say which run it is, before it is carried out."""
        self.run, self.was_done = run, run.status == "done"

    def summary(self) -> dict[str, Any]:
        """Return what came of the run; empty where nothing did."""
        if self.run is None:
            return {}
        try:
            return self.run.summary
        except InvalidInput:  # its folder is gone: nothing was started
            return {}


@contextmanager
def told_of_the_end() -> Iterator[Ending]:
    """Tell each target how what is done within ended; nothing where the run was done before.

    Yields
    ------
    Ending
        Whose ``targets`` (commands and addresses, see `daskfc.runs.outcome.alerts`) are to be set.
    """
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
