"""What a party is started with, and what it knows of a run under way."""

import functools
import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from daskfc.coding.streams import SecretKey
from daskfc.deploy.config import SecurityFiles
from daskfc.federation.last_result import LastResult
from daskfc.federation.messages import SERVER
from daskfc.federation.workspaces import folder_of_work, folders_of_client, folders_of_run
from daskfc.folders import check_folder_name
from daskfc.site import Policy, Refusal

__all__ = ["PartyOptions", "RunSettings"]

_ALIKE = ("method", "package", "parameters", "preparation", "columns")
"""What two runs ask alike where one may start from the other's result."""


@dataclass(frozen=True)
class RunSettings:
    """What every party knows of a run, from its start on; no step can change it.

    Parameters
    ----------
    run_id : str
        The run's identity; secrets are derived from it.
    random_state : int
        The user's seed.
    allow_raw : bool
        Whether messages with protection "raw" may leave.
    workspace : str, optional
        The run's folder, where the server's folder lies.
    results : str, optional
        Where a server without a folder of its own keeps results beyond the run; nowhere by default.
    start : str
        Of this start of the run: one that is begun again has new secrets.
    builds : mapping of str to str
        Which writing of its store each client brought when the federation opened.
    driver : str
        Dask's name of the client that began it; while that is connected no other begins a run.
    preparation : mapping of str to list of mapping
        Steps that each client's rows go through as they are read.
    pseudonyms : mapping
        What the caller is told in place of sample ids, as `Pseudonyms.as_dict` writes it; where
        it is empty the caller asked for clear ids.
    request : mapping
        What the run is for, as the fields of a `RunRequest`: the driver's word, which each party's
        policy judges.
    session : str
        Public key that signs the run's calls, see `SessionKey`; empty without TLS.
    """

    run_id: str
    random_state: int
    allow_raw: bool = False
    workspace: str | None = None
    results: str | None = None
    start: str = ""
    builds: Mapping[str, str] = field(default_factory=dict)
    driver: str = ""
    preparation: Mapping[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    pseudonyms: Mapping[str, Any] = field(default_factory=dict)
    request: Mapping[str, Any] = field(default_factory=dict)
    session: str = ""

    def __post_init__(self) -> None:
        check_folder_name("run", self.run_id)


@dataclass(frozen=True)
class PartyOptions:
    """What a party is started with; the driver never sends it later.

    Parameters
    ----------
    name : str
        The party's name, also that of its worker and of its resource.
    role : {"client", "server", "server worker"}
        Whether it holds data, reduces, or takes a part of the server's work.
    store : str, optional
        URL of the client's store.
    scratch : str
        Folder for what the party keeps when no other folder is given.
    folder : str, optional
        The party's own folder on its own machine.
    blas_threads : int
        Threads of BLAS and OpenMP in its worker process.
    latency : float
        Seconds by which its messages are held back.
    bandwidth : float, optional
        Bytes a second in which they leave, one after the other; no limit by default.
    secret : SecretKey
        Kept by the nanny, so that it survives the worker process.
    run : RunSettings, optional
        The run under way, for a worker process started within it.
    narrates : bool
        Whether it tells on standard error what it is asked and what it sends.
    metrics : str, optional
        Where its worker tells counts to Prometheus; nowhere by default.
    driver_key : SecretKey, optional
        Seal of the driver that started it: what bears it may hold code. A party of a site of its
        own has none, and runs installed steps alone.
    policy : Policy
        What the party takes part in; by default whatever its driver asks.
    state : str, optional
        File of what the party remembers of all runs; without one its nanny does while it lives.
    nonce : bytes
        Drawn here for the start under way; its secrets depend on it.
    submitter : str, optional
        Who began the run under way, by the certificate that signed its start; None without TLS.
    until : float, optional
        When the party leaves that run, in seconds since 1970; its policy may set no time.
    ca : str, optional
        File of the authority whose submitters may begin runs; None without TLS.
    serial : int
        Number of the party's own certificate; 0 without TLS.
    files : SecurityFiles, optional
        The party's own certificate and key, by which it signs; None without TLS.
    trusted : bool
        Whether it runs beside a worker of a Dask cluster that others run.
    """

    name: str
    role: str
    scratch: str
    store: str | None = None
    folder: str | None = None
    blas_threads: int = 1
    latency: float = 0.0
    bandwidth: float | None = None
    secret: SecretKey = field(default_factory=SecretKey.from_os)
    run: RunSettings | None = None
    narrates: bool = False
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

    def check_time(self) -> None:
        """Raise when the run under way has had the time that the policy lets it.

        Raises
        ------
        PolicyRefused
            By the rule ``runs.longest``.
        """
        if self.until is not None and time.time() > self.until:
            said = "the run has had the time that the policy lets it, and the party has left it."
            raise Refusal("runs.longest", said).error(self.name)

    def run_folder(self) -> Path:
        """Return the folder of this party in the run under way."""
        if self.run is None:
            return Path(self.folder or self.scratch)
        if self.folder is not None and self.role == SERVER and self.run.workspace is not None:
            # Every start has a new run_id; another one must find what an earlier one left, as the
            # journal of what was released.
            return folder_of_work(self.folder, self.run.workspace)
        if self.folder is not None:
            return Path(self.folder) / self.run.run_id
        if self.run.workspace is None:
            return Path(self.scratch) / self.run.run_id
        return self._within(self.run.workspace)

    def folders_of_run(self) -> list[Path]:
        """Return the folders of the party's own workspace in which nothing stays after the run."""
        if self.folder is None or self.run is None:
            return []
        if self.role != SERVER:
            return folders_of_client(self.folder)
        return [] if self.run.workspace is None else folders_of_run(self.folder, self.run.workspace)

    def durable_folder(self) -> Path:
        """Return the folder that a run which is resumed finds again, whatever its id is then."""
        if self.folder is not None or self.run is None or self.run.workspace is None:
            return Path(self.folder or self.scratch)
        return self._within(self.run.workspace)

    def last_result(self) -> LastResult:
        """Return the place of the last result of fits like the one of the run under way."""
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
