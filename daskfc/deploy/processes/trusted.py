"""Parties beside the plain workers of a Dask cluster that others run: the mode "trusted".

A plain worker runs whatever is sent to it, and its scheduler sees everything. So no worker becomes
a party. Each starts one beside itself, a process with the guard, and these join a scheduler of
daskfc next to the caller, by certificates of an authority that lives as long as the federation.
Among themselves they are then as guarded as parties of sites.

Privacy: whoever runs the cluster, or may submit to it, can do in its workers what the parties'
processes can: read the stores, and the keys of the parties.
"""

import contextlib
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

from dask.utils import format_time
from distributed import Client, Future

from daskfc.deploy.certificates.authority import Authority
from daskfc.deploy.certificates.tls import security_of
from daskfc.deploy.config.config import SCHEDULER, ExistingCluster, SecurityFiles
from daskfc.deploy.config.dask_insides import get_address_host, get_ip
from daskfc.deploy.connections.reaching import address_in
from daskfc.deploy.processes.beside import Side, run_beside, stop_beside, tls_options
from daskfc.deploy.processes.scratch import scratch_folder
from daskfc.errors import ClusterError

_DAYS = 30  # ours: for which certificates of one federation are valid
_SCHEDULER_S = 60.0  # for a scheduler to start
_STOPPING_S = 30.0  # for parties to end
_AGAIN_S = 0.2
_KEY = "daskfc-party|"  # by which tasks of this kind are known
_CALLER = "submitter"
_LOST = (OSError, TimeoutError, RuntimeError, CancelledError)  # Dask's errors for a lost cluster


