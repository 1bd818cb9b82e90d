"""The nanny of a party: it starts the worker process, keeps its secret and reports its state."""

import asyncio
import datetime
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from typing import Any

import psutil
from distributed import Nanny, Status

from daskfc.deploy.certificates.revocation import Revoked
from daskfc.deploy.config.dask_insides import requests
from daskfc.deploy.config.peers import Peer
from daskfc.deploy.processes.spawn import without_main
from daskfc.errors import ClusterError, DaskfcError
from daskfc.federation.party.gate import Admitted, Gate, seal_of_start
from daskfc.federation.party.options import PartyOptions, RunSettings
from daskfc.federation.party.workspaces import empty
from daskfc.federation.worker.connections import REFUSED, Connection, Listening, refuse_request
from daskfc.federation.worker.guard import AllBut, PartyWorker, declined

_NANNY_OPEN = requests("nanny") | frozenset(
    "daskfc_end_run daskfc_processor_seconds daskfc_refused daskfc_start_run".split()
)
# The scheduler notices a moment later that a client has closed, so a nanny looks several times.
_LOOKS, _AGAIN_S = 10, 0.1


class PartyNanny(Listening, Nanny):  # type: ignore[misc]
    """The process that starts a party's worker, and restarts it with the same secret."""

    def __init__(self, *args: Any, party: PartyOptions, **kwargs: Any) -> None:
        name = kwargs.pop("name", party.name)
        super().__init__(*args, name=name, worker_class=PartyWorker, party=party, **kwargs)
        self._party = party
        self._gate = Gate(party)
        self._given = party  # what the worker process under way was started with
        self._starting = asyncio.Lock()
        self._beginning = asyncio.Lock()
        self._began = 0.0  # the run under way, in seconds since 1970
        self._revoked = None if party.ca is None else Revoked(party.ca, party.serial)
        self.blocked_handlers = AllBut(_NANNY_OPEN)
        self.handlers["daskfc_start_run"] = self.start_run
        self.handlers["daskfc_end_run"] = self.end_run
        self.handlers[REFUSED] = refuse_request
        self.handlers["daskfc_processor_seconds"] = self.processor_seconds

    def processor_seconds(self) -> float | None:
        """Return the processor time (s) of the worker process; a frozen one's stands still."""
        times = self._of_worker(psutil.Process.cpu_times)
        return None if times is None else float(times.user + times.system)

    def _of_worker(self, ask: Callable[[psutil.Process], Any]) -> Any:
        """Return what the system says of the worker process, or None when there is none."""
        try:
            return ask(psutil.Process(self.pid)) if self.pid else None
        except psutil.Error:
            return None

    async def start_run(
        self, run: dict[str, Any], proof: dict[str, Any] | None = None
    ) -> dict[str, str]:
        """Begin a run at this party, in the worker process under way and in later ones."""
        try:
            settings = RunSettings(**run)
            if (other := await self._begin(settings, proof)) is not None:
                return declined(other)
        except DaskfcError as error:
            return declined(error)
        try:
            if self.worker_address is not None and self.status == Status.running:
                return await self._tell_worker()
        except OSError as error:
            return {"status": "error", "kind": type(error).__name__}
        return {"status": "OK"}

    async def end_run(
        self, run: dict[str, Any], proof: dict[str, Any] | None = None
    ) -> dict[str, str]:
        """Remove files of a run that has ended from the party's own workspace."""
        async with self._beginning:
            party = self._party
            try:
                self._gate.check_end(RunSettings(**run), proof, party.run, party.submitter)
            except DaskfcError as error:
                return declined(error)
            await asyncio.to_thread(empty, party.folders_of_run())
        return {"status": "OK"}

    async def _begin(
        self, settings: RunSettings, proof: dict[str, Any] | None
    ) -> ClusterError | None:
        """Begin a run, or return the error for a second driver while the first is connected."""
        submitter, looks = self._gate.submitter(settings, proof), 0
        while True:
            # Not held between the looks: requests that wait here must not wait for each other.
            async with self._beginning:
                held = self._party.run
                if held is None or await self._yields(held, settings, submitter):
                    if settings != held:  # else the same question again
                        begun = self._gate.admit(settings, proof)
                        self._began = time.time()
                        self._party = replace(self._party, run=settings, **begun._asdict())
                    return None
            looks += 1
            if looks == _LOOKS:
                return self._held(held, submitter)
            await asyncio.sleep(_AGAIN_S)

    async def _yields(self, held: RunSettings, asked: RunSettings, submitter: str | None) -> bool:
        """Return whether the run under way makes place for another."""
        # A driver's name is not proven, and others may know it.
        same = held.driver == asked.driver and submitter == self._party.submitter
        until = self._party.until
        return same or (until is not None and time.time() > until) or await self._gone(held.driver)

    def _held(self, run: RunSettings, submitter: str | None) -> ClusterError:
        since = datetime.datetime.fromtimestamp(self._began).astimezone()
        named = f"run {run.run_id!r}" if submitter == self._party.submitter else "a run"
        return ClusterError(
            f"party {self._party.name!r} has been in {named} of another driver since "
            f"{since:%Y-%m-%d %H:%M:%S %Z}. Wait until that has ended or closed its federation."
        )

    async def _gone(self, driver: str) -> bool:
        return not _connected(await self.scheduler.events(topic=driver))

    async def _tell_worker(self) -> dict[str, str]:
        self._given = party = self._party
        assert party.run is not None
        self._arm()
        worker = self.rpc(self.worker_address)
        begun = Admitted(party.nonce, party.submitter, party.until)
        seal = seal_of_start(party.secret, party.run, begun)
        answer: dict[str, str] = await worker.daskfc_start_run(
            run=asdict(party.run), **begun._asdict(), seal=seal
        )
        return answer

    def _arm(self) -> None:
        """Put the party's present state into the arguments of the next worker process."""
        self.worker_kwargs["party"] = self._party
        if self.process is not None:
            self.process.worker_kwargs["party"] = self._party

    async def instantiate(self) -> Status:
        """Start the worker process, one start at a time; see `Nanny.instantiate`.

        When a process dies right after it started, Dask begins the next start while the first still
        waits, and then keeps the dead process's address for ever.
        """
        async with self._starting:
            self._given = self._party
            self._arm()
            with without_main():
                status = await super().instantiate()
            if self._party.run is None and (too_small := self._memory_refusal()) is not None:
                raise too_small  # in place of being stopped and started without end
            # Whether a run began while the process was starting.
            if status == Status.running and self._given is not self._party:
                await self._tell_worker()
            return status

    def _memory_refusal(self) -> ClusterError | None:
        """Return the error for a process that is near its limit before it did anything."""
        manager = self.memory_manager
        limit, share = manager.memory_limit, manager.memory_terminate_fraction
        used = self._of_worker(lambda process: process.memory_info().rss)
        if not limit or not share or used is None or used < share * limit:
            return None
        return ClusterError(
            f"party {self._party.name!r} needs {used / 1e6:.0f} MB before its first step, and is "
            f"stopped at {share:.0%} of its memory_limit of {limit / 1e6:.0f} MB. Raise the limit."
        )

    def handle_comm(self, comm: Any) -> Any:
        """Serve a new connection; see `Server.handle_comm`."""
        return super().handle_comm(Connection(comm, self._may_ask, self._revoked, self.unfinished))

    def _may_ask(self, peer: Peer, op: str) -> bool:
        return peer.role == "scheduler" or (peer.is_party and peer.name == self._party.name)

    async def plugin_add(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse plugins, those that the scheduler brings at registration included."""
        return {"status": "OK"}


def _connected(events: Iterable[tuple[float, Any]]) -> bool:
    """Return whether a Dask client is connected, by its scheduler's last events."""
    actions = [event.get("action") for _, event in events if isinstance(event, dict)]
    # The oldest events may have been dropped, its arrival among them.
    changes = [action for action in actions if action in ("add-client", "remove-client")]
    return bool(actions) and changes[-1:] != ["remove-client"]
