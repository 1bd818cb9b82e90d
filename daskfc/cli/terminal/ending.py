"""Notify the targets of ``--notify`` when a run ends, however it ends."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from daskfc.cli.terminal.exits import FAILED, Ended
from daskfc.errors import InvalidInput
from daskfc.runs import Run
from daskfc.runs.outcome.alerts import NotTold, outcome_of, tell_outcome
from daskfc.runs.outcome.status import note_not_started


class Ending:
    """The run that a command carries out, and the targets to notify of its end."""

    def __init__(self) -> None:
        self.targets: Sequence[str] = ()
        self.run: Run | None = None
        self.was_done = False
        self._key: tuple[str, str] | None = None

    def of_key(self, runs_dir: str, name: str) -> None:
        """Set the name of a key's run, which is noted beside the runs if it does not start."""
        self._key = runs_dir, name

    def note(self, sentence: str) -> None:
        """Note that a key's run did not start, if it did not."""
        if self._key is not None and not Path(*self._key, "run.json").exists():
            note_not_started(*self._key, sentence)

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
        ending.note(sentence)
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
