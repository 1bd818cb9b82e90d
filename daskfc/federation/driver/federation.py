"""The federation: clients and a server, runs, waiting with deadlines, ledger and memory."""

import concurrent.futures
import json
import uuid
import weakref
from asyncio import run_coroutine_threadsafe
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any, Self

from daskfc.deploy.certificates.signatures import sign
from daskfc.errors import ENDS_A_RUN, DeadlineError, InvalidInput
from daskfc.federation.driver.contract import Contract, store_summary
from daskfc.federation.driver.opening import Opened, open_existing, open_local, open_simulation
from daskfc.federation.driver.roll_call import RollCall
from daskfc.federation.driver.server_work import ServerWork
from daskfc.federation.driver.stage import Stage
from daskfc.federation.driver.waiting import Absences, Refusals, translated, wait_for
from daskfc.federation.identity.pseudonyms import Pseudonyms
from daskfc.federation.identity.session_key import SessionKey
from daskfc.federation.ledger.ledger import Ledger
from daskfc.federation.ledger.rows import Page, Place, collected
from daskfc.federation.messages.declaration import CALLER, SERVER, Message, role_of
from daskfc.federation.messages.envelopes import Outgoing, message_of
from daskfc.federation.party.gate import content_of_end, content_of_reading, signed_content
from daskfc.federation.party.options import RunSettings, by_steps
from daskfc.federation.steps.handles import Handle, Sent, handles_in
from daskfc.federation.worker.guard import REFUSALS
from daskfc.html_tables import html_table
from daskfc.site import ANY_PART, BETWEEN_SITES, RunRequest


