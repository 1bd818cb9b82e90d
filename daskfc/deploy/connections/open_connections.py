"""The number and the limit of connections that one certificate's holder has at a server."""

import logging
from typing import Any
from weakref import WeakSet

from daskfc.deploy.config.peers import Peer
from daskfc.deploy.connections.seldom import Seldom

# Ours. Two parties, a server and a driver, with 60 messages and 16 requests under way at once, had
# 55 together at a scheduler.
_OF_ONE = 256


class OpenConnections:
    """The open connections to a server, counted by certificate holder; each may have `of_one`."""

    def __init__(self, of_one: int | None = None) -> None:
        self._of_one = _OF_ONE if of_one is None else of_one
        self._of: dict[Peer, WeakSet[Any]] = {}
        self._seldom = Seldom(logging.getLogger("daskfc.connections"))

    def admit(self, peer: Peer, stream: Any) -> bool:
        """Return whether one more connection of a peer may stay, and count it if so."""
        still = [one for one in self._of.get(peer, ()) if not one.closed()]
        if len(still) >= self._of_one:
            self._seldom.warn(
                peer, "%s has %d connections open; further ones are closed", self._of_one
            )
            return False
        self._of[peer] = WeakSet([*still, stream])
        return True
