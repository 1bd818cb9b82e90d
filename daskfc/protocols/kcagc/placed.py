"""What sums of distances reveal of the rows' positions, up to a rigid motion; for `KCAGC.choices`.

Distances to m centres of known weights give m - 1 coordinates of every row and its distance from
the centres' span. So q centres determine rows of q dimensions up to a sign, which norms or one more
centre give: the rows are placed, as with landmarks. See `daskfc.privacy.rows_by_centres`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Placed", "dimensions"]


@dataclass(frozen=True)
class Placed:
    """What sums reveal of `rows` of at most `n_dimensions`; `n_centres` is None for landmarks."""

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
    """Return an upper bound on the dimensions of rows over the columns of all participants."""
    return max(1, min(sum(min(n_clusters, d) for d in columns), n_rows - 1))
