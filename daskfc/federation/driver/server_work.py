"""Work of the server divided among several workers: verbs between them."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from daskfc.errors import InvalidInput
from daskfc.federation.driver.verbs import Verbs
from daskfc.federation.messages.declaration import SERVER, Message
from daskfc.federation.steps.calls import Bound
from daskfc.federation.steps.handles import Local, PerClient, Sent

M = TypeVar("M", bound=Message)
_FOR_METHODS = {
    "cancel", "check_open", "driver_key", "end_run", "fetch", "fetch_all", "foresee", "new_stores",
    "next_round", "report_progress", "round", "session", "start_run", "wait",
}  # fmt: skip


class ServerWork(Verbs):
    """Verbs between the server and its further workers, which are trusted alike."""

    server_workers: tuple[str, ...] = ()

    def __dir__(self) -> list[str]:
        """Leave out, for completion in a notebook, the verbs and what else only methods use."""
        verbs = {*vars(Verbs), *vars(ServerWork)} - {*vars(object), "server_workers"}
        return sorted({*super().__dir__()} - verbs - _FOR_METHODS)

    def hand_out(self, step: Callable[..., M] | Local[M], /, *args: Any, **kwargs: Any) -> Sent[M]:
        """Run a step at the server and send its message (or a Local one) to all further workers."""
        workers = self._workers(None)
        step, args, _ = self._sending(step, args)
        self._declared(step, "server → server worker", by_receiver=False)
        bound = Bound.of(step, args, kwargs)
        futures = self._compose(bound, {SERVER: workers}, None)[SERVER]
        return self._sent(SERVER, step, futures)

    def ask_for(
        self,
        worker: str,
        step: Callable[..., M],
        /,
        *args: Any,
        clients: Iterable[str] | None = None,
        **kwargs: Any,
    ) -> PerClient[Sent[M]]:
        """Run a step at each client and send its message to one further worker, not the server."""
        (worker,) = self._workers([worker])
        self._declared(step, "client → server worker", by_receiver=False)
        return self._send(self._some(clients), Bound.of(step, args, kwargs), worker)

    def hand_back(
        self,
        step: Callable[..., M],
        /,
        *args: Any,
        workers: Iterable[str] | None = None,
        **kwargs: Any,
    ) -> PerClient[Sent[M]]:
        """Run a step at each further worker and send its message to the server; keyed by worker."""
        chosen = self._workers(workers)
        self._declared(step, "server worker → server", by_receiver=False)
        return self._send(chosen, Bound.of(step, args, kwargs), SERVER)

    def _workers(self, names: Iterable[str] | None) -> tuple[str, ...]:
        if not self.server_workers:
            raise InvalidInput(
                "the server has one worker, and none to divide its work with. Set 'server: "
                "{workers: 2}' in the cluster's file, or do the work with on_server."
            )
        chosen = self.server_workers if names is None else tuple(names)
        if strangers := [repr(name) for name in chosen if name not in self.server_workers]:
            raise InvalidInput(
                f"the server's further workers are {', '.join(self.server_workers)}; got "
                f"{', '.join(strangers)}. Name some of them."
            )
        return chosen
