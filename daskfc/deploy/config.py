"""The cluster's YAML file: where parties run, in a few keys of ours and any of Dask's own."""

import os
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from daskfc.checks import sentence_of
from daskfc.deploy.config_values import (
    ADDRESS,
    Address,
    Bandwidth,
    Bytes,
    Dashboard,
    Seconds,
)
from daskfc.errors import InvalidInput
from daskfc.yaml_files import read_mapping

__all__ = [
    "SCHEDULER",
    "ClusterConfig",
    "ExistingCluster",
    "LocalCluster",
    "SecurityFiles",
    "ServerShape",
    "SshHost",
    "SshStart",
    "TrustedStart",
    "WorkerLimits",
    "load_cluster",
    "needs_certificates",
]

SCHEDULER = "scheduler"
"""What the host of the scheduler is called among those that SSH starts."""

_SERVER_WORKER = re.compile(r"server-[1-9][0-9]*")  # a client may be called server-room


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class WorkerLimits(_Strict):
    """What one party's worker may use.

    Attributes
    ----------
    nthreads : int
        Steps that it performs at once.
    blas_threads : int
        Threads of BLAS and OpenMP within a step.
    memory_limit : int
        Bytes; a worker that passes 95 % of it is stopped and started again.
    """

    nthreads: int = Field(default=1, ge=1)
    blas_threads: int = Field(default=1, ge=1)
    memory_limit: Bytes = 2_000_000_000


class _SomeLimits(_Strict):
    nthreads: int | None = Field(default=None, ge=1)
    blas_threads: int | None = Field(default=None, ge=1)
    memory_limit: Bytes | None = None


class ServerShape(_Strict):
    """How the server runs.

    Attributes
    ----------
    workers : int
        Worker processes that divide its work of all n² pairs; the first one does all else.
    """

    workers: int = Field(default=1, ge=1, le=64)


class LocalCluster(_Strict):
    """Worker processes on this machine, listening on its loopback address only.

    Attributes
    ----------
    worker : WorkerLimits
        Of every party.
    server : ServerShape
        How many workers the server has.
    parties : dict
        Other limits for single parties, by name; those of "server" hold for all of its workers.
    deadline : float
        Seconds that a party may be away, or give no sign of life, before the run fails.
    startup : float
        Seconds until all parties must be there.
    latency : float
        Seconds by which every message is held back, to see what a slow network would cost.
    bandwidth : float, optional
        Bytes a second in which each party's messages leave, one after the other, for the same end;
        in the file as "100Mbit" or "12MB".
    dashboard : str, optional
        Where this machine shows Dask's pages, such as "127.0.0.1:8787"; nowhere by default.
    dask : dict
        Any of Dask's own configuration keys, dotted or nested.
    """

    cluster: Literal["local"]
    worker: WorkerLimits = WorkerLimits()
    server: ServerShape = ServerShape()
    parties: dict[str, _SomeLimits] = {}
    deadline: Seconds = 60.0
    startup: Seconds = 60.0
    latency: float = Field(default=0.0, ge=0, le=60, allow_inf_nan=False)
    bandwidth: Bandwidth = None
    dashboard: Dashboard = None
    dask: dict[str, Any] = {}

    def limits(self, party: str) -> WorkerLimits:
        """Return the limits of one party."""
        own = self.parties.get(party)
        if own is None and _SERVER_WORKER.fullmatch(party):
            own = self.parties.get("server")
        changes = own.model_dump(exclude_none=True) if own else {}
        return self.worker.model_copy(update=changes)


class SecurityFiles(_Strict):
    """Certificates for TLS, as paths of PEM files.

    Attributes
    ----------
    ca, cert, key : str
        The authority that all parties trust, this side's certificate and its key. In a cluster's
        file they are relative to that file.
    """

    ca: str
    cert: str
    key: str

    def below(self, folder: str) -> "SecurityFiles":
        """Return whole paths, of which relative ones are in a folder."""
        return SecurityFiles(**{name: _below(folder, path) for name, path in self})


