"""Checkpoints of a party's small state: named arrays, written whole or not at all."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from daskfc.errors import InvalidInput, StoreError
from daskfc.folders import flush

_NAME = re.compile(r"round-(\d{8})\.npz")


class Checkpoints:
    """The states of a party after some of its rounds, in one folder.

    Parameters
    ----------
    folder : path-like
        Made when missing; a step's ``workspace`` or a folder below it.
    keep : int or None
        How many of the newest states stay on disk; None for all of them.

    Examples
    --------
    >>> import tempfile
    >>> from daskfc.federation.party.checkpoints import Checkpoints
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoints = Checkpoints(folder)
    ...     checkpoints.save(3, {"centers": np.zeros((2, 2))})
    ...     number, state = checkpoints.latest()
    >>> number, state["centers"].shape
    (3, (2, 2))
    """

    def __init__(self, folder: str | os.PathLike[str], *, keep: int | None = 2) -> None:
        if keep is not None and keep < 1:
            raise InvalidInput(
                f"the 'keep' parameter of Checkpoints must be at least 1; got {keep}."
            )
        self.folder = Path(folder)
        self.keep = keep
        self.folder.mkdir(parents=True, exist_ok=True)

    def save(self, round: int, state: Mapping[str, np.ndarray]) -> None:
        """Write the arrays after a round >= 0, whole once this returns, and absent before.

        Raises
        ------
        InvalidInput
            For an array of Python objects, which could not be read back safely.
        """
        arrays = {name: np.asarray(value) for name, value in state.items()}
        for name, value in arrays.items():
            if value.dtype.hasobject:
                raise InvalidInput(f"a checkpoint holds arrays without objects; {name!r} has some.")
        target = self._path(round)
        partial = target.with_suffix(f".{os.getpid()}.partial")
        with partial.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
        flush(self.folder)
        outdated = [] if self.keep is None else self.rounds()[: -self.keep]
        for old in outdated:
            self._path(old).unlink(missing_ok=True)

    def take(self, round: int, other: "Checkpoints", of: int) -> None:
        """Have the state of another folder's round as one of one's own, without a copy of it."""
        try:
            self._path(round).hardlink_to(other._path(of))
        except OSError:  # on another disk, or on one that has no links
            self.save(round, other.load(of))
        flush(self.folder)

    def _path(self, round: int) -> Path:
        return self.folder / f"round-{round:08d}.npz"

    def rounds(self) -> list[int]:
        """Return the rounds whose state is on disk, oldest first."""
        found = (_NAME.fullmatch(path.name) for path in self.folder.iterdir())
        return sorted(int(match.group(1)) for match in found if match)

    def latest(self) -> tuple[int, dict[str, np.ndarray]] | None:
        """Return the newest round whose state can be read, and that state, or None."""
        for number in reversed(self.rounds()):
            try:
                return number, self.load(number)
            except StoreError:  # torn by a crash of the machine: take the one before
                continue
        return None

    def load(self, round: int) -> dict[str, np.ndarray]:
        """Return the state after a round; StoreError when it is not there as it was written."""
        path = self._path(round)
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                # Every array of the archive has a checksum.
                return {name: archive[name] for name in archive.files}
        except Exception as error:  # whatever NumPy and zipfile raise for damaged bytes
            raise StoreError(
                f"{path}: the state after round {round} is missing or damaged "
                f"({type(error).__name__}). Resume the run, which goes on from an older one."
            ) from None
