"""The peer at the other end of a connection: the role and name in its certificate."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from typing import Any

from daskfc.errors import InvalidInput
from daskfc.stores.dealing.names import client_name

ROLES = ("client", "server", "scheduler", "submitter")
"""Who has certificates: parties, the scheduler between them, and whoever starts runs."""

SCHEME = "daskfc"


@dataclass(frozen=True)
class Peer:
    """The role and name in a certificate (``daskfc:role/name``), and its serial number."""

    role: str
    name: str
    serial: int = field(default=0, compare=False, repr=False)

    @classmethod
    def of_names(cls, uris: Iterable[str]) -> "Peer | None":
        """Return the first peer that a certificate's URIs name, or None."""
        for uri in uris:
            scheme, _, rest = uri.partition(":")
            role, _, name = rest.partition("/")
            if scheme == SCHEME and role in ROLES and name:
                return cls(role, name)
        return None

    @property
    def is_party(self) -> bool:
        """Whether it takes part in runs, as a client or as the server."""
        return self.role in ("client", "server")

    def __str__(self) -> str:
        return f"{self.role} {self.name!r}"


def check_identity(role: str, name: str) -> None:
    """Refuse an unknown role, and a name that nobody may have in it, as "server-2" for a client."""
    if role not in ROLES:
        raise InvalidInput(f"a role must be one of {', '.join(ROLES)}; got {role!r}. Correct it.")
    if role == "server":
        if not re.fullmatch(r"server(-([2-9]|[1-9][0-9]+))?", name):
            raise InvalidInput(
                f"the server's party is called 'server', and its further workers 'server-2' and so "
                f"on; got {name!a}. Correct the name."
            )
        return
    try:
        client_name(name)
    except ValueError as error:
        raise InvalidInput(f"the name {name!a} cannot be a party's: {error}.") from None


_NOBODY = Peer("nobody", "?")


def peer_of(connection: Any) -> Peer | None:
    """Return the peer of a connection, "nobody" if its certificate names none; None without TLS."""
    extra: Mapping[str, Any] = getattr(connection, "extra_info", {})
    return _named_in(extra["peercert"] or {}) if "peercert" in extra else None


def peer_of_stream(stream: Any) -> Peer | None:
    """Return the peer of a stream after its TLS handshake, as `peer_of`; nobody once it ended."""
    told = getattr(stream.socket, "getpeercert", None)
    return None if told is None else _named_in(told() or {})


def _named_in(told: Mapping[str, Any]) -> Peer:
    names = told.get("subjectAltName", ())
    peer = Peer.of_names(value for kind, value in names if kind == "URI")
    return replace(peer or _NOBODY, serial=int(told.get("serialNumber", "0"), 16))


def is_loopback(address: str) -> bool:
    """Return whether an address of Dask's is on this machine alone."""
    host = address.partition("://")[2].rpartition(":")[0].strip("[]")
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a name, and others may begin with 127. as well
        return host == "localhost"
