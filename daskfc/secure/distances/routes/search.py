"""The search for landmarks whose columns determine all distances, round by round."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from daskfc.arrays import Ints
from daskfc.clustering import ExactPoints
from daskfc.federation import Federation, Local, PerClient, Sent
from daskfc.linalg import LandmarkEmbedding
from daskfc.secure.distances.parties import party, server
from daskfc.secure.distances.parties.messages import CodedDistances, LandmarkStatus, PointsStatus
from daskfc.secure.distances.parties.server import Columns, RowPlan
from daskfc.secure.distances.routes import columns, last_fit
from daskfc.secure.distances.routes.columns import KeptColumns, keep_columns
from daskfc.secure.distances.routes.evaluation import Evaluation
from daskfc.secure.distances.routes.last_fit import SinceLast

_Round = tuple[Local[Ints], list[Local[Columns]]]

_AGAIN = 2  # ours: rounds of landmarks more, where distances are open
_HOPELESS = 1e6  # ours: units of the grid, above which these rounds are not tried


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
    _turn: int = 0
    _status: LandmarkStatus | None = None

    def run(self, embedding: Local[LandmarkEmbedding]) -> Local[LandmarkEmbedding]:
        """Search until landmarks span all rows; return the embedding."""
        federation, since = self.federation, self.since
        before = 0 if since is None or not since.holds else len(since.found.rounds)
        if since is not None and before:
            self._share_again(since)
        while self._status is None or not self._status.converged:
            if self._turn < before:
                embedding = self._added(embedding, *self._round_before(self._turn))
                if self._turn < before:
                    continue
            else:
                count = self.count(0 if self._status is None else self._status.rank)
                chosen = federation.on_server(server.next_landmarks, embedding, count=count)
                embedding = self._asked_for(embedding, chosen)
            self._tell(embedding)
        if since is not None:
            since.told_of(anew=self._turn > before)
        return embedding

    def points(
        self, embedding: Local[LandmarkEmbedding]
    ) -> tuple[Local[ExactPoints], PointsStatus]:
        """Return coordinates from all columns, with some more where these leave distances open."""
        federation, again = self.federation, _AGAIN
        while True:
            points = federation.on_server(columns.points, self.kept, self.plan)
            status = federation.publish(columns.points_status, points)
            hopeless = status.least >= 0.5 or status.error > _HOPELESS
            if status.certified or hopeless or not again or self.asked >= self.n_samples:
                return points, status
            chosen = federation.on_server(columns.worst_placed, points, self.kept)
            del points  # the server has room for one
            embedding = self._asked_for(embedding, chosen)
            self._tell(embedding)
            again -= 1
            if self.since is not None:
                self.since.told_of(anew=True)

    def _added(
        self, embedding: Local[LandmarkEmbedding], chosen: Local[Ints], found: list[Local[Columns]]
    ) -> Local[LandmarkEmbedding]:
        federation = self.federation
        if self.keeps:
            add = keep_columns, self.kept, chosen, found
            self.kept = federation.on_server(*add, system=self.evaluation.coding["system"])
        self._turn += 1
        return federation.on_server(server.add_columns, embedding, chosen, found)

    def _tell(self, embedding: Local[LandmarkEmbedding]) -> None:
        system = self.evaluation.coding["system"]
        self._status = self.federation.publish(server.landmark_status, embedding, system=system)
        self.asked = self._status.n_landmarks
        most = max(self.n_features + 2, self.asked)  # rounding may require some more
        self.federation.report_progress("landmarks", self.asked, most)

    def _asked_for(
        self, embedding: Local[LandmarkEmbedding], chosen: Local[Ints]
    ) -> Local[LandmarkEmbedding]:
        """Have evaluators send the distances of all rows to landmarks, and add these."""
        self.encode()
        # the server's own copy stays there; what a client gets is for that client alone
        whole = self.evaluation.coding["system"]
        n_primes = len(whole.primes) if self._status is None else self._status.n_primes
        known = (embedding, chosen) if n_primes < len(whole.primes) else (None, None)
        how = {"known": known, "system": whole.first(n_primes)}
        found = self._columns(self.evaluation, chosen, self.n_samples, self._turn, **how)
        return self._added(embedding, chosen, found)

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
