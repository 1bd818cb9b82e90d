"""Profiles of clusters: which features tell them apart, from sums over all clients."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr

from daskfc.checks import Constraint, boolean, check_params, integer
from daskfc.errors import InvalidInput
from daskfc.federation import Federation, Ledger, PerClient
from daskfc.federation.contract import Contract
from daskfc.secure.prepare.steps import common_magnitudes
from daskfc.secure.profiles import steps
from daskfc.secure.profiles.groups import withheld_clusters
from daskfc.secure.sums import MaskedSum

__all__ = ["ClusterProfiles", "Profile"]

_RULES: Mapping[str, Constraint] = {"smallest": integer(low=2), "of_one_client": boolean()}


@dataclass(frozen=True)
class ClusterProfiles:
    """What the samples of each cluster have in common, in the units of the clients' stores.

    Attributes
    ----------
    columns : tuple of str
        Features, those that tell the clusters apart best first.
    clusters : tuple of int
        Numbers of the clusters that are described; all below is of their samples alone.
    sizes : ndarray of shape (cluster,), int64
        Samples of each.
    means, stds : ndarray of shape (cluster, column)
        Mean and standard deviation (divided by n). The mean of a column of 0 and 1 is a share.
    withheld : mapping of int to str
        Clusters that are not described, and why.
    ledger : Ledger
        Every message that finding them took.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.federation import Ledger
    >>> from daskfc.secure.profiles import ClusterProfiles
    >>> means, stds = np.array([[0.0], [2.0]]), np.array([[1.0], [1.0]])
    >>> found = ClusterProfiles(("age",), (0, 1), np.array([5, 5]), means, stds, {}, Ledger([]))
    >>> found.separation.tolist(), found.overall_mean.tolist()
    ([0.5], [1.0])
    """

    columns: tuple[str, ...]
    clusters: tuple[int, ...]
    sizes: np.ndarray
    means: np.ndarray
    stds: np.ndarray
    withheld: Mapping[int, str]
    ledger: Ledger = field(repr=False)

    @cached_property
    def overall_mean(self) -> np.ndarray:
        """Mean of each column over all clusters that are described, ``(column,)``."""
        shares = self.sizes / max(self.sizes.sum(), 1)
        mean: np.ndarray = shares @ self.means
        return mean

    @cached_property
    def overall_std(self) -> np.ndarray:
        """Standard deviation of each column over all clusters that are described."""
        between, within = self._variances()
        std: np.ndarray = np.sqrt(between + within)
        return std

    @cached_property
    def separation(self) -> np.ndarray:
        """Share of each column's variance that is between clusters (η²), in [0, 1]."""
        between, within = self._variances()
        whole = between + within
        share: np.ndarray = np.divide(between, whole, out=np.zeros_like(whole), where=whole > 0)
        return share

    @cached_property
    def standardised(self) -> np.ndarray:
        """How many overall deviations a cluster's mean is off the overall mean, (cluster, column).

        0 for columns that are constant.
        """
        off = self.means - self.overall_mean
        spread = np.broadcast_to(self.overall_std, off.shape)
        scaled: np.ndarray = np.divide(off, spread, out=np.zeros_like(off), where=spread > 0)
        return scaled

    def _variances(self) -> tuple[np.ndarray, np.ndarray]:
        shares = self.sizes / max(self.sizes.sum(), 1)
        between = shares @ np.square(self.means - self.overall_mean)
        # A column whose clusters' means differ by rounding alone does not tell them apart.
        least = 10.0 * np.finfo(np.float64).eps * np.abs(self.means).max(axis=0, initial=0.0)
        between[between <= least**2] = 0.0
        return between, shares @ np.square(self.stds)

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain values, for JSON.

        Returns
        -------
        dict
            ``columns``, ``clusters``, ``sizes``, ``means``, ``stds``, ``overall_mean``,
            ``overall_std``, ``standardised``, ``separation``, ``withheld``; tables are lists of
            one list a cluster.
        """
        return {
            "columns": list(self.columns),
            "clusters": list(self.clusters),
            "sizes": self.sizes.tolist(),
            "means": self.means.tolist(),
            "stds": self.stds.tolist(),
            "overall_mean": self.overall_mean.tolist(),
            "overall_std": self.overall_std.tolist(),
            "standardised": self.standardised.tolist(),
            "separation": self.separation.tolist(),
            "withheld": {str(cluster): why for cluster, why in self.withheld.items()},
        }

    def _ranked(self) -> "ClusterProfiles":
        order = np.argsort(-self.separation, kind="stable")
        return ClusterProfiles(
            tuple(self.columns[i] for i in order),
            self.clusters,
            self.sizes,
            self.means[:, order],
            self.stds[:, order],
            self.withheld,
            self.ledger,
        )


class Profile:
    """Means and deviations of every feature by cluster, for clients with the same columns.

    Parameters
    ----------
    smallest : int
        A cluster is described where at least so many of its samples are left without those of any
        one client: who reads a profile and knows one client's samples learns of no smaller group.
    of_one_client : bool
        Count the samples of all clients instead; a cluster may then be one client's own.

    Raises
    ------
    InvalidInput
        For a `smallest` below 2.

    Notes
    -----
    Figures are in the units of the clients' stores, whatever features were prepared for the fit.

    Privacy: the server and all clients learn the mean of every column in every cluster that is
    described, the server these clusters' sizes, the caller also the deviations; of a client alone
    the server learns the largest magnitude of each column, and of its distance from the clusters'
    means, as powers of two.
    Samples of clusters that are withheld, and those in no cluster, enter no sum and no magnitude.
    Where a preparation told means of all samples, more clusters are withheld until what is left
    over is large enough itself. Profiles of two fits whose clusters differ by a few samples tell
    of these by their difference: nothing here hinders that, and none of it bears noise.

    Error: means are those of the pooled samples to 1e-9 of a column's largest magnitude, and
    deviations to 1e-9 of the largest distance from a cluster's mean.

    Cost: two masked sums of k × d numbers, in six rounds.

    Examples
    --------
    >>> from daskfc import Federation, OmniFC  # doctest: +SKIP
    >>> from daskfc.secure.profiles import Profile  # doctest: +SKIP
    >>> with Federation.local("storage/wine.yaml") as federation:  # doctest: +SKIP
    ...     model = OmniFC(3, clusterer="k-means").fit(federation)
    ...     found = Profile(smallest=5).fit(federation, model.labels_)
    ...     found.columns[:3], found.means[:, :3]
    """

    def __init__(self, *, smallest: int = 5, of_one_client: bool = False) -> None:
        params = {"smallest": smallest, "of_one_client": of_one_client}
        check_params("Profile", params, _RULES)
        self.smallest = smallest
        self.of_one_client = of_one_client

    def fit(self, federation: Federation, labels: xr.DataArray) -> ClusterProfiles:
        """Describe the clusters, in a run of its own.

        Parameters
        ----------
        federation : Federation
            Whose clients have samples of the same columns; a method's model that lies with the
            parties is gone afterwards.
        labels : xarray.DataArray
            ``(sample,)`` int64, -1 for samples in no cluster, with the coordinates ``client`` and
            ``sample_id``: the `labels_` of a fit on these clients.

        Returns
        -------
        ClusterProfiles

        Raises
        ------
        InvalidInput
            For clients with other columns than each other, and labels without their coordinates.
        PartyError
            For labels of other samples than the clients'.
        PrivacyError
            With fewer than two clients.
        """
        federation.contract.check_split("samples", "Profile")
        _check_numbers(federation.contract)
        if lacking := sorted({"client", "sample_id"} - set(map(str, labels.coords))):
            raise InvalidInput(
                "the labels given to Profile must have the coordinates 'client' and 'sample_id'; "
                f"they lack {', '.join(map(repr, lacking))}. Give the labels_ of a fit."
            )
        before, federation.preparation = federation.preparation, None
        told = before is not None and _tells_means(before)
        try:
            run_id = f"profiling-{uuid.uuid4().hex}"
            federation.start_run(run_id, random_state=0, workspace=federation.workspace)
            return self._fit(federation, labels, told)
        finally:
            federation.preparation = before

    def _fit(
        self, federation: Federation, labels: xr.DataArray, all_are_told: bool
    ) -> ClusterProfiles:
        numbers = labels.to_numpy().astype(np.int64)
        owners = labels["client"].to_numpy().astype(str)
        found, inverse = np.unique(numbers, return_inverse=True)
        by_client = {
            name: np.bincount(inverse[owners == name], minlength=len(found))
            for name in federation.clients
        }
        real = found >= 0
        reasons = withheld_clusters(
            {name: each[real] for name, each in by_client.items()},
            {name: int(each[~real].sum()) for name, each in by_client.items()},
            smallest=self.smallest,
            of_one_client=self.of_one_client,
            all_are_told=all_are_told,
        )
        clusters = found[real]
        kept = np.array([i for i in range(len(clusters)) if i not in reasons], dtype=np.int64)
        withheld = {int(clusters[i]): why for i, why in reasons.items()}
        columns = tuple(next(iter(federation.contract.columns.values())))
        sizes = np.sum([each[real] for each in by_client.values()], axis=0)[kept]
        if len(kept):
            ids = labels["sample_id"].to_numpy().astype(str)
            place = np.full(len(found), -1)
            place[np.flatnonzero(real)[kept]] = np.arange(len(kept))
            groups = place[inverse].astype(np.int32)
            parts = {name: (groups[owners == name], ids[owners == name]) for name in by_client}
            means, stds = _sums(federation, parts, sizes)
        else:
            means = stds = np.zeros((0, len(columns)))
        told = tuple(int(clusters[i]) for i in kept)
        return ClusterProfiles(
            columns, told, sizes, means, stds, withheld, federation.ledger
        )._ranked()


def _sums(
    federation: Federation, parts: Mapping[str, tuple[np.ndarray, np.ndarray]], sizes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return means and deviations of groups, (group, column), by masked sums."""
    summing = MaskedSum(federation)
    groups = federation.on_clients(
        steps.own_groups,
        PerClient({name: own for name, (own, _) in parts.items()}),
        PerClient({name: steps.digest_of_ids(ids.tolist()) for name, (_, ids) in parts.items()}),
        federation.pseudonyms,
    )
    # Public, so that no client tells how large its own sums are: each term is at most 1.
    most = 2.0 * float(sizes.max())

    def magnitudes(means: Any) -> Any:
        told = federation.ask(steps.cluster_magnitudes, groups, means)
        return federation.tell(common_magnitudes, told)

    largest = magnitudes(None)
    own = federation.on_clients(steps.cluster_sums, groups, largest, n_groups=len(sizes))
    fitted = federation.on_server(steps.means_of, summing.sum(own, max_abs=most), largest, sizes)
    means = federation.tell(fitted)
    farthest = magnitudes(means)
    own = federation.on_clients(steps.cluster_squares, groups, means, farthest)
    spreads = federation.publish(
        steps.spreads_of, summing.sum(own, max_abs=most), fitted, farthest, sizes
    )
    return federation.publish(fitted).means, spreads.spreads


def _tells_means(preparation: Any) -> bool:
    """Return whether finding a preparation told means of all samples."""
    return any(
        "mean" in step or "fill" in step for own in preparation.steps.values() for step in own
    )


def _check_numbers(contract: Contract) -> None:
    """Refuse stores with words or missing values, of which there are no means."""
    for client, words in contract.categorical.items():
        if words or contract.missing.get(client):
            what = f"column {words[0]!r} holds words" if words else "values may be missing"
            raise InvalidInput(
                f"profiles are of stores that hold numbers without gaps; {what} at client "
                f"{client!r}. Leave them out, or write stores of the other columns."
            )
