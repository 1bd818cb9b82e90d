"""Handles: the driver's references to values that stay at parties or travel between them."""

import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic

from daskfc.errors import InvalidInput, PrivacyError
from daskfc.federation.messages.declaration import CALLER
from daskfc.federation.steps.calls import Bound

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
else:
    T = typing.TypeVar("T")  # a Python before 3.13 knows no defaults


class PerClient(Mapping[str, T], Generic[T]):
    """One value per party, in the order of the parties.

    As an argument of a step it is split: each client gets its own value; a step of the server gets
    a dict of all.

    Examples
    --------
    >>> from daskfc.federation.steps.handles import PerClient
    >>> PerClient({"client-1": 3, "client-2": 4}).map(lambda value: value + 1)
    PerClient({'client-1': 4, 'client-2': 5})
    """

    def __init__(self, values: Mapping[str, T]) -> None:
        self._values = dict(values)

    def __getitem__(self, party: str) -> T:
        return self._values[party]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"PerClient({self._values!r})"

    def map(self, function: Any) -> "PerClient[Any]":
        """Return a PerClient of ``function(value)``."""
        return PerClient({party: function(value) for party, value in self._values.items()})

    def only(self, parties: Iterable[str]) -> "PerClient[T]":
        """Return a PerClient of some of the parties, in their order."""
        return PerClient({party: self._values[party] for party in parties})


class Handle:
    """Base of Local and Sent: what the federation can wait for and cancel."""

    party: str
    step: str
    futures: Mapping[str, Any]

    def done(self) -> bool:
        """Return whether the step ended, well or not."""
        return all(future.done() for future in self.futures.values())

    def failed(self) -> bool:
        """Return whether the step ended in an error or was cancelled."""
        return any(future.status in ("error", "cancelled") for future in self.futures.values())


@dataclass(frozen=True, eq=False)
class Local(Handle, Generic[T]):
    """A value that stays at its party; usable only in steps of that party.

    Where the value is a message, ``ask``, ``tell`` and ``publish`` send it as it is.
    """

    party: str
    step: str
    futures: Mapping[str, Any]
    made_by: Callable[..., T] | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return f"<Local of {self.party}: {self.step}>"


@dataclass(frozen=True, eq=False)
class Sent(Handle, Generic[T]):
    """A message under way; usable in steps of its declared `receivers`.

    A sender that needs it as well keeps it, as a `Local`, and sends that.
    """

    party: str
    step: str
    futures: Mapping[str, Any]
    federation: Any = None

    @property
    def receivers(self) -> tuple[str, ...]:
        """Who may use it."""
        return tuple(self.futures)

    def result(self, timeout: float | None = None) -> T:
        """Wait for a published message, `timeout` seconds at most, and return it.

        Raises
        ------
        PrivacyError
            When the message is for a party and not for the caller.
        DeadlineError
            When it is not there in time.
        """
        if CALLER not in self.futures:
            raise PrivacyError(
                f"the message of step {self.step!r} of party {self.party!r} is for "
                f"{', '.join(self.receivers)}, not for the caller. Publish a message of its own."
            )
        message: T = self.federation.fetch(self, timeout)
        return message

    def __repr__(self) -> str:
        return f"<Sent by {self.party} to {', '.join(self.receivers)}: {self.step}>"


@dataclass(frozen=True, eq=False)
class Inline(Generic[T]):
    """A step that runs within each step that takes it as an argument."""

    party: str
    bound: Bound
    round: int

    def __repr__(self) -> str:
        return f"<Inline of {self.party}: {self.bound.name}>"


@dataclass(frozen=True)
class Slot:
    """The place of one future's value in a step's arguments."""

    index: int


@dataclass(frozen=True)
class InnerCall:
    """An `Inline` in a step's arguments, as it travels."""

    name: str
    code: bytes
    arguments: dict[str, Any]
    round: int
    each: tuple[str, ...] = ()


def _future_for(handle: Handle, party: str, step: str) -> Any:
    if isinstance(handle, Local):
        if handle.party != party:
            raise _stays(step, party, handle.step, handle.party)
        return handle.futures[party]
    if party in handle.futures:
        return handle.futures[party]
    if party == handle.party:
        raise InvalidInput(
            f"step {step!r} of party {party!r} uses the message of {handle.step!r} after the party "
            "sent it; a party that is started again has it no more, and may not ask for it. Keep "
            "what is sent, with on_clients or on_server, and send that."
        )
    raise PrivacyError(
        f"step {step!r} of party {party!r} may not use the message of {handle.step!r}, which party "
        f"{handle.party!r} sends to {', '.join(handle.futures)} only. Name it as a receiver."
    )


def _stays(step: str, party: str, of: str, at: str) -> PrivacyError:
    return PrivacyError(
        f"step {step!r} of party {party!r} may not use the result of {of!r}, which stays at party "
        f"{at!r}. Send it as a message with ask, tell or exchange."
    )


def pack(value: Any, party: str, step: str, futures: list[Any], *, split: bool = True) -> Any:
    """Return a step's argument for one party, with slots for values that `futures` gets."""
    if isinstance(value, Handle):
        futures.append(_future_for(value, party, step))
        return Slot(len(futures) - 1)
    if isinstance(value, Inline):
        if value.party != party:
            raise _stays(step, party, value.bound.name, value.party)
        inner = pack(value.bound.arguments, party, value.bound.name, futures)
        each = for_each(value.bound.arguments)
        return InnerCall(value.bound.name, value.bound.code, inner, value.round, each)
    if isinstance(value, PerClient):
        if not split:
            return {
                name: pack(one, party, step, futures, split=False) for name, one in value.items()
            }
        if party not in value:
            raise InvalidInput(
                f"an argument of step {step!r} has a value for {', '.join(value)}, none for party "
                f"{party!r}. Run the step at those clients only (clients=...)."
            )
        return pack(value[party], party, step, futures, split=False)
    if type(value) is dict:
        return {key: pack(one, party, step, futures, split=split) for key, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(pack(one, party, step, futures, split=split) for one in value)
    return value


def for_each(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of a client step's arguments of which each client gets its own."""
    return tuple(name for name, value in arguments.items() if _is_split(value))


def _is_split(value: Any) -> bool:
    if type(value) is dict:
        return any(_is_split(one) for one in value.values())
    return isinstance(value, PerClient) or (
        type(value) in (list, tuple) and any(_is_split(one) for one in value)
    )


def fill_slots(
    value: Any, values: tuple[Any, ...], run: Callable[[InnerCall, dict[str, Any]], Any]
) -> Any:
    """Replace slots by other steps' values and inner calls by `run`'s results; undoes `pack`."""
    if isinstance(value, Slot):
        return values[value.index]
    if isinstance(value, InnerCall):
        return run(value, fill_slots(value.arguments, values, run))
    if type(value) is dict:
        return {key: fill_slots(one, values, run) for key, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(fill_slots(one, values, run) for one in value)
    return value


def handles_in(value: Any) -> list[Handle]:
    """Return all handles in a handle, mapping or sequence of them, in order."""
    if isinstance(value, Handle):
        return [value]
    if isinstance(value, Mapping):
        value = value.values()
    elif not hasattr(value, "__iter__"):
        raise InvalidInput(f"wait and cancel take handles; got {type(value).__name__}.")
    return [handle for one in value for handle in handles_in(one)]


def results(sent: PerClient[Sent[T]]) -> PerClient[T]:
    """Wait for published messages together and return them; DeadlineError when one is late."""
    handles = list(sent.values())
    told = handles[0].federation.fetch_all(handles) if handles else []
    return PerClient(dict(zip(sent, told, strict=True)))
