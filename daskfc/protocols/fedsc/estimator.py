"""FedSC: the estimator, which runs the steps of clients and server."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sklearn.utils.validation import check_is_fitted

from daskfc import seeds
from daskfc.checks import boolean, integer, one_of, optional, real
from daskfc.errors import InvalidInput, PrivacyError
from daskfc.federation import Federation, Inline, Local, PerClient, Sent
from daskfc.federation.methods.cluster_scores import ClusterScores
from daskfc.federation.methods.estimator import FederatedClusterer
from daskfc.federation.methods.one_budget import NOISE
from daskfc.federation.methods.parameters import param, picked
from daskfc.federation.methods.sample_keys import digest_keys
from daskfc.federation.methods.sample_map import SampleMap
from daskfc.federation.methods.samples import (
    Labelled,
    NewStores,
    canonical_positions,
    labelled_samples,
    sample_digests,
    store_content,
)
from daskfc.protocols.fedsc import averaging as stage_one
from daskfc.protocols.fedsc import party, server
from daskfc.protocols.fedsc.averaging import Averaging, AveragingSettings, Planned, secure_sums
from daskfc.protocols.fedsc.diagnosis import diagnose
from daskfc.protocols.fedsc.journal import Releases, journal_of, resumed
from daskfc.protocols.fedsc.messages import FactorView, Resumed
from daskfc.protocols.fedsc.privacy.budget import charged, cost_of, spent_of
from daskfc.protocols.fedsc.privacy.noise import (
    DataNoise,
    FactorNoise,
    Noise,
    RelativeNoise,
    noise_of,
)
from daskfc.protocols.fedsc.similarity.coded import CodedSimilarity, choose_coded
from daskfc.protocols.fedsc.similarity.similarities import Fitted, SimilarityClustering, predict_new
from daskfc.protocols.fedsc.start import Start, keep
from daskfc.secure.sums import AGGREGATORS, KINDS, check_maskers
from daskfc.stores import ClientStore

_STARTED = {
    "last": "the dictionary of the last fit like this one",
    "moments": "moments of all samples: the server kept no dictionary of a fit like this one",
}


@dataclass(frozen=True)
class _Learned:
    """What the parties have once the server has learned the similarities; mostly handles."""

    planned: Planned
    how: SimilarityClustering
    final: Sent
    older: Sent | None
    dictionary: Local
    rows: PerClient[Local] | PerClient[Inline]
    reference: Local | CodedSimilarity
    positions: Local


class FedSC(FederatedClusterer):
    """Federated spectral clustering by a shared dictionary in kernel space.

    Parameters
    ----------
    n_clusters : int
        Number of clusters, the paper's K.
    n_atoms : int, optional
        d; by default the number of eigenvalues with 0.99 of the sum of a client's own kernel's, or
        with 0.95 where these are more than 200 (at least 200 then); the largest of all clients.
    rounds : int
        S, rounds of averaging. Five suffice for compact clusters; thin shapes in few dimensions,
        such as concentric circles, need 20, as similarities must be right to a few percent.
    local_steps : int
        Q, steps on the dictionary at a client in a round.
    kernel_width : float, optional
        r > 0 of the Gaussian kernel, in units of the data; by default the mean distance, averaged
        over the clients (Eq. 42).
    ridge : float
        λ > 0, penalty on the coefficients of a sample, against overfitting.
    participation : float
        Share of the clients that take part in a round, in (0, 1]. Below 1 the server can solve
        the rounds' sums for single clients' dictionaries, in spite of masks: refused without
        (ε, δ) noise, unless `allow_few` or ``averaging="plain"``.
    neighbors : int, optional
        Neighbours in the graph of similarities, the sample itself among them;
        ``max(ceil(log n), 1)`` by default.
    sparsify : bool
        Cluster the graph of the most similar samples (Eq. 25), or all similarities by an exact
        embedding of rank d in O(n d²).
    weighting : {"samples", "uniform"}
        Weights of the clients' dictionaries in the mean: their numbers of samples, or equal.
    averaging : {"masked", "recovering", "shared", "plain"}
        Whether the server sees only means; only means even if clients leave during a round, where
        all clients hold shares of keys, or two clients hold all masks ("shared": the server must
        not collude with both); or every client's dictionary.
    start : {"moments", "normal", "last"}
        The first dictionary: with mean and spread of every feature, by two secure sums; the
        published one, independent of the data; or the last one of the previous fit with these
        parameters and clients, which the server kept, or else by moments.
    stale_pair : bool
        Keep the coefficients of the dictionary before the last one, as the published runs do.
    similarity : {"rows", "coded"}
        Whether the server gets a row of every sample, or only the similarities, by coded computing
        among the clients (Appendix C). The latter needs 2l + 2t - 1 clients, at least 3, with l
        segments and t = ``max(1, n_colluding)``.
    noise : mapping, optional
        Section 3's variants. ``{"kind": "data", "clip": τ, "delta": δ}`` with either ``epsilon``,
        which determines σ, or ``sigma``, which determines ε: every row is clipped to norm τ and
        perturbed before anything else; ``sigma`` alone perturbs without a guarantee.
        ``{"kind": "factors", "clip": τ, "delta": δ}`` with either ``epsilon`` or both of
        ``sigma_dictionary`` and ``sigma_coefficients``: a client's change of Z is clipped to norm τ
        and perturbed in every round, C in the end; needs `kernel_width`, `n_atoms` and
        ``start="normal"``, so that nothing else about the data is revealed.
        ``relative_dictionary`` and ``relative_coefficients``: shares of the factors' own spread, as
        in the paper's Table 5, without a guarantee. ``formula="published"``: σ by Proposition 3.7
        or Theorem 3.9. ``predictions`` beside ``epsilon``: the number of calls of `predict` that
        the budget includes, 0 by default.
    diagnostics : bool
        Have every client measure the errors of its own similarities, and report them to the caller
        with the bound of Theorem 3.1 or 3.8.
    tolerance : float
        Rounds end when the dictionary changes by less, relative to how far its atoms are from
        their mean.
    n_init : int
        Starts of k-means on the embedding.
    aggregators : sequence of str, optional
        Who holds the masks with ``averaging="shared"``: two clients or more, and more than may
        collude; by default the first by name.
    n_colluding : int
        Clients that may collude with the server, for secure sums.
    allow_few : bool
        Allow secure sums that do not hide a client: with fewer than two honest clients, or over
        other clients in every round.
    patience_s : float
        Seconds that ``averaging="recovering"`` or "shared" waits for stragglers once two thirds
        have answered.
    random_state : int, optional
        Seed of the algorithm. Masks and noise come from the operating system and have no seed.

    Attributes
    ----------
    labels_ : xarray.DataArray
        ``(sample,)`` int64; coordinates ``client`` and ``sample_id``.
    kernel_width_, n_atoms_ : float, int
        The values that were used.
    n_rounds_ : int
        Number of rounds.
    change_ : float
        Relative change of the dictionary in the last round.
    start_ : {"moments", "normal", "last"}
        The first dictionary.
    privacy_ : dict
        With noise: its σ and clipping bound, ``delta``, and ``epsilon`` of all releases of a client
        together, those of earlier starts of the fit and of `predict` included; infinite without a
        guarantee. Rows of one client that differ in one sample are neighbours.
    reconstruction_ : dict
        With `diagnostics`, for each client ``error`` (largest), ``rms`` and ``bound``.

    Notes
    -----
    Privacy: all parties are semi-honest. Clients see mean dictionaries; the server sees them too
    (with plain averaging each client's own) and in the end rows from which it can reconstruct
    samples; with coded similarity it sees only similarities, with noise what (ε, δ) allow.

    Before, the server learns moments of all samples, and sizes and mean distances of the clients.
    Rows reveal the samples to it as far as the atoms span them: the paper's protocol does not
    protect against the server.

    `predict` gives the server the new samples' rows. Noise protects them in a separate release,
    which `privacy_` counts, as they may be the clustered samples again.

    References
    ----------
    Qiao, Ding, Fan, "Federated Spectral Clustering via Secure Similarity Reconstruction",
    NeurIPS 2023, Algorithm 1.

    Examples
    --------
    >>> from daskfc.protocols.fedsc import FedSC
    >>> FedSC(3, n_atoms=10).get_params()["rounds"]
    5
    """

    n_clusters: int = param(integer(low=1), kw_only=False)
    n_atoms: int | None = param(optional(integer(low=1)), default=None)
    rounds: int = param(integer(low=1), default=5)
    local_steps: int = param(integer(low=1), default=1)
    kernel_width: float | None = param(optional(real(above=0)), default=None)
    ridge: float = param(real(above=0), default=1e-3)
    participation: float = param(real(above=0, high=1), default=1.0)
    neighbors: int | None = param(optional(integer(low=1)), default=None)
    sparsify: bool = param(boolean(), default=True)
    weighting: str = param(one_of("samples", "uniform"), default="samples")
    averaging: str = param(one_of(*KINDS), default="masked")
    start: str = param(one_of("moments", "normal", "last"), default="moments")
    stale_pair: bool = param(boolean(), default=False)
    similarity: str = param(one_of("rows", "coded"), default="rows")
    noise: Mapping[str, Any] | None = param(NOISE, default=None)
    diagnostics: bool = param(boolean(), default=False)
    tolerance: float = param(real(low=0), default=0.0)
    n_init: int = param(integer(low=1), default=50)
    aggregators: Sequence[str] | None = param(AGGREGATORS, default=None)
    n_colluding: int = param(integer(low=0), default=0)
    allow_few: bool = param(boolean(), default=False)
    patience_s: float = param(real(above=0), default=10.0)
    split = "samples"
    resumable = True
    mapped_by = "the similarities that the dictionary gives"

    def check(self, n_clients: int | None = None) -> None:
        """Check the parameters against their constraints and the number of clients."""
        super().check(n_clients)
        noise = noise_of(self.noise, rounds=self.rounds, ridge=self.ridge)
        if isinstance(noise, FactorNoise) and (
            self.kernel_width is None or self.n_atoms is None or self.start != "normal"
        ):
            raise PrivacyError(
                "noise on the factors protects only what they tell: mean distances, ranks and "
                "moments of the data must not leave a client beside them. Give 'kernel_width' and "
                "'n_atoms', and start='normal'."
            )
        if noise is not None and noise.claims and self.diagnostics:
            raise PrivacyError(
                "'diagnostics' tells errors measured on private data, which no noise protects. "
                "Leave it out, or leave 'clip' and 'delta' of the noise out."
            )
        if self.similarity == "coded" and not self.sparsify:
            raise InvalidInput(
                "similarity='coded' gives the server no rows that it could embed, and needs "
                "sparsify=True; got False. Use similarity='rows' with it."
            )
        if n_clients is not None and self.similarity == "coded":
            choose_coded(n_clients, None, self.n_colluding)
        if n_clients is not None and self.averaging != "plain":
            active = picked(AveragingSettings, self).n_active(n_clients)
            check_maskers(active, self.n_colluding, self.allow_few)
            if active < n_clients and not (self.allow_few or (noise and noise.claims)):
                raise PrivacyError(
                    f"with participation={self.participation} of FedSC other {active} of the "
                    f"{n_clients} clients are summed in every round, and a few such sums give the "
                    "server single clients' dictionaries in spite of their masks. Give "
                    "participation=1, noise with 'clip' and 'delta', or allow_few=True to reveal "
                    "them."
                )

    def check_data(self, stores: Mapping[str, ClientStore]) -> None:
        """Refuse more atoms or neighbours than samples, and a width from clients of one sample."""
        n = sum(store.n_samples for store in stores.values())
        server.check_counts(n, n_atoms=self.n_atoms, neighbors=self.neighbors)
        if self.kernel_width is None and n == len(stores):
            raise InvalidInput(
                "the kernel's width of FedSC is the mean distance of each client's samples, and "
                "every client has one. Give 'kernel_width', or clients with more samples."
            )

    @property
    def criteria(self) -> tuple[str, ...]:
        """Criteria for the number of clusters, see the base class; none with noise."""
        return () if self.noise else ("eigengap",)

    @property
    def criterion(self) -> str | None:
        """See the base class; the spectrum of all similarities has no clear gap (D74)."""
        return super().criterion if self.sparsify else None

    def _scores_of(
        self, federation: Federation, n_clusters: Sequence[int], by: str
    ) -> ClusterScores:
        learned = self._learn(federation)
        with self._stage(federation, "clustering"):
            return learned.how.eigengaps(federation, learned.reference, n_clusters)

    def _learn(self, federation: Federation) -> "_Learned":
        """Run the fit up to the similarities at the server."""
        self._forget()
        seed = seeds.integer_seed(self.seed_, "FedSC")
        settings = picked(AveragingSettings, self, random_state=self.seed_)
        with self._stage(federation, "planning"):
            first = Start.found(federation, self.start, self.n_atoms)
            # keys of sums, digests and summaries are computed at the same time
            sums = secure_sums(federation, federation.clients, settings)
            if first.kind == "moments" or self.participation == 1:
                sums.prepare()
            digests = federation.ask(sample_digests, digest_keys(federation))
            positions = federation.on_server(canonical_positions, digests)
            given = self.kernel_width, first.n_atoms
            told = None if self._noise_within else stage_one.summaries(federation, *given, None)
            journal, done = self._resumed(federation, positions)
            noise, journal = self._noise(federation, done, journal)
            if isinstance(noise, DataNoise):  # new noise changes the samples: start from round 0
                done = replace(done, round=0, change=math.inf)
            samples, sizes = told or stage_one.summaries(federation, *given, noise)
            neighbors = self.neighbors if self.sparsify else None
            plan, plan_sent = stage_one.agree(federation, sizes, *given, neighbors)
            planned = Planned(samples, sizes, plan, plan_sent, journal, self._releases, noise)
            start = first.dictionary(federation, sums, planned, seed)
            federation.wait([positions, start])
        self.start_ = first.kind
        self.kernel_width_, self.n_atoms_ = planned.plan.width, planned.plan.n_atoms
        with self._stage(federation, "averaging"):
            rounds = Averaging(federation, settings, planned, sums, self._note)
            dictionary, before = rounds.run(start, done)
        with self._stage(federation, "similarities"):
            final = federation.tell(server.tell_final, dictionary, planned.plan)
            older = federation.tell(before) if self.stale_pair else None
            rows = self._rows(federation, planned, final, older)
            how = picked(SimilarityClustering, self, seed=seed)
            reference = how.learned(federation, rows, positions, planned.plan, noise)
            at_server = reference.graph if isinstance(reference, CodedSimilarity) else reference
            federation.wait(at_server)
        return _Learned(planned, how, final, older, dictionary, rows, reference, positions)

    def _fit(self, federation: Federation) -> Labelled:
        learned = self._learn(federation)
        planned, how, final = learned.planned, learned.how, learned.final
        with self._stage(federation, "clustering"):
            labels = how.labels(federation, learned.reference)
            federation.wait(labels)
        if self.diagnostics:
            self.reconstruction_ = diagnose(
                federation, planned, learned.rows, final, learned.older, self.ridge
            )
        self._fitted = Fitted(
            planned,
            how,
            final,
            learned.dictionary,
            learned.reference,
            learned.positions,
            labels,
            self.released_before,
        )
        if planned.noise is not None:
            self.privacy_ = cost_of(planned.noise, spent_of(federation, self.released_before))
        if self.start == "last":
            federation.wait(federation.on_server(keep, learned.dictionary))
        labels_sent = federation.tell(server.tell_labels, labels, learned.positions)
        return federation.publish(labelled_samples, labels_sent, party="clients", wait=False)

    @property
    def choices(self) -> Mapping[str, str]:
        """The start of the last fit, and the route of coded similarities with the reason."""
        fitted: Fitted | None = getattr(self, "_fitted", None)
        found = {}
        if self.start == "last" and hasattr(self, "start_"):
            found["start"] = _STARTED[self.start_]
        if fitted is not None and isinstance(fitted.reference, CodedSimilarity):
            distances = fitted.reference.distances
            found["distances"] = f"{distances.route}: {distances.reason}"
        return found

    def _forget(self) -> None:
        """Drop attributes of an earlier fit."""
        self.__dict__.pop("reconstruction_", None)
        remembered = self.__dict__.pop("_remembered", ())
        self._releases = Releases(list(remembered))  # until the server's own list arrives

    def _resumed(self, federation: Federation, positions: Local) -> tuple[Local, Resumed]:
        """Open the journal of this fit; return it, and where an earlier start was interrupted."""
        noise = noise_of(self._noise_within, rounds=self.rounds, ridge=self.ridge)
        # under an (ε, δ) guarantee no tag of the data may leave a client
        known = noise is None or not noise.claims
        contents = federation.ask(store_content) if known else None
        journal = federation.on_server(journal_of, self._params_key, positions, contents)
        done = federation.publish(resumed, journal, noisy=not known)
        self._releases = Releases.of_both(done.multipliers.tolist(), self._releases.multipliers)
        return journal, done

    def _noise(
        self, federation: Federation, done: Resumed, journal: Local
    ) -> tuple[Noise | None, Local]:
        """Return the noise of the remaining releases; record the release of noisy data."""
        noise = noise_of(
            self._noise_within,
            rounds=self.rounds - done.round,
            ridge=self.ridge,
            spent=self._releases.accountant,
        )
        if isinstance(noise, DataNoise) and noise.claims:
            journal = self._releases.expect(federation, journal, noise.multiplier)
        return noise, journal

    def _rows(
        self, federation: Federation, planned: Planned, final: Sent, older: Sent | None
    ) -> PerClient[Local] | PerClient[Inline]:
        """Have the clients compute the rows, with similarities as their inner products."""
        if isinstance(planned.noise, FactorNoise):
            multiplier = planned.noise.coefficient_multiplier
            self._releases.expect(federation, planned.journal, multiplier)
        inputs = planned.samples, final, older, planned.plan_sent
        options: dict[str, Any] = {"ridge": self.ridge, "noise": planned.noise}
        if self.similarity == "coded" or self.diagnostics:  # rows are used more than once
            return federation.on_clients(party.rows_of, *inputs, **options)
        return federation.inline(party.rows_of, *inputs, **options)

    @property
    def released(self) -> tuple[float, ...]:
        """See the base class."""
        return tuple(self._releases.multipliers) if hasattr(self, "_releases") else ()

    @property
    def released_before(self) -> tuple[float, ...]:
        """See the base class."""
        return self.released[: self._releases.n_before] if self.released else ()

    def remember(self, released: Sequence[float]) -> None:
        """See the base class; of this list and the server's, the costlier one counts."""
        self._remembered = tuple(released)

    def can_start_again(self) -> bool:
        """Whether the releases of an interrupted fit left anything of its budget."""
        spent = Releases(list(self.released)).accountant
        try:
            noise_of(self._noise_within, rounds=self.rounds, ridge=self.ridge, spent=spent)
        except PrivacyError:
            return False
        return True

    def _note(self, number: int, change: float) -> None:
        self.n_rounds_, self.change_ = number, change

    def _charge(self, federation: Federation, clients: list[str]) -> None:
        """Record a release of new samples of some clients before it is made, or refuse it."""
        noise = self._fitted.planned.noise
        if noise is None or isinstance(noise, RelativeNoise) or not noise.claims:
            return
        spent = charged(noise, spent_of(federation, self._fitted.before), clients)
        journal = self._fitted.planned.journal
        self._releases.expect(federation, journal, noise.prediction_multiplier)
        self.privacy_ = cost_of(noise, spent)

    def _check_refit(self) -> None:
        if getattr(self, "privacy_", {}).get("delta") is not None:
            raise PrivacyError(
                "predict needs the federation in the run of fit, whose rows are gone with it, and "
                "fitting again would release the data once more. Fit again if the budget allows it."
            )

    def _predict(self, federation: Federation, new: NewStores) -> Labelled:
        # Noise protects new samples in a release of their own: they may be the clustered ones.
        self._charge(federation, list(new))
        return predict_new(federation, self._fitted, new)

    def _sample_map(self, federation: Federation) -> SampleMap | None:
        fitted = self._fitted
        if isinstance(fitted.reference, CodedSimilarity):  # the server has no rows
            return None
        how = fitted.how
        return federation.publish(server.sample_map, fitted.reference, fitted.labels, how.seed)

    def server_view(self, federation: Federation) -> FactorView:
        """Return the factors that the server can compute, for a study of privacy.

        Parameters
        ----------
        federation : Federation
            The federation of `fit`, in the same run, opened with ``allow_raw=True``.

        Returns
        -------
        FactorView
            ``dictionary`` (d, m) and ``coefficients`` (d, n), samples in the order of `labels_`;
            see `cluster_coefficients` and `reconstruct_rows` of `daskfc.protocols.fedsc.privacy`.

        Raises
        ------
        InvalidInput
            When the run of `fit` is over, or its similarity was coded.
        EgressRefused
            When the federation does not allow raw data.
        """
        check_is_fitted(self)
        self._still_running(federation)
        fitted = self._fitted
        if isinstance(fitted.reference, CodedSimilarity):
            raise InvalidInput("the server saw no coefficients: the similarity was coded.")
        return federation.publish(
            server.tell_view,
            fitted.reference,
            fitted.positions,
            fitted.dictionary,
            fitted.planned.plan,
        )
