"""A rehearsal: a method's own wiring runs, and parties find sizes of values and compute nothing.

The message of a step follows from its declaration where its arguments and its store have the sizes
of all axes. In place of any other step runs its *stand-in*, a stub with arguments of the same names
that returns something of the same size, or the `Sizes` of a message that cannot be derived. Arrays
are views of one number. A rehearsal writes the rows of a ledger, with the time at which each
message would arrive.
"""

import functools
import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from daskfc import seeds
from daskfc.coding import SecretKey
from daskfc.errors import InvalidInput
from daskfc.federation.driver.contract import Contract, store_summary
from daskfc.federation.driver.federation import Federation
from daskfc.federation.driver.verbs import Verbs
from daskfc.federation.identity.pseudonyms import sized_twin
from daskfc.federation.ledger.ledger import Ledger
from daskfc.federation.messages.declaration import (
    CALLER,
    SERVER,
    Message,
    as_declared,
    multiplier_of,
    payload_bytes,
)
from daskfc.federation.messages.wire_format import Reader
from daskfc.federation.party.options import RunSettings
from daskfc.federation.party.site_rules import FREE
from daskfc.federation.planning.sizes import NotRehearsed, Sizes, StandIns, Step, derived
from daskfc.federation.planning.traffic import Links, Network, framing_bytes
from daskfc.federation.steps.calls import (
    INJECTED,
    Bound,
    Forward,
    declared_message,
    read_step,
    step_name,
)
from daskfc.federation.steps.handles import Handle, InnerCall, Sent, fill_slots, handles_in, pack
from daskfc.site import ANY_PART
from daskfc.stores import ClientStore
from daskfc.stores.store.prepared import PreparedStore


@dataclass(frozen=True)
class Assumption:
    """A value assumed for what only a run can show; `at_most` says that it is an upper bound."""

    what: str
    value: float
    at_most: bool


@dataclass(eq=False)
class _Shadow:
    """A stub for a future: a value of the right size, and when it would be there."""

    value: Any
    party: str
    ready: float
    depth: int
    step: str
    round: int
    receiver: str | None = None
    arrived: tuple[float, int] | None = None
    status: str = "finished"

    def done(self) -> bool:
        return True


