"""The cluster's YAML file: where parties run, in a few keys of ours and any of Dask's own."""

import os
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from dask.utils import parse_bytes, parse_timedelta
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from daskfc.checks import sentence_of
from daskfc.deploy.dashboard import check_dashboard
from daskfc.errors import InvalidInput
from daskfc.yaml_files import read_mapping

__all__ = [
    "ClusterConfig",
    "ExistingCluster",
    "LocalCluster",
    "SecurityFiles",
    "ServerShape",
    "WorkerLimits",
    "load_cluster",
    "needs_certificates",
]


# Ours: a party that has loaded what steps import takes 210 MB, and is stopped at 95 % of its limit.
LEAST_MEMORY = 256_000_000


def _bytes(value: Any) -> int:
    try:
        number = int(parse_bytes(value))
    except (TypeError, ValueError):
        raise ValueError("must be a number of bytes such as 2GB") from None
    if number < LEAST_MEMORY:
        least = f"{LEAST_MEMORY // 1_000_000}MB"
        raise ValueError(f"must be at least {least}, which a worker process needs by itself")
    return number


def _seconds(value: Any) -> float:
    try:
        number = float(parse_timedelta(value))
    except (TypeError, ValueError, KeyError):
        raise ValueError("must be a time such as 60s or 5 minutes") from None
    if not 0 < number < float("inf"):
        raise ValueError("must be a time above 0")
    return number


_ADDRESS = re.compile(r"(tcp|tls|ws|wss)://.+:\d+")


def _address(value: str) -> str:
    if not _ADDRESS.fullmatch(value):
        raise ValueError(
            "must be the address of a Dask scheduler with its port, such as tcp://10.0.0.1:8786 or "
            "tls://10.0.0.1:8786"
        )
    return value


def _dashboard(value: Any) -> str | None:
    if value is None or value is False:
        return None
    if not isinstance(value, str):
        raise ValueError("must be an address of this machine such as 127.0.0.1:8787, or false")
    try:
        check_dashboard(value)
    except InvalidInput as error:
        raise ValueError(str(error)) from None
    return value


_Bytes = Annotated[int, BeforeValidator(_bytes)]
_Seconds = Annotated[float, BeforeValidator(_seconds)]


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
    memory_limit: _Bytes = 2_000_000_000


class _SomeLimits(_Strict):
    nthreads: int | None = Field(default=None, ge=1)
    blas_threads: int | None = Field(default=None, ge=1)
    memory_limit: _Bytes | None = None


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
    dashboard : str, optional
        Where this machine shows Dask's pages, such as "127.0.0.1:8787"; nowhere by default.
    dask : dict
        Any of Dask's own configuration keys, dotted or nested.
    """

    cluster: Literal["local"]
    worker: WorkerLimits = WorkerLimits()
    server: ServerShape = ServerShape()
    parties: dict[str, _SomeLimits] = {}
    deadline: _Seconds = 60.0
    startup: _Seconds = 60.0
    latency: float = Field(default=0.0, ge=0, le=60, allow_inf_nan=False)
    dashboard: Annotated[str | None, BeforeValidator(_dashboard)] = None
    dask: dict[str, Any] = {}

    def limits(self, party: str) -> WorkerLimits:
        """Return the limits of one party."""
        own = self.parties.get(party)
        if own is None and party.startswith("server-"):
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
        return SecurityFiles(
            **{name: os.path.abspath(os.path.join(folder, path)) for name, path in self}
        )


class ExistingCluster(_Strict):
    """A running scheduler, whose workers are parties that their sites started.

    Attributes
    ----------
    scheduler : str
        Address, such as ``tcp://10.0.0.1:8786`` or ``tls://...``.
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
    dask : dict
        Any of Dask's own configuration keys, dotted or nested.
    """

    cluster: Literal["existing"]
    scheduler: Annotated[str, AfterValidator(_address)]
    security: SecurityFiles | None = None
    expect: tuple[str, ...] | None = Field(default=None, min_length=1)
    server: ServerShape = ServerShape()
    deadline: _Seconds = 60.0
    startup: _Seconds | None = None
    connect: _Seconds = 15.0
    dask: dict[str, Any] = {}

    @model_validator(mode="after")
    def _certified(self) -> Self:
        if needs_certificates(self.scheduler) and self.security is None:
            raise ValueError(
                f"the scheduler {self.scheduler} asks for certificates, and none are given; add "
                "security: {ca: ..., cert: ..., key: ...}"
            )
        return self


ClusterConfig = LocalCluster | ExistingCluster
_ADAPTER: TypeAdapter[ClusterConfig] = TypeAdapter(
    Annotated[ClusterConfig, Field(discriminator="cluster")]
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
        Checked.

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
    if isinstance(source, str) and _ADDRESS.fullmatch(source):
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
    if isinstance(config, ExistingCluster) and config.security is not None:
        # A run that is resumed from elsewhere finds them again.
        config = config.model_copy(update={"security": config.security.below(folder)})
    return config


def _sentence(error: ValidationError, name: str, content: dict[str, Any]) -> str:
    if error.errors()[0]["type"] in ("union_tag_not_found", "union_tag_invalid"):
        got = content.get("cluster", "nothing")
        return f"{name}: key 'cluster' must be 'local' or 'existing'; got {got!r}. Correct it."
    # pydantic puts the branch of the union first in the path of the key.
    return sentence_of(error, name).replace(f"key '{content['cluster']}.", "key '", 1)
