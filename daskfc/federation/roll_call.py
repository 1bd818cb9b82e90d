"""Asking all parties at once: who is there, begin a run, the ledger, memory."""

import asyncio
import time
from collections.abc import Iterable
from typing import Any

from distributed import Client

from daskfc.errors import ClusterError, DeadlineError

__all__ = ["RollCall"]

_AGAIN_S = 0.1  # pause before a party that was not there is asked again
_PARTY_S = 3.0  # for one party's answer; who has not answered is asked again
_ANSWER_S = 30.0  # for the scheduler's


class RollCall:
    """The driver's questions to parties that are not steps.

    Parameters
    ----------
    dask_client : distributed.Client
        The connection to the scheduler.
    """

    def __init__(self, dask_client: Client) -> None:
        self._dask = dask_client

    def _sync(self, function: Any, **kwargs: Any) -> Any:
        try:
            return self._dask.sync(function, callback_timeout=_ANSWER_S, **kwargs)
        except (OSError, TimeoutError, RuntimeError) as error:
            kind = type(error).__name__
        raise ClusterError(
            f"the scheduler at {self._dask.scheduler.address} does not answer any more ({kind}). "
            "Start the cluster again and resume the run."
        )

    def addresses(self) -> dict[str, str]:
        """Return the party at each worker's address."""
        workers = self._sync(self._dask.scheduler.identity)["workers"]
        return {address: str(worker["name"]) for address, worker in workers.items()}

    def present(self) -> frozenset[str]:
        """Return the parties that have a worker."""
        return frozenset(self.addresses().values())

    def scheduler_versions(self) -> dict[str, str | None]:
        """Return the scheduler's versions of Python, daskfc and what Dask needs."""
        answer = self._sync(self._dask.scheduler.versions, packages=["daskfc"])
        packages: dict[str, str | None] = answer["packages"]
        return packages

    def idle(self) -> bool:
        """Return whether no worker has anything to do at present."""
        return not any(self._sync(self._dask.scheduler.processing).values())

    def ask(self, op: str, *, nanny: bool = False, **kwargs: Any) -> dict[str, Any]:
        """Return the answers of the parties that are there; a plain Dask worker answers None."""
        names = self.addresses()
        answers = self._sync(
            self._ask_each, addresses=list(names), nanny=nanny, msg={"op": op, **kwargs}
        )
        return {names[address]: answer for address, answer in answers.items()}

    async def _ask_each(
        self, addresses: list[str], nanny: bool, msg: dict[str, Any]
    ) -> dict[str, Any]:
        async def ask_one(address: str) -> dict[str, Any]:
            # One by one, because the scheduler tries for long to reach a worker that has just died.
            asking = self._dask.scheduler.broadcast(
                msg=msg, workers=[address], nanny=nanny, on_error="ignore"
            )
            try:
                answer: dict[str, Any] = await asyncio.wait_for(asking, _PARTY_S)
            except (TimeoutError, KeyError):  # the latter: it has just left
                return {}
            return answer

        answers = await asyncio.gather(*(ask_one(address) for address in addresses))
        return {address: answer for one in answers for address, answer in one.items()}

    def everyone(
        self,
        parties: Iterable[str],
        op: str,
        *,
        deadline: float,
        nanny: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return the answers of all `parties`, asking again those that are not there.

        Raises
        ------
        DeadlineError
            Naming those that did not answer within `deadline` seconds.
        """
        wanted, answers = list(parties), {}
        ends = time.monotonic() + deadline
        while True:
            for party, answer in self.ask(op, nanny=nanny, **kwargs).items():
                retry = isinstance(answer, dict) and answer.get("status") == "error"
                if answer is not None and not retry:
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
