"""FederatedKMeans: the estimator, which runs `daskfc.secure.kmeans` on the clients' samples."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from daskfc import seeds
from daskfc.checks import boolean, integer, one_of, real
from daskfc.errors import InvalidInput
from daskfc.federation import FederatedClusterer, Federation, own_labels, param
from daskfc.federation.methods.one_budget import NOISE, noise_told
from daskfc.federation.methods.samples import Labelled, NewStores
from daskfc.privacy import asked_noise, multiplier_of_each
from daskfc.protocols.federated_kmeans import party
from daskfc.secure.kmeans import StartedNoise, open_kmeans
from daskfc.secure.sums import KINDS, check_maskers, open_sum

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
    for every sample.

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
    n_colluding: int = param(integer(low=0), default=0)
    allow_few: bool = param(boolean(), default=False)
    patience_s: float = param(real(above=0), default=10.0)

    def check(self, n_clients: int | None = None) -> None:
        """Check the parameters against their constraints, each other and the number of clients."""
        super().check(n_clients)
        _noise_of(self.noise)
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
            clusters = kmeans.fit(federation.on_clients(party.own_rows))
            found = federation.publish(clusters.centers)
        self.cluster_centers_ = found.centers
        self.inertia_ = None if np.isnan(found.inertia) else found.inertia
        self.n_rounds_ = kmeans.n_rounds
        if noise is not None and given is not None:
            delta = float(given["delta"])
            self.privacy_ = noise_told("sums", noise.multiplier, noise.releases, delta)
        return federation.publish(own_labels, clusters.labels, party="clients", wait=False)

    def can_start_again(self) -> bool:
        """Whether an interrupted fit may begin again: not if it may have released noisy sums."""
        return not getattr(self, "_releases", False)

    def _predict(self, federation: Federation, new: NewStores) -> Labelled:
        told = (new, self.cluster_centers_)
        return federation.publish(party.labelled_new, *told, party=tuple(new), wait=False)


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