class Federation(ServerWork):
    """Clients that hold data and a server that reduces, each in its own Dask worker.

    Open one with `local`, `simulate` or `connect`; use it as a context manager, or close it.

    Parameters
    ----------
    opened : Opened
        Connection, names, limits and processes.
    allow_raw : bool
        Whether messages with protection "raw" may leave a party.

    Attributes
    ----------
    clients : tuple of str
        Names of the clients.
    server : str
        Name of the server.
    server_workers : tuple of str
        Names of its workers beside the first; none unless the cluster's file asks for them.
    allow_raw : bool
        See above.
    workspace : str, optional
        Folder of the next run of a method; set it to find and continue what a former run left.
    results : str, optional
        Folder where a server without one of its own keeps what a fit may start from.
    preparation : daskfc.Prepared, optional
        What the features go through in the next runs, before a method reads them.
    pseudonyms : Pseudonyms, optional
        What the caller gets in place of sample ids. None, for clear ids, with `local`, where the
        caller reads the stores itself; set it to have pseudonyms there too.
    smallest : Smallest
        The smallest groups, words and columns whose sums the next runs open: with `connect` those
        of five samples and two clients, ``daskfc.site.BETWEEN_SITES``, with `local` all. Sites may
        ask for more.
    on_progress : callable, optional
        Called with ``(stage, done, total)`` as a method goes on.
    trusted : str
        What is not protected where parties run beside plain workers of somebody's Dask cluster;
        empty by default.
    opening_ledger : Ledger
        Messages about the clients' stores, sent when a running cluster was joined, and those by
        which clients that share samples agreed on a key of their pseudonyms.
    dask_client : distributed.Client
        Dask's own client. What it gathers passes the guards like everything else.

    Notes
    -----
    Privacy: raw data never leaves a client; `daskfc.federation.worker.guard` enforces that against
    mistakes of trusted code, not against hostile code inside a party's process.
    """

    server = SERVER

    def __init__(self, opened: Opened, *, allow_raw: bool = False) -> None:
        super().__init__(opened.dask_client, opened.clients, allow_raw=allow_raw)
        self.driver_key = opened.driver_key
        self._security = opened.security
        self.server_workers = opened.server_workers
        self.processes = opened.processes
        self.on_progress: Callable[[str, int, int], None] | None = None
        self.workspace: str | None = None
        self.results: str | None = None
        self.preparation: Any = None
        self.smallest = ANY_PART
        self.trusted = opened.trusted
        self.pseudonyms: Pseudonyms | None = None
        self._limits = dict(opened.limits)
        self._default_deadline = opened.deadline
        self._deadline = opened.deadline
        self._run: RunSettings | None = None
        self._name = f"fits-{datetime.now():%Y%m%d-%H%M%S}"
        self._roll_call = RollCall(opened.dask_client)
        self._absences = Absences(self._roll_call, self.parties, opened.deadline)
        self._refusals = Refusals()
        self._contract = opened.contract
        self.new_stores = opened.new_stores
        self.opening_ledger = Ledger([])
        opened.dask_client.subscribe_topic(REFUSALS, self._refusals.hear)
        self._finalizer = weakref.finalize(self, opened.closing.close)

    @classmethod
    def local(cls, storage: Any, *, allow_raw: bool = False, **options: Any) -> Self:
        """Start one worker process per client and one for the server on this machine.

        Parameters
        ----------
        storage : path-like, mapping or Storage
            A storage file or its content, or a mapping from client to the URL of its store.
        allow_raw : bool
            Whether messages with protection "raw" may leave a party.
        **options
            See `daskfc.federation.driver.opening.open_local`: cluster, root.

        Examples
        --------
        >>> from daskfc.federation import Federation
        >>> with Federation.local("storage/digits.yaml") as federation:  # doctest: +SKIP
        ...     federation.clients
        """
        return cls(open_local(storage, **options), allow_raw=allow_raw)

    @classmethod
    def simulate(cls, data: Any, *, allow_raw: bool = False, **options: Any) -> Self:
        """Start a federation on this machine over data at hand; see `daskfc.simulate`."""
        return cls(open_simulation(data, **options), allow_raw=allow_raw)

    @classmethod
    def connect(
        cls, cluster: Any, *, allow_raw: bool = False, name: str = "", **options: Any
    ) -> Self:
        """Join a running scheduler, whose workers are parties started with ``daskfc party``.

        Parameters
        ----------
        cluster : path-like, mapping, ExistingCluster, distributed.Client, or a Dask cluster
            A cluster file with ``cluster: existing``, its content, or what is connected already.
        allow_raw : bool
            Whether messages with protection "raw" may leave a party.
        name : str
            By which sites call their folders of the runs that follow; by default the time.
        **options
            See `daskfc.federation.driver.opening.open_existing`: clients; and, where the workers
            are plain ones, trusted, stores and policies.
        """
        federation = cls(open_existing(cluster, **options), allow_raw=allow_raw)
        federation._name = name or federation._name
        federation.pseudonyms, federation.smallest = Pseudonyms.fresh(), BETWEEN_SITES
        try:
            federation._agree()
        except BaseException:
            federation.close()
            raise
        return federation

    def _agree(self) -> None:
        """Ask clients of a running cluster to describe their stores, in a run of its own."""
        request = RunRequest("opening")
        self.start_run(f"opening-{uuid.uuid4().hex}", random_state=0, request=request)
        told = self.publish(store_summary, party="clients")
        self.opening_ledger = self.ledger
        self._run = None
        self._contract = Contract.of(told)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect, and stop the processes that were started here; safe to call again."""
        self._finalizer()

    def check_open(self) -> None:
        """Refuse (InvalidInput) work of a federation that was closed."""
        if not self._finalizer.alive:
            raise InvalidInput(
                "the federation is closed. Open another with Federation.local(storage) or "
                "Federation.connect(cluster), and do all work within its 'with' block."
            )

    def __array__(self, *_: Any, **__: Any) -> Any:
        """Refuse the conversion to an array by tools that split or transform samples."""
        raise InvalidInput(
            "a federation is no array of samples, which stay with its clients: it cannot be split "
            "or transformed in one place. Give it to 'fit' of a method, and in place of a grid "
            "search fit with each parameter."
        )

    def __repr__(self) -> str:
        words = f"Federation of {len(self.clients)} clients: {', '.join(self.clients)}"
        return f"<{words}; {self.trusted}>" if self.trusted else f"<{words}>"

    def _repr_html_(self) -> str:
        """Return the parties as a table, for notebooks."""
        state = "open" if self._finalizer.alive else "closed"
        title = f"Federation of {len(self.clients)} clients, {state}"
        rows = [
            (name, role_of(name), f"{limit / 1e9:.1f} GB" if limit else "none")
            for name, limit in ((name, self._limits.get(name)) for name in self.parties)
        ]
        note = ["Raw data may leave parties."] * self.allow_raw + [self.trusted] * bool(
            self.trusted
        )
        return html_table(title, ["party", "role", "limit of memory"], rows, " ".join(note))

    # -- runs ---------------------------------------------------------------------------------

    @property
    def contract(self) -> Contract:
        """What every fit relies on: the owners and the columns of the clients' stores."""
        assert self._contract is not None
        return self._contract

    @property
    def parties(self) -> tuple[str, ...]:
        """All clients, then the server and its further workers."""
        return (*self.clients, SERVER, *self.server_workers)

    def start_run(
        self,
        run_id: str,
        *,
        random_state: int,
        workspace: str | None = None,
        deadline_s: float | None = None,
        request: RunRequest | None = None,
    ) -> None:
        """Begin a run: new secrets, a new ledger, round 0, no refusal.

        Parameters
        ----------
        run_id : str
            The run's identity. An id used before continues its ledger, with new secrets.
        random_state : int
            Seed of the algorithm's random numbers.
        workspace : str, optional
            The run's folder.
        deadline_s : float, optional
            Seconds that a party may be away; by default the cluster file's.
        request : RunRequest, optional
            What the run is for, which the policies of the parties' sites judge.

        Raises
        ------
        PolicyRefused
            When a party's policy refuses the run.
        ClusterError
            When the parties are in a run of another driver, which goes on undisturbed.
        """
        self.check_open()
        if not isinstance(random_state, int) or random_state < 0:
            raise InvalidInput(
                f"random_state must be a whole number of at least 0; got {random_state!r}."
            )
        files = self._security
        session = None if files is None else SessionKey()
        settings = RunSettings(
            run_id,
            random_state,
            self.allow_raw,
            workspace,
            results=self.results,
            start=uuid.uuid4().hex,
            builds=dict(self._contract.builds) if self._contract is not None else {},
            driver=self.dask_client.id,
            preparation=by_steps({} if self.preparation is None else self.preparation.steps),
            pseudonyms=self.pseudonyms.as_dict() if self.pseudonyms is not None else {},
            request={
                **({} if request is None else json.loads(request.as_json())),
                "smallest": list(self.smallest),
                **({"trusted": True} if self.trusted else {}),
            },
            session="" if session is None else session.public,
            name=self._name,
        )
        proof = None if files is None else sign(files, signed_content(settings))
        self._deadline = self._default_deadline if deadline_s is None else deadline_s
        self._absences = Absences(self._roll_call, self.parties, self._deadline)
        self._refusals.run_id, self._refusals.start = run_id, settings.start
        self._refusals.error = None
        # The server first: of two drivers that begin at one moment it lets one pass.
        for parties in ((SERVER,), (*self.clients, *self.server_workers)):
            self._roll_call.everyone(
                parties,
                "daskfc_start_run",
                nanny=True,
                deadline=self._deadline,
                n_bytes=sum(map(len, settings.preparation)),
                run=asdict(settings),
                proof=proof,
            )
        self._run, self.session = settings, session
        self.round = 0

    def end_run(self) -> None:
        """Have parties remove files of the run from their workspaces: nothing resumes it.

        All fits of the `daskfc.Run` must have ended: the server removes its files of all of them, a
        client those of any run, but for ledgers and logs. A party that does not answer at once
        keeps them, a client until its next run.

        Raises
        ------
        InvalidInput
            When no run is under way.
        ClusterError
            When the scheduler does not answer.
        """
        run = self._running()
        proof = None if self._security is None else sign(self._security, content_of_end(run))
        self._roll_call.ask("daskfc_end_run", nanny=True, run=asdict(run), proof=proof)

    @property
    def dashboard_link(self) -> str | None:
        """Where the scheduler shows tasks and memory of all parties, if it was started to."""
        if self.processes is not None:
            place = self.processes.config.dashboard
            return None if place is None else f"http://{place}/status"
        services = self.dask_client.scheduler_info()["services"]
        return str(self.dask_client.dashboard_link) if "dashboard" in services else None

    @property
    def run_id(self) -> str | None:
        """Identity of the run under way."""
        return None if self._run is None else self._run.run_id

    def next_round(self) -> int:
        """Begin the next round and return its number; seeds and ledger rows carry it."""
        self.round += 1
        return self.round

    def report_progress(self, stage: str, done: int, total: int, unit: str = "") -> None:
        """Call `on_progress`, if set, with how far a stage is and what is counted."""
        if self.on_progress is not None:
            self.on_progress(Stage(stage, unit), done, total)

    def foresee(self, needs: Mapping[str, int], what: str) -> None:
        """Report the memory (bytes) that parties will need, which only a rehearsal records."""

    def _running(self) -> RunSettings:
        self.check_open()
        if self._run is None:
            raise InvalidInput("the federation is in no run; call start_run first.")
        if self._refusals.error is not None:
            raise self._refusals.error
        return self._run

    # -- waiting ------------------------------------------------------------------------------

    def wait(
        self,
        handles: Any,
        *,
        count: int | None = None,
        timeout: float | None = None,
        needed: bool = True,
    ) -> tuple[list[Handle], list[Handle]]:
        """Wait until steps have ended.

        Parameters
        ----------
        handles : handle, or mapping or sequence of them
            What to wait for.
        count : int, optional
            Return as soon as so many ended well; by default all must.
        timeout : float, optional
            Seconds, after which the rest is late.
        needed : bool
            False where the run can go on without: a party that dies or is away is only late.

        Returns
        -------
        done, late : list of Handle
            Those that ended well, in the order in which they did, and all others.

        Raises
        ------
        PartyError
            When too many fail for `count` to be reached.
        DeadlineError
            When a party that is needed is away for too long.
        """
        every = handles_in(handles)
        count = len(every) if count is None else count
        done = list(self._wait_for(every, count, timeout, needed))
        return done, [handle for handle in every if handle not in done]

    def cancel(self, handles: Any) -> None:
        """Drop steps that have not begun; running ones finish, and their results are dropped."""
        futures = [future for handle in handles_in(handles) for future in handle.futures.values()]
        self.dask_client.cancel(futures, force=True)

    def _wait_for(
        self, handles: list[Handle], count: int, timeout: float | None, needed: bool = True
    ) -> Iterator[Handle]:
        return wait_for(
            handles,
            count=count,
            timeout=timeout,
            absences=self._absences,
            refusal=lambda: self._refusals.error,
            needed=needed,
        )

    def fetch(self, sent: Sent, timeout: float | None = None) -> Message:
        """Return a published message; DeadlineError when it is late, or its party gone."""
        [message] = self.fetch_all([sent], timeout)
        return message

    def fetch_all(self, sent: Iterable[Sent], timeout: float | None = None) -> list[Message]:
        """Return published messages in their order, fetched concurrently as they are ready."""
        handles = list(sent)
        under_way: dict[Handle, concurrent.futures.Future[list[Outgoing]]] = {}
        everybody: list[Handle] = [*handles]
        try:
            for ended in self._wait_for(everybody, len(handles), timeout) if handles else ():
                under_way[ended] = run_coroutine_threadsafe(
                    self.dask_client.gather(
                        [ended.futures[CALLER]], direct=True, asynchronous=True
                    ),
                    self.dask_client.loop.asyncio_loop,
                )
            for handle in handles:
                if handle not in under_way:
                    raise DeadlineError(
                        f"step {handle.step!r} of party {handle.party!r} has not ended within "
                        f"{timeout:g} s. Wait longer or cancel it."
                    )
            return [self._come(handle, under_way[handle]) for handle in handles]
        except BaseException:
            for gathering in under_way.values():
                gathering.cancel()
            raise

    def _come(
        self, sent: Handle, gathering: "concurrent.futures.Future[list[Outgoing]]"
    ) -> Message:
        """Wait for a message that is on its way."""
        try:
            while True:
                try:
                    return message_of(gathering.result(timeout=1.0)[0], sent.party)
                except concurrent.futures.TimeoutError:
                    self._absences.check([sent], 1)
        except Exception as error:
            failure = translated(error, sent)
        if isinstance(failure, ENDS_A_RUN):
            self._refusals.error = failure
        raise failure

    # -- what was measured --------------------------------------------------------------------

    @property
    def ledger(self) -> Ledger:
        """All messages of the run so far, collected from the parties that sent them."""
        if self._run is None:
            return Ledger([])
        self.check_open()
        run_id, session = self._run.run_id, self.session
        proof = b"" if session is None else session.signed(content_of_reading(run_id))

        def ask(places: dict[str, Place]) -> dict[str, Page]:
            return self._roll_call.everyone(
                tuple(places),
                "daskfc_ledger",
                deadline=self._deadline,
                run_id=run_id,
                places=places,
                proof=proof,
            )

        return Ledger(collected(ask, self.parties), self.trusted)

    def peak_memory(self) -> dict[str, int]:
        """Return the most memory (bytes) that each party's process has used since it started."""
        self.check_open()
        return self._roll_call.everyone(self.parties, "daskfc_peak_memory", deadline=self._deadline)

    def limits(self) -> dict[str, int | None]:
        """Return each party's limit of memory (bytes), None where there is none."""
        return dict(self._limits)
