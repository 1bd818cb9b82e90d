"""Samples that lack columns: two of them are as far apart as what they share says, scaled."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from daskfc.arrays import Floats, Ints
from daskfc.errors import InvalidInput
from daskfc.federation.steps.rules import some_clients, takes
from daskfc.secure.distances.parties.messages import GapReport, GapsAllowed


@dataclass(frozen=True)
class Gaps:
    """What samples of some kinds share: those of one kind have the same columns.

    `kinds` are of the samples, (n,). By two kinds, `factors` are all columns over the common ones,
    by their weights, and 0 where there are none.
    """

    kinds: Ints
    factors: Floats
    report: GapReport

    def scaled(self, squares: Floats, rows: slice, columns: slice) -> Floats:
        """Return squared distances of what two samples share as if of all columns."""
        times = self.factors[np.ix_(self.kinds[rows], self.kinds[columns])]
        return np.where(times > 0, squares * times, self.report.far)


@takes(evaluators=some_clients)
def allow_gaps(*, evaluators: Sequence[str]) -> dict[str, GapsAllowed]:
    """Tell evaluators that samples may lack columns, which was announced, or it is no step."""
    return dict.fromkeys(evaluators, GapsAllowed(1))


def gaps_of(
    held: NDArray[np.bool_], n_columns: Ints, weights: Floats, radius: float, gaps: str
) -> Gaps | None:
    """Return what samples share, None where all have all columns; refuse pairs without any.

    `held` (n, groups) tells which samples have the columns of a group, of which there are
    `n_columns` with together its one of the `weights`. With `gaps` "apart" pairs without a common
    column are farther apart than all others, and not refused.
    """
    own, kinds = np.unique(held, axis=0, return_inverse=True)
    kinds = kinds.reshape(-1)
    if own.all():
        return None
    shared = own[:, None] & own  # (kinds, kinds, groups)
    common = shared @ weights
    factors = np.where(shared.all(axis=2), 1.0, weights.sum() / np.where(common > 0, common, 1.0))
    factors[common == 0] = 0.0
    counts = np.bincount(kinds)
    pairs = np.triu(np.outer(counts, counts) - np.diag(counts * (counts + 1) // 2))
    apart = int(pairs[common == 0].sum())
    if apart and gaps != "apart":
        raise InvalidInput(
            f"every two samples must have a column in common; {apart:,} pairs have none, so that "
            "nothing tells their distance. Leave out samples of few columns, or give gaps='apart', "
            "which takes such pairs to be farther apart than all others."
        )
    there = pairs > 0
    most = float(factors[there].max(initial=1.0))
    # an error of the grid in what is shared is scaled as well
    errors = factors * (shared @ n_columns) / n_columns.sum()
    report = GapReport(
        lacking=int((~held.all(axis=1)).sum()),
        scaled=int(pairs[(factors > 0) & ~shared.all(axis=2)].sum()),
        apart=apart,
        share=1.0 / most,
        far=4.0 * radius**2 * most,
        stretch=float(errors[there].max(initial=1.0)),
    )
    return Gaps(kinds, factors, report)
