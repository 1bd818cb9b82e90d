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
    """What one series of sums reveals of its rows, which are "samples" or "virtual nodes".

    `n_dimensions` is an upper bound on q, over all columns; `n_centres` are those measured to or
    planned, None for landmarks.
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

    Each keeps at most k directions of its columns, and n rows lie in n - 1 dimensions.
    """
    return max(1, min(sum(min(n_clusters, d) for d in columns), n_rows - 1))
