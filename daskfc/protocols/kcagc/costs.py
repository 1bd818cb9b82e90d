"""How many secure aggregations of single numbers each variant needs: the paper's Section 3.4."""

from collections.abc import Mapping

__all__ = ["scalars_a_round"]


def scalars_a_round(
    n_samples: int, n_clients: int, n_clusters: int, n_local_clusters: int
) -> Mapping[str, int]:
    """Return an upper bound on the numbers that one round of Lloyd sums, of every variant.

    Parameters
    ----------
    n_samples, n_clients, n_clusters, n_local_clusters : int
        n, L, k and k̂.

    Returns
    -------
    mapping of str to int
        "basic": n k. "optimised": k times min(n, k̂^L), for intersections without samples are
        dropped. "tree": for each of its L - 1 inner nodes min(n, k̂²) times k̂, or k at the root.

    Notes
    -----
    The paper's Q + 1 rounds cost Q + 1 times as much. Where "basic" is no larger than another, the
    other hides less and costs as much: it sends local clusters besides.

    Examples
    --------
    >>> from daskfc.protocols.kcagc.costs import scalars_a_round
    >>> scalars_a_round(2708, 2, 7, 7)  # Cora: 1.8 % of the basic protocol
    {'basic': 18956, 'optimised': 343, 'tree': 343}
    >>> scalars_a_round(2708, 16, 7, 56)["tree"]
    2142028
    """
    pairs = min(n_samples, n_local_clusters**2)
    return {
        "basic": n_samples * n_clusters,
        "optimised": min(n_samples, n_local_clusters**n_clients) * n_clusters,
        "tree": pairs * (n_local_clusters * max(n_clients - 2, 0) + n_clusters),
    }
