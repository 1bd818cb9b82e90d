"""Limits how often a party asks a peer for a message in vain, before steps that need it fail.

Dask takes any other answer for a failure of the network, and asks again for as long as its
scheduler says that the peer has the message: such a peer would stall a run for ever.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from daskfc.deploy.config.dask_insides import (
    GatherDepBusyEvent,
    GatherDepNetworkFailureEvent,
    GatherDepSuccessEvent,
)
from daskfc.errors import ClusterError

# Limits of vain requests. Dask waits a second between two, or a sixth of one for a busy peer. A
# peer that hangs up may be starting again; one that sends too slowly took its time already.
_ANSWERS, _BREAKS, _BUSY, _SLOW = 10, 30, 4_000, 3


class Asking:
    """Counts, by message and peer, the answers that did not bring the message."""

    def __init__(self) -> None:
        self._vain: Counter[tuple[Any, str]] = Counter()

    def given_up(
        self, peer: str, keys: Iterable[Any], event: Any, *, slow: bool = False
    ) -> list[Any]:
        """Record how a request to a peer's address ended; return the keys not to ask for again."""
        came = event.data if isinstance(event, GatherDepSuccessEvent) else {}
        most = _ANSWERS
        if isinstance(event, GatherDepBusyEvent):
            most = _BUSY
        elif slow:
            most = _SLOW
        elif isinstance(event, GatherDepNetworkFailureEvent):
            most = _BREAKS
        left = []
        for key in keys:
            if key not in came:
                self._vain[key, peer] += _ANSWERS * _BREAKS * _BUSY // most
            if key in came or self._vain[key, peer] >= _ANSWERS * _BREAKS * _BUSY:
                del self._vain[key, peer]
                left += [] if key in came else [key]
        return left


def gave_nothing(party: str, peer: str) -> ClusterError:
    """Return the error for a peer, by name or address, that was asked in vain too often."""
    return ClusterError(
        f"party {party!r} asked {peer!r} for a message again and again, and got errors, nothing, "
        f"too slow an answer, or a connection that broke off. Look into the party.log of both, and "
        "resume the run."
    )
