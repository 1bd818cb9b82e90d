"""How far sums of distances let the server place rows, up to a rigid motion; for `KCAGC.choices`.

Distances to m centres whose weights are known give m - 1 coordinates of every row, and how far it
lies off what they span. So q centres leave of rows of q dimensions a sign at most, and norms or one
centre more give that: they are placed, as by landmarks. See `daskfc.privacy.rows_by_centres`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Placed", "dimensions"]


@dataclass(frozen=True)
class Placed:
    """What one series of sums tells of its rows.

    Parameters
    ----------
    rows : str
        Of what: samples, or virtual nodes.
    n_dimensions : int
        q of these rows over all columns, at most.
    n_centres : int, optional
        Centres to which distances were told, or are in a plan; None for landmarks.

    Examples
    --------
    >>> from daskfc.protocols.kcagc.placed import Placed
    >>> str(Placed("virtual nodes", 40, 23))
    'centres, 23 in 40 dimensions: they place virtual nodes in 23 of these'
    """

    rows: str
    n_dimensions: int
    n_centres: int | None = None

    @property
    def wholly(self) -> bool:
        """Whether every row is placed."""
        return self.n_centres is None or self.n_centres >= self.n_dimensions

    def __str__(self) -> str:
        if self.n_centres is None:
            return f"landmarks: they place all {self.rows} up to a rigid motion"
        told = f"centres, {self.n_centres} in {self.n_dimensions} dimensions: they place"
        if self.wholly:
            return f"{told} all {self.rows} up to a rigid motion, as landmarks do"
        return f"{told} {self.rows} in {self.n_centres} of these"


def dimensions(columns: Sequence[int], n_clusters: int, n_rows: int) -> int:
    """Return the most dimensions that rows can have over the columns of all participants.

    Parameters
    ----------
    columns : sequence of int
        How many each participant has.
    n_clusters : int
        k, of which each keeps at most as many directions.
    n_rows : int
        Rows, which lie in one dimension less.

    Examples
    --------
    >>> from daskfc.protocols.kcagc.placed import dimensions
    >>> dimensions([64, 64, 2], n_clusters=10, n_rows=1000)
    22
    """
    return max(1, min(sum(min(n_clusters, d) for d in columns), n_rows - 1))
