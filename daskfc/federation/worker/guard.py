"""The guard at a party's door: a Dask worker that lets out declared messages and nothing else.

It sits in the one place where a worker answers for its data (`get_data`). What may not leave is
answered with a poison value, because Dask repeats a failed request for ever. All other
ways out that a worker offers (running functions, logs, stack traces, actors, plugins) are shut by
a list of the few handlers that stay open, at the worker and at its nanny. Steps find no worker, and
so no client of the scheduler.

Privacy: whoever submits tasks or reaches a port gets declared messages and nothing else. The guard
does not stop hostile code that is installed at the site and runs inside the party's process; that
takes a network sandbox of the operating system.
"""

import asyncio
import contextlib
import gc
import hmac
import multiprocessing
import pickle
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NoReturn

from distributed import Worker, get_worker

from daskfc.cards import allow_device
from daskfc.deploy.certificates.revocation import Revoked
from daskfc.deploy.config.dask_insides import (
    WORKER_ANY_RUNNING,
    ExecuteFailureEvent,
    GatherDepFailureEvent,
    GatherDepNetworkFailureEvent,
    GatherDepSuccessEvent,
    current_worker,
    requests,
    to_serialize,
)
from daskfc.deploy.config.peers import Peer, peer_of
from daskfc.deploy.connections.extensions import worker_extensions
from daskfc.deploy.connections.metrics_page import Family, serve_metrics
from daskfc.errors import ENDS_A_RUN, ClusterError, DaskfcError, EgressRefused, PrivacyError
from daskfc.federation.identity.versions import HERE
from daskfc.federation.ledger.rows import LedgerRow, Page, Place
from daskfc.federation.messages.declaration import CALLER, Message, multiplier_of, payload_bytes
from daskfc.federation.messages.envelopes import Here, Outgoing, Unread
from daskfc.federation.party.crossing import without_values
from daskfc.federation.party.gate import Admitted, may_read, seal_of_start
from daskfc.federation.party.kept import Kept
from daskfc.federation.party.options import PartyOptions, RunSettings
from daskfc.federation.party.party import Party, logger
from daskfc.federation.worker.answers import only_own
from daskfc.federation.worker.asking import Asking, gave_nothing
from daskfc.federation.worker.connections import REFUSED, Connection, Listening, refuse_request
from daskfc.federation.worker.door import Door, Refused, passive
from daskfc.federation.worker.ingress import Forbidden, admit, is_admitted, restrict_process
from daskfc.federation.worker.memory import give_back, peak_memory_bytes, take_buffers
from daskfc.federation.worker.thread_starts import limit_thread_starts
from daskfc.threads import allow_threads

# A Dask worker sends another only one request at a time. A peer that sent many and took no answer
# would keep all others out: a worker is busy from some fifty on.
_AT_ONCE = 4
REFUSALS = "daskfc-refusals"  # the event topic by which a party informs the driver

_WORKER_OPEN = requests("worker") | frozenset(
    "daskfc_describe daskfc_ledger daskfc_peak_memory daskfc_refused daskfc_start_run".split()
)
_TAKEN_FOR_GONE = ("scheduler-remove-worker", "worker-heartbeat-missing")


class AllBut:
    """The set of all handler names but a few, so that a new version of Dask adds no way out."""

    def __init__(self, allowed: frozenset[str]) -> None:
        self._allowed = allowed

    def __contains__(self, name: object) -> bool:
        return name not in self._allowed


class _NoWorker:
    """Replaces the worker of a step, which Dask's clients, queues and events all look up."""

    def __getattr__(self, name: str) -> NoReturn:
        raise PrivacyError(
            "a step asked for Dask's worker or client. Steps reach no scheduler; return a message "
            "in place of that."
        )


def run_step(call: bytes, *values: Any) -> Any:
    """Perform a step at the party whose worker process this is."""
    worker = get_worker()
    give_back(worker.memory_manager.memory_limit)
    own = current_worker.set(_NoWorker())
    try:
        return worker.party.perform_sent(call, values)
    except Exception as error:
        # Dask would pickle it, and open that again.
        worker.crossing[worker.get_current_task()] = error
        raise
    finally:
        current_worker.reset(own)


def hand_over(receiver: str, envelopes: dict[str, Outgoing]) -> Outgoing:
    """Pick the envelope of one receiver out of those that a step made."""
    return envelopes[receiver]


admit([run_step, hand_over], [passive])


