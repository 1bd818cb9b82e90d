"""`Profile` describes clusters by means, deviations and shares of words, from masked sums."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from daskfc.checks import Constraint, boolean, check_params, integer
from daskfc.errors import InvalidInput
from daskfc.federation import Federation, Local, PerClient
from daskfc.federation.driver.contract import Contract
from daskfc.secure.prepare.messages import CommonMagnitudes
from daskfc.secure.prepare.steps import common_magnitudes
from daskfc.secure.profiles import steps
from daskfc.secure.profiles.described import ClusterProfiles
from daskfc.secure.profiles.groups import BY_DIFFERENCE, TOO_FEW, withheld_clusters
from daskfc.secure.profiles.steps import Words
from daskfc.secure.sums import MaskedSum
from daskfc.site import RunRequest

_RULES: Mapping[str, Constraint] = {"smallest": integer(low=2), "of_one_client": boolean()}


class Profile:
    """Figures of every feature by cluster, for clients with the same columns.

    For columns of numbers these are means and deviations; for columns of words the share of each
    word that the clients agreed on in the preparation, and of all others together. Missing values
    do not count.

    Parameters
    ----------
    smallest : int
        A cluster is described where at least this many of its samples remain without those of any
        one client, so that a reader who knows one client's samples learns of no smaller group.
        Where values may be missing, a column is described in a cluster where as many values remain
        too, and there are twice as many in all.
    of_one_client : bool
        Count the samples of all clients instead; all samples of a cluster may then be of one
        client.

    Raises
    ------
    InvalidInput
        For a `smallest` below 2.

    Notes
    -----
    Figures are in the units of the clients' stores, whatever features were prepared for the fit.

    Between sites no figure is of fewer samples or clients than `Federation.smallest` requires: a
    client that has fewer samples of a cluster, or values of a column in it, adds none of these
    (`ClusterProfiles.left_out`). A site's policy enforces that for its own samples, and allows
    profiles of one grouping of a data set unless it says more.

    Privacy: the server and all clients learn the mean of every column in every described cluster,
    the server these clusters' sizes, the caller also the deviations; of a single client the server
    learns the largest magnitude of each column, and of its distance from the clusters' means, as
    powers of two, from which it sees a column that is empty or 0 there.
    The server and the caller learn the words' shares and how many samples lack a value. The rule is
    on the samples that a figure is of: the share of a word, or of missing values, may be one
    sample's, and that of all other words reveals how often words of few samples occur.
    Samples of withheld clusters, and those in no cluster, enter no sum of values and no magnitude.
    Where values may be missing the server learns how many there are by described cluster and
    column, and of all other samples by column, each client's counted up to `smallest`, as the rule
    requires; nobody learns a client's own counts. A column that is withheld in a cluster enters
    nothing more there; all learn that it is.
    Where a preparation revealed means of all samples, or counts of words, more clusters are
    withheld until the withheld ones together are large enough; and one more cluster of a column,
    where its withheld values together are too few. The difference of profiles of two fits whose
    clusters differ by a few samples reveals these: nothing prevents that, and no figure has noise.

    Error: means are those of the pooled samples to 1e-9 of a column's largest magnitude, and
    deviations to 1e-9 of the largest distance from a cluster's mean; counts and shares are exact.

    Cost: two masked sums of k × d numbers, in six rounds; where values may be missing one more, and
    twice as many numbers in the first; and k numbers for each word.

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
            Its clients have samples of the same columns. A method's model at the parties is lost.
        labels : xarray.DataArray
            ``(sample,)`` int64, -1 for samples in no cluster, with the coordinates ``client`` and
            ``sample_id``: the `labels_` of a fit on these clients.

        Returns
        -------
        ClusterProfiles

        Raises
        ------
        InvalidInput
            For clients with different columns, labels without their coordinates, and columns of
            words without a preparation in which clients agreed on the words.
        PartyError
            For labels of other samples than the clients'.
        PrivacyError
            With fewer than two clients.
        """
        federation.contract.check_split("samples", "Profile")
        if lacking := sorted({"client", "sample_id"} - set(map(str, labels.coords))):
            raise InvalidInput(
                "the labels given to Profile must have the coordinates 'client' and 'sample_id'; "
                f"they lack {', '.join(map(repr, lacking))}. Give the labels_ of a fit."
            )
        words = _words_of(federation.contract, federation.preparation)
        before, federation.preparation = federation.preparation, None
        told = before is not None and _tells_totals(before)
        try:
            run_id = f"profiling-{uuid.uuid4().hex}"
            request = RunRequest("profiles", masked=True)
            federation.start_run(
                run_id, random_state=0, workspace=federation.workspace, request=request
            )
            return self._fit(federation, labels, words, told)
        finally:
            federation.preparation = before

    def _fit(
        self, federation: Federation, labels: xr.DataArray, words: Words, all_are_told: bool
    ) -> ClusterProfiles:
        numbers = labels.to_numpy().astype(np.int64)
        owners = labels["client"].to_numpy().astype(str)
        found, inverse = np.unique(numbers, return_inverse=True)
        by_client = {
            name: np.bincount(inverse[owners == name], minlength=len(found))
            for name in federation.clients
        }
        real, least = found >= 0, federation.smallest
        # A site would refuse groups of too few of its own samples.
        enters = {name: np.where(n < least.samples, 0, n)[real] for name, n in by_client.items()}
        reasons = withheld_clusters(
            enters,
            {name: int(n.sum() - enters[name].sum()) for name, n in by_client.items()},
            smallest=self.smallest,
            of_one_client=self.of_one_client,
            all_are_told=all_are_told,
            clients=least.clients,
        )
        clusters = found[real]
        kept = np.array([i for i in range(len(clusters)) if i not in reasons], dtype=np.int64)
        withheld = {int(clusters[i]): why for i, why in reasons.items()}
        columns = tuple(next(iter(federation.contract.columns.values())))
        sizes = np.sum(list(enters.values()), axis=0)[kept]
        left_out = np.sum([n[real] for n in by_client.values()], axis=0)[kept] - sizes
        if len(kept):
            ids = labels["sample_id"].to_numpy().astype(str)
            place = np.full(len(found), -1)
            place[np.flatnonzero(real)[kept]] = np.arange(len(kept))
            parts = {
                name: (
                    _entering(place[inverse[owners == name]], least.samples),
                    ids[owners == name],
                )
                for name in by_client
            }
            sums = self._sums(federation, parts, sizes, words, all_are_told)
        else:
            sums = _Sums.of_nothing(len(columns), sum(map(len, words.values())))
        told = tuple(int(clusters[i]) for i in kept)
        of_words = [name in words for name in columns]
        return ClusterProfiles(
            columns,
            told,
            sizes,
            sums.counts,
            np.where(of_words, np.nan, sums.means),
            np.where(of_words, np.nan, sums.stds),
            withheld,
            federation.ledger,
            categories={name: tuple(own) for name, own in words.items()},
            shares=sums.shares(columns, words),
            withheld_cells={
                (told[c], columns[i]): self._reasons[sums.why[c, i]]
                for c, i in np.argwhere(sums.why).tolist()
            },
            left_out={c: n for c, n in zip(told, left_out.tolist(), strict=True) if n},
        ).ranked()

    def _sums(
        self,
        federation: Federation,
        parts: Mapping[str, tuple[np.ndarray, np.ndarray]],
        sizes: np.ndarray,
        words: Words,
        all_are_told: bool,
    ) -> "_Sums":
        """Return the figures of groups, by masked sums."""
        summing, k = MaskedSum(federation), len(sizes)
        groups = federation.on_clients(
            steps.own_groups,
            PerClient({name: own for name, (own, _) in parts.items()}),
            PerClient(
                {name: steps.digest_of_ids(ids.tolist()) for name, (_, ids) in parts.items()}
            ),
            federation.pseudonyms,
        )
        why: np.ndarray = np.zeros((k, 1), dtype=np.uint8)
        cells = there = None  # at the server, and at the clients
        if any(federation.contract.missing.values()):
            own = federation.on_clients(
                steps.cell_counts, groups, n_groups=k, smallest=self.smallest
            )
            total = summing.sum(own, max_abs=float(self.smallest))
            needed = self.smallest if self.of_one_client else 2 * self.smallest
            needed = max(needed, (federation.smallest.clients - 1) * self.smallest + 1)
            cells = federation.on_server(steps.cells_of, total, needed, all_are_told=all_are_told)
            there, why = federation.tell(cells), federation.publish(cells).why
        # Public, so that no client reveals the size of its own sums: each term is at most 1.
        most = 2.0 * float(sizes.max())
        args = (groups, words, there)

        def magnitudes(means: Any) -> Local[CommonMagnitudes]:
            told = federation.ask(steps.cluster_magnitudes, *args, means)
            return federation.on_server(common_magnitudes, told)

        largest = magnitudes(None)
        own = federation.on_clients(steps.cluster_sums, *args, federation.tell(largest), n_groups=k)
        total = summing.sum(own, max_abs=most)
        counts = federation.on_server(steps.counts_of, total, largest, sizes, cells)
        fitted = federation.on_server(steps.means_of, total, largest, counts)
        means = federation.tell(fitted)
        farthest = magnitudes(means)
        own = federation.on_clients(steps.cluster_squares, *args, means, federation.tell(farthest))
        squares = summing.sum(own, max_abs=most)
        spreads = federation.publish(steps.spreads_of, squares, fitted, farthest, counts).spreads
        found = federation.publish(fitted).means
        if cells is None and not words:  # counts are the sizes
            everyone = np.tile(sizes[:, None], found.shape[1])
            return _Sums(why, everyone, np.zeros((k, 0), dtype=np.int64), found, spreads)
        told = federation.publish(counts)
        return _Sums(why, told.values, told.words, found, spreads)

    @property
    def _reasons(self) -> dict[int, str]:
        few = f"fewer than {self.smallest} values are there"
        if not self.of_one_client:
            few = (
                f"fewer than {2 * self.smallest} values are there, or fewer than {self.smallest} "
                "without those of any one client"
            )
        others = (
            "its figures, beside those of all samples that the preparation told, would tell those "
            "of a few others"
        )
        return {TOO_FEW: few, BY_DIFFERENCE: others}


@dataclass(frozen=True)
class _Sums:
    """Figures of groups from sums: tables of (group, column), and of (group, word)."""

    why: np.ndarray
    counts: np.ndarray
    words: np.ndarray
    means: np.ndarray
    stds: np.ndarray

    @classmethod
    def of_nothing(cls, n_columns: int, n_words: int) -> "_Sums":
        none = np.zeros((0, n_columns))
        counts = none.astype(np.int64)
        return cls(counts, counts, np.zeros((0, n_words), dtype=np.int64), none, none)

    def shares(self, columns: tuple[str, ...], words: Words) -> dict[str, np.ndarray]:
        """Return for each column of words the share of each word, and of all others."""
        found, start = {}, 0
        for name, own in words.items():
            values = self.counts[:, [columns.index(name)]]
            listed = self.words[:, start : start + len(own)]
            each = np.hstack([listed, values - listed.sum(axis=1, keepdims=True)])
            found[name] = np.divide(each, values, out=np.full(each.shape, np.nan), where=values > 0)
            start += len(own)
        return found


def _entering(groups: np.ndarray, least: int) -> np.ndarray:
    """Return a client's groups, -1 in place of those of too few of its samples."""
    sizes = np.bincount(groups[groups >= 0], minlength=groups.max(initial=0) + 1)
    return np.where(sizes[groups] < least, -1, groups).astype(np.int32)


def _tells_totals(preparation: Any) -> bool:
    """Return whether a preparation revealed means of all samples, or counts of words."""
    told = {"mean", "fill", "words", "idf"}
    return any(told & set(step) for own in preparation.steps.values() for step in own)


def _words_of(contract: Contract, preparation: Any) -> Words:
    """Return the preparation's agreed words by column; agreeing again would reveal more counts."""
    steps = [] if preparation is None else next(iter(preparation.steps.values()))
    agreed: Words = next((step["words"] for step in steps if "words" in step), {})
    for client, of_words in contract.categorical.items():
        for name in of_words:
            if name not in agreed:
                raise InvalidInput(
                    f"a profile needs the words that clients agreed on of column {name!r}, which "
                    f"holds words at client {client!r}; the federation's preparation has none. Set "
                    "federation.preparation to one with 'one-hot', as for the fit."
                )
    return agreed
