"""FedSC's journal of a fit, to resume it after a crash: dictionaries by round, noisy releases."""

import hashlib
import json
import math
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from daskfc.arrays import Floats, Ints
from daskfc.errors import PrivacyError, StoreError
from daskfc.federation import Checkpoints, Federation, Local
from daskfc.federation.methods.samples import StoreContent
from daskfc.folders import whole_folder, write_whole
from daskfc.privacy import Accountant, GaussianEvent
from daskfc.protocols.fedsc.messages import Resumed


@dataclass(frozen=True)
class Journal:
    """The server's journal of one fit: the dictionary after each round, and noisy releases."""

    folder: Path

    @classmethod
    def opened(cls, folder: Path) -> "Journal":
        """Open the journal in a folder; a new one is created atomically, with an empty list."""
        if not folder.exists():
            folder.parent.mkdir(parents=True, exist_ok=True)
            try:
                with whole_folder(folder) as staged:
                    cls(staged)._write({})
            except OSError:
                if not folder.exists():  # else the same step ran twice at the same time
                    raise
        return cls(folder)

    @property
    def _releases(self) -> Path:
        return self.folder / "releases.json"

    def _write(self, releases: Mapping[str, float]) -> None:
        """Write all releases atomically, with a digest: no crash may shorten the list."""
        text = json.dumps(releases)
        digest = hashlib.sha256(text.encode()).hexdigest()
        write_whole(self._releases, json.dumps({"releases": text, "sha256": digest}).encode())

    def _read(self) -> dict[str, float]:
        if not self.folder.exists():
            raise StoreError(
                f"{self.folder}: the server's journal of this fit was removed while it ran. Resume "
                "the run, whose record has what was released as well."
            )
        try:
            kept = json.loads(self._releases.read_text())
            releases: dict[str, float] = json.loads(kept["releases"])
            whole = hashlib.sha256(kept["releases"].encode()).hexdigest() == kept["sha256"]
        except (OSError, ValueError, KeyError, TypeError):
            whole = False
        if not whole:
            raise PrivacyError(
                f"{self._releases}: the list of this fit's noisy releases is missing or damaged, "
                "so that what is left of its budget is not known. Start a new run with a budget "
                "for both."
            )
        return releases

    def releases(self) -> Floats:
        """Return the noise multipliers of all releases in all starts; refuse a damaged list."""
        return np.array(list(self._read().values()), dtype=np.float64)

    def expect(self, name: str, multiplier: float) -> None:
        """Record a noisy release before it is requested; a repeated step records one name once."""
        self._write({**self._read(), name: multiplier})


def journal_of(
    workspace: str,
    params: str,
    positions: Mapping[str, Ints],
    contents: Mapping[str, StoreContent] | None,
) -> Journal:
    """Open the journal of this fit; without contents the samples count as unchanged."""
    digest = hashlib.sha256(params.encode())
    for name, content in sorted((contents or {}).items()):
        digest.update(f"{name} {content.tag} ".encode())
    for name in sorted(positions):
        digest.update(name.encode() + positions[name].tobytes())
    return Journal.opened(Path(workspace) / f"fedsc-{digest.hexdigest()[:16]}")


def resumed(journal: Journal, noisy: bool) -> Resumed:
    """Return the last round of an earlier start of the fit, 0 for none, for the caller."""
    released = journal.releases() if noisy else np.empty(0)
    checkpoints = Checkpoints(journal.folder)
    for number in reversed(checkpoints.rounds()):
        with suppress(StoreError):
            change = float(checkpoints.load(number)["change"])
            if number > 1:
                checkpoints.load(number - 1)  # `stale_pair` needs it too
            return Resumed(number, change, released)
    return Resumed(0, math.inf, released)


def expect(journal: Journal, name: str, multiplier: float) -> Journal:
    """Record a noisy release of every client before it is requested."""
    journal.expect(name, multiplier)
    return journal


@dataclass
class Releases:
    """The driver's list of a fit's noisy releases by their multipliers, over all its starts."""

    multipliers: list[float] = field(default_factory=list)
    n_before: int = field(init=False)

    def __post_init__(self) -> None:
        self.n_before = len(self.multipliers)

    def expect(self, federation: Federation, journal: Local, multiplier: float) -> Local:
        """Have the server record a release of every client, and wait for it."""
        self.multipliers.append(multiplier)
        noted = federation.on_server(expect, journal, uuid.uuid4().hex, multiplier)
        federation.wait(noted)
        return noted

    @classmethod
    def of_both(cls, at_server: Sequence[float], here: Sequence[float]) -> "Releases":
        """Return the costlier of two lists, one of which may have been lost."""
        first, second = cls(list(at_server)), cls(list(here))
        return max(first, second, key=lambda one: one.accountant.mu if one.accountant else 0.0)

    @property
    def accountant(self) -> Accountant | None:
        """Accountant of all these releases of a client; None before the first."""
        return Accountant(tuple(map(GaussianEvent, self.multipliers))) if self.multipliers else None
