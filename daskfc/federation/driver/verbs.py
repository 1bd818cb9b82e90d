"""The verbs of a federation: run steps that keep their result or send messages to parties."""

import inspect
import itertools
import uuid
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Literal, TypeAlias, TypeVar, overload

from distributed import Client, Future

from daskfc.coding.residues.streams import SecretKey
from daskfc.errors import EgressRefused, InvalidInput
from daskfc.federation.driver.graph import PinnedTask, start
from daskfc.federation.identity.session_key import SessionKey
from daskfc.federation.messages.declaration import CALLER, SERVER, Message, role_of, routes_of
from daskfc.federation.messages.envelopes import Here
from daskfc.federation.messages.wire_format import sealed
from daskfc.federation.party.options import RunSettings
from daskfc.federation.steps.calls import (
    Bound,
    Forward,
    StepCall,
    call_bytes,
    declared_message,
    step_name,
)
from daskfc.federation.steps.handles import Inline, Local, PerClient, Sent, for_each, pack, results
from daskfc.federation.worker.guard import hand_over, run_step

_Step: TypeAlias = Callable[..., Any]
T = TypeVar("T")
M = TypeVar("M", bound=Message)
# What sends one message: a step that returns it, or a value at its party that is one.
_Made: TypeAlias = Callable[..., M] | Local[M]
_Held: TypeAlias = PerClient[Local[M]]
_Sending: TypeAlias = _Made[M] | _Held[M]
# Which clients; sizes of a message's axes.
_Some: TypeAlias = Iterable[str] | None
_Axes: TypeAlias = Mapping[str, int] | None
# Who sends, and whether the caller waits.
_One: TypeAlias = str | None
_Several: TypeAlias = Literal["clients"] | list[str] | tuple[str, ...]
_Now: TypeAlias = Literal[True]
_Later: TypeAlias = Literal[False]


