"""Work of the server that several workers divide: what it hands to them, and what comes back."""

from collections.abc import Callable
from typing import Any, TypeVar

from daskfc.errors import InvalidInput
from daskfc.federation.handles import Local, PerClient, Sent
from daskfc.federation.messages import SERVER, Message
from daskfc.federation.steps import Bound
from daskfc.federation.verbs import Verbs

__all__ = ["ServerWork"]

M = TypeVar("M", bound=Message)


class ServerWork(Verbs):
    """Verbs between the server and its further workers, which are of one trust.

    What they send one another is declared, checked and in the ledger like all messages.

    Attributes
    ----------
    server_workers : tuple of str
        Names of the workers beside the first, which is the server itself.
    """

    server_workers: tuple[str, ...] = ()

    def hand_out(self, step: Callable[..., M] | Local[M], /, *args: Any, **kwargs: Any) -> Sent[M]:
        """Run a step at the server and send its message to all of the server's further workers.

        Parameters
        ----------
        step : callable, or Local
            Its return annotation is the message class. Or a message that lies at the server.
        *args, **kwargs
            As for `on_server`.

        Returns
        -------
        Sent
            For steps of the workers. The server goes on with what the message was made of.
        """
        self._need_workers()
        step, args, _ = self._sending(step, args)
        self._declared(step, "server → server worker", by_receiver=False)
        bound = Bound.of(step, args, kwargs)
        futures = self._compose(bound, {SERVER: self.server_workers}, None)[SERVER]
        return self._sent(SERVER, step, futures)

    def hand_back(self, step: Callable[..., M], /, *args: Any, **kwargs: Any) -> PerClient[Sent[M]]:
        """Run a step at each of the server's further workers and send its message to the server.

        Parameters
        ----------
        step : callable
            Its return annotation is the message class.
        *args, **kwargs
            Its arguments; a PerClient gives each worker its own.

        Returns
        -------
        PerClient of Sent
            By worker.
        """
        self._need_workers()
        self._declared(step, "server worker → server", by_receiver=False)
        bound = Bound.of(step, args, kwargs)
        tasks = {one: self._task(one, bound, "send", (SERVER,)) for one in self.server_workers}
        return PerClient(
            {one: self._sent(one, step, {SERVER: f}) for one, f in self._start(tasks).items()}
        )

    def _need_workers(self) -> None:
        if not self.server_workers:
            raise InvalidInput(
                "the server has one worker, and none to divide its work with. Set 'server: "
                "{workers: 2}' in the cluster's file, or do the work with on_server."
            )
