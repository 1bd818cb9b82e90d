"""The search for landmarks whose columns determine all distances, round by round."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from daskfc.arrays import Ints
from daskfc.federation import Federation, Local, PerClient, Sent
from daskfc.linalg import LandmarkEmbedding
from daskfc.secure.distances.parties import party, server
from daskfc.secure.distances.parties.messages import CodedDistances, LandmarkStatus
from daskfc.secure.distances.parties.server import Columns, RowPlan
from daskfc.secure.distances.routes import last_fit
from daskfc.secure.distances.routes.columns import KeptColumns, keep_columns
from daskfc.secure.distances.routes.evaluation import Evaluation
from daskfc.secure.distances.routes.last_fit import SinceLast

_Round = tuple[Local[Ints], list[Local[Columns]]]


@dataclass
class LandmarkSearch:
    """Landmarks of rows that `encode` shares out, round by round, and all distances to them.

    `count` tells how many landmarks a round has by the rank so far, `height` how many rows a panel.
    With `since` the first rounds are those of the last fit, whose columns the server has but for
    new samples.
    """

    federation: Federation
    plan: Local[RowPlan]
    evaluation: Evaluation
    n_samples: int
    n_features: int
    encode: Callable[[], None]
    count: Callable[[int], int]
    height: int
    keeps: bool
    since: SinceLast | None = None
    asked: int = 0  # landmarks in the end
    kept: Local[KeptColumns] | None = None  # their columns, if it keeps them
    _today: dict[str, Any] = field(default_factory=dict)  # of landmarks and new samples

    def run(self, embedding: Local[LandmarkEmbedding]) -> Local[LandmarkEmbedding]:
        """Search until landmarks span all rows; return the embedding."""
        federation, since = self.federation, self.since
        before = 0 if since is None or not since.holds else len(since.found.rounds)
        if since is not None and before:
            self._share_again(since)
        turn, status = 0, None
        while status is None or not status.converged:
            if turn < before:
                chosen, found = self._round_before(turn)
            else:
                chosen, found = self._round(embedding, turn, status)
            embedding = federation.on_server(server.add_columns, embedding, chosen, found)
            if self.keeps:
                add = keep_columns, self.kept, chosen, found
                self.kept = federation.on_server(*add, system=self.evaluation.coding["system"])
            turn += 1
            if turn < before:
                continue
            status = federation.publish(
                server.landmark_status, embedding, system=self.evaluation.coding["system"]
            )
            self.asked = status.n_landmarks
            most = max(self.n_features + 2, self.asked)  # rounding may require some more
            federation.report_progress("landmarks", self.asked, most)
        if since is not None:
            since.told_of(anew=turn > before)
        return embedding

    def _round(
        self, embedding: Local[LandmarkEmbedding], turn: int, status: LandmarkStatus | None
    ) -> _Round:
        """Have evaluators send the distances of all rows to the next landmarks."""
        federation, whole = self.federation, self.evaluation.coding["system"]
        self.encode()
        # the server's own copy stays there; what a client gets is for that client alone
        count = self.count(0 if status is None else status.rank)
        chosen = federation.on_server(server.next_landmarks, embedding, count=count)
        n_primes = len(whole.primes) if status is None else status.n_primes
        known = (embedding, chosen) if n_primes < len(whole.primes) else (None, None)
        how = {"known": known, "system": whole.first(n_primes)}
        return chosen, self._columns(self.evaluation, chosen, self.n_samples, turn, **how)

    def _columns(
        self,
        evaluation: Evaluation,
        chosen: Local[Ints],
        n_rows: int,
        turn: int,
        known: tuple[Local | None, ...] = (None, None),
        **system: Any,
    ) -> list[Local[Columns]]:
        """Return the distances of an evaluation's rows to landmarks, in panels of rows."""
        told = self.federation.tell(server.told_landmarks, chosen, clients=evaluation.names)

        def ask(panel: slice, names: Sequence[str]) -> PerClient[Sent[CodedDistances]]:
            place = {"start": panel.start, "stop": panel.stop, "turn": turn, **system}
            return evaluation.answers(party.answer_columns, names, told, **place)

        what = f"columns {turn} of samples"
        return evaluation.columns(ask, n_rows, self.height, what, known, **system)

    def _share_again(self, since: SinceLast) -> None:
        """Have landmarks and new samples shared out, and their distances told."""
        evaluation = self.evaluation.again()
        again, landmarks, n_rows = since.shared(evaluation)
        columns = self._columns(evaluation, landmarks, n_rows, 0)
        self._today = {"again": again, "columns": columns}

    def _round_before(self, turn: int) -> _Round:
        """Return the landmarks of a round of the last fit, and all samples' distances to them."""
        assert self.since is not None
        federation, kept = self.federation, self.since.kept
        chosen = federation.on_server(last_fit.landmarks_of_round, kept, self.plan, turn=turn)
        found = federation.on_server(
            last_fit.columns_of_round,
            kept,
            self.plan,
            **self._today,
            turn=turn,
            system=self.evaluation.coding["system"],
        )
        return chosen, [found]
