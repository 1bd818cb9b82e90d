"""How often a party asks a peer for a message in vain, before it fails what waits for it.

Dask takes whatever comes in place of a message for the network, and asks again for as long as its
scheduler says that the peer has it. A peer that answers with errors, answers without the message,
or hangs up would stall a run for ever.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from daskfc.deploy.dask_insides import (
    GatherDepBusyEvent,
    GatherDepNetworkFailureEvent,
    GatherDepSuccessEvent,
)
from daskfc.errors import ClusterError

__all__ = ["Asking", "gave_nothing"]

# How many in vain are too many. Dask waits a second between two, and a sixth of one where the peer
# says that it is busy; who hangs up may be a party that is being started again, and who sends too
# slowly or too much took its time already.
_ANSWERS, _BREAKS, _BUSY, _SLOW = 10, 30, 4_000, 3


class Asking:
    """Counts, by message and peer, what came in its place.

    Examples
    --------
    >>> from daskfc.deploy.dask_insides import GatherDepSuccessEvent
    >>> from daskfc.federation.asking import Asking
    >>> asking = Asking()
    >>> empty = GatherDepSuccessEvent(worker="a", total_nbytes=0, data={}, stimulus_id="s")
    >>> [asking.given_up("a", ["k"], empty) for _ in range(10)][-2:]
    [[], ['k']]
    """

    def __init__(self) -> None:
        self._vain: Counter[tuple[Any, str]] = Counter()

    def given_up(
        self, peer: str, keys: Iterable[Any], event: Any, *, slow: bool = False
    ) -> list[Any]:
        """Take note of how asking a peer ended; return the keys that it is not asked for again.

        Parameters
        ----------
        peer : str
            Its address.
        keys : iterable
            What it was asked for.
        event : distributed.worker_state_machine.StateMachineEvent
            What Dask made of what came.
        slow : bool
            Whether this party broke the answer off; see `Pace.broke`.
        """
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
    """Return what to say of a peer that was asked in vain too often.

    Parameters
    ----------
    party : str
        Who asked.
    peer : str
        Name of the party that was asked, or its address.
    """
    return ClusterError(
        f"party {party!r} asked {peer!r} for a message again and again, and got errors, nothing, "
        f"too slow an answer, or a connection that broke off. Look into the party.log of both, and "
        "resume the run."
    )
