"""FederatedKMeans: the estimator, which runs `daskfc.secure.kmeans` on the clients' samples."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from daskfc import seeds
from daskfc.checks import boolean, integer, one_of, real
from daskfc.errors import InvalidInput
from daskfc.federation import (
    FederatedClusterer,
    Federation,
    Local,
    PerClient,
    own_labels,
    param,
)
from daskfc.federation.methods.one_budget import NOISE, noise_told
from daskfc.federation.methods.samples import Labelled, NewStores
from daskfc.privacy import asked_noise, multiplier_of_each
from daskfc.protocols.federated_kmeans import party, priors
from daskfc.secure.kmeans import Clusters, StartedNoise, open_kmeans
from daskfc.secure.sums import AGGREGATORS, KINDS, Aggregation, check_maskers, open_sum
from daskfc.secure.sums.few import LARGEST_COUNT

LLOYD_ROUNDS = 50  # ours: at most; a dozen come to rest where clusters do not overlap


class FederatedKMeans(FederatedClusterer):
    """k-means whose server learns sums over groups of samples of all clients, and no distances.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    n_init : int
        Starts by k-means++. They run at the server, so more of them take no more messages.
    max_iter : int
        Rounds in which groups become smaller, at most; without `noise`.
    tolerance : float
        Rounds end when the inertia falls by a smaller share; without `noise`.
    averaging : {"masked", "recovering", "shared", "plain"}
        Whether the server sees only sums; only sums even if clients leave during a round, where
        all clients hold shares of keys, or two clients hold all masks ("shared": the server must
        not collude with both); or every client's part of the sums.
    noise : mapping, optional
        ``{"epsilon": ε, "delta": δ, "largest_norm": R}``, or a noise ``multiplier`` in place of
        ``epsilon``: Gaussian noise on every sum, which clients add in shares. Samples longer than R
        are shortened to it; it must not depend on them, and should not be much longer than most,
        since noise grows with it. ``rounds`` of Lloyd's algorithm, 3 by default, follow four
        releases of the start.
    client_priors : bool
        Whether a sample's label counts how often each cluster occurs at its client, beside its
        distances: better where clients have different clusters, and the nearest centre where they
        are alike. Not with `noise`.
    aggregators : sequence of str, optional
        Who holds the masks with ``averaging="shared"``: two clients or more, and more than may
        collude; by default the first by name.
    n_colluding : int
        Clients that may collude with the server.
    allow_few : bool
        Allow secure sums with fewer than two honest clients.
    patience_s : float
        Seconds that ``averaging="recovering"`` or "shared" waits for stragglers once two thirds
        have answered.
    random_state : int, optional
        Seed of the starts. Masks and noise have no seed.

    Attributes
    ----------
    labels_ : xarray.DataArray
        ``(sample,)`` int64; coordinates ``client`` and ``sample_id``.
    cluster_centers_ : ndarray of shape (k, d), float64
        Centres, in the units of the features.
    inertia_ : float or None
        Summed squared distance of all samples to the means of their clusters, before samples are
        labelled by the nearest centre; None with noise.
    n_rounds_ : int
        Rounds, each of one sum or two.
    cluster_shares_ : ndarray of shape (k,), float64
        With `client_priors`: the share of all samples that is nearest to each centre.
    overdispersion_ : float
        With `client_priors`: how unlike the clients' shares are, from 0, alike, to 1.
    temperature_ : float
        With `client_priors`: how much they count beside squared distances, in their unit.
    privacy_ : dict
        With noise: "kind", "multiplier", "releases", "delta" and "epsilon" for each sample.

    Notes
    -----
    Privacy: all parties are semi-honest. The server learns sums over all clients, of groups of five
    samples or more that do not overlap (as many as a site's policy asks for, of two clients or more
    between sites), once of the clusters, and how many samples of a group are nearest to which
    centre; no combination of these sums is over fewer than five samples. Clients learn centres and
    counts. A fit with another seed, or of other samples, has other groups, whose sums may differ by
    single samples. With noise all that the server sees but the number of samples is (ε, δ)-private
    for every sample. With `client_priors` server, clients and caller also learn how many samples
    are nearest to each last centre, and one number of how unlike clients are; a client's own shares
    stay there.

    Clusters of fewer than five samples are not found, and a sample that is very far from all others
    leaves these in fewer clusters: a warning says how many were found. A fit that is started again
    with the same seed opens the same sums again; with noise it is refused. `predict` needs the
    centres alone.

    References
    ----------
    S. P. Lloyd, "Least squares quantization in PCM", IEEE Trans. Inf. Theory 1982.

    Examples
    --------
    >>> import numpy as np
    >>> import daskfc as fc
    >>> fc.FederatedKMeans(10, tolerance=1e-3).get_params()["n_init"]
    10
    """

    split: ClassVar = "samples"
    model_at_parties: ClassVar[bool] = False

    n_clusters: int = param(integer(low=1), kw_only=False)
    n_init: int = param(integer(low=1), default=10)
    max_iter: int = param(integer(low=1), default=100)
    tolerance: float = param(real(low=0), default=1e-4)
    averaging: str = param(one_of(*KINDS), default="masked")
    noise: Mapping[str, Any] | None = param(NOISE, default=None)
    client_priors: bool = param(boolean(), default=False)
    aggregators: Sequence[str] | None = param(AGGREGATORS, default=None)
    n_colluding: int = param(integer(low=0), default=0)
    allow_few: bool = param(boolean(), default=False)
    patience_s: float = param(real(above=0), default=10.0)

    def check(self, n_clients: int | None = None) -> None:
        """Check the parameters against their constraints, each other and the number of clients."""
        super().check(n_clients)
        if _noise_of(self.noise) is not None and self.client_priors:
            raise InvalidInput(
                f"{_NAME} has either 'noise' or 'client_priors', whose sums bear no noise; got "
                "both. Leave one out."
            )
        if n_clients is not None and self.averaging != "plain":
            check_maskers(n_clients, self.n_colluding, self.allow_few)

    def _fit(self, federation: Federation) -> Labelled:
        given = asked_noise(self._noise_within, _NAME, _MORE)
        noise = _noise_of(self._noise_within)
        self._releases = noise is not None
        sums = open_sum(
            federation,
            self.averaging,
            n_colluding=self.n_colluding,
            allow_few=self.allow_few,
            patience_s=self.patience_s,
            aggregators=self.aggregators,
        )
        sums.prepare()
        if noise is not None:
            self._begin_releases(federation)
        how: dict[str, Any] = {"noise": noise} if noise is not None else {
            "max_iter": self.max_iter, "tolerance": self.tolerance, "lloyd_rounds": LLOYD_ROUNDS,
        }  # fmt: skip
        kmeans = open_kmeans(
            federation,
            "sums",
            n_clusters=self.n_clusters,
            seed=seeds.integer_seed(self.seed_, "federated k-means"),
            n_init=self.n_init,
            sums=sums,
            **how,
        )
        with self._stage(federation, "clustering"):
            rows = federation.on_clients(party.own_rows)
            clusters = kmeans.fit(rows)
            found = federation.publish(clusters.centers)
            labels = clusters.labels
            if self.client_priors:
                labels = self._by_priors(federation, sums, rows, clusters)
        self.cluster_centers_ = found.centers
        self.inertia_ = None if np.isnan(found.inertia) else found.inertia
        self.n_rounds_ = kmeans.n_rounds
        if noise is not None and given is not None:
            delta = float(given["delta"])
            self.privacy_ = noise_told("sums", noise.multiplier, noise.releases, delta)
        return federation.publish(own_labels, labels, party="clients", wait=False)

    def _by_priors(
        self, federation: Federation, sums: Aggregation, rows: PerClient[Local], clusters: Clusters
    ) -> PerClient[Local]:
        """Return labels by distances and each client's own shares of clusters; see `priors`."""
        near, told = clusters.labels, clusters.told
        parts = federation.inline(priors.own_cluster_counts, near, told)
        shares = federation.on_server(priors.cluster_shares, sums.sum(parts, max_abs=LARGEST_COUNT))
        of_all = federation.publish(shares)
        own = federation.tell(shares)
        parts = federation.inline(priors.unlikeness, near, own)
        total = sums.sum(parts, max_abs=of_all.largest)
        prior = federation.on_server(priors.client_priors, total, shares, clusters.centers)
        found = federation.publish(prior)
        self.cluster_shares_ = of_all.shares
        self.overdispersion_, self.temperature_ = found.overdispersion, found.temperature
        return federation.on_clients(
            priors.labels_by_priors, rows, told, own, federation.tell(prior)
        )

    def can_start_again(self) -> bool:
        """Whether an interrupted fit may begin again: not if it may have released noisy sums."""
        return not getattr(self, "_releases", False)

    def _predict(self, federation: Federation, new: NewStores) -> Labelled:
        given: tuple[Any, ...] = (party.labelled_new, new, self.cluster_centers_)
        if self.client_priors:
            shares = (self.cluster_shares_, self.overdispersion_, self.temperature_)
            given = (priors.labelled_new_by_priors, *given[1:], *shares)
        return federation.publish(*given, party=tuple(new), wait=False)


_NAME = "FederatedKMeans"
_MORE = {"rounds": integer(low=1), "largest_norm": real(above=0)}


def _noise_of(asked: Mapping[str, Any] | None) -> StartedNoise | None:
    """Return the noise for the `noise` parameter; refuse one without a largest norm."""
    given = asked_noise(asked, _NAME, _MORE)
    if given is None:
        return None
    if "largest_norm" not in given:
        raise InvalidInput(
            f"the noise of {_NAME} must have 'largest_norm', to which longer samples are "
            f"shortened; got {', '.join(sorted(given))}. Give one that does not depend on them."
        )
    shape = StartedNoise(1.0, float(given["largest_norm"]), int(given.get("rounds", 3)))
    multiplier = multiplier_of_each(given, shape.releases)
    return StartedNoise(multiplier, shape.largest_norm, shape.rounds)
