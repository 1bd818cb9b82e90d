"""A simulated slow network for the messages of a party, to try one on a fast machine."""

import time
from collections.abc import Callable, Iterable

from daskfc.federation.messages.declaration import payload_bytes
from daskfc.federation.messages.envelopes import Outgoing


class SlowLine:
    """A simulated line: messages leave one after the other, `bandwidth` in bytes a second."""

    def __init__(
        self,
        latency: float = 0.0,
        bandwidth: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._latency = latency
        self._bandwidth = bandwidth
        self._clock = clock
        self._free = float("-inf")  # when the last message has left

    def held(self, messages: Iterable[Outgoing]) -> float:
        """Return for how many seconds messages that leave now are to be held back."""
        if self._bandwidth is None:
            return self._latency
        now = self._clock()
        takes = sum(payload_bytes(one.message) for one in messages) / self._bandwidth
        self._free = max(now, self._free) + takes
        return self._free - now + self._latency