class SshHost(_Strict):
    """Where one side runs, and what it is started with there.

    Attributes
    ----------
    host, user, port
        Where SSH logs in; by default as the user here, on port 22.
    python : str
        The Python there that daskfc is installed for.
    store : str, optional
        A client's store, as a path or URL there; by default DASKFC_STORE of its environment.
    workspace, policy : str, optional
        As ``daskfc party`` takes them; paths there.
    memory_limit : int
        Bytes that the worker may use.
    security : SecurityFiles, optional
        The side's own certificate, as paths there.
    """

    host: str = Field(min_length=1)
    user: str | None = None
    port: int = Field(default=22, ge=1, le=65535)
    python: str = "python3"
    store: str | None = None
    workspace: str | None = None
    policy: str | None = None
    memory_limit: Bytes = 2_000_000_000
    security: SecurityFiles | None = None


class SshStart(_Strict):
    """How a scheduler and its parties are started by SSH.

    Attributes
    ----------
    known_hosts : str
        File with the keys of all hosts, as OpenSSH has it: no host is believed without.
    client_key : str, optional
        File of the key to log in with; by default those of the agent, and of the user.
    keepalive : float
        Seconds between two questions whether a host is there.
    hosts : dict
        Where scheduler, server and clients run, by name.
    """

    known_hosts: str
    client_key: str | None = None
    keepalive: Seconds = 15.0
    hosts: dict[str, SshHost]


class TrustedStart(_Strict):
    """How parties are started beside the plain workers of a Dask cluster that others run.

    Attributes
    ----------
    stores : dict
        Each client's store, as its worker reads it: a path there, or a URL.
    policies : dict
        Policies of clients, as paths there; what a worker's DASKFC_POLICY names goes before.
    memory_limit : int
        Bytes that each party's own process may use, beside its worker.
    """

    stores: dict[str, str] = Field(min_length=1)
    policies: dict[str, str] = {}
    memory_limit: Bytes = 2_000_000_000


