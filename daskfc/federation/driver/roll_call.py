"""The driver's requests to all parties at once: presence, starts of runs, ledgers, memory."""

import asyncio
import time
from collections.abc import Collection, Iterable
from typing import Any

from distributed import Client

from daskfc import errors
from daskfc.errors import ClusterError, DeadlineError

_AGAIN_S = 0.1  # pause before a party that was not there is asked again
_PARTY_S = 3.0  # for one party's answer, after which it is asked again
_BYTES_A_S = 500_000  # ours: of a request that is large, by way of the scheduler
_GOING_S = 30.0  # for a process to end


class RollCall:
    """The driver's requests, besides steps, to the scheduler and to parties."""

    def __init__(self, dask_client: Client) -> None:
        self._dask = dask_client
        self._address = dask_client.scheduler.address  # the client forgets it with the connection
        self.patience = 30.0  # seconds for the scheduler, which imports what the first step needs

    def _sync(self, function: Any, beyond_s: float = 0.0, **kwargs: Any) -> Any:
        """Return what a coroutine function of the scheduler's connection yields."""
        scheduler = self._dask.scheduler
        kind = "the connection was lost"
        if scheduler is not None:
            try:
                return self._dask.sync(
                    function, scheduler, callback_timeout=self.patience + beyond_s, **kwargs
                )
            except (OSError, TimeoutError, RuntimeError) as error:
                kind = type(error).__name__
        raise ClusterError(
            f"the scheduler at {self._address} does not answer any more ({kind}). "
            "Start the cluster again and resume the run."
        )

    def _workers(self) -> dict[str, dict[str, Any]]:
        workers: dict[str, dict[str, Any]] = self._sync(_asked, request="identity")["workers"]
        return workers

    def addresses(self) -> dict[str, str]:
        """Return the party at each worker's address."""
        return {address: str(worker["name"]) for address, worker in self._workers().items()}

    def last_seen(self) -> dict[str, float]:
        """Return the last heartbeat of each party with a worker, by the scheduler's clock."""
        return {str(worker["name"]): worker["last_seen"] for worker in self._workers().values()}

    def scheduler_versions(self) -> dict[str, str | None]:
        """Return the scheduler's versions of Python, daskfc and what Dask needs."""
        packages: dict[str, str | None] = self._sync(
            _asked, request="versions", packages=["daskfc"]
        )["packages"]
        return packages

    def idle(self) -> bool:
        """Return whether no worker has anything to do at present."""
        return not any(self._sync(_asked, request="processing").values())

    def processor_seconds(self, parties: Collection[str]) -> dict[str, float]:
        """Return the processor time of each party's worker process, for nannies that answer."""
        answers = self.ask("daskfc_processor_seconds", nanny=True, parties=parties)
        return {party: seconds for party, seconds in answers.items() if seconds is not None}

    def sign_off(self, parties: Collection[str]) -> None:
        """Unregister silent parties: their steps wait, and nannies that are alive restart them."""
        addresses = [address for address, name in self.addresses().items() if name in parties]
        self._sync(_sign_off, addresses=addresses)

    def ask(
        self,
        op: str,
        *,
        nanny: bool = False,
        parties: Collection[str] | None = None,
        n_bytes: int = 0,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return the answers of the parties that are there; a plain Dask worker answers None."""
        names = self.addresses()
        asked = [address for address, name in names.items() if parties is None or name in parties]
        msg = {"op": op, **kwargs}
        within_s = _PARTY_S + n_bytes * len(asked) / _BYTES_A_S
        answers = self._sync(
            _ask_each, within_s, addresses=asked, nanny=nanny, msg=msg, within_s=within_s
        )
        return {names[address]: answer for address, answer in answers.items()}

    def everyone(
        self,
        parties: Iterable[str],
        op: str,
        *,
        deadline: float,
        nanny: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return the answers of all `parties`; DeadlineError names those that gave none in time.

        `n_bytes` of a large request give each the time for it.
        """
        wanted, answers = list(parties), {}
        ends = time.monotonic() + deadline
        while True:
            unheard = [party for party in wanted if party not in answers]
            for party, answer in self.ask(op, nanny=nanny, parties=unheard, **kwargs).items():
                status = answer.get("status") if isinstance(answer, dict) else "OK"
                if status == "declined":
                    raise getattr(errors, answer["kind"], ClusterError)(answer["sentence"])
                if answer is not None and status != "error":
                    answers[party] = answer
            missing = [party for party in wanted if party not in answers]
            if not missing:
                return {party: answers[party] for party in wanted}
            if time.monotonic() >= ends:
                raise DeadlineError(
                    f"party {', '.join(map(repr, missing))} did not answer within {deadline:g} s. "
                    "Look whether its worker runs, and into its party.log."
                )
            time.sleep(_AGAIN_S)


async def _asked(scheduler: Any, request: str, **about: Any) -> dict[str, Any]:
    answer: dict[str, Any] = await getattr(scheduler, request)(**about)
    return answer


async def _ask_each(
    scheduler: Any, addresses: list[str], nanny: bool, msg: dict[str, Any], within_s: float
) -> dict[str, Any]:
    async def ask_one(address: str) -> dict[str, Any]:
        # One by one, because the scheduler tries for long to reach a worker that has just died.
        asking = scheduler.broadcast(msg=msg, workers=[address], nanny=nanny, on_error="ignore")
        try:
            answer: dict[str, Any] = await asyncio.wait_for(asking, within_s)
        except (TimeoutError, KeyError):  # the latter: it has just left
            return {}
        return answer

    answers = await asyncio.gather(*(ask_one(address) for address in addresses))
    return {address: answer for one in answers for address, answer in one.items()}


async def _sign_off(scheduler: Any, addresses: list[str]) -> None:
    stimulus = f"daskfc-sign-off-{time.time()}"
    # Before they are unregistered: afterwards the scheduler no longer knows their nannies.
    going = scheduler.restart_workers(
        workers=addresses,
        timeout=_GOING_S,
        wait_for_workers=False,
        on_error="return",
        stimulus_id=stimulus,
    )
    task = asyncio.ensure_future(going)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    await asyncio.sleep(0)
    for address in addresses:
        await scheduler.unregister(address=address, stimulus_id=stimulus)
