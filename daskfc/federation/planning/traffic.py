"""The cost of messages: bytes of framing, and time on links of some bandwidth and latency."""

import functools
import uuid
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
from dask.utils import parse_timedelta

from daskfc.deploy.config.bandwidth import parse_bandwidth
from daskfc.deploy.config.dask_insides import dumps, to_serialize
from daskfc.errors import InvalidInput
from daskfc.federation.ledger.key import ID_LENGTH
from daskfc.federation.messages.declaration import Message, content_of, of_content, payload_bytes
from daskfc.federation.messages.digests import new_salt
from daskfc.federation.messages.envelopes import Outgoing

DELAYS = 4
"""One-way trips from one step to the next at another party: the word that it ended, to the
scheduler; from there the word to go on; the request for the message; the message."""

_NUMBER = 8  # bytes; before its frames a message has their total, their count and their sizes


@dataclass(frozen=True)
class Network:
    """Parties' connections: `bandwidth` in bytes/s both ways, `latency` in seconds one way."""

    bandwidth: float = 12.5e6
    latency: float = 0.05

    @classmethod
    def parsed(cls, bandwidth: str = "100Mbit", latency: str = "50ms") -> "Network":
        """Return a network from text such as "100Mbit" and "50ms", else raise InvalidInput."""
        try:
            seconds = float(parse_timedelta(latency, default="s"))
        except (TypeError, ValueError, KeyError):
            seconds = -1.0
        if not 0 <= seconds < float("inf"):
            raise InvalidInput(f"the latency must be a time such as 50ms; got {latency!r}.")
        return cls(parse_bandwidth(bandwidth), seconds)


class Links:
    """Computes when messages arrive if every party sends and receives one after the other."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self._busy_sending: dict[str, float] = defaultdict(float)
        self._busy_receiving: dict[str, float] = defaultdict(float)

    def sent(self, sender: str, receiver: str, n_bytes: int, ready: float) -> float:
        """Return when a message that is ready at some time has arrived."""
        takes = n_bytes / self.network.bandwidth
        trips = DELAYS * self.network.latency
        begins = max(ready, self._busy_sending[sender])
        begins = max(begins, self._busy_receiving[receiver] - trips)
        self._busy_sending[sender] = begins + takes
        self._busy_receiving[receiver] = begins + takes + trips
        return begins + takes + trips


def framing_bytes(
    message: Message, sender: str, receiver: str, step: str, run: str, round: int
) -> int:
    """Return the bytes that a message takes on a connection besides its content."""
    shapes = tuple(
        (value.dtype.str, value.shape) if isinstance(value, np.ndarray) else value
        for value in content_of(message)
    )
    kind: Any = type(message)
    return _framing(kind, shapes, sender, receiver, step, len(run), len(str(round)))


@functools.lru_cache(maxsize=4096)
def _framing(
    kind: type[Message],
    content: tuple[object, ...],
    sender: str,
    receiver: str,
    step: str,
    letters: int,
    digits: int,
) -> int:
    small = of_content(kind, tuple(_small(one) for one in content))
    where = (sender, receiver, step, "0" * letters, 10**digits - 1)
    envelope = Outgoing(small, *where, {}, id="0" * ID_LENGTH, salt=new_salt())
    key = f"{step}|{sender}-{uuid.uuid4().hex[:8]}-999"
    frames = list(dumps({"status": "OK", "data": {key: to_serialize(envelope)}}))
    total = sum(memoryview(frame).nbytes for frame in frames)
    return total + _NUMBER * (2 + len(frames)) - payload_bytes(small)


def _small(value: object) -> object:
    """Return a stub for an array: as many axes, each with at most one entry."""
    if not isinstance(value, tuple):
        return value
    dtype, shape = value
    return np.zeros(tuple(min(size, 1) for size in shape), dtype)
