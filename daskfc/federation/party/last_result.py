"""The result of a fit that a server keeps beyond its run, as the start of the next such fit."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np

from daskfc.errors import InvalidInput
from daskfc.federation.messages.declaration import Message
from daskfc.federation.party.checkpoints import Checkpoints
from daskfc.folders import make_private


def nowhere() -> InvalidInput:
    """Return the error of a party that has nothing in which a result outlives its run."""
    return InvalidInput(
        "a party has no folder in which a result outlives its run, which start='last' needs. "
        "Start it with --workspace, or set the federation's 'results'."
    )


class StartFound(
    Message,
    route="server → caller",
    reveals="to the caller whether the server kept the result of an earlier fit, and its size",
):
    """The shape of what a fit starts from, of two axes; 0 and 0 where nothing was kept."""

    n_rows: int
    n_columns: int

    @classmethod
    def of(cls, last_result: "LastResult", name: str) -> Self:
        """Return the shape of one array of the start of the fit under way."""
        found = last_result.start()
        return cls(0, 0) if found is None else cls(*found[name].shape)


@dataclass(frozen=True)
class LastResult:
    """The last result of one submitter's fits with equal method, settings, seed and clients.

    Privacy: the server's state after a fit stays in `folder`, which no caller names, until the site
    removes it, even where a client has deleted samples since.
    """

    folder: Path | None
    fit_folder: Path

    def part(self, name: str) -> Self:
        """Return another result of the same fits, kept beside this one."""
        return replace(
            self, folder=self.folder and self.folder / name, fit_folder=self.fit_folder / name
        )

    def start(self) -> dict[str, np.ndarray] | None:
        """Return what this fit starts from, None where nothing was kept."""
        decided = Checkpoints(self.fit_folder)
        found = decided.latest()
        if found is None:
            kept = Checkpoints(self._kept())
            if (found := kept.latest()) is None:
                decided.save(0, {})
                return None
            decided.take(0, kept, found[0])
        return found[1] or None

    def keep(self, state: Mapping[str, np.ndarray]) -> None:
        """Keep the result of the fit under way in place of the last one."""
        checkpoints = Checkpoints(self._kept())
        newest = max(checkpoints.rounds(), default=-1)
        checkpoints.save(newest + 1, state)

    def _kept(self) -> Path:
        if self.folder is None:
            raise nowhere()
        return make_private(self.folder)
