"""The options that a party is started with, and the settings of a run under way."""

import functools
import hashlib
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from daskfc.coding.residues.streams import SecretKey
from daskfc.deploy.config.config import SecurityFiles
from daskfc.errors import InvalidInput
from daskfc.federation.ledger.narration import Narrates
from daskfc.federation.messages.declaration import CALLER, SERVER, role_of
from daskfc.federation.party.last_result import LastResult, nowhere
from daskfc.federation.party.workspaces import (
    WORK,
    folder_of_start,
    folder_of_work,
    folders_of_client,
    folders_of_work,
)
from daskfc.folders import check_folder_name
from daskfc.site import Policy, Refusal

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")

_ALIKE = ("method", "package", "parameters", "preparation", "columns")
"""What two runs ask alike where one may start from the other's result."""


def by_steps(prepared: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, list[str]]:
    """Return which clients are prepared by which steps, as JSON, from each one's.

    They may hold a number for each sample; a start's settings are copied, signed and sent often.
    """
    found: dict[str, list[str]] = {}
    for client, steps in prepared.items():
        alike = (text for text, others in found.items() if prepared[others[0]] == steps)
        text = next(alike, None) or json.dumps(steps, sort_keys=True)
        found.setdefault(text, []).append(client)
    return found


@dataclass(frozen=True)
class RunSettings:
    """The settings of a run, which every party gets at its start and no step can change.

    Secrets depend on `run_id` and on `start`, new in a resumed run; `pseudonyms` is empty for clear
    ids. While `driver`, a Dask client, is connected, no other driver begins a run. `name` is that
    of the whole run, by which a site calls its folder. `preparation` is that of `by_steps`.
    """

    run_id: str
    random_state: int
    allow_raw: bool = False
    workspace: str | None = None
    results: str | None = None
    start: str = ""
    builds: Mapping[str, str] = field(default_factory=dict)
    driver: str = ""
    preparation: Mapping[str, list[str]] = field(default_factory=dict)
    pseudonyms: Mapping[str, Any] = field(default_factory=dict)
    request: Mapping[str, Any] = field(default_factory=dict)
    session: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        for name in (self.run_id, *([self.name] if self.name else [])):
            check_folder_name("run", name)
        if self.run_id.startswith(WORK):
            raise InvalidInput(
                f"the id of a start may not begin with {WORK!r}, as folders do that are found "
                f"again; got {self.run_id!r}. Choose another."
            )

    def prepared(self, client: str) -> list[Mapping[str, Any]]:
        """Return the steps by which a client's features are prepared."""
        for text, clients in self.preparation.items():
            if client in clients:
                return list(json.loads(text))
        return []

    @property
    def is_prepared_alike(self) -> bool:
        """Whether all clients are prepared by the same steps, or none is."""
        several = len(self.preparation) > 1
        return not several and all({*self.builds} <= {*own} for own in self.preparation.values())


@dataclass(frozen=True)
class PartyOptions:
    """What a party is started with; the driver never sends it later.

    `until` is in seconds since 1970, `bandwidth` in bytes a second, None for no limit. Only calls
    sealed with `driver_key` may hold code; a site's own party has None and runs installed steps
    only. A start's secrets depend on `secret` and on `nonce`, drawn here. `keep` is how many runs
    have folders in `folder`, None for all; `memory` is the process's limit in bytes.
    """

    name: str
    role: str
    scratch: str
    store: str | None = None
    folder: str | None = None
    keep: int | None = None
    threads: int = 1
    device: str = "auto"
    latency: float = 0.0
    bandwidth: float | None = None
    secret: SecretKey = field(default_factory=SecretKey.from_os)
    run: RunSettings | None = None
    narrates: Narrates = False
    metrics: str | None = None
    driver_key: SecretKey | None = None
    policy: Policy = field(default_factory=functools.partial(Policy.default, loopback=True))
    state: str | None = None
    nonce: bytes = field(default=b"", repr=False)
    submitter: str | None = None
    until: float | None = None
    ca: str | None = None
    serial: int = 0
    files: SecurityFiles | None = None
    trusted: bool = False
    memory: int | None = None

    def check_time(self) -> None:
        """Raise PolicyRefused when the run has lasted longer than the policy's ``runs.longest``."""
        if self.until is not None and time.time() > self.until:
            said = "the run has had the time that the policy lets it, and the party has left it."
            raise Refusal("runs.longest", said).error(self.name)

    def run_folder(self) -> Path:
        """Return the folder of this party in the run under way."""
        run = self.run
        if run is None:
            return Path(self.folder or self.scratch)
        if self.folder is not None and self.role == SERVER and run.workspace is not None:
            # Every start has a new run_id, and must find what earlier ones left, as the journal of
            # releases.
            return folder_of_work(self.folder, run.name, run.workspace, self.submitter)
        if self.folder is not None:
            return folder_of_start(self.folder, run.name, run.run_id)
        if run.workspace is None:
            return Path(self.scratch) / run.run_id
        return self._within(run.workspace)

    def folders_of_run(self) -> list[Path]:
        """Return the folders of the party's own workspace in which nothing stays after the run."""
        run = self.run
        if self.folder is None or run is None:
            return []
        if self.role != SERVER:
            return folders_of_client(self.folder)
        if run.workspace is None:
            return []
        return folders_of_work(self.folder, run.name, run.workspace, self.submitter)

    def durable_folder(self) -> Path:
        """Return the folder that a resumed run finds again under another id."""
        if self.folder is not None or self.run is None or self.run.workspace is None:
            return Path(self.folder or self.scratch)
        return self._within(self.run.workspace)

    def lasting_folder(self) -> Path:
        """Return the folder that the next run finds again too."""
        if self.folder is not None:
            return Path(self.folder)
        if self.run is None or self.run.results is None:
            raise nowhere()
        return Path(self.run.results) / "parties" / self.name

    def last_result(self) -> LastResult:
        """Return the last result, and its place, of fits like the one under way."""
        assert self.run is not None
        run = self.run
        asked = {name: run.request.get(name) for name in _ALIKE}
        alike = [asked, sorted(run.builds), run.random_state, self.submitter]
        name = hashlib.sha256(json.dumps(alike, sort_keys=True).encode()).hexdigest()[:32]
        kept = None if run.results is None else Path(run.results)
        if self.folder is not None:
            kept = Path(self.folder) / "last-results"
        return LastResult(kept and kept / name, self.run_folder() / f"start-{name}")

    def _within(self, workspace: str) -> Path:
        base = Path(workspace)
        return base / SERVER if self.role == SERVER else base / "parties" / self.name


def check_party_name(name: str, role: str = "client") -> None:
    """Refuse a party's name that folders, keys and resources cannot have, or that is reserved."""
    taken = name in (CALLER, "clients") or role_of(name) != "client"
    if not _NAME.fullmatch(name) or (role == "client" and taken):
        raise InvalidInput(
            f"the name of a client must have up to 63 letters, digits, '.', '_' or '-', and not be "
            f"'server', 'server-2' and so on, 'caller' or 'clients'; got {name!r}. Rename it."
        )
