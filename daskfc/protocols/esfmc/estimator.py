"""ESFMC: the estimator, which runs the steps of clients and server."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from daskfc.checks import Constraint, boolean, integer, one_of, optional, real
from daskfc.errors import InvalidInput, PrivacyError
from daskfc.federation import FederatedClusterer, Federation, PerClient, param, sample_digests
from daskfc.federation.methods.linking import views_of
from daskfc.federation.methods.one_budget import NOISE, noise_told
from daskfc.federation.methods.parameters import picked
from daskfc.federation.methods.sample_keys import digest_keys
from daskfc.federation.methods.sample_map import SampleMap
from daskfc.federation.methods.samples import Labelled, NewStores, labelled_new, new_digests
from daskfc.protocols.esfmc import party, server
from daskfc.protocols.esfmc.noise import noise_of
from daskfc.protocols.esfmc.rounds import RoundHistory, Rounds
from daskfc.protocols.esfmc.settings import RECIPES, recipe

LOSS_TERMS = ("reconstruction", "label", "dependence", "alignment")
LOSS_WEIGHTS = Constraint(
    f"a mapping of any of {', '.join(LOSS_TERMS)} to numbers of at least 0, or None",
    lambda value: (
        value is None
        or (
            isinstance(value, Mapping)
            and all(term in LOSS_TERMS and real(0).holds(one) for term, one in value.items())
        )
    ),
)


class ESFMC(FederatedClusterer):
    """Multi-view clustering by networks at the clients that share only clustering features.

    Parameters
    ----------
    n_clusters : int
        Number of clusters, the paper's K, at least 2.
    latent_dim : int, optional
        Columns of Z; by default from the recipe, like the following parameters.
    shared_dim : int, optional
        Columns of Z_c, at least 1; by default as many as Z has.
    separate_encoders : bool
        Give Z_c its own encoder, which is not used to reconstruct rows.
    rounds : int, optional
        R, rounds of training and clustering, at most.
    local_epochs : int, optional
        Passes over a client's samples in a round.
    pretraining_epochs : int, optional
        Passes before the first round, for reconstruction only.
    alpha : float, optional
        α, weight of the model-data constraint I(w; X), as the temperature of Langevin dynamics;
        0 for none. It does not protect privacy.
    dropout : float, optional
        Share of columns and hidden units that are left out in training, in [0, 0.95].
    loss_weights : mapping of str to float, optional
        Weights of the terms of Eqs. (4) and (12): "reconstruction", "label", "dependence" and
        "alignment"; at least 0.
    incomplete : {"local", "align"}
        How samples that some view lacks are labelled: by their own clients, or by assignments Q
        that clients share, to which networks are aligned (Section 3.5); with recipe "paper"
        clients also fill in rows by Q.
    share : {"clustering", "assignments", "sample", "complete"}
        What a client sends of each sample: Z_c, or Q^m, from which rows can be rebuilt less well;
        for comparison, Z_x or all of Z.
    recipe : {"robust", "paper"}
        "paper" is the paper's text; "robust" departs from it where that does not reproduce: see
        `daskfc.protocols.esfmc`.
    tolerance : float
        Rounds end when a smaller share of the labels changes.
    noise : mapping, optional
        ``{"epsilon": ε, "delta": δ}``, or a noise ``multiplier`` with ``delta``: shared rows are
        divided by their norms and get Gaussian noise in every round. Needs incomplete="local".
    device : {"auto", "cpu", "gpu"}
        Where clients train; labels are reproducible on CPUs only.
    random_state : int, optional
        Seed of networks, batches, Langevin noise and k-means.

    Attributes
    ----------
    labels_ : xarray.DataArray
        ``(sample,)`` int64, each sample once, with the first client that has it.
    n_rounds_ : int
        Number of rounds.
    history_ : list of RoundHistory
        Each round's report from the server, and the losses of each client by epoch.
    privacy_ : dict
        With noise: "kind", "multiplier", "releases", "delta" and "epsilon".

    Notes
    -----
    Privacy: all parties are semi-honest. The server sees Z_c of every sample in every round, a
    linear image of Z from which rows can be rebuilt nearly as well as from Z itself: in spite of
    the paper, splitting features does not protect. "align" adds each client's Q; clients see
    labels, and with "align" Q. Raw columns and networks never leave a client. With noise what the
    server sees of a sample's own row is (ε, δ)-private for networks taken as fixed.

    `predict` labels new samples of one view or several by the clients' heads; the server averages
    the assignments of several, which bear no noise: after a fit with noise it takes one.

    References
    ----------
    X. Chen et al., "An Effective and Secure Federated Multi-View Clustering Method with
    Information-Theoretic Perspective", ICML 2025, Algorithm 1.

    Examples
    --------
    >>> from daskfc.protocols import ESFMC
    >>> ESFMC(10).get_params()["recipe"]
    'robust'
    """

    split: ClassVar = "views"
    resumable: ClassVar[bool] = True
    mapped_by: ClassVar[str] = "the features that clients share of samples in all views"

    n_clusters: int = param(integer(low=2), kw_only=False)
    latent_dim: int | None = param(optional(integer(low=1)), default=None)
    shared_dim: int | None = param(optional(integer(low=1)), default=None)
    separate_encoders: bool = param(boolean(), default=False)
    rounds: int | None = param(optional(integer(low=1)), default=None)
    local_epochs: int | None = param(optional(integer(low=1)), default=None)
    pretraining_epochs: int | None = param(optional(integer(low=0)), default=None)
    alpha: float | None = param(optional(real(low=0)), default=None)
    dropout: float | None = param(optional(real(0, 0.95)), default=None)
    loss_weights: Mapping[str, float] | None = param(LOSS_WEIGHTS, default=None)
    incomplete: str = param(one_of("local", "align"), default="local")
    share: str = param(one_of(*party.SHARED), default="clustering")
    recipe: str = param(one_of(*RECIPES), default="robust")
    tolerance: float = param(real(low=0), default=0.005)
    noise: Mapping[str, Any] | None = param(NOISE, default=None)
    device: str = param(one_of("auto", "cpu", "gpu"), default="auto")

    def check(self, n_clients: int | None = None) -> None:
        """Check the parameters against their constraints and each other."""
        super().check(n_clients)
        if noise_of(self.noise, rounds=self.rounds or 1) is not None and self.incomplete == "align":
            raise PrivacyError(
                "noise on shared features protects only these, and incomplete='align' shares "
                "assignments as well; got both. Leave 'incomplete' out."
            )

    def _fit(self, federation: Federation) -> Labelled:
        self.history_: list[RoundHistory] = []
        if self.noise is not None:
            self._begin_releases(federation)
        with self._stage(federation, "linking"):
            digests = federation.ask(sample_digests, digest_keys(federation))
            views = views_of(federation)
            found = federation.on_server(server.link, digests, views, self.n_clusters)
            links = federation.tell(server.tell_links, found)
            at_server = picked(server.ServerSettings, self, random_state=self.seed_)
            told = federation.publish(server.links, found, at_server)
        complete = told.n_in_all_views == told.n_samples
        aligned = self.incomplete == "align" and not complete
        if aligned and self.recipe == "paper" and len(set(views.values())) < len(views):
            raise InvalidInput(
                "incomplete='align' of recipe 'paper' needs one client a view; got several. "
                "Leave 'recipe' out."
            )
        rounds = self.rounds or recipe(self.recipe, told.n_samples).rounds
        noise = noise_of(self._noise_within, rounds=rounds)
        aligned = aligned and not told.joins_graphs
        clients = picked(
            party.ClientSettings, self, aligned=aligned, complete=complete, random_state=self.seed_
        )
        loop = Rounds(
            federation, clients, at_server, found, links, complete, aligned, noise, self.history_
        )
        with self._stage(federation, "training"):
            trained, grouping, self._seen = loop.run(rounds, self.tolerance)
        self.n_rounds_ = len(self.history_)
        last = federation.tell(server.labels_at_last, found, grouping)
        if self.history_[-1].report.n_to_vote and noise is None:
            votes = federation.ask(party.vote, trained, last, clients)
            last = federation.tell(server.voted, found, grouping, votes, self.n_clusters)
        self._model = (trained, last, clients)
        if noise is not None:
            self.privacy_ = noise_told("features", noise.multiplier, self.n_rounds_, noise.delta)
        return federation.publish(
            party.labelled, trained, last, clients, party="clients", wait=False
        )

    @property
    def histories(self) -> Mapping[str, Mapping[str, Sequence[float]]]:
        """The losses of each client by epoch, over all rounds."""
        clients = self.history_[0].losses if self.history_ else {}
        told = {
            client: np.concatenate([past.losses[client].losses for past in self.history_])
            for client in clients
        }
        terms = [term for term in party.LOSSES if self.incomplete == "align" or term != "alignment"]
        return {
            f"Loss of the networks, {term.replace('_', ' ')}": {
                client: losses[:, party.LOSSES.index(term)].tolist()
                for client, losses in told.items()
            }
            for term in terms
            if told
        }

    def can_start_again(self) -> bool:
        """Whether an interrupted fit may begin again: not if it released noisy rows."""
        return not (self.noise is not None and getattr(self, "history_", None))

    def _sample_map(self, federation: Federation) -> SampleMap | None:
        return federation.publish(server.sample_map, self._seen)

    def _predict(self, federation: Federation, new: NewStores) -> Labelled:
        trained, last, settings = self._model
        owners = list(new)
        if len(owners) > 1 and self.noise is not None:
            raise PrivacyError(
                "ESFMC with noise labels new samples of one client at a time: several would tell "
                f"the server assignments, which bear none; got {len(owners)}. Predict one by one."
            )
        model = (PerClient({c: trained[c] for c in owners}), last, settings)
        if len(owners) == 1:
            found = federation.on_clients(party.new_assignments, new, *model, clients=owners)
            return federation.publish(party.labelled_new, new, found, party=owners, wait=False)
        keys = digest_keys(federation, owners)
        digests = federation.ask(new_digests, new, keys, clients=owners)
        sent = federation.ask(party.new_assignments, new, *model, clients=owners)
        labels = federation.tell(server.labels_of_new, digests, sent, clients=owners)
        return federation.publish(labelled_new, new, labels, party=owners, wait=False)