class Verbs(ABC):
    """The half of a Federation that builds graphs; results are in the order of `clients`."""

    driver_key: SecretKey | None = None  # shared with parties started here; seals the calls
    session: SessionKey | None = None  # of a run with TLS; signs the calls

    def __init__(self, dask_client: Client, clients: Iterable[str], *, allow_raw: bool) -> None:
        self.dask_client = dask_client
        self.clients = tuple(clients)
        self.allow_raw = allow_raw
        self.round = 0
        self._tag = uuid.uuid4().hex[:8]
        self._serial = itertools.count()
        self._n_started, self._pending = 0, weakref.WeakSet[Any]()

    @abstractmethod
    def _running(self) -> RunSettings:
        """Return the run under way; raise when there is none, or when it was refused."""

    @property
    def n_results(self) -> int:
        """How many results of steps there were, or were given up, in all runs so far."""
        for future in [one for one in self._pending if one.done()]:
            self._pending.discard(future)
        return self._n_started - len(self._pending)

    def _counted(self, futures: Collection[Any]) -> None:
        self._n_started += len(futures)
        self._pending.update(futures)

    # -- steps --------------------------------------------------------------------------------

    def on_client(
        self, client: str, step: Callable[..., T], /, *args: Any, **kwargs: Any
    ) -> Local[T]:
        """Run a step at one client; its result stays there."""
        return self.on_clients(step, *args, clients=[client], **kwargs)[client]

    def on_clients(
        self, step: Callable[..., T], /, *args: Any, clients: _Some = None, **kwargs: Any
    ) -> PerClient[Local[T]]:
        """Run a step at each client, by default at all; the results stay there.

        A step may ask its party by name for ``data``, ``secret``, ``durable_secret``,
        ``lasting_secret``, ``random``, ``workspace``, ``party``, ``as_prepared``, ``site``,
        ``told_alike`` (`daskfc.federation.steps.told`) and, at the server, ``last_result``. A
        PerClient argument is split by client; PrivacyError, before anything runs, for one that
        stays elsewhere.
        """
        self._running()
        bound = Bound.of(step, args, kwargs)
        tasks = {one: self._task(one, bound) for one in self._some(clients)}
        return PerClient(
            {one: Local(one, bound.name, {one: f}, step) for one, f in self._start(tasks).items()}
        )

    def inline(
        self, step: Callable[..., T], /, *args: Any, clients: _Some = None, **kwargs: Any
    ) -> PerClient[Inline[T]]:
        """Run a step at each client within every step that takes its result, which saves a task."""
        self._running()
        bound = Bound.of(step, args, kwargs)
        return PerClient({one: Inline(one, bound, self.round) for one in self._some(clients)})

    def on_server(self, step: Callable[..., T], /, *args: Any, **kwargs: Any) -> Local[T]:
        """Run a step at the server, where its result stays; a PerClient becomes a dict there."""
        self._running()
        futures = self._start({SERVER: self._task(SERVER, Bound.of(step, args, kwargs))})
        return Local(SERVER, step_name(step), futures, step)

    def ask(
        self,
        step: _Sending[M],
        /,
        *args: Any,
        clients: _Some = None,
        axes: _Axes = None,
        **kwargs: Any,
    ) -> PerClient[Sent[M]]:
        """Run a step at each client and send its message to the server; see `on_clients`.

        The step's return annotation is the message class; messages that lie at the clients are sent
        as they are. `axes` fixes sizes that the message's axes must have.
        """
        step, args, holders = self._sending(step, args)
        self._declared(step, "client → server", by_receiver=False)
        bound = Bound.of(step, args, kwargs)
        return self._send(self._some(holders if clients is None else clients), bound, SERVER, axes)

    @overload
    def tell(
        self, step: _Made[M], /, *args: Any, clients: _Some = None, **kwargs: Any
    ) -> Sent[M]: ...

    @overload
    def tell(
        self, step: Callable[..., Mapping[str, M]], /, *args: Any, **kwargs: Any
    ) -> PerClient[Sent[M]]: ...

    def tell(
        self, step: Any, /, *args: Any, axes: _Axes = None, clients: _Some = None, **kwargs: Any
    ) -> Any:
        """Run a step at the server and send its message to clients, by default to all; see `ask`.

        A step annotated as a mapping of clients to messages gives each its own, and a PerClient of
        Sent is returned. A Local message is sent as it is.
        """
        step, args, _ = self._sending(step, args)
        by_receiver = self._declared(step, "server → client")
        receivers = self._some(clients)
        bound = Bound.of(step, args, kwargs)
        futures = self._compose(bound, {SERVER: receivers}, axes)[SERVER]
        if not by_receiver:
            return self._sent(SERVER, step, futures)
        return PerClient({r: self._sent(SERVER, step, {r: f}) for r, f in futures.items()})

    def exchange(
        self,
        step: Callable[..., Mapping[str, M]],
        /,
        *args: Any,
        clients: _Some = None,
        receivers: Iterable[str] | PerClient[tuple[str, ...]] | None = None,
        axes: _Axes = None,
        **kwargs: Any,
    ) -> PerClient[PerClient[Sent[M]]]:
        """Run a step at each client and send its messages to clients; by receiver, then by sender.

        The step's return annotation maps receivers to the message class; a PerClient of `receivers`
        gives each sender its own, by default all clients.
        """
        self._declared(step, "client → client", by_receiver=True)
        bound = Bound.of(step, args, kwargs)
        targets = {
            client: self._some(receivers[client] if isinstance(receivers, PerClient) else receivers)
            for client in self._some(clients)
        }
        sent: dict[str, dict[str, Sent]] = {}
        for client, futures in self._compose(bound, targets, axes).items():
            for receiver, future in futures.items():
                sent.setdefault(receiver, {})[client] = self._sent(client, step, {receiver: future})
        return PerClient({receiver: PerClient(by) for receiver, by in sent.items()})

    @overload
    def publish(
        self, step: _Made[M], /, *args: Any, party: _Several, wait: _Later, **kwargs: Any
    ) -> PerClient[Sent[M]]: ...

    @overload
    def publish(
        self, step: _Made[M], /, *args: Any, party: _Several, wait: _Now = True, **kwargs: Any
    ) -> PerClient[M]: ...

    @overload
    def publish(
        self, step: _Made[M], /, *args: Any, party: _One = None, wait: _Later, **kwargs: Any
    ) -> Sent[M]: ...

    @overload
    def publish(
        self, step: _Made[M], /, *args: Any, party: _One = None, wait: _Now = True, **kwargs: Any
    ) -> M: ...

    @overload
    def publish(
        self, step: _Held[M], /, *args: Any, party: None = None, wait: _Later, **kwargs: Any
    ) -> PerClient[Sent[M]]: ...

    @overload
    def publish(
        self, step: _Held[M], /, *args: Any, party: None = None, wait: _Now = True, **kwargs: Any
    ) -> PerClient[M]: ...

    def publish(
        self,
        step: Any,
        /,
        *args: Any,
        party: str | list[str] | tuple[str, ...] | None = None,
        axes: _Axes = None,
        wait: bool = True,
        **kwargs: Any,
    ) -> Any:
        """Run a step at the server or at clients and send its message to the caller; see `ask`.

        `party` is by default the server, or where given messages lie; several, or "clients" for
        all, return a PerClient. Without `wait`, handles with ``result()`` are returned.
        """
        step, args, holders = self._sending(step, args)
        if party is None:
            party = SERVER if holders is None else holders
        role = SERVER if party == SERVER else "client"
        self._declared(step, f"{role} → caller", by_receiver=False)
        bound = Bound.of(step, args, kwargs)
        if party == SERVER:
            names: tuple[str, ...] = (SERVER,)
        elif isinstance(party, str):
            names = self._some(None if party == "clients" else [party])
        else:
            names = self._some(party)
        handles = self._send(names, bound, CALLER, axes)
        answer = results(handles) if wait else handles
        return answer[party] if isinstance(party, str) and party in names else answer

    @staticmethod
    def _sending(step: Any, args: tuple[Any, ...]) -> tuple[_Step, tuple[Any, ...], Any]:
        """Return the sending step, its arguments, and who holds the messages (None for a step)."""
        if isinstance(step, Local):
            return Forward(_maker(step)), (step, *args), step.party
        if isinstance(step, PerClient):
            return Forward(_maker(next(iter(step.values())))), (step, *args), tuple(step)
        return step, args, None

    # -- building the graph -------------------------------------------------------------------

    def _some(self, clients: _Some) -> tuple[str, ...]:
        if clients is None:
            return self.clients
        names = tuple(clients)
        unknown = [name for name in names if name not in self.clients]
        if unknown or not names:
            raise InvalidInput(
                f"the clients of this federation are {', '.join(self.clients)}; got "
                f"{', '.join(map(repr, unknown)) or 'none'}. Name some of them."
            )
        return names

    def _declared(self, step: _Step, route: str, by_receiver: bool | None = None) -> bool:
        """Check that a step's message may go this way; return whether there is one per receiver."""
        self._running()
        message_type, mapped = declared_message(step)
        Here.packages.add(message_type.__module__.partition(".")[0])
        name = step_name(step)
        if by_receiver is not None and mapped != by_receiver:
            wanted = "a mapping of receivers to one" if by_receiver else "one message"
            raise InvalidInput(
                f"step {name!r} must return {wanted} to be used so. Change its annotation."
            )
        if route not in routes_of(message_type):
            raise EgressRefused(
                f"step {name!r} would send {message_type.__name__} {route}; its routes are "
                f"{', '.join(routes_of(message_type))}. Nothing was started."
            )
        if message_type.protection == "raw" and not self.allow_raw:
            raise EgressRefused(
                f"step {name!r} would send {message_type.__name__}, which is raw data; only a "
                "federation opened with allow_raw=True lets it pass. Nothing was started."
            )
        return mapped

    def _sent(self, party: str, step: _Step, futures: Mapping[str, Future]) -> Sent:
        return Sent(party, step_name(step), futures, self)

    def _send(
        self, parties: Iterable[str], bound: Bound, receiver: str, axes: _Axes = None
    ) -> PerClient[Sent]:
        """Run a step at each party and send its message to one receiver."""
        tasks = {one: self._task(one, bound, "send", (receiver,), axes) for one in parties}
        started = self._start(tasks).items()
        return PerClient({one: self._sent(one, bound.step, {receiver: f}) for one, f in started})

    def _task(
        self,
        party: str,
        bound: Bound,
        verb: str = "keep",
        receivers: tuple[str, ...] = (),
        axes: _Axes = None,
    ) -> PinnedTask:
        run, step, name = self._running(), bound.step, bound.name
        if role_of(party) != "client" and "data" in inspect.signature(step).parameters:
            raise InvalidInput(f"step {name!r} reads data, and the server holds none.")
        futures: list[Future] = []
        packed = pack(bound.arguments, party, name, futures, split=party != SERVER)
        each = for_each(bound.arguments) if party != SERVER else ()
        where = (party, run.run_id, self.round, verb, receivers, dict(axes or {}), each)
        call = StepCall(step, packed, *where)
        content, session = call_bytes(call, bound.code), self.session
        sent = sealed(self.driver_key, content) if session is None else session.signed(content)
        return self._pinned(party, name, run_step, sent, *futures)

    def _start(self, tasks: Mapping[str, PinnedTask]) -> dict[str, Future]:
        """Start one task at each party, all in one graph."""
        futures = start(self.dask_client, list(tasks.values()))
        self._counted(futures)
        return dict(zip(tasks, futures, strict=True))

    def _compose(
        self, bound: Bound, receivers: Mapping[str, tuple[str, ...]], axes: _Axes
    ) -> dict[str, dict[str, Future]]:
        """Run a step at each party; receivers fetch envelopes, a single one the step's result."""
        made: dict[str, PinnedTask] = {}
        handed: dict[tuple[str, str], PinnedTask] = {}
        for party, those in receivers.items():
            verb = "send" if len(those) == 1 else "compose"
            made[party] = own = self._task(party, bound, verb, those, axes)
            for one in those:
                also = verb == "compose"
                task = self._pinned(party, bound.name, hand_over, one, own) if also else own
                handed[party, one] = task
        tasks = {task.key: task for task in (*made.values(), *handed.values())}
        started = start(self.dask_client, [*tasks.values()], [*handed.values()])
        self._counted(started)
        futures: dict[str, dict[str, Future]] = {party: {} for party in receivers}
        for (party, receiver), future in zip(handed, started, strict=True):
            futures[party][receiver] = future
        return futures

    def _pinned(
        self, party: str, name: str, function: _Step, given: Any, *inputs: PinnedTask | Future
    ) -> PinnedTask:
        # The party keeps equal steps apart; a scheduler never forgets a key's part before digits.
        key = f"{name}|{party}-{self._tag}-{next(self._serial)}"
        return PinnedTask(key, party, function, (given,), inputs)


def _maker(local: Any) -> _Step:
    if not isinstance(local, Local) or local.made_by is None:
        raise InvalidInput(
            f"only a message that lies at its party can be sent as it is; got {local!r}. Give a "
            "step that returns one."
        )
    return local.made_by
