"""Which clusters, and columns in them, have enough samples to be described, before any sum."""

from collections.abc import Mapping

import numpy as np

TOO_FEW, BY_DIFFERENCE = 1, 2  # why a cell is withheld

Withheld = Mapping[int, str]
"""Clusters that are not described, each with the reason."""

_OF_OTHERS = (
    "its figures, beside those of all samples that the preparation told, would tell those of "
    "the other clusters that are withheld"
)


def withheld_clusters(
    counts: Mapping[str, np.ndarray],
    outside: Mapping[str, int],
    *,
    smallest: int,
    of_one_client: bool,
    all_are_told: bool,
    clients: int = 1,
) -> dict[int, str]:
    """Return the clusters that must not be described, in order, each with the reason.

    `smallest` samples must remain without those of any one client, or in all if `of_one_client`,
    and `clients` clients must have some. If `all_are_told`, means of all samples are known, and
    subtraction reveals the sum of the withheld clusters, which must be as large.
    """
    table = np.array(list(counts.values()), dtype=np.int64)  # (client, cluster)
    others = np.array([outside[name] for name in counts], dtype=np.int64)

    def left(each: np.ndarray) -> int:
        """Return the number of some samples, by client, that is compared with `smallest`."""
        return int(each.sum() if of_one_client else each.sum() - each.max())

    without = "" if of_one_client else " without those of any one client"
    reasons = {
        c: f"it has fewer than {smallest} samples{without}"
        for c in range(table.shape[1])
        if left(table[:, c]) < smallest
    }
    for c in np.flatnonzero((table > 0).sum(axis=0) < clients).tolist():
        reasons.setdefault(c, f"fewer than {clients} clients have enough samples of it")
    while all_are_told:
        rest = table[:, list(reasons)].sum(axis=1) + others
        described = [c for c in range(table.shape[1]) if c not in reasons]
        if not rest.any() or left(rest) >= smallest or not described:
            break
        reasons[min(described, key=lambda c: (table[:, c].sum(), c))] = _OF_OTHERS
    return dict(sorted(reasons.items()))


def withheld_cells(counts: np.ndarray, needed: int, *, all_are_told: bool) -> np.ndarray:
    """Return why cells (cluster, column) must not be described: 0, `TOO_FEW` or `BY_DIFFERENCE`.

    `counts` caps each client at `smallest`, and its last row is of samples in no described cluster.
    `needed`, twice `smallest`, ensures that `smallest` remain without any one client. If
    `all_are_told`, subtraction reveals a column's withheld cells together, which must be as large.
    """
    cells, outside = counts[:-1], counts[-1]
    why = np.where(cells < needed, TOO_FEW, 0).astype(np.uint8)
    if not all_are_told:
        return why
    for column, own in enumerate(cells.T):
        described = np.flatnonzero(why[:, column] == 0)
        rest = own[why[:, column] > 0].sum() + outside[column]
        if rest and outside[column] < needed and len(described):
            why[described[own[described].argmin()], column] = BY_DIFFERENCE
    return why
