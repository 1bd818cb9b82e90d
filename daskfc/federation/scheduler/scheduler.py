"""A guarded Dask scheduler, which answers only the requests of each role and runs nobody's code.

Dask's own scheduler takes whatever is sent to it: functions to run, plug-ins, task graphs of any
class, workers of any name. This one takes the task graphs of a `Federation` and the few requests
that a Federation and its parties make. With TLS the certificate says what a connection may do: a
submitter sends graphs, a party brings the worker of its own name with its own resource.

Privacy: a scheduler sees who takes part, which steps run when, and how large results are. Messages
between parties do not pass through it.
"""

import logging
from collections.abc import Callable, Iterable
from time import time
from typing import Any

from distributed import Scheduler
from tornado.ioloop import PeriodicCallback

from daskfc.deploy.certificates.revocation import Revoked
from daskfc.deploy.config.dask_insides import BatchedSend, CommClosedError, connections_of, requests
from daskfc.deploy.config.peers import Peer, peer_of
from daskfc.deploy.config.settings import PIN
from daskfc.deploy.connections.extensions import scheduler_extensions
from daskfc.federation.messages.declaration import role_of
from daskfc.federation.worker.connections import (
    MAKE_ANOTHER,
    OF_A_REVOKED,
    OF_ANOTHER_ROLE,
    REFUSED,
    Listening,
    refuse_request,
    refused_request,
)
from daskfc.federation.worker.guard import REFUSALS, AllBut

logger = logging.getLogger("daskfc.scheduler")

_OF_PARTIES = requests("anybody") | requests("party")
_OF_SUBMITTERS = requests("anybody") | requests("submitter")
_OPEN = _OF_PARTIES | _OF_SUBMITTERS
_REQUESTS = {"client": _OF_PARTIES, "server": _OF_PARTIES, "submitter": _OF_SUBMITTERS}
# Requests of a Federation to parties through their scheduler; only nannies begin runs.
_ASKED_OF_WORKERS = frozenset({"daskfc_describe", "daskfc_ledger", "daskfc_peak_memory"})
_ASKED_OF_NANNIES = frozenset({"daskfc_end_run", "daskfc_processor_seconds", "daskfc_start_run"})
# Within a connection that stays: what a worker reports of its tasks, what a client asks for.
_TOLD = {"worker": requests("told by workers"), "client": requests("told by clients")}
# The topics of a Federation and of each of Dask's clients. Others reveal the names of connected
# clients, by which parties know who holds them.
_TOPICS = (REFUSALS, "print", "warn")
# A worker's reports of a task: Dask believes most of them from any worker.
_OF_A_TASK = frozenset({"task-finished", "task-erred"})
_LOOK_MS = 1000  # how often connections are checked against the list of revoked certificates


class _Connection:
    """A connection to the scheduler that checks messages as they come in."""

    def __init__(self, comm: Any, scheduler: "GuardedScheduler") -> None:
        self.comm = comm
        self.peer = peer_of(comm)
        self.stays: tuple[str, str] | None = None  # "worker" or "client", and which one
        self._scheduler = scheduler

    def __getattr__(self, name: str) -> Any:
        return getattr(self.comm, name)

    async def read(self, **kwargs: Any) -> Any:
        """Return the next request, or the next messages of a client or a worker."""
        message = await self.comm.read(**kwargs)
        if self.stays is None:
            self._scheduler.unfinished.finish(self.comm)
            return self._scheduler.checked_request(self, message)
        if self._scheduler.is_revoked(self.peer):
            self.comm.abort()
            raise CommClosedError("its certificate was revoked")
        told = message if isinstance(message, list | tuple) else (message,)
        return [one for one in told if self._may_tell(one)]

    def _may_tell(self, message: Any) -> bool:
        if message == "OK":
            return True
        assert self.stays is not None
        kind, who = self.stays
        if isinstance(message, dict):
            op = message.get("op")
            own = message.get(kind, who) == who  # Dask would believe the message
            topic = message.get("topic")
            heard = (REFUSALS,) if op == "log-event" else _TOPICS
            if own and op in _TOLD[kind] and (topic is None or topic in heard):
                if kind == "client":
                    self._scheduler.spare_others(who, message)
                    return True
                if op == "log-event":
                    self._scheduler.tell_refusal(who, message.get("msg"))
                    return False
                if self._scheduler.may_tell_of_tasks(who, message):
                    return True
        else:
            op = type(message).__name__
        logger.warning("%s said %r, which was not heard", self.peer or kind, str(op)[:64])
        return False


