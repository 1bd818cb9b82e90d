"""The evaluators of a code: clients send them shares, and they return distances of shares."""

from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import Any, Self, TypeVar

from daskfc.coding import LagrangeCode, ResidueSystem
from daskfc.federation import SERVER, Federation, Local, PerClient, Sent
from daskfc.secure.distances.parties import party, server
from daskfc.secure.distances.parties.gaps import allow_gaps
from daskfc.secure.distances.parties.messages import CodedDistances, DecodedBlock, PublicPlan
from daskfc.secure.distances.parties.server import Columns, RowPlan
from daskfc.secure.distances.routes.streaming import AnswerStream

ENCODED_ROWS = 4096  # ours: rows encoded at once; K r k 4096 bytes, 51 MB for MNIST
WINDOW = 3  # blocks in progress: one evaluated, one decoded, one requested

Part = TypeVar("Part")


class Evaluation:
    """Clients that hold shares of all rows and evaluate distances of them.

    `coding` holds the arguments of every coding step; `dropped` maps excluded evaluators to the
    reason. With `hide_segments` a shared polynomial hides the distances of single segments; with
    `gaps` samples may lack columns.
    """

    def __init__(
        self,
        federation: Federation,
        code: LagrangeCode,
        system: ResidueSystem,
        *,
        engine: str,
        hide_segments: bool,
        gaps: bool = False,
    ) -> None:
        self.names = federation.clients[: code.n_evaluators]
        self.coding: dict[str, Any] = {"code": code, "system": system, "evaluators": self.names}
        self.dropped: dict[str, str] = {}
        self._federation, self._code = federation, code
        self._engine, self._hide_segments = engine, hide_segments
        self._gaps = gaps
        self._hiding: PerClient[Sent] | None = None
        self._coded: PerClient[Local] | None = None

    @property
    def is_ready(self) -> bool:
        """Whether the evaluators have their shares of the rows."""
        return self._coded is not None

    def again(self) -> Self:
        """Return the same evaluators, who get shares of other rows."""
        other = copy(self)
        other._coded = other._hiding = None
        return other

    def encode(
        self, sizes: PublicPlan, plan: Local[RowPlan], step: Callable[..., Any], *args: Any
    ) -> None:
        """Have clients share out their rows by `step`, and evaluators order them."""
        federation = self._federation
        if self._hide_segments:
            leader = self.names[0]
            drawn = federation.exchange(
                party.hiding_key, clients=[leader], receivers=self.names, evaluators=self.names
            )
            self._hiding = PerClient({name: drawn[name][leader] for name in self.names})
        self._coded = self.assembled(sizes, plan, step, *args)
        for done in range(len(self.names)):
            federation.report_progress("sharing", done, len(self.names), "clients")
            federation.wait(self._coded, count=done + 1)
        federation.report_progress("sharing", len(self.names), len(self.names), "clients")

    def assembled(
        self, sizes: PublicPlan, plan: Local[RowPlan], step: Callable[..., Any], *args: Any
    ) -> PerClient[Local[party.CodedDataset]]:
        """Return what evaluators hold of rows that clients share out; see `encode`."""
        federation = self._federation
        parts: dict[str, dict[str, list[Sent]]] = {
            name: {client: [] for client in federation.clients} for name in self.names
        }
        for client, size in zip(federation.clients, sizes.samples.tolist(), strict=True):
            for start in range(0, size, ENCODED_ROWS):
                stop = min(start + ENCODED_ROWS, size)
                shares = self.shares(step, client, start, stop, *args)
                for name in self.names:
                    parts[name][client].append(shares[name][client])
        positions = federation.tell(server.row_positions, plan, clients=self.names)
        allowed: list[PerClient[PerClient[Sent]]] = []
        if self._gaps:
            how: dict[str, Any] = {"receivers": self.names, "evaluators": self.names}
            allowed.append(federation.exchange(allow_gaps, **how))
        return federation.on_clients(
            party.assemble,
            PerClient(parts),
            positions,
            PerClient({name: self._hiding and self._hiding[name] for name in self.names}),
            *allowed,
            clients=self.names,
            code=self._code,
            system=self.coding["system"],
        )

    def shares(
        self, step: Callable[..., Any], owner: str, start: int, stop: int, *args: Any, **kwargs: Any
    ) -> PerClient[PerClient[Sent]]:
        """Have a client share out some rows; return shares by evaluator, then by owner."""
        return self._federation.exchange(
            step,
            *args,
            clients=[owner],
            receivers=self.names,
            start=start,
            stop=stop,
            **self.coding,
            **kwargs,
        )

    def answers(
        self,
        step: Callable[..., CodedDistances],
        names: Sequence[str],
        *args: Any,
        receiver: str = SERVER,
        **kwargs: Any,
    ) -> PerClient[Sent[CodedDistances]]:
        """Ask some evaluators to send distances of their shares to the server or its worker."""
        assert self._coded is not None
        federation = self._federation
        ask = federation.ask if receiver == SERVER else partial(federation.ask_for, receiver)
        return ask(
            step,
            self._coded.only(names),
            *args,
            clients=names,
            engine=self._engine,
            **{**self.coding, **kwargs},
        )

    def stream(
        self,
        ask: Callable[[Part, Sequence[str]], PerClient[Sent[CodedDistances]]],
        decode: Callable[[Part, PerClient[Sent]], Sent[DecodedBlock]],
        window: int = WINDOW,
    ) -> AnswerStream[Part]:
        """Return a stream that requests part after part and has the answers decoded."""
        return AnswerStream(
            self._federation,
            self._code,
            self.names,
            ask,
            decode,
            window=window,
            dropped=self.dropped,
        )

    def columns(
        self,
        ask: Callable[[slice, Sequence[str]], PerClient[Sent[CodedDistances]]],
        n_rows: int,
        height: int,
        kind: str,
        known: tuple[Local | None, ...] = (None, None),
        system: ResidueSystem | None = None,
    ) -> list[Local[Columns]]:
        """Return the server's distances of all rows to those in `ask`, in panels of `height` rows.

        `kind` names them in errors. With `known`, a search for landmarks and its next ones, a
        `system` of fewer primes suffices.
        """
        coding = self.coding if system is None else {**self.coding, "system": system}
        panels = [slice(start, min(start + height, n_rows)) for start in range(0, n_rows, height)]
        columns: list[Local[Columns]] = []

        def decode(panel: slice, answers: PerClient[Sent]) -> Sent[DecodedBlock]:
            what = f"{kind} {panel.start} to {panel.stop}"
            columns.append(
                self._federation.on_server(
                    server.decode_columns, answers, *known, what=what, start=panel.start, **coding
                )
            )
            return self._federation.publish(server.decoded_columns, columns[-1], wait=False)

        for _ in self.stream(ask, decode).run(panels):
            pass
        return columns
