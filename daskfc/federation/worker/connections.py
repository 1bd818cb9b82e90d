"""Connections to a party's processes, limited to the requests that each role may send."""

import logging
import pickle
from collections.abc import Callable
from typing import Any

from daskfc.deploy.certificates.revocation import Revoked
from daskfc.deploy.config.dask_insides import MEMORY_LIMIT
from daskfc.deploy.config.peers import Peer, peer_of
from daskfc.deploy.connections.open_connections import OpenConnections
from daskfc.deploy.connections.pace import Pace
from daskfc.deploy.connections.unfinished import Unfinished
from daskfc.errors import DaskfcError, PrivacyError
from daskfc.federation.worker.ingress import restricted

logger = logging.getLogger("daskfc.party")

REFUSED = "daskfc_refused"
"""The handler that answers in place of one that a peer's role may not ask."""

MAKE_ANOTHER = "Make another key by 'daskfc certs request NAME', and have it signed."
OF_ANOTHER_ROLE = "to the role in your certificate. Have one signed for the role that you need."
OF_A_REVOKED = f"to a certificate that was revoked. {MAKE_ANOTHER}"


class Listening:
    """A mixin, listed before Dask's class, that limits silent, slow and excess connections."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.unfinished = Unfinished()
        self.connected = OpenConnections()
        super().__init__(*args, **kwargs)
        manager = getattr(self, "memory_manager", None)  # a scheduler has none
        self.pace = Pace(getattr(manager, "memory_limit", None) or MEMORY_LIMIT)
        pool = self.rpc  # type: ignore[attr-defined]
        pool.connect = self.pace.follow(pool.connect)

    async def listen(self, *args: Any, **kwargs: Any) -> None:
        """Listen at an address; see `Server.listen`."""
        await super().listen(*args, **kwargs)  # type: ignore[misc]
        self.unfinished.watch(self.listeners[-1])  # type: ignore[attr-defined]
        self.pace.watch(self.listeners[-1])  # type: ignore[attr-defined]

    def handle_comm(self, comm: Any) -> Any:
        """Serve a new connection, see `Server.handle_comm`; one too many is closed."""
        peer, stream = peer_of(comm), getattr(comm, "stream", None)
        # No limit for a scheduler, which asks for all drivers: one could keep out the others.
        if peer is not None and stream is not None and peer.role != "scheduler":
            if not self.connected.admit(peer, stream):
                comm.abort()
        return super().handle_comm(comm)  # type: ignore[misc]


class Connection:
    """A connection to this party that unpickles only what `daskfc.federation.worker.ingress` lists.

    With TLS, requests that `may_ask` denies to the peer, and all of revoked certificates, are
    replaced by refusals. It also skips the "OK" that a scheduler sends after a refusal.
    """

    def __init__(
        self,
        comm: Any,
        may_ask: Callable[[Peer, str], bool],
        revoked: Revoked | None = None,
        unfinished: Unfinished | None = None,
    ) -> None:
        self.comm = comm
        self._unfinished = unfinished
        self._may_ask = may_ask
        self._revoked = revoked

    def __getattr__(self, name: str) -> Any:
        return getattr(self.comm, name)

    async def read(self, **kwargs: Any) -> Any:
        """Return the next request."""
        with restricted():
            request = await self.comm.read(**kwargs)
            if request == "OK":
                request = await self.comm.read(**kwargs)
        if self._unfinished is not None:
            self._unfinished.finish(self.comm)
        return self._checked(request)

    def _checked(self, request: Any) -> Any:
        peer = peer_of(self.comm)
        if peer is None or not isinstance(request, dict) or "op" not in request:
            return request
        op = request["op"]
        held = self._revoked is None or peer.serial not in self._revoked
        if held and self._may_ask(peer, str(op)):
            return request
        return refused_request(request, peer, OF_ANOTHER_ROLE if held else OF_A_REVOKED)


def refused_request(request: dict[str, Any], peer: Peer | None, why: str) -> dict[str, Any]:
    """Log a request and return the refusal in its place; `why` follows "is not answered"."""
    asked = str(request["op"])[:64]
    logger.warning("%s asked for %r, which is not answered %s", peer or "somebody", asked, why)
    return {"op": REFUSED, "reply": request.get("reply", True), "asked": asked, "why": why}


class _Said:
    """An error pickled as its class and sentence alone, which a restricted reader admits."""

    def __init__(self, error: DaskfcError) -> None:
        self._error = error

    def __reduce__(self) -> tuple[type[DaskfcError], tuple[str]]:
        return type(self._error), (str(self._error),)


def refuse_request(asked: str, why: str) -> dict[str, Any]:
    """Answer a refused request by an error in Dask's form: `PrivacyError` is raised at the peer."""
    error = PrivacyError(f"{asked!r} is not answered {why}")
    return {
        "status": "uncaught-error",
        "exception": pickle.dumps(_Said(error)),
        "traceback": None,
        "exception_text": repr(error),
        "traceback_text": "",
    }
