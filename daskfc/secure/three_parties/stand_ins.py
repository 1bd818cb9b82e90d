"""Stubs for the steps of a computation on shares in a rehearsal: numbers of words, no shares."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from daskfc.federation.planning.rehearsal import Rehearsal
from daskfc.federation.planning.sizes import Sizes, StandIns, of_shape
from daskfc.secure.three_parties import steps
from daskfc.secure.three_parties.messages import SharedRows
from daskfc.secure.three_parties.tasks import DensityOfShares, Task

_TAG = "0" * 32
_PASSES = "passes until clusters on shares no longer join"


@dataclass(frozen=True)
class _Turn:
    """A program's round, of all those that it takes, and the words of them all."""

    number: int
    rounds: int
    words: int
    n_planes: int
    sizes: Mapping[str, int]
    before: str

    @property
    def ended(self) -> bool:
        return self.number > self.rounds


def _gathered(parts: Mapping[str, SharedRows]) -> dict[str, int]:
    return {client: part.values.shape[1] for client, part in parts.items()}


def _begun(keys: str, shares: Mapping[str, int], task: Task, rehearsal: Rehearsal) -> _Turn:
    passes = rehearsal.assume(_PASSES, 2.0) if isinstance(task, DensityOfShares) else 1
    cost = task.cost(int(passes))
    return _Turn(1, cost.rounds, cost.words, task.n_planes, shares, keys)


def _words_of(turn: _Turn) -> dict[str, Sizes]:
    if turn.ended:
        return {turn.before: Sizes(tag=_TAG, word=0)}
    first, last = (turn.words * number // turn.rounds for number in (turn.number - 1, turn.number))
    return {turn.before: Sizes(tag=_TAG, word=last - first)}


def _advanced(turn: _Turn) -> _Turn:
    return turn if turn.ended else replace(turn, number=turn.number + 1)


STAND_INS: StandIns = {
    steps.offered: lambda members, party: {
        member: Sizes(key=1) for member in members if member != party
    },
    steps.agreed: lambda members, party: members[members.index(party) - 1],
    steps.cut_rows: lambda rows, members: {
        member: Sizes(
            tag=_TAG,
            scale=1.0,
            point=2 * _TAG,
            new=0,
            bits=0,
            row=rows.shape[0],
            column=rows.shape[1],
        )
        for member in members
    },
    steps.gathered: _gathered,
    steps.begun: _begun,
    steps.words_of: _words_of,
    steps.advanced: _advanced,
    steps.rounds_taken: lambda turn: Sizes(
        n_rounds=min(turn.number, turn.rounds), ended=int(turn.ended)
    ),
    steps.label_summands: lambda turn: {
        client: Sizes(tag=_TAG, plane=turn.n_planes, word=-(-n // 64))
        for client, n in turn.sizes.items()
    },
    steps.graph_summand: lambda turn: Sizes(tag=_TAG, row=turn.n_planes, word=turn.n_planes // 64),
    steps.graph_of: lambda parts: of_shape(*next(iter(parts.values())).rows.shape, dtype="uint64"),
    steps.labels_of: lambda rows: of_shape(rows.shape[0], dtype="int64"),
}
