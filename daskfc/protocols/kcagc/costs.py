"""The number of secure aggregations of single numbers that each variant needs (Section 3.4)."""

from collections.abc import Mapping

__all__ = ["scalars_a_round"]


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