class PartyWorker(Listening, Worker):  # type: ignore[misc]
    """A Dask worker that is one party; parameters besides `party` are those of a Worker."""

    def __init__(self, *args: Any, party: PartyOptions, **kwargs: Any) -> None:
        # Imported objects stay; a garbage collection that visits them would copy every page that
        # is shared with the process this was forked from: 1.3 s for each of 11 parties on 2 cores.
        gc.freeze()
        if multiprocessing.parent_process() is not None:  # a process that a nanny started
            restrict_process()
            limit_thread_starts()
        if party.driver_key is not None:
            Here.keys.add(party.driver_key)
        Here.packages |= party.policy.modules()
        extensions, name = worker_extensions(), kwargs.pop("name", party.name)
        super().__init__(*args, name=name, extensions=extensions, **kwargs)
        with contextlib.suppress(ValueError):  # not in the main thread
            # Ctrl-C reaches the whole terminal; the nanny ends this process in order.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.party = Party(replace(party, memory=self.memory_manager.memory_limit or None))
        self._revoked = None if party.ca is None else Revoked(party.ca, party.serial)
        self.blocked_handlers = AllBut(_WORKER_OPEN)
        self.handlers["daskfc_describe"] = self.describe
        self.handlers["daskfc_ledger"] = self.ledger_rows
        self.handlers["daskfc_peak_memory"] = peak_memory_bytes
        self.handlers["daskfc_start_run"] = self.start_run
        self.handlers[REFUSED] = refuse_request
        # A copy at a third party would be asked for a message that it did not write.
        self.stream_handlers.update(dict.fromkeys(requests("copies"), lambda **_: None))
        connect = self.rpc.connect

        async def to_peer(*args: Any, **kwargs: Any) -> Any:
            return only_own(await connect(*args, **kwargs), party.name)

        self.rpc.connect = to_peer
        self.crossing: dict[Any, Exception] = {}  # what a step raised, by task
        self._asking = Asking()
        self._runs: dict[str, RunSettings] = {}  # all so far: a driver reads of earlier ones, too
        self._answering: Counter[str] = Counter()  # requests under way, by receiver
        self._names: dict[str, str] = {}  # party by address
        allow_threads(party.threads)
        allow_device(party.device)

    def describe(self) -> dict[str, Any]:
        """Return this party's name, role, memory limit (bytes) and versions."""
        options = self.party.options
        return {
            "party": options.name,
            "role": options.role,
            "memory_limit": self.memory_manager.memory_limit,
            "versions": HERE,
        }

    def ledger_rows(
        self, run_id: str, places: Mapping[str, Place], proof: bytes = b""
    ) -> Page | dict[str, str]:
        """Return a page of this party's rows of a run, from its place on."""
        if not may_read(self._runs.get(run_id, self.party.run), run_id, proof):
            said = "tells rows of a run to whoever began it, and to nobody else."
            return declined(PrivacyError(f"party {self.party.name!r} {said}"))
        return self.party.ledger.page(run_id, *places[self.party.name])

    def digest_metric(self, name: Any, value: float) -> None:
        """Count a step's cost by its name, without Dask's span, which differs between rounds."""
        if isinstance(name, tuple) and name[0] == "execute":
            name = (name[0], None, *name[2:])
        super().digest_metric(name, value)

    def start_run(self, run: dict[str, Any], seal: bytes, **admitted: Any) -> dict[str, str]:
        """Begin a run that the nanny admitted, as its seal proves."""
        settings, begun = RunSettings(**run), Admitted(**admitted)
        known = seal_of_start(self.party.options.secret, settings, begun)
        if not hmac.compare_digest(known, seal):
            return declined(PrivacyError(f"{self.party.name!r} begins runs by its nanny alone."))
        self._asking = Asking()
        self._runs[settings.run_id] = settings
        self.party.start_run(settings, begun.nonce, begun.submitter)
        self.party.options = replace(self.party.options, until=begun.until)
        return declined(self.party.refusal) if self.party.refusal else {"status": "OK"}

    def refuse(self, refusal: DaskfcError) -> None:
        """Abort the run at this party and inform the driver."""
        logger.warning("%s", refusal)
        self.party.ledger.refuse(type(refusal).__name__, str(refusal))
        self.party.refusal = refusal
        run = self.party.run
        event = {
            "run_id": run.run_id if run else None,
            "start": run.start if run else None,
            "kind": type(refusal).__name__,
            "sentence": str(refusal),
        }
        super().log_event(REFUSALS, event)

    def release(self, key: Any, value: Any, receiver: str) -> Outgoing:
        """Return a message that may leave for a receiver; raise EgressRefused for anything else."""
        party = self.party
        party.check_open()
        if type(value) is not Outgoing:
            kind = type(value.value if isinstance(value, Kept) else value).__name__
            raise EgressRefused(
                f"party {party.name!r} was asked by {receiver!r} for a {kind}, which is "
                "no declared message. Nothing was sent; return a Message from the step."
            )
        if value.receiver != receiver:
            raise EgressRefused(
                f"party {party.name!r} was asked by {receiver!r} for "
                f"{type(value.message).__name__}, which is for {value.receiver!r}. "
                "Nothing was sent."
            )
        party.check(value)
        return value

    def record(self, leaving: dict[Any, Outgoing]) -> Callable[[int], None]:
        """Write ledger rows of messages that leave; call the result with the bytes written."""
        payloads = [payload_bytes(envelope.message) for envelope in leaving.values()]
        rows = []
        for (key, envelope), payload in zip(leaving.items(), payloads, strict=True):
            message: Message = envelope.message
            arrays = {name: a for name, a in vars(message).items() if hasattr(a, "nbytes")}
            rows.append(
                LedgerRow(
                    run=envelope.run_id,
                    round=envelope.round,
                    step=envelope.step,
                    sender=envelope.sender,
                    receiver=envelope.receiver,
                    message=type(message).__name__,
                    protection=message.protection,
                    shapes={name: list(a.shape) for name, a in arrays.items()},
                    dtypes={name: a.dtype.name for name, a in arrays.items()},
                    payload_bytes=payload,
                    wire_bytes=payload,
                    time=time.time(),
                    task=str(key),
                    noise_multiplier=multiplier_of(message),
                )
            )
        ledger = self.party.ledger  # of the run that the messages belong to
        self.party.count_upload(sum(payloads))
        try:
            marks = ledger.begin(rows, [(one.id, one.digest) for one in leaving.values()])
        except OSError as error:
            raise self.party.unrecorded(error) from error
        self.party.narration.sends(rows)
        self.party.counts.sends(rows)

        def complete(written: int) -> None:
            framing, rest = divmod(max(written - sum(payloads), 0), len(rows))
            sizes = [payload + framing for payload in payloads]
            try:
                ledger.complete(marks, [sizes[0] + rest, *sizes[1:]])
            except OSError as error:  # the messages are gone, and their rows stand
                logger.warning("the bytes on the wire were not written down: %s", error.strerror)

        return complete

    async def _party_at(self, address: str) -> str | None:
        """Return the party whose worker has an address, or None when the scheduler knows none."""
        if address not in self._names:
            identity = await self.scheduler.identity()
            self._names = {a: str(w["name"]) for a, w in identity["workers"].items()}
        return self._names.get(address)

    def _handle_remove_worker(self, worker: str, stimulus_id: str) -> None:
        self._names.pop(worker, None)  # another party may get this address
        super()._handle_remove_worker(worker, stimulus_id)

    def handle_comm(self, comm: Any) -> Any:
        """Serve a new connection; see `Server.handle_comm`."""
        return super().handle_comm(Connection(comm, self._may_ask, self._revoked, self.unfinished))

    def _may_ask(self, peer: Peer, op: str) -> bool:
        if op == "get_data":  # what each of them may have is decided there
            return True
        return peer.role == "scheduler" or (peer.is_party and peer.name == self.party.name)

    async def start_unsafe(self) -> Any:
        """Start; see `Worker.start_unsafe`."""
        if self.party.options.metrics is not None:
            serve_metrics(self.party.options.metrics, self._counted)
        # This starts the thread of steps as well, for which there may be no memory later.
        await asyncio.wrap_future(self.executors["default"].submit(take_buffers))
        return await super().start_unsafe()

    def _counted(self) -> list[Family]:
        awaited = {
            self._names.get(address, address): len(keys)
            for address, keys in self.state.in_flight_workers.items()
        }
        return self.party.counts.families(awaited)

    async def _register_with_scheduler(self) -> None:
        await super()._register_with_scheduler()
        peer = peer_of(self.batched_stream.comm)
        if peer is not None and peer.role != "scheduler":
            raise ClusterError(
                f"party {self.party.name!r} found {peer} at the scheduler's address, by its "
                "certificate. Have the scheduler's signed for the role scheduler."
            )

    async def get_data(
        self, comm: Any, keys: Any, who: str | None = None, serializers: list[str] | None = None
    ) -> Any:
        """Answer for data; see `Worker.get_data`."""
        peer = peer_of(comm)
        if peer is not None:  # whatever name `who` gives
            receiver = self._receiver(peer)
        else:
            receiver = CALLER if who is None else await self._party_at(who)
        door = Door(comm, self, receiver, peer=who is not None)
        if receiver is None:
            return await door.turn_away(keys)
        if receiver != CALLER and self._answering[receiver] >= _AT_ONCE:
            return {"status": "busy"}
        self._answering[receiver] += 1
        try:
            return await super().get_data(door, keys, who=who, serializers=serializers)
        finally:
            self._answering[receiver] -= 1

    def _receiver(self, peer: Peer) -> str | None:
        """Return the receiver that a certificate names; only the run's submitter is its caller."""
        if peer.is_party:
            return peer.name
        began = peer.role == "submitter" and peer.name == self.party.options.submitter
        return CALLER if began else None

    async def gather_dep(
        self, worker: str, to_gather: Any, total_nbytes: int, *, stimulus_id: str
    ) -> Any:
        """Ask a peer for messages, but not for ever; see `Worker.gather_dep`."""
        event = await super().gather_dep(worker, to_gather, total_nbytes, stimulus_id=stimulus_id)
        if self.status not in WORKER_ANY_RUNNING:
            return event
        about = {"worker": worker, "total_nbytes": total_nbytes, "stimulus_id": event.stimulus_id}
        slow = self.pace.broke(worker)
        if given_up := self._asking.given_up(worker, to_gather, event, slow=slow):
            with contextlib.suppress(OSError):
                await self._party_at(worker)
            error = gave_nothing(self.party.name, self._names.get(worker, worker))
            poison = Refused(error, raises=False)
            came = event.data if isinstance(event, GatherDepSuccessEvent) else {}
            return GatherDepSuccessEvent(**about, data={**came, **dict.fromkeys(given_up, poison)})
        if isinstance(event, GatherDepFailureEvent):  # which Dask would report to nobody
            return GatherDepNetworkFailureEvent(**about)
        return event

    async def execute(self, key: Any, *, stimulus_id: str) -> Any:
        """Run a task; poison among its inputs and values in its errors end here."""
        task = self.state.tasks[key]
        inputs = [self.data.get(d.key) for d in task.dependencies]
        poison = [one for one in inputs if type(one) is Refused]
        if poison:
            return self._failure(key, task.run_id, poison[0].error, stimulus_id)
        if task.run_spec is Unread or any(one is Unread for one in inputs):
            unread = ClusterError(
                f"there was no memory to send what party {self.party.name!r} waits for, or to read "
                "it there. Free some, or raise the parties' memory_limit, and resume the run."
            )
            return self._failure(key, task.run_id, unread, stimulus_id)
        if any(one is Forbidden for one in inputs):
            refused = EgressRefused(
                f"party {self.party.name!r} was sent what is no declared message, and did not read "
                "it. Its party.log says more; install the same version at every party."
            )
            return self._failure(key, task.run_id, refused, stimulus_id)
        if not is_admitted(task.run_spec):
            refused = EgressRefused(
                f"party {self.party.name!r} was asked to run a task that is no step of daskfc. "
                "Nothing was run; use the verbs of a Federation."
            )
            return self._failure(key, task.run_id, refused, stimulus_id)
        event = await super().execute(key, stimulus_id=stimulus_id)
        error = self.crossing.pop(key, None)
        if not isinstance(event, ExecuteFailureEvent):
            return event
        crossing = without_values(error or RuntimeError(), self.party.name, _step_of(key))
        if isinstance(crossing, ENDS_A_RUN) and str(self.party.refusal) == str(crossing):
            self.refuse(crossing)  # which the party did in the run under way
        return self._failure(key, event.run_id, crossing, event.stimulus_id)

    def _failure(self, key: Any, run_id: int, error: DaskfcError, stimulus_id: str) -> Any:
        return ExecuteFailureEvent(
            key=key,
            run_id=run_id,
            start=None,
            stop=None,
            exception=to_serialize(pickle.dumps(error)),
            traceback=None,
            exception_text=repr(error),
            traceback_text="",
            stimulus_id=stimulus_id,
        )

    async def close(self, *args: Any, reason: str = "worker-close", **kwargs: Any) -> str | None:
        """Close the worker; one that the scheduler took for gone is started again by its nanny."""
        if reason in _TAKEN_FOR_GONE:
            kwargs["nanny"] = False
        self.party.ledger.end()
        closed: str | None = await super().close(*args, reason=reason, **kwargs)
        return closed

    def log_event(self, topic: Any, msg: Any) -> None:
        """Drop events for the scheduler; an error would break Dask's close."""

    async def plugin_add(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse plugins, those that the scheduler brings at registration included."""
        logger.warning("a plugin was not installed: parties take none")
        return {"status": "OK"}


def declined(error: DaskfcError) -> dict[str, str]:
    """Return the answer by which the driver's roll call ends with an error."""
    return {"status": "declined", "kind": type(error).__name__, "sentence": str(error)}


def _step_of(key: Any) -> str:
    return str(key).split("|", 1)[0]
