"""The door of a party: every answer to a request for its data passes here."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, Protocol

from distributed import Status

from daskfc.deploy.config.dask_insides import to_serialize
from daskfc.errors import ENDS_A_RUN, ClusterError, DaskfcError, EgressRefused
from daskfc.federation.messages.envelopes import Outgoing, no_memory_at
from daskfc.federation.party.party import Party, logger
from daskfc.federation.worker.connections import Connection


def _raise_refused(kind: type[DaskfcError], sentence: str) -> NoReturn:
    raise kind(sentence)


class Refused:
    """Poison: a refusal that a peer gets as a value; the driver's attempt to read it raises."""

    def __init__(self, error: DaskfcError, *, raises: bool) -> None:
        self.error = error
        self.raises = raises

    def __reduce__(self) -> tuple[Any, ...]:
        return (_raise_refused if self.raises else passive, (type(self.error), str(self.error)))


def passive(kind: type[DaskfcError], sentence: str) -> Refused:
    """Return poison for a peer, which unpickles it by this function only."""
    return Refused(kind(sentence), raises=False)


class Gatekeeper(Protocol):
    """The worker behind a door, as the door calls it; see `PartyWorker`."""

    party: Party

    def release(self, key: Any, value: Any, receiver: str) -> Outgoing:
        """Return a value that may leave, or raise an error with the reason."""

    def record(self, leaving: dict[Any, Outgoing]) -> Callable[[int], None]:
        """Record messages before they leave."""

    def refuse(self, refusal: DaskfcError) -> None:
        """Abort the run."""


class Door:
    """A connection through which a worker answers `get_data`; everything passes `write`."""

    def __init__(
        self, comm: Connection, worker: "Gatekeeper", receiver: str | None, *, peer: bool
    ) -> None:
        self._comm = comm.comm
        self._worker = worker
        self._receiver = receiver
        self._peer = peer
        self._raised = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._comm, name)

    async def write(self, msg: dict[str, Any], **kwargs: Any) -> int:
        """Write what may leave, and poison in place of the rest; return the bytes written."""
        leaving = {}
        for key, wrapped in msg["data"].items():
            try:
                assert self._receiver is not None
                leaving[key] = self._worker.release(key, wrapped.data, self._receiver)
            except Exception as error:
                self._refuse(msg, [key], error)
        complete = None
        try:
            complete = self._worker.record(leaving) if leaving else None
        except Exception as error:  # what is not recorded does not leave
            self._refuse(msg, list(leaving), error)
            leaving = {}
        if leaving and (held := self._worker.party.line.held(leaving.values())):
            await asyncio.sleep(held)
        try:
            written: int = await self._comm.write(msg, **kwargs)
        except MemoryError as error:  # before a byte has left
            complete = None
            self._refuse(msg, list(msg["data"]), error)
            written = await self._comm.write(msg, **kwargs)
        if complete is not None:
            complete(written)
        return written

    async def turn_away(self, keys: Iterable[Any]) -> Status:
        """Refuse all keys to a peer that may have nothing, without looking whether they exist."""
        error = ClusterError(
            f"party {self._worker.party.name!r} was asked for data by a process that is no party "
            "of this scheduler, or has no certificate of one, or of whoever began this run. "
            "Nothing was sent."
        )
        msg: dict[str, Any] = {"status": "OK", "data": {}}
        self._refuse(msg, list(keys), error)
        await self._comm.write(msg)
        return Status.dont_reply

    async def read(self, **kwargs: Any) -> Any:
        """Return the receiver's "OK"; a refused caller sends none, but its next request."""
        return "OK" if self._raised else await self._comm.read(**kwargs)

    def _refuse(self, msg: dict[str, Any], keys: list[Any], error: Exception) -> None:
        """Answer with poison: at an error, Dask would blame the network and ask again for ever."""
        party = self._worker.party.name
        if isinstance(error, MemoryError):
            error = no_memory_at(party)
        elif not isinstance(error, DaskfcError):
            logger.exception("a message could not be checked")
            error = EgressRefused(
                f"party {party!r} could not check what it was asked for "
                f"({type(error).__name__}). Nothing was sent; its party.log says more."
            )
        self._raised = not self._peer
        for key in keys:
            msg["data"][key] = to_serialize(Refused(error, raises=self._raised))
        if isinstance(error, ENDS_A_RUN):
            self._worker.refuse(error)
        else:
            self._worker.party.ledger.refuse(type(error).__name__, str(error))
