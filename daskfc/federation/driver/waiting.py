"""Waiting for steps with deadlines, and Dask's errors as sentences."""

import queue
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

from distributed import KilledWorker

from daskfc import errors
from daskfc.deploy.config.dask_insides import NoValidWorkerError
from daskfc.errors import (
    ENDS_A_RUN,
    ClusterError,
    DaskfcError,
    DeadlineError,
    EgressRefused,
    InvalidInput,
    PartyError,
)
from daskfc.federation.driver.roll_call import RollCall
from daskfc.federation.steps.handles import Handle

_GONE = (ClusterError, DeadlineError)  # a party that died or is away; it refused nothing
_LOOK_S = 1.0  # how often to look which parties are there, while nothing finishes


def error_of(handle: Handle) -> DaskfcError | None:
    """Return what a step failed with, as one of daskfc's errors; None when it has not failed."""
    for future in handle.futures.values():
        if future.status in ("error", "cancelled", "lost"):
            try:
                error = future.exception(timeout=5)
            except (Exception, CancelledError) as failure:
                error = failure
            if error is None and future.cancelled():  # Dask has no exception for it
                error = CancelledError()
            if error is not None:
                return translated(error, handle)
    return None


def translated(error: BaseException, handle: Handle) -> DaskfcError:
    """Return Dask's or a party's exception about a step as one of daskfc's."""
    where = f"step {handle.step!r} of party {handle.party!r}"
    if isinstance(error, PartyError):
        original = getattr(errors, error.error_type, None)
        if original is not None:
            error.__cause__ = original(error.kind)
        return error
    if isinstance(error, DaskfcError):
        return error
    if isinstance(error, KilledWorker):
        return ClusterError(
            f"the worker process of party {handle.party!r} died each time while {where} ran. "
            "Look into its party.log, and raise its memory_limit if memory ran out."
        )
    if isinstance(error, NoValidWorkerError):  # only where the scheduler has a limit of its own
        return DeadlineError(
            f"{where} could not run: a party was away longer than the scheduler waits. "
            "Start the party again and resume the run."
        )
    if getattr(error, "reason", None) == "scheduler-connection-lost":
        return ClusterError(
            f"{where} was lost with the connection to the scheduler. Start the cluster again and "
            "resume the run."
        )
    if isinstance(error, CancelledError):  # Dask does not always say which
        return ClusterError(
            f"{where} was cancelled, or lost with the scheduler. Start the cluster again and "
            "resume the run, where it is gone."
        )
    kind = type(error).__name__
    return ClusterError(f"{where} has no result: {kind}. Look whether the scheduler still runs.")


class Absences:
    """Tracks for how long each party gave no sign of life: no heartbeat by the scheduler's clock.

    Growing processor time counts as a sign too, for steps that block all threads. Clocks of two
    machines are never compared, and time in which the driver itself was stopped counts little.
    """

    def __init__(self, roll_call: RollCall, parties: Sequence[str], deadline: float) -> None:
        self._roll_call = roll_call
        self._parties = parties
        self._seen: dict[str, float] = {}  # the last heartbeat of those that have a worker
        self._processor_s: dict[str, float] = {}  # of those that were asked for it
        self._silent = dict.fromkeys(parties, 0.0)
        self._looked = time.monotonic()
        self.deadline = deadline

    def _look(self) -> None:
        now = time.monotonic()
        passed = min(now - self._looked, max(2 * _LOOK_S, self.deadline / 3))
        self._looked = now
        seen = self._roll_call.last_seen()
        for party in self._parties:
            if seen.get(party) == self._seen.get(party):
                self._silent[party] += passed
            else:
                self._silent[party] = 0.0
                self._processor_s.pop(party, None)
        self._seen = seen
        doubtful = [
            party
            for party in self._parties
            if party in seen
            and (party in self._processor_s or self._silent[party] >= self.deadline / 2)
        ]
        if doubtful:
            for party, seconds in self._roll_call.processor_seconds(doubtful).items():
                if seconds > self._processor_s.get(party, seconds):
                    self._silent[party] = 0.0
                self._processor_s[party] = seconds

    def _overdue(self) -> list[str]:
        overdue = [party for party in self._parties if self._silent[party] >= self.deadline]
        frozen = [party for party in overdue if party in self._seen]
        if frozen:
            self._roll_call.sign_off(frozen)
            for party in frozen:
                del self._seen[party]
        return overdue

    def check(self, pending: Sequence[Handle], needed: int) -> None:
        """Raise DeadlineError when an absent party keeps `needed` pending steps from ending."""
        self._look()
        overdue = self._overdue()
        if not overdue:
            return
        own = [handle for handle in pending if handle.party in overdue]
        # Steps of others wait for an absent party only if nothing is computed anywhere.
        if len(pending) - len(own) >= needed and not self._roll_call.idle():
            return
        step = (own or list(pending))[0].step
        raise DeadlineError(
            f"party {', '.join(map(repr, overdue))} has been away for {self.deadline:g} s while "
            f"step {step!r} waits for it. Start it again and resume the run, or raise 'deadline' "
            "in the cluster's file."
        )