class Rehearsal(Federation):
    """A federation that only computes the sizes of its messages; nothing leaves any party.

    `stand_ins` replaces steps, or all that make a class of message, by functions of their
    arguments; with `performs` other steps run here, on stores that the caller can read anyway.
    `clock` is in seconds, without computing; `depth` counts messages that wait for one another.
    """

    def __init__(
        self,
        stores: Mapping[str, ClientStore],
        stand_ins: StandIns,
        *,
        network: Network | None = None,
        limits: Mapping[str, int | None] | None = None,
        server_workers: tuple[str, ...] = (),
        allow_raw: bool = False,
        assumed: Mapping[str, float] | None = None,
        process_bytes: int = 0,
        performs: bool = False,
    ) -> None:
        # Not Federation's own, which needs a running cluster; what it sets is set below.
        nobody: Any = None
        Verbs.__init__(self, nobody, stores, allow_raw=allow_raw)
        self.server_workers = server_workers
        self.on_progress = self.processes = self.preparation = None
        self.workspace = self.results = None
        self.opening_ledger = Ledger([])
        self._limits = {name: (limits or {}).get(name) for name in self.parties}
        summaries = {name: store_summary(store) for name, store in stores.items()}
        self._contract = Contract.of(summaries, stores)
        self._stores, self._stand_ins, self._performs = dict(stores), dict(stand_ins), performs
        self._given, self.process_bytes = dict(assumed or {}), process_bytes
        self._links = Links(network or Network())
        self.clock, self.depth = 0.0, 0
        self._rows: list[dict[str, Any]] = []
        self._assumptions: dict[str, Assumption] = {}
        self.memory: dict[str, tuple[int, str]] = {}
        """The most bytes that each party needs, and what needs them."""
        self._run = None
        self.pseudonyms, self.smallest = None, ANY_PART
        self._secret = SecretKey.from_os()

    # -- what it found ------------------------------------------------------------------------

    @property
    def ledger(self) -> Ledger:
        """The messages that a run would send."""
        return Ledger(self._rows)

    @property
    def n_samples(self) -> int:
        """Samples of all clients."""
        return sum(store.n_samples for store in self._stores.values())

    def rows_of(self, client: str, most: int | None = None) -> np.ndarray:
        """Return a client's prepared samples, at most `most`, in blocks spread over its store."""
        store = self._stores[client]
        n = store.n_samples
        if most is None or n <= most:
            return store.rows(0, n)
        rows = max(1, min(256, most // 8))
        starts = np.linspace(0, n - rows, most // rows).astype(int).tolist()
        return np.concatenate([store.rows(start, start + rows) for start in starts])

    def knows(self, what: str) -> bool:
        """Whether the caller gave the value that a stand-in would assume; see `assume`."""
        return what in self._given

    @property
    def assumptions(self) -> list[Assumption]:
        """The values that were assumed; see `assume`."""
        return list(self._assumptions.values())

    def assume(self, what: str, value: float, *, at_most: bool = False) -> float:
        """Return the caller's value for `what`, or `value`, and record it as an assumption."""
        given = self._given.get(what)
        taken = value if given is None else given
        self._assumptions[what] = Assumption(what, taken, at_most and given is None)
        return taken

    def foresee(self, needs: Mapping[str, int], what: str) -> None:
        """Note what parties will need; see `Federation.foresee`."""
        for party, n_bytes in needs.items():
            store = self._stores.get(party)
            more = store.smoothing_bytes if isinstance(store, PreparedStore) else 0
            self.memory[party] = max(self.memory.get(party, (0, "")), (n_bytes + more, what))

    def _reaches(self, time: float, depth: int) -> None:
        self.clock, self.depth = max(self.clock, time), max(self.depth, depth)

    # -- in place of what needs a cluster -----------------------------------------------------

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def check_open(self) -> None:
        """Do nothing: it is never closed."""

    def _running(self) -> RunSettings:
        assert self._run is not None
        return self._run

    def start_run(self, run_id: str, *, random_state: int, **_: Any) -> None:
        """Begin: round 0, and an empty ledger."""
        self._run = RunSettings(run_id, random_state, self.allow_raw)
        self.round = 0
        self._rows.clear()
        if self.preparation is not None:
            self._stores = {
                name: PreparedStore.of(store, self.preparation.steps.get(name, ()))
                for name, store in self._contract.readable.items()  # type: ignore[union-attr]
            }

    def wait(self, handles: Any, **_: Any) -> tuple[list[Handle], list[Handle]]:
        """Go on once all steps would have ended."""
        every = handles_in(handles)
        for handle in every:
            for shadow in handle.futures.values():
                self._reaches(shadow.ready, shadow.depth)
        return every, []

    def cancel(self, handles: Any) -> None:
        """Do nothing."""

    def fetch_all(self, sent: Iterable[Sent], timeout: float | None = None) -> list[Message]:
        """Return published messages, which travel now."""
        shadows = [one.futures[CALLER] for one in sent]
        for shadow in shadows:
            self._reaches(*self._travel(shadow))
        return [shadow.value for shadow in shadows]

    # -- steps --------------------------------------------------------------------------------

    def _task(  # type: ignore[override]
        self,
        party: str,
        bound: Bound,
        verb: str = "keep",
        receivers: tuple[str, ...] = (),
        axes: Mapping[str, int] | None = None,
    ) -> _Shadow:
        made = self._made(party, bound)
        if verb == "keep":
            return made
        made.value = self._message(made, bound.step, made.value, axes)
        made.receiver = receivers[0]
        return made

    def _start(self, tasks: Mapping[str, Any]) -> dict[str, Any]:
        self._n_started += len(tasks)
        return dict(tasks)

    def _compose(
        self, bound: Bound, receivers: Mapping[str, tuple[str, ...]], axes: Mapping[str, int] | None
    ) -> dict[str, dict[str, Any]]:
        self._n_started += sum(map(len, receivers.values()))
        return {
            party: self._envelopes(self._made(party, bound), bound.step, those, axes)
            for party, those in receivers.items()
        }

    def _envelopes(
        self, made: _Shadow, step: Step, receivers: tuple[str, ...], axes: Mapping[str, int] | None
    ) -> dict[str, _Shadow]:
        mapped = isinstance(made.value, Mapping)
        envelopes = {}
        for receiver in receivers:
            value = made.value.get(receiver) if mapped else made.value
            message = self._message(made, step, value, axes)
            place = (made.party, made.ready, made.depth, made.step, made.round)
            envelopes[receiver] = _Shadow(message, *place, receiver)
        return envelopes

    def _message(
        self, made: _Shadow, step: Step, value: Any, axes: Mapping[str, int] | None
    ) -> Message:
        kind, _ = declared_message(step)
        if not isinstance(value, kind):
            raise NotRehearsed(
                f"nothing tells how large the message {kind.__name__} of step {made.step!r} is "
                "before a run. Run the method on a part of the data, and look at its ledger."
            )
        if self._performs:
            as_declared(value, axes, party=made.party)
        return value

    def _made(self, party: str, bound: Bound) -> _Shadow:
        """Perform the stand-in of a step, after its inputs travelled to the party."""
        shadows: list[_Shadow] = []
        packed = pack(bound.arguments, party, bound.name, shadows, split=party != SERVER)
        ready, depth = self.clock, self.depth
        for shadow in shadows:
            when, after = (shadow.ready, shadow.depth)
            if shadow.receiver == party and shadow.party != party:
                when, after = self._travel(shadow)
            ready, depth = max(ready, when), max(depth, after)
        values = tuple(shadow.value for shadow in shadows)

        def inner(call: InnerCall, arguments: dict[str, Any]) -> Any:
            return self._performed(
                read_step(call.name, call.code, Reader(trusted=True)), arguments, party
            )

        arguments = fill_slots(packed, values, inner)
        value = self._performed(bound.step, arguments, party)
        return _Shadow(value, party, ready, depth, bound.name, self.round)

    def _performed(self, step: Step, arguments: Mapping[str, Any], party: str) -> Any:
        if isinstance(step, Forward):
            return arguments["message"]
        plain: Any = step
        given = dict(arguments)
        while isinstance(plain, functools.partial):
            plain, given = plain.func, {**plain.keywords, **given}
        kind = _kind_of(plain)
        own = self._stores.get(party) if "data" in inspect.signature(plain).parameters else None
        stand_in = self._stand_ins.get(plain, plain if self._performs else None)
        stand_in = self._stand_ins.get(kind) if stand_in is None and kind else stand_in
        value: Any = None
        if stand_in is not None:
            names = inspect.signature(stand_in).parameters
            filled = {name: self._filled(name, plain, party) for name in _FILLED if name in names}
            wanted = {name: value for name, value in given.items() if name in names}
            value = stand_in(**wanted, **filled)
        if kind is not None:
            value = _completed(value, kind, {**given, "data": own})
        if stand_in is None and value is None:
            return None
        table = own.n_samples * own.n_features * 8 if own is not None else 0
        needed = self.process_bytes + table + _held(given) + _held(value)
        self.foresee({party: needed}, f"step {step_name(plain)!r}")
        return value

    def _filled(self, what: str, step: Step, party: str) -> Any:
        assert self._run is not None
        if what == "rehearsal":
            return self
        if what == "data":
            return self._stores[party]
        if what in ("secret", "durable_secret", "lasting_secret"):
            return self._secret.derive(what, party)
        if what == "random":
            where = (party, self.round, step_name(step))
            return seeds.generator(self._run.random_state, *where)
        own = {"party": party, "workspace": "", "as_prepared": _same, "site": FREE}
        return {**own, "told_alike": bytes(32)}[what]

    def _travel(self, shadow: _Shadow) -> tuple[float, int]:
        """Send a message, once; return when it has arrived, and after how many in a row."""
        if shadow.arrived is None:
            assert shadow.receiver is not None
            where = (shadow.party, shadow.receiver)
            if self.pseudonyms is not None and shadow.receiver == CALLER:
                shadow.value = sized_twin(shadow.value)
            message: Message = shadow.value
            payload = payload_bytes(message)
            wire = payload + framing_bytes(
                message, *where, shadow.step, self._running().run_id, shadow.round
            )
            arrival = self._links.sent(*where, wire, shadow.ready)
            self._rows.append(self._row(shadow, message, payload, wire, arrival))
            shadow.arrived = arrival, shadow.depth + 1
        return shadow.arrived

    def _row(
        self, shadow: _Shadow, message: Message, payload: int, wire: int, arrival: float
    ) -> dict[str, Any]:
        arrays = {name: a for name, a in vars(message).items() if isinstance(a, np.ndarray)}
        return {
            "run": self._running().run_id,
            "round": shadow.round,
            "step": shadow.step,
            "sender": shadow.party,
            "receiver": shadow.receiver,
            "message": type(message).__name__,
            "protection": message.protection,
            "shapes": {name: list(a.shape) for name, a in arrays.items()},
            "dtypes": {name: a.dtype.name for name, a in arrays.items()},
            "payload_bytes": payload,
            "wire_bytes": wire,
            "time": arrival,
            "task": f"{shadow.step}|{shadow.party}|{len(self._rows)}",
            "noise_multiplier": multiplier_of(message),
        }


_FILLED = (*INJECTED, "rehearsal")


def _same(store: ClientStore) -> ClientStore:
    return store


def _kind_of(step: Step) -> type[Message] | None:
    """Return the class of a step's messages; None for a step that makes none."""
    try:
        return declared_message(step)[0]
    except (InvalidInput, NameError):  # the annotation is none, or imported for type checkers alone
        return None


def _completed(value: Any, kind: type[Message], given: Mapping[str, Any]) -> Any:
    """Return a message, or one for each receiver, for what a stand-in returned."""
    if value is None or isinstance(value, Sizes):
        return derived(kind, given, value)
    if isinstance(value, Mapping):
        return {receiver: _completed(one, kind, given) for receiver, one in value.items()}
    return value


def _arrays_in(value: Any) -> Iterator[np.ndarray]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _arrays_in(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _arrays_in(one)
    elif is_dataclass(value) and not isinstance(value, type):
        for one in fields(value):
            yield from _arrays_in(getattr(value, one.name))


def _held(value: Any) -> int:
    """Return the bytes of all arrays in a value, those that share memory once."""
    found = {id(array): array.nbytes for array in _arrays_in(value)}
    return sum(found.values())