class GuardedScheduler(Listening, Scheduler):  # type: ignore[misc]
    """Dask's scheduler behind a guard; it checks revocations of `ca`, and logs lines to `told`."""

    def __init__(
        self,
        *args: Any,
        ca: str | None = None,
        told: Callable[[str], None] = lambda words: None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, extensions=scheduler_extensions(), **kwargs)
        self._shows = bool(kwargs.get("dashboard"))
        self._revoked = None if ca is None else Revoked(ca)
        self._told = told
        self.blocked_handlers = AllBut(_OPEN | {REFUSED})
        self.handlers[REFUSED] = refuse_request
        self.handlers["broadcast"] = self.broadcast_for
        # Whose run each party began last: the submitter's certificate, and its Dask client's name.
        self._began: dict[str, tuple[Peer | None, str]] = {}
        if self._revoked is not None:
            look = PeriodicCallback(self.end_revoked, _LOOK_MS)
            self.periodic_callbacks["daskfc-revoked"] = look

    def identity(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return who is there, and the dashboard if any; see `Scheduler.identity`."""
        told: dict[str, Any] = super().identity(*args, **kwargs)
        if not self._shows:
            told["services"].pop("dashboard", None)
        return told

    def handle_comm(self, comm: Any) -> Any:
        """Serve a new connection; see `Server.handle_comm`."""
        return super().handle_comm(_Connection(comm, self))

    def is_revoked(self, peer: Peer | None) -> bool:
        """Return whether a certificate was revoked."""
        return peer is not None and self._revoked is not None and peer.serial in self._revoked

    async def handle_worker(self, comm: Any, worker: str) -> None:
        """Serve a party's worker until it leaves; see `Scheduler.handle_worker`."""
        name = self.workers[worker].name
        self._told(f"party {name!r} joined from {worker}")
        await super().handle_worker(comm, worker)
        self._told(f"party {name!r} left")

    def may_tell_of_tasks(self, worker: str, message: dict[str, Any]) -> bool:
        """Return whether a worker's message is about its own party's tasks; have it drop others.

        Dask would direct others to any worker that reports a value, as of inputs that it fetched.
        """
        if message["op"] in _OF_A_TASK:
            keys, is_own = [message.get("key")], self._ran_at
        elif message["op"] == "add-keys":
            keys, is_own = message.get("keys", ()), self._is_input_of
        else:
            return True
        strange = [key for key in keys if not is_own(key, worker)]
        if strange and worker in self.stream_comms:
            stimulus = f"daskfc-strange-{time()}"
            self.worker_send(worker, {"op": "free-keys", "keys": strange, "stimulus_id": stimulus})
        return not strange

    def _task(self, key: Any) -> Any:
        return self.tasks.get(key) if isinstance(key, str) else None

    def _ran_at(self, key: Any, worker: str) -> bool:
        """Return whether a task runs or ran at a worker; True where Dask ignores the report."""
        task = self._task(key)
        if task is None or task.state not in ("processing", "memory"):
            return True
        at = (task.processing_on,) if task.state == "processing" else task.who_has
        return any(one.address == worker for one in at)

    def _is_input_of(self, key: Any, worker: str) -> bool:
        """Return whether a value is for tasks of a worker's party alone, as every message is."""
        task, party = self._task(key), self.workers[worker].name if worker in self.workers else None
        users = () if task is None else task.dependents
        return bool(users) and all(party in (one.resource_restrictions or ()) for one in users)

    def spare_others(self, client: str, message: dict[str, Any]) -> None:
        """Unset ``force`` in a client's request to cancel what another client wants."""
        if message["op"] == "cancel-keys" and message.get("force"):
            tasks = [task for key in message.get("keys", ()) if (task := self._task(key))]
            wanting = {one.client_key for task in tasks for one in task.who_wants or ()}
            message["force"] = wanting <= {client}

    def end_revoked(self) -> None:
        """End the connections of certificates that were revoked since they began."""
        for comm in connections_of(self):
            if self.is_revoked(comm.peer):
                self._told(f"ended a connection of {comm.peer}: its certificate was revoked")
                comm.abort()

    def checked_request(self, connection: _Connection, request: Any) -> Any:
        """Return a request, or in its place one that is answered with a refusal."""
        if not isinstance(request, dict) or "op" not in request:
            return request
        op, peer = str(request["op"]), connection.peer
        # Their handlers refuse by themselves, in the form that the other side reads.
        if op in ("register-worker", "register-client", "close"):
            return request
        why = self._why_not(peer, op, request)
        if why is None:
            return request
        return refused_request(request, peer, why)

    def _why_not(self, peer: Peer | None, op: str, request: dict[str, Any]) -> str | None:
        if self.is_revoked(peer):
            return OF_A_REVOKED
        if peer is not None and op not in _REQUESTS.get(peer.role, ()):
            return OF_ANOTHER_ROLE
        if op == "broadcast":
            asked = request.get("msg")
            known = _ASKED_OF_NANNIES if request.get("nanny") else _ASKED_OF_WORKERS
            if not isinstance(asked, dict) or asked.get("op") not in known:
                return "by this scheduler: it is no request of daskfc to its parties."
        if op == "heartbeat_worker" and request.get("resources"):
            return "by this scheduler: resources are those of the beginning."
        if op in ("restart_workers", "unregister") and peer is not None and not peer.is_party:
            asked = request.get("workers") if op == "restart_workers" else [request.get("address")]
            owners: set[str | None] = {""}
            if isinstance(asked, list | tuple):  # a tuple where it was sent
                owners = {self._owner(one) for one in asked}
            if any(one is not None and self._began.get(one, (None,))[0] != peer for one in owners):
                return "to you: it is about parties that are in no run of yours."
        if op in ("heartbeat_worker", "unregister") and peer is not None and peer.is_party:
            owner = self._owner(request.get("address"))
            if owner not in (None, peer.name):
                return "to you: it is about another party."
        return None

    def _owner(self, address: Any) -> str | None:
        """Return the party whose worker Dask would take for the one at an address."""
        try:
            worker = self.workers.get(self.coerce_address(address))
        except (OSError, TypeError, ValueError):
            return None
        return None if worker is None else str(worker.name)

    async def broadcast_for(self, comm: Any, **asked: Any) -> dict[str, Any]:
        """Send a request to parties, see `Scheduler.broadcast`; remember whose runs begin."""
        answers: dict[str, Any] = await self.broadcast(**asked)
        if asked["msg"]["op"] == "daskfc_start_run":
            for address, answer in answers.items():
                if isinstance(answer, dict) and answer.get("status") == "OK":
                    if (party := self._owner(address)) is not None:
                        self._began[party] = comm.peer, str(asked["msg"]["run"]["driver"])
        return answers

    def tell_refusal(self, worker: str, refusal: Any) -> None:
        """Send a party's refusal to the driver of its run; Dask would send it to all who ask."""
        peer, driver = self._began.get(self._owner(worker) or "", (None, ""))
        there = self.client_comms.get(driver)
        if there is not None and there.comm is not None and there.comm.peer == peer:
            self.report(
                {"op": "event", "topic": REFUSALS, "event": (time(), refusal)}, client=driver
            )

    async def add_client(self, comm: Any, client: str, versions: dict[str, Any]) -> None:
        """Admit a submitter, or refuse with a reason; see `Scheduler.add_client`."""
        peer = comm.peer
        refusal = self._why_no_client(peer, client)
        if refusal is not None:
            self._told(f"refused {peer or 'a submitter'}: {refusal}")
            await comm.write([{"op": "stream-start", "error": refusal}])
            await comm.close()
            return
        comm.stays = ("client", client)
        self._told(f"{peer or 'a submitter'} connected")
        await super().add_client(comm, client=client, versions=versions)
        self._told(f"{peer or 'a submitter'} left")

    def _why_no_client(self, peer: Peer | None, client: str) -> str | None:
        if self.is_revoked(peer):
            return f"the certificate with which you connect was revoked. {MAKE_ANOTHER}"
        if peer is not None and peer.role != "submitter":
            return (
                f"runs are begun with a certificate of the role submitter; yours is of {peer}. "
                "Make a key by 'daskfc certs request NAME', and have it signed for that role."
            )
        if client in self.clients:
            return f"a client {client!r} is connected already. Start again."
        return None

    async def add_worker(
        self, comm: Any, *, address: str, name: str, resources: dict[str, float], **kwargs: Any
    ) -> None:
        """Admit a party's worker, or refuse with a reason; see `Scheduler.add_worker`."""
        peer = comm.peer
        refusal = self._why_no_worker(peer, str(name), resources)
        if refusal is not None:
            self._told(f"refused {peer or 'a worker'}: {refusal}")
            await comm.write({"status": "error", "message": refusal, "time": time()})
            return
        taken, comm.stays = name in self.aliases, ("worker", self.coerce_address(address))
        try:
            await super().add_worker(
                comm, address=address, name=name, resources=resources, **kwargs
            )
        except Exception as error:  # Dask would leave a worker that nobody can reach
            logger.warning("%s could not join: %s", peer or name, type(error).__name__)
            comm.abort()
            where = comm.stays[1]
            if not taken and self.aliases.get(name) == where:
                self.stream_comms.setdefault(where, BatchedSend(interval="5ms", loop=self.loop))
                stimulus = f"daskfc-half-{time()}"
                await self.remove_worker(where, stimulus_id=stimulus, close=False)

    def _why_no_worker(
        self, peer: Peer | None, name: str, resources: dict[str, float]
    ) -> str | None:
        if self.is_revoked(peer):
            return f"the certificate of party {name!r} was revoked. {MAKE_ANOTHER}"
        if peer is not None:
            role = "client" if role_of(name) == "client" else "server"
            if (peer.role, peer.name) != (role, name):
                return (
                    f"a worker may have the name of its certificate alone, which is of {peer}; "
                    f"got {name!r}. Have a certificate signed for this party."
                )
        if resources != {name: PIN}:
            return (
                f"a worker may offer the resource of its own name alone; {name!r} offers "
                f"{_named(resources)}. Start it by 'daskfc party'."
            )
        return None


def _named(resources: Iterable[str]) -> str:
    return ", ".join(repr(str(name)[:64]) for name in sorted(map(str, resources))) or "none"
