"""The kinds of distributed k-means by name, for a method's parameter."""

from typing import Any

from daskfc.errors import InvalidInput
from daskfc.federation import Federation
from daskfc.secure.kmeans.clusters import DistributedKMeans, KMeansPlan
from daskfc.secure.kmeans.noise import LloydNoise
from daskfc.secure.kmeans.on_coreset import KMeansOnCoreset
from daskfc.secure.kmeans.on_noisy_sums import KMeansOnNoisySums
from daskfc.secure.kmeans.on_sums import KMeansOnSums
from daskfc.secure.kmeans.private.noise import StartedNoise
from daskfc.secure.kmeans.private.on_offsets import KMeansOnNoisyOffsets
from daskfc.secure.sums import Aggregation, open_sum

KINDS = ("coreset", "sums")

_TAKES = {
    "coreset": {"n_init", "max_iter", "coreset_size"},
    "sums": {"n_init", "max_iter", "tolerance", "lloyd_rounds", "sums"},
    "sums with noise": {"sums", "noise"},
    "sums with noise from the start": {"n_init", "sums", "noise"},
}


def open_kmeans(
    federation: Federation,
    kind: str = "coreset",
    *,
    n_clusters: int,
    seed: int,
    n_init: int | None = None,
    max_iter: int | None = None,
    tolerance: float | None = None,
    lloyd_rounds: int | None = None,
    coreset_size: int | None = None,
    sums: Aggregation | None = None,
    noise: LloydNoise | StartedNoise | None = None,
) -> DistributedKMeans:
    """Return one way of clustering rows that stay at the clients.

    Parameters
    ----------
    federation : Federation
        In a run.
    kind : {"coreset", "sums"}
        Whether the server sees a sample of the rows, or only sums over all clients.
    n_clusters : int
        Centres wanted.
    seed : int
        Seed of all random draws but noise.
    n_init : int, optional
        Starts; by default 10. Not with `LloydNoise`.
    max_iter : int, optional
        Rounds of Lloyd's algorithm at most; by default 100. Not with `noise`.
    tolerance : float, optional
        "sums": rounds end when the inertia falls by a smaller share; by default 1e-4. Not with
        `noise`.
    lloyd_rounds : int, optional
        "sums": rounds of Lloyd's algorithm after the search, at most; by default 0. Not with
        `noise`.
    coreset_size : int, optional
        "coreset": rows that all clients together reveal; by default 1000.
    sums : Aggregation, optional
        "sums": how arrays are summed; by default ``open_sum(federation, "masked")``.
    noise : LloydNoise or StartedNoise, optional
        "sums": makes the centres differentially private; with the second, the start looks at the
        rows, too.

    Returns
    -------
    DistributedKMeans
        Its ``fit(rows)`` gives `Clusters`.

    Raises
    ------
    InvalidInput
        For another kind, a parameter of the other kind, or a value outside its range.
    PrivacyError
        For masked sums with fewer than two honest clients.

    Examples
    --------
    >>> from daskfc.secure.kmeans import open_kmeans
    >>> def labels(federation, rows):              # rows: PerClient of Local arrays
    ...     return open_kmeans(federation, "sums", n_clusters=3, seed=0).fit(rows).labels
    """
    if kind not in KINDS:
        raise InvalidInput(f"a k-means must be one of {', '.join(KINDS)}; got {kind!r}.")
    options: dict[str, Any] = {
        "n_init": n_init,
        "max_iter": max_iter,
        "tolerance": tolerance,
        "lloyd_rounds": lloyd_rounds,
        "coreset_size": coreset_size,
        "sums": sums,
        "noise": noise,
    }
    given = {name: value for name, value in options.items() if value is not None}
    case = kind
    if kind == "sums" and noise is not None:
        started = isinstance(noise, StartedNoise)
        case = "sums with noise from the start" if started else "sums with noise"
    if odd := sorted(set(given) - _TAKES[case]):
        raise InvalidInput(
            f"a k-means on {case} has no parameter {odd[0]!r}; it has "
            f"{', '.join(sorted(_TAKES[case]))}. Leave it out."
        )
    of_plan = {"n_init", "max_iter", "tolerance", "lloyd_rounds"}
    plan = KMeansPlan(n_clusters, seed, **{k: v for k, v in given.items() if k in of_plan})
    if kind == "coreset":
        size = {k: v for k, v in given.items() if k == "coreset_size"}
        return KMeansOnCoreset(federation, plan, **size)
    summed = open_sum(federation, "masked") if sums is None else sums
    if isinstance(noise, StartedNoise):
        return KMeansOnNoisyOffsets(federation, plan, summed, noise)
    if noise is not None:
        return KMeansOnNoisySums(federation, n_clusters, seed, summed, noise)
    return KMeansOnSums(federation, plan, summed)
