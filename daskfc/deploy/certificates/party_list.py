"""Lists of all who have certificates, in YAML: names and roles, or a whole federation's places."""

import os
import re
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from daskfc.checks import Section, checked, shown
from daskfc.deploy.config.peers import check_identity
from daskfc.errors import InvalidInput
from daskfc.yaml_files import read_mapping

LIST = "federation.yaml"
"""What a federation's list is called, also where one is sent with a certificate."""

_LABEL = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = re.compile(rf"(?=.{{1,253}}\Z)({_LABEL}\.)*(?![0-9]+\Z){_LABEL}")  # RFC 1123


def _host(value: str) -> str:
    try:
        holds = not ip_address(value).is_unspecified and "%" not in value  # of a scope: any text
    except ValueError:
        holds = _HOST.fullmatch(value) is not None
    if not holds:
        raise ValueError(
            "must be an address or a name by which others reach the machine, without a port, as "
            "10.0.0.1 or cluster.example.org"
        )
    return value


def _places(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: {} if place is None else place for name, place in value.items()}
    texts = [name for name in value if isinstance(name, str)] if isinstance(value, list) else []
    if texts != value or len({*texts}) < len(texts):
        raise ValueError("must be names, each once, or a mapping of names to hosts")
    return {name: {} for name in texts}


_Host = Annotated[str, AfterValidator(_host)]


class _Place(Section):
    host: _Host | None = None


class _Scheduler(_Place):
    host: _Host
    port: int = Field(default=8786, ge=1, le=65535)


class _Server(_Place):
    workers: int = Field(default=1, ge=1, le=64)  # as in a cluster's file


class FederationList(Section):
    """The list that `daskfc new` reads: who takes part, where, and how parties are started."""

    scheduler: _Scheduler
    server: _Server = _Server()
    clients: Annotated[dict[str, _Place], BeforeValidator(_places)] = Field(min_length=1)
    submitters: tuple[str, ...] = Field(min_length=1)
    methods: Literal["any"] | Annotated[tuple[str, ...], Field(min_length=1)] = "any"
    start: Literal["scripts", "systemd", "compose"] = "scripts"
    keys: Literal["here", "sites"] = "here"
    out: str = Field(default="ca", min_length=1)

    @model_validator(mode="after")
    def _folders(self) -> Self:
        seen: set[str] = set()
        for role, name in self._sides():
            check_identity(role, name)
            if name.casefold() in seen:
                raise ValueError(
                    f"{name!r} is listed twice, in other letters' case perhaps; each party has a "
                    "name of its own, which its folder is called by"
                )
            seen.add(name.casefold())
        return self

    def _sides(self) -> Sequence[tuple[str, str]]:
        further = [f"server-{n}" for n in range(2, self.server.workers + 1)]
        return [
            ("scheduler", "scheduler"),
            *(("server", name) for name in ("server", *further)),
            *(("client", name) for name in self.clients),
            *(("submitter", name) for name in self.submitters),
        ]

    @property
    def roles(self) -> dict[str, str]:
        """The role of each party, by name."""
        return {name: role for role, name in self._sides()}

    def host_of(self, name: str) -> str | None:
        """Return where a party listens, where the list says so."""
        if name in self.submitters:
            return None
        return {"scheduler": self.scheduler, **self.clients}.get(name, self.server).host

    @property
    def hosts(self) -> tuple[str, ...]:
        """All places that the list says."""
        return tuple(dict.fromkeys(filter(None, map(self.host_of, self.roles))))

    @property
    def address(self) -> str:
        """The address of the scheduler."""
        host = self.scheduler.host
        return f"tls://{f'[{host}]' if ':' in host else host}:{self.scheduler.port}"

    def as_text(self) -> str:
        """Return what the list's file says, in JSON, which is YAML, without its comments."""
        return self.model_dump_json(exclude_defaults=True, indent=1) + "\n"


def read_federation(path: str | os.PathLike[str]) -> FederationList:
    """Read a federation's list; InvalidInput for what no federation can be made of."""
    keys = "the keys 'scheduler', 'clients' and 'submitters'"
    return checked(FederationList, read_mapping(path, "federation", keys=keys), os.fspath(path))


def read_parties(path: str | os.PathLike[str]) -> tuple[dict[str, str], FederationList | None]:
    """Read the roles by name, in the file's order, and the federation where it is one's list."""
    content = read_mapping(path, "parties", keys="the key 'parties'")
    if "submitters" in content:
        federation = checked(FederationList, content, os.fspath(path))
        return federation.roles, federation
    found = content.get("parties")
    if content.keys() != {"parties"} or not isinstance(found, dict) or not found:
        raise InvalidInput(
            f"{path}: a parties file has the key 'parties' alone, a mapping of names to roles such "
            f"as 'hospital-a: client'; got {shown(content)}. Correct it."
        )
    for name, role in found.items():
        if not isinstance(name, str) or not isinstance(role, str):
            raise InvalidInput(
                f"{path}: names and roles must be text; got {shown(name)} with {shown(role)}. Put "
                "them in quotes."
            )
        try:
            check_identity(role, name)
        except InvalidInput as error:
            raise InvalidInput(f"{path}: {error}") from None
    return found, None
