"""Distances of all rows to a client's new rows, which it shares out panel by panel."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from daskfc.federation import Local, PerClient, Sent
from daskfc.secure.distances.parties import party
from daskfc.secure.distances.parties.messages import CodedDistances
from daskfc.secure.distances.parties.server import Columns
from daskfc.secure.distances.routes.evaluation import Evaluation

__all__ = ["NewPanel", "new_panels"]

NEW_ROWS = 8192  # ours: clustered rows in one block of distances to new ones
PANEL_ENTRIES = 1 << 23  # ours: distances of a panel of new rows in memory, 64 MiB


@dataclass(frozen=True)
class NewPanel:
    """Some new rows of one client, and the server's distances of all others to them.

    Parameters
    ----------
    owner : str
        The client.
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
    step: Callable[..., Any],
    owner: str,
    n_rows: int,
    *kept: Any,
) -> Iterator[NewPanel]:
    """Yield the distances of all rows to one client's new rows; `step` makes their shares."""
    width = max(1, min(2048, PANEL_ENTRIES // n_samples))
    for start in range(0, n_rows, width):
        stop = min(start + width, n_rows)
        shares = evaluation.shares(step, owner, start, stop, *kept)
        panel = f"{owner}:{start}:{stop}"

        def ask(
            block: slice,
            names: Sequence[str],
            shares: PerClient[PerClient[Sent]] = shares,
            panel: str = panel,
        ) -> PerClient[Sent[CodedDistances]]:
            new = PerClient({name: shares[name][owner] for name in names})
            place = {"start": block.start, "stop": block.stop, "panel": panel}
            return evaluation.answers(party.answer_new, names, new, **place)

        what = f"new samples of {owner} and samples"
        yield NewPanel(owner, start, stop, evaluation.columns(ask, n_samples, NEW_ROWS, what))