class TrustedParties:
    """A scheduler next to this process, and a party beside each of some workers of a cluster."""

    def __init__(self, config: ExistingCluster, parties: Sequence[str], given: Any = None) -> None:
        assert config.trusted is not None
        self._start, self._place, self._token = config.trusted, config.place, uuid.uuid4().hex[:12]
        self._beside: dict[str, str] = {}  # the worker of each party
        self._tasks: dict[str, Future] = {}
        self._waits = config.startup or config.deadline
        self._scaled: int | None = None  # number of workers before
        self._stack = contextlib.ExitStack()
        try:
            self._client = self._client_of(config, given)
            workers = self._workers(len(parties))
            folder = self._stack.enter_context(scratch_folder())
            self._authority = Authority.create(folder / "authority", days=_DAYS + 1)
            self.security = self._certificate("submitter", _CALLER)
            self.address = self._started_scheduler(folder)
            for name, worker in zip(parties, workers, strict=True):
                self._start_party(name, worker)
        except BaseException:
            self.close()
            raise

    def _client_of(self, config: ExistingCluster, given: Any) -> Client:
        if isinstance(given, Client):
            return given
        security = security_of(config.security)
        if given is not None:
            security = getattr(given, "security", None)
        try:
            client = Client(
                config.scheduler if given is None else given,
                security=security,
                timeout=config.connect,
                set_as_default=False,
            )
        except (*_LOST, ValueError) as error:
            kind = type(error).__name__
        else:
            self._stack.callback(client.close)
            return client
        raise ClusterError(
            f"no Dask scheduler answered at {self._place} within {config.connect:g} s ({kind}). "
            "Start the cluster, or correct the address."
        )

    def _workers(self, needed: int) -> list[str]:
        """Return `needed` workers without a party, scaling up a cluster that can be."""
        ends, cluster = time.monotonic() + self._waits, self._client.cluster
        every, free = self._free()
        if len(free) < needed and hasattr(cluster, "scale"):
            self._scaled = every
            cluster.scale(every + needed - len(free))
        while len(free) < needed:
            if time.monotonic() >= ends:
                raise ClusterError(
                    f"the Dask cluster at {self._place} has {len(free)} workers without a party "
                    f"after {format_time(self._waits)}, and each of {needed} parties needs one of "
                    "its own: every client and the server. Start more workers, or name fewer "
                    "stores."
                )
            time.sleep(_AGAIN_S)
            _, free = self._free()
        return free[:needed]

    def _free(self) -> tuple[int, list[str]]:
        """Return how many workers there are, and those without a party beside them."""
        there, tasks = sorted(self._ask("nthreads")), self._ask("processing")
        taken = {at for at, keys in tasks.items() if any(str(key).startswith(_KEY) for key in keys)}
        return len(there), [one for one in there if one not in taken]

    def _ask(self, what: str) -> dict[str, Any]:
        """Return what the cluster reports of each of its workers."""
        kind = "the connection was lost"
        if self._client.scheduler is not None:  # Dask forgets it with the connection
            try:
                return dict(getattr(self._client, what)())
            except _LOST as error:
                kind = type(error).__name__
        raise ClusterError(
            f"the Dask cluster at {self._place} does not answer any more ({kind}). Start it again, "
            "and open the federation anew."
        )

    def _certificate(self, role: str, name: str) -> SecurityFiles:
        self._authority.issue(role, name, days=_DAYS)
        files = SecurityFiles(ca="ca.pem", cert="cert.pem", key="key.pem")
        return files.below(str(self._authority.folder_of(name)))

    def _started_scheduler(self, folder: Path) -> str:
        file = str(folder / "scheduler.json")
        words = ["scheduler", "--host", self._own_host(), "--port", "0", "--scheduler-file", file]
        files = self._certificate(SCHEDULER, SCHEDULER)
        words += tls_options(files.ca, files.cert, files.key)
        scheduler = Side(words)
        self._stack.callback(scheduler.close)
        with contextlib.suppress(ClusterError):
            return address_in(file, wait=_SCHEDULER_S)
        raise ClusterError(f"the scheduler of the parties did not start here: {scheduler.told}")

    def _own_host(self) -> str:
        """Return the address of this machine by which it reaches the cluster."""
        address = self._client.scheduler.address
        if address.startswith("inproc://"):
            return "127.0.0.1"
        try:
            return str(get_ip(get_address_host(address)))
        except ValueError:  # of a proxy
            return str(get_ip())

    def _start_party(self, name: str, worker: str) -> None:
        store, policy = self._start.stores.get(name), self._start.policies.get(name)
        files = self._certificate("server" if store is None else "client", name)
        words = ["party", name, "--scheduler", self.address, "--wait", "1m", "--trusted"]
        words += ["--memory-limit", str(self._start.memory_limit)]
        words += ["--blas-threads", "1", "--device", "cpu"]  # others compute on that machine
        words += [] if store is None else ["--store", store]
        self._beside[name] = worker
        self._tasks[name] = self._client.submit(
            run_beside,
            self._named(name),
            words,
            {Path(path).name: Path(path).read_bytes() for _, path in files},
            policy,
            key=f"{_KEY}{self._named(name)}",
            workers=[worker],
            allow_other_workers=False,
            pure=False,
            retries=0,
        )

    def check(self) -> None:
        """Raise ClusterError when a party, or the worker beside it, has ended."""
        there = self._ask("nthreads")
        for name, task in self._tasks.items():
            where = f"party {name!r}, beside worker {self._beside[name]} of {self._place},"
            if task.done():
                raise ClusterError(f"{where} has ended: {_told(task)}")
            if self._beside[name] not in there:
                raise ClusterError(f"{where} has ended with that worker. Start it again.")

    def close(self) -> None:
        """Stop all that was started, workers among them; safe to call again."""
        try:
            with contextlib.suppress(*_LOST, ClusterError):
                self._stop_parties()
            if self._scaled is not None:
                with contextlib.suppress(*_LOST):
                    self._client.cluster.scale(self._scaled)
                self._scaled = None
        finally:
            self._stack.close()

    def _stop_parties(self) -> None:
        tasks, self._tasks = self._tasks, {}
        there = self._ask("nthreads") if tasks else {}
        living = {name: task for name, task in tasks.items() if self._beside[name] in there}
        for name in living:
            where = [self._beside[name]]
            self._client.run(stop_beside, self._named(name), workers=where, on_error="ignore")
        ends = time.monotonic() + _STOPPING_S
        for task in living.values():
            task.exception(timeout=max(ends - time.monotonic(), 0))

    def _named(self, party: str) -> str:
        return f"{party}-{self._token}"


def _told(task: Future) -> str:
    try:
        return str(task.result())
    except Exception as error:  # what the foreign cluster says of it
        kind = type(error).__name__
    return f"{kind}. See that this version of daskfc is installed at all workers."
