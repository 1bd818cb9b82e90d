"""What sums of distances cost (Section 3.4), and reveal of positions, up to a rigid motion.

Distances to m centres of known weights give m - 1 coordinates of every row and its distance from
the centres' span. So q centres determine rows of q dimensions up to a sign, which norms or one more
centre give: the rows are placed, as with landmarks. See `daskfc.privacy.rows_by_centres`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


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


def scalars_a_round(
    n_samples: int, n_clients: int, n_clusters: int, n_local_clusters: int
) -> Mapping[str, int]:
    """Return an upper bound on the numbers that one round of Lloyd sums, by variant.

    "basic" is n k; "optimised" k min(n, k̂^L), as empty intersections are dropped; "tree" the sum
    over L - 1 inner nodes of min(n, k̂²) times k̂, or k at the root.
    """
    pairs = min(n_samples, n_local_clusters**2)
    return {
        "basic": n_samples * n_clusters,
        "optimised": min(n_samples, n_local_clusters**n_clients) * n_clusters,
        "tree": pairs * (n_local_clusters * max(n_clients - 2, 0) + n_clusters),
    }