class ExistingCluster(_Strict):
    """A running scheduler, whose workers are parties that their sites started.

    Attributes
    ----------
    scheduler : str, optional
        Address, such as ``tcp://10.0.0.1:8786`` or ``tls://...``.
    scheduler_file : str, optional
        File that has it in its place, as ``daskfc scheduler --scheduler-file`` writes it: where a
        batch system chooses the machine. In a cluster's file it is relative to that file.
    security : SecurityFiles, optional
        For ``tls://``.
    expect : tuple of str, optional
        Names of the clients that take part, where no storage file names them.
    server : ServerShape
        How many workers the server has; the second one's party is "server-2".
    deadline : float
        Seconds that a party may be away, or give no sign of life, before the run fails.
    startup : float, optional
        Seconds until all parties must be there; as long as the deadline by default.
    connect : float
        Seconds until the scheduler must have answered.
    ssh : SshStart, optional
        How all of it is started before it is joined, from a file with ``cluster: ssh``.
    trusted : TrustedStart, optional
        The scheduler is anybody's, and its workers are plain: parties are started beside them.
    dask : dict
        Any of Dask's own configuration keys, dotted or nested.
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
    dask: dict[str, Any] = {}

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
        """Where the scheduler is, as sentences say it."""
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
        """Return the same cluster with the address that its file told.

        Raises
        ------
        InvalidInput
            For an address of TLS without certificates, or no address at all.
        """
        try:
            changes = {"scheduler": address, "scheduler_file": None}
            return ExistingCluster.model_validate({**self.model_dump(), **changes})
        except ValidationError as error:
            raise InvalidInput(sentence_of(error, str(self.scheduler_file))) from None


class SshCluster(_Strict):
    """What a file with ``cluster: ssh`` holds: an existing cluster, and how it is started.

    Attributes
    ----------
    scheduler, security, server, deadline, startup, connect, dask
        As of `ExistingCluster`.
    known_hosts, client_key, keepalive, hosts
        As of `SshStart`.
    """

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
    dask: dict[str, Any] = {}

    @model_validator(mode="after")
    def _complete(self) -> Self:
        _check_certified(self.scheduler, self.security)
        served = ["server", *(f"server-{n}" for n in range(2, self.server.workers + 1))]
        if missing := sorted({SCHEDULER, *served} - set(self.hosts)):
            raise ValueError(f"'hosts' must name where {', '.join(missing)} runs as well")
        if more := sorted(set(self.hosts) - {SCHEDULER, *served, *self._clients()}):
            raise ValueError(
                f"'hosts' names {', '.join(more)}, and the server has {self.server.workers} "
                "workers; correct 'server: {workers: ...}' or the names"
            )
        if not self._clients():
            raise ValueError("'hosts' must name at least one client beside scheduler and server")
        for name, host in self.hosts.items():
            if name not in self._clients() and host.store is not None:
                raise ValueError(f"{name} of 'hosts' holds no data; it must have no store")
            if needs_certificates(self.scheduler) and host.security is None:
                raise ValueError(
                    f"{name} of 'hosts' needs certificates for {self.scheduler}; add "
                    "security: {ca: ..., cert: ..., key: ...}, as paths at that host"
                )
        return self

    def _clients(self) -> tuple[str, ...]:
        served = re.compile(rf"{SCHEDULER}|server(-\d+)?")
        return tuple(name for name in self.hosts if not served.fullmatch(name))

    def existing(self, folder: str) -> ExistingCluster:
        """Return what is joined after the start, with whole paths of files of this machine."""
        key = self.client_key
        start = SshStart(
            known_hosts=_below(folder, self.known_hosts),
            client_key=None if key is None else _below(folder, key),
            keepalive=self.keepalive,
            hosts=self.hosts,
        )
        shared = ("scheduler", "security", "server", "deadline", "startup", "connect", "dask")
        return ExistingCluster(
            cluster="existing",
            expect=self._clients(),
            ssh=start,
            **{name: getattr(self, name) for name in shared},
        )


ClusterConfig = LocalCluster | ExistingCluster
_ADAPTER: TypeAdapter[ClusterConfig | SshCluster] = TypeAdapter(
    Annotated[ClusterConfig | SshCluster, Field(discriminator="cluster")]
)


def _below(folder: str, path: str) -> str:
    return os.path.abspath(os.path.join(folder, path))


def _check_certified(scheduler: str | None, security: SecurityFiles | None) -> None:
    if scheduler is not None and needs_certificates(scheduler) and security is None:
        raise ValueError(
            f"the scheduler {scheduler} asks for certificates, and none are given; add "
            "security: {ca: ..., cert: ..., key: ...}"
        )


def needs_certificates(address: str) -> bool:
    """Return whether an address is one of TLS.

    Examples
    --------
    >>> from daskfc.deploy.config import needs_certificates
    >>> needs_certificates("tls://10.0.0.1:8786"), needs_certificates("tcp://10.0.0.1:8786")
    (True, False)
    """
    return address.startswith(("tls://", "wss://"))


def load_cluster(
    source: "str | os.PathLike[str] | Mapping[str, Any] | ClusterConfig | None",
) -> ClusterConfig:
    """Read where parties run.

    Parameters
    ----------
    source : path-like, mapping, LocalCluster, ExistingCluster or None
        A YAML file or its content, or the address of a running scheduler; None for a local cluster
        with all defaults.

    Returns
    -------
    LocalCluster or ExistingCluster
        Checked; ``cluster: ssh`` is an existing one that is started first.

    Raises
    ------
    InvalidInput
        When the file is missing, is no YAML, has a key twice, or an unknown key or a wrong value.

    Examples
    --------
    >>> from daskfc.deploy import load_cluster
    >>> load_cluster({"cluster": "local", "worker": {"memory_limit": "1GB"}}).worker.memory_limit
    1000000000
    >>> load_cluster({"cluster": "local", "workers": 3})
    Traceback (most recent call last):
    ...
    daskfc.errors.InvalidInput: the cluster: key 'workers' is not known there. Correct its \
spelling or remove it.
    """
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
        name = os.fspath(source)
        folder = os.path.dirname(name)
        content = read_mapping(source, "cluster", keys="the key 'cluster'")
    try:
        config = _ADAPTER.validate_python(content)
    except ValidationError as error:
        raise InvalidInput(_sentence(error, name, content)) from None
    if isinstance(config, SshCluster):
        config = config.existing(folder)
    if isinstance(config, ExistingCluster):
        # A run that is resumed from elsewhere finds them again.
        whole: dict[str, Any] = {}
        if config.security is not None:
            whole["security"] = config.security.below(folder)
        if config.scheduler_file is not None:
            whole["scheduler_file"] = _below(folder, config.scheduler_file)
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
