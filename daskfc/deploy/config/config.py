"""The cluster's YAML file: where parties run, in a few keys of daskfc and any of Dask's own."""

import os
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from daskfc.checks import Section, checked, sentence_of
from daskfc.deploy.config.dask_insides import CPU_COUNT
from daskfc.deploy.config.values import ADDRESS, Address, Bandwidth, Bytes, Dashboard, Seconds
from daskfc.errors import InvalidInput
from daskfc.folders import below
from daskfc.yaml_files import read_mapping

SCHEDULER = "scheduler"
"""What the host of the scheduler is called among those that SSH starts."""

_OF_THREAD = 16_000_000  # bytes of a thread's work arrays: 4 to 14 MB, measured with nine threads
_SERVED = re.compile(r"server(-[1-9][0-9]*)?")  # a client may be called server-room


def holds_data(name: str) -> bool:
    """Whether one of a cluster's sides is a client, as its name says."""
    return name != SCHEDULER and not _SERVED.fullmatch(name)


Device: TypeAlias = Literal["auto", "cpu"]
"""A graphics card where there is one, or none."""


class WorkerLimits(Section):
    """What one party's worker may use: steps at once, threads of a step, a card, bytes."""

    nthreads: int = Field(default=1, ge=1)
    blas_threads: int | None = Field(default=None, ge=1)
    device: Device = "auto"
    memory_limit: Bytes = 2_000_000_000

    def threads(self, busy: int = 1) -> int:
        """Return the threads of a step: as set, else the cores for each of the parties `busy`."""
        if self.blas_threads is not None:
            return self.blas_threads
        held = 1 + self.memory_limit // (20 * _OF_THREAD)
        return max(1, min(int(CPU_COUNT) // busy, held))


class _SomeLimits(Section):
    nthreads: int | None = Field(default=None, ge=1)
    blas_threads: int | None = Field(default=None, ge=1)
    device: Device | None = None
    memory_limit: Bytes | None = None


class ServerShape(Section):
    """How many workers divide the server's work of all n² pairs; the first one does all else."""

    workers: int = Field(default=1, ge=1, le=64)


class LocalCluster(Section):
    """Worker processes on this machine, listening on its loopback address only.

    `parties` overrides `worker` by name, "server" for all of its workers. `deadline`: seconds
    without a sign of life before the run fails; `startup`: seconds until all parties must be there.
    `latency` (seconds a message) and `bandwidth` (bytes a second a party) imitate a slow network.
    """

    cluster: Literal["local"]
    worker: WorkerLimits = WorkerLimits()
    server: ServerShape = ServerShape()
    parties: dict[str, _SomeLimits] = Field(default_factory=dict)
    deadline: Seconds = 60.0
    startup: Seconds = 60.0
    latency: float = Field(default=0.0, ge=0, le=60, allow_inf_nan=False)
    bandwidth: Bandwidth = None
    dashboard: Dashboard = None
    dask: dict[str, Any] = Field(default_factory=dict)

    def limits(self, party: str) -> WorkerLimits:
        """Return the limits of one party."""
        own = self.parties.get(party)
        if own is None and _SERVED.fullmatch(party):
            own = self.parties.get("server")
        changes = own.model_dump(exclude_none=True) if own else {}
        return self.worker.model_copy(update=changes)


class SecurityFiles(Section):
    """Paths of PEM files for TLS, relative to the cluster's file: authority, certificate, key."""

    ca: str
    cert: str
    key: str

    def below(self, folder: str) -> "SecurityFiles":
        """Return absolute paths; relative ones are below a folder."""
        return SecurityFiles(**{name: below(folder, path) for name, path in self})


class SshHost(Section):
    """Where one side runs, and what it is started with there.

    `store`, `workspace`, `policy` and `security` are paths there; a client's store is by default
    DASKFC_STORE of its environment; of `keep` runs its workspace has folders. User and port default
    to the user here and 22.
    """

    host: str = Field(min_length=1)
    user: str | None = None
    port: int = Field(default=22, ge=1, le=65535)
    python: str = "python3"
    store: str | None = None
    workspace: str | None = None
    keep: int | None = Field(default=None, ge=1)
    policy: str | None = None
    memory_limit: Bytes = 2_000_000_000
    device: Device = "auto"
    security: SecurityFiles | None = None


class SshStart(Section):
    """How a scheduler and its parties are started by SSH, on `hosts` by party name or "scheduler".

    `known_hosts` is OpenSSH's file of all hosts' keys, without which no host is trusted.
    `client_key` defaults to the keys of the agent and the user; `keepalive` is in seconds.
    """

    known_hosts: str
    client_key: str | None = None
    keepalive: Seconds = 15.0
    hosts: dict[str, SshHost]


class TrustedStart(Section):
    """How parties are started beside the plain workers of a Dask cluster that others run.

    `stores` and `policies` are paths or URLs at the worker; `memory_limit` is for each party's own
    process, in bytes, beside its worker.
    """

    stores: dict[str, str] = Field(min_length=1)
    policies: dict[str, str] = Field(default_factory=dict)
    memory_limit: Bytes = 2_000_000_000


class ExistingCluster(Section):
    """A running scheduler, whose workers are parties that their sites started.

    The address is `scheduler`, or is in `scheduler_file`, relative to the cluster's file. `expect`
    names the clients where no storage file does. `deadline`, `startup` (by default the deadline)
    and `connect` are seconds as in `LocalCluster`, and until the scheduler has answered. With `ssh`
    it is started before it is joined; with `trusted` parties are started beside plain workers.
    """

    cluster: Literal["existing"]
    scheduler: Address | None = None
    scheduler_file: str | None = None
    security: SecurityFiles | None = None
    expect: tuple[str, ...] | None = Field(default=None, min_length=1)
    server: ServerShape = ServerShape()
    deadline: Seconds = 60.0
    startup: Seconds | None = None
    connect: Seconds = 15.0
    ssh: SshStart | None = None
    trusted: TrustedStart | None = None
    dask: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _certified(self) -> Self:
        if (self.scheduler is None) == (self.scheduler_file is None):
            raise ValueError(
                "one of the keys 'scheduler', its address, and 'scheduler_file', a file that has "
                "it, must be given"
            )
        _check_certified(self.scheduler, self.security)
        return self

    @property
    def place(self) -> str:
        """The address or file of the scheduler, for error messages."""
        return self.scheduler or f"the scheduler of {self.scheduler_file}"

    @property
    def unprotected(self) -> str:
        """What is not protected where parties run beside plain workers; empty elsewhere."""
        if self.trusted is None:
            return ""
        return (
            f"trusted: whoever runs the Dask cluster at {self.place}, or may submit to it, can "
            "read what the parties hold"
        )

    def at(self, address: str) -> "ExistingCluster":
        """Return this cluster with an address read from its file; ``tls://`` needs certificates."""
        changed = {**self.model_dump(), "scheduler": address, "scheduler_file": None}
        return checked(ExistingCluster, changed, str(self.scheduler_file))


class SshCluster(Section):
    """A file with ``cluster: ssh``: an `ExistingCluster`, and how it is started, an `SshStart`."""

    cluster: Literal["ssh"]
    scheduler: Address
    known_hosts: str
    hosts: dict[str, SshHost]
    client_key: str | None = None
    keepalive: Seconds = 15.0
    security: SecurityFiles | None = None
    server: ServerShape = ServerShape()
    deadline: Seconds = 60.0
    startup: Seconds = 300.0
    connect: Seconds = 60.0
    dask: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        _check_certified(self.scheduler, self.security)
        served = ["server", *(f"server-{n}" for n in range(2, self.server.workers + 1))]
        if missing := sorted({SCHEDULER, *served} - set(self.hosts)):
            raise ValueError(f"'hosts' must name where {', '.join(missing)} runs as well")
        clients = tuple(filter(holds_data, self.hosts))
        if more := sorted(set(self.hosts) - {SCHEDULER, *served, *clients}):
            raise ValueError(
                f"'hosts' names {', '.join(more)}, and the server has {self.server.workers} "
                "workers; correct 'server: {workers: ...}' or the names"
            )
        if not clients:
            raise ValueError("'hosts' must name at least one client beside scheduler and server")
        for name, host in self.hosts.items():
            if name not in clients and host.store is not None:
                raise ValueError(f"{name} of 'hosts' holds no data; it must have no store")
            if needs_certificates(self.scheduler) and host.security is None:
                raise ValueError(
                    f"{name} of 'hosts' needs certificates for {self.scheduler}; add "
                    "security: {ca: ..., cert: ..., key: ...}, as paths at that host"
                )
        return self

    def existing(self, folder: str) -> ExistingCluster:
        """Return the cluster to join after the start, with absolute paths of local files."""
        key = self.client_key
        start = SshStart(
            known_hosts=below(folder, self.known_hosts),
            client_key=None if key is None else below(folder, key),
            keepalive=self.keepalive,
            hosts=self.hosts,
        )
        shared = ("scheduler", "security", "server", "deadline", "startup", "connect", "dask")
        return ExistingCluster(
            cluster="existing",
            expect=tuple(filter(holds_data, self.hosts)),
            ssh=start,
            **{name: getattr(self, name) for name in shared},
        )


ClusterConfig = LocalCluster | ExistingCluster
_ADAPTER: TypeAdapter[ClusterConfig | SshCluster] = TypeAdapter(
    Annotated[ClusterConfig | SshCluster, Field(discriminator="cluster")]
)


def _check_certified(scheduler: str | None, security: SecurityFiles | None) -> None:
    if scheduler is not None and needs_certificates(scheduler) and security is None:
        raise ValueError(
            f"the scheduler {scheduler} asks for certificates, and none are given; add "
            "security: {ca: ..., cert: ..., key: ...}"
        )


def needs_certificates(address: str) -> bool:
    """Return whether an address is one of TLS."""
    return address.startswith(("tls://", "wss://"))


def load_cluster(
    source: "str | os.PathLike[str] | Mapping[str, Any] | ClusterConfig | None",
) -> ClusterConfig:
    """Read where parties run: a YAML file, its content, or a scheduler's address; None is here."""
    if isinstance(source, LocalCluster | ExistingCluster):
        return source
    if isinstance(source, str) and ADDRESS.fullmatch(source):
        source = {"cluster": "existing", "scheduler": source}
    name, folder = "the cluster", os.curdir
    if source is None:
        content: dict[str, Any] = {"cluster": "local"}
    elif isinstance(source, Mapping):
        content = dict(source)
    else:
        content = read_mapping(source, "cluster", keys="the key 'cluster'")
        name = os.fspath(source)
        folder = os.path.dirname(name)
    try:
        config = _ADAPTER.validate_python(content)
    except ValidationError as error:
        raise InvalidInput(_sentence(error, name, content)) from None
    if isinstance(config, SshCluster):
        config = config.existing(folder)
    if isinstance(config, ExistingCluster):
        # Absolute paths, which a run that is resumed from elsewhere finds again.
        whole: dict[str, Any] = {}
        if config.security is not None:
            whole["security"] = config.security.below(folder)
        if config.scheduler_file is not None:
            whole["scheduler_file"] = below(folder, config.scheduler_file)
        config = config.model_copy(update=whole)
    return config


def _sentence(error: ValidationError, name: str, content: dict[str, Any]) -> str:
    if error.errors()[0]["type"] in ("union_tag_not_found", "union_tag_invalid"):
        got = content.get("cluster", "nothing")
        return (
            f"{name}: key 'cluster' must be 'local', 'existing' or 'ssh'; got {got!r}. Correct it."
        )
    # pydantic puts the branch of the union first in the path of the key.
    return sentence_of(error, name).replace(f"key '{content['cluster']}.", "key '", 1)
