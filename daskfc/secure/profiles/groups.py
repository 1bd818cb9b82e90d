"""Which clusters, and columns in them, have enough samples to be described.

This is decided before anything of them is summed.
"""

from collections.abc import Mapping

import numpy as np

__all__ = ["BY_DIFFERENCE", "TOO_FEW", "Withheld", "withheld_cells", "withheld_clusters"]

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
    """Return the clusters that must not be described, and why.

    Parameters
    ----------
    counts : mapping of str to ndarray of shape (n_clusters,), int64
        Samples of each cluster at each client.
    outside : mapping of str to int
        Samples of each client in no cluster.
    smallest : int
        Samples that must be left of a cluster without those of any one client.
    of_one_client : bool
        Whether all clients' samples count instead, so that one may have a whole cluster.
    all_are_told : bool
        Whether means of all samples are known: then what is withheld must be as large together,
        or it is what they and the clusters that are described leave over.
    clients : int
        Clients that must have samples of a cluster.

    Returns
    -------
    dict of int to str
        By the cluster's number, in order.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.secure.profiles import withheld_clusters
    >>> counts = {"a": np.array([40, 9, 3]), "b": np.array([30, 2, 20])}
    >>> rules = {"smallest": 5, "of_one_client": False, "all_are_told": False}
    >>> list(withheld_clusters(counts, {"a": 0, "b": 0}, **rules))
    [1, 2]
    """
    table = np.array(list(counts.values()), dtype=np.int64)  # (client, cluster)
    others = np.array([outside[name] for name in counts], dtype=np.int64)

    def left(each: np.ndarray) -> int:
        """Return how many of some samples, by client, protect a single one among them."""
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
    """Return the cells, columns in clusters, that must not be described, and why.

    Parameters
    ----------
    counts : ndarray of shape (n_clusters + 1, n_columns), int64
        Samples with a value, of each client at most `smallest`; the last row is of the samples that
        are in no cluster that is described.
    needed : int
        Least count of a cell that is described. Twice `smallest` says that so many values are
        there, and `smallest` of them without those of any one client.
    all_are_told : bool
        Whether means or counts of all samples are known: then what is withheld of a column must be
        as large, or it is what they and the cells that are described leave over.

    Returns
    -------
    ndarray of shape (n_clusters, n_columns), uint8
        0 for cells that are described, `TOO_FEW` or `BY_DIFFERENCE` for the others.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.secure.profiles.groups import withheld_cells
    >>> counts = np.array([[15, 15], [12, 10], [4, 15], [0, 0]])
    >>> withheld_cells(counts, 10, all_are_told=False).tolist()
    [[0, 0], [0, 0], [1, 0]]
    >>> withheld_cells(counts, 10, all_are_told=True).tolist()
    [[0, 0], [2, 0], [1, 0]]
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