def wait_for(
    handles: Sequence[Handle],
    *,
    count: int,
    timeout: float | None,
    absences: Absences,
    refusal: Callable[[], DaskfcError | None],
    needed: bool = True,
) -> Iterator[Handle]:
    """Yield handles as their steps end well, until `count` have or `timeout` seconds are over.

    Raise the first failure once `count` is out of reach, a refusal at once. If not `needed`, a
    party that is gone or away is only late.
    """
    watch = _Watch(handles)
    good, first_error = 0, None
    ends = None if timeout is None else time.monotonic() + timeout
    looked = time.monotonic()
    while True:
        for handle in watch.ended():
            error = error_of(handle)
            if error is None:
                good += 1
                yield handle
                if good >= count:
                    return
            elif isinstance(error, ENDS_A_RUN):
                raise error
            elif not needed and isinstance(error, _GONE):
                count -= 1
            else:
                first_error = first_error or error
        if good >= count:
            return
        if (refused := refusal()) is not None:
            raise refused
        if good + len(watch.pending) < count:
            raise first_error or InvalidInput(
                f"{count} steps were to end and {len(handles)} were given. Lower the count."
            )
        now = time.monotonic()
        if ends is not None and now >= ends:
            return
        if now - looked >= _LOOK_S:
            looked = now
            try:
                absences.check(watch.pending, count - good if needed else 1)
            except DeadlineError:
                if needed:
                    raise
                return
        watch.pause(_LOOK_S if ends is None else min(_LOOK_S, max(ends - now, 0.0)))


class _Watch:
    """Tracks which handles have ended: callbacks wake it, or it looks after a pause."""

    def __init__(self, handles: Sequence[Handle]) -> None:
        self.pending = list(handles)
        self._told: queue.SimpleQueue[None] = queue.SimpleQueue()
        for handle in handles:
            for future in handle.futures.values():
                if not future.done():
                    future.add_done_callback(self._tell)

    def _tell(self, _: object) -> None:
        self._told.put(None)

    def ended(self) -> list[Handle]:
        """Remove and return those that have ended since the last call."""
        ended = [handle for handle in self.pending if handle.done()]
        if ended:
            self.pending = [handle for handle in self.pending if handle not in ended]
        return ended

    def pause(self, seconds: float) -> None:
        """Wait until a step may have ended."""
        with suppress(queue.Empty):
            self._told.get(timeout=seconds)
            while True:  # several that ended together are handled together
                self._told.get_nowait()


class Refusals:
    """The first refusal, by a party's guard, in the latest start of the run under way."""

    def __init__(self) -> None:
        self.run_id: str | None = None
        self.start = ""
        self.error: DaskfcError | None = None

    def hear(self, event: tuple[float, Mapping[str, Any]]) -> None:
        """Record a refusal of the latest start of the run under way; the first one counts."""
        _, message = event
        of = message["run_id"], message["start"]
        if of == (self.run_id, self.start) and self.error is None:
            kinds = {kind.__name__: kind for kind in ENDS_A_RUN}
            self.error = kinds.get(message["kind"], EgressRefused)(message["sentence"])
