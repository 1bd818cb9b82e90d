"""Stubs for the steps of a computation on shares in a rehearsal: numbers of words, no shares."""

from dataclasses import dataclass

from daskfc.federation.planning.rehearsal import Rehearsal
from daskfc.federation.planning.sizes import Sizes, StandIns, of_shape
from daskfc.secure.three_parties import steps
from daskfc.secure.three_parties.tasks import DensityOfShares, LabelTask

__all__ = ["STAND_INS"]

_PASSES = "passes until clusters on shares no longer join"


@dataclass(frozen=True)
class _Turn:
    """A program's round, of all those that it takes, and the words of them all."""

    number: int
    rounds: int
    words: int
    n_planes: int

    @property
    def ended(self) -> bool:
        return self.number > self.rounds


def _begun(task: LabelTask, rehearsal: Rehearsal) -> _Turn:
    passes = rehearsal.assume(_PASSES, 2.0) if isinstance(task, DensityOfShares) else 1
    cost = task.cost(int(passes))
    return _Turn(1, cost.rounds, cost.words, task.n_planes)


def _words_of(turn: _Turn, members: tuple[str, ...], party: str) -> dict[str, Sizes]:
    before = members[members.index(party) - 1]
    if turn.ended:
        return {before: Sizes(word=0)}
    first, last = (turn.words * number // turn.rounds for number in (turn.number - 1, turn.number))
    return {before: Sizes(word=last - first)}


def _advanced(turn: _Turn) -> _Turn:
    return turn if turn.ended else _Turn(turn.number + 1, turn.rounds, turn.words, turn.n_planes)


STAND_INS: StandIns = {
    steps.offered: lambda members, party: {
        member: Sizes(key=1) for member in members if member != party
    },
    steps.agreed: lambda: None,
    steps.cut_rows: lambda rows, members: {
        member: Sizes(row=rows.shape[0], column=rows.shape[1]) for member in members
    },
    steps.gathered: lambda: None,
    steps.begun: _begun,
    steps.words_of: _words_of,
    steps.advanced: _advanced,
    steps.rounds_taken: lambda turn: Sizes(
        n_rounds=min(turn.number, turn.rounds), ended=int(turn.ended)
    ),
    steps.label_summands: lambda turn, places: {
        client: Sizes(plane=turn.n_planes, word=-(-(last - first) // 64))
        for client, (first, last) in places.items()
    },
    steps.labels_of: lambda n: of_shape(n, dtype="int64"),
}
