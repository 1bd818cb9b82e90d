"""Distances of all rows to new ones, panel by panel."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from daskfc.federation import Local, PerClient, Sent
from daskfc.secure.distances.parties import party
from daskfc.secure.distances.parties.messages import CodedDistances
from daskfc.secure.distances.parties.party import CodedDataset
from daskfc.secure.distances.parties.server import Columns
from daskfc.secure.distances.routes.evaluation import Evaluation

NEW_ROWS = 8192  # ours: clustered rows in one block of distances to new ones
PANEL_ENTRIES = 1 << 23  # ours: distances of a panel of new rows in memory, 64 MiB


@dataclass(frozen=True)
class NewPanel:
    """Some new rows, and the server's distances of all others to them.

    Parameters
    ----------
    owner : str
        The client, or "all clients" where each holds columns of them.
    start, stop : int
        Which of its new rows.
    columns : list of Local
        `Columns` at the server, for one block of earlier rows after the other.
    """

    owner: str
    start: int
    stop: int
    columns: list[Local[Columns]]


def new_panels(
    evaluation: Evaluation,
    n_samples: int,
    owner: str,
    n_rows: int,
    step: Callable[..., Any],
    *kept: Any,
) -> Iterator[NewPanel]:
    """Yield the distances of all rows to one client's new rows; `step` makes their shares."""

    def shared(start: int, stop: int) -> PerClient[Sent]:
        shares = evaluation.shares(step, owner, start, stop, *kept)
        return PerClient({name: by[owner] for name, by in shares.items()})

    return _panels(evaluation, n_samples, owner, n_rows, shared)


def panels_of_columns(
    evaluation: Evaluation, n_samples: int, coded: PerClient[Local[CodedDataset]], n_rows: int
) -> Iterator[NewPanel]:
    """Yield the distances of all rows to new ones that evaluators hold, of all clients' columns."""
    return _panels(evaluation, n_samples, "all clients", n_rows, lambda start, stop: coded, True)


def _panels(
    evaluation: Evaluation,
    n_samples: int,
    owner: str,
    n_rows: int,
    shared: Callable[[int, int], PerClient[Any]],
    whole: bool = False,
) -> Iterator[NewPanel]:
    """Yield panels of rows that evaluators have shares of, or of `whole` sets of which some."""
    width = max(1, min(2048, PANEL_ENTRIES // n_samples))
    for start in range(0, n_rows, width):
        stop = min(start + width, n_rows)
        place: dict[str, Any] = {"panel": f"{owner}:{start}:{stop}"}
        place |= {"first": start, "last": stop} if whole else {}
        ask = partial(_answers, evaluation, shared(start, stop), place)
        what = f"new samples of {owner} and samples"
        yield NewPanel(owner, start, stop, evaluation.columns(ask, n_samples, NEW_ROWS, what))


def _answers(
    evaluation: Evaluation,
    new: PerClient[Any],
    place: Mapping[str, Any],
    block: slice,
    names: Sequence[str],
) -> PerClient[Sent[CodedDistances]]:
    """Ask evaluators for the distances of a block of rows to a panel of new ones."""
    own = {"start": block.start, "stop": block.stop, **place}
    return evaluation.answers(party.answer_new, names, new.only(names), **own)
