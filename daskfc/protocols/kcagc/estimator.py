"""KCAGC: the estimator of kCAGC, which runs the steps of participants and server."""

import itertools
import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from sklearn.utils.validation import check_is_fitted

from daskfc import seeds
from daskfc.checks import boolean, integer, one_of, optional
from daskfc.clustering import FilterKind
from daskfc.errors import InvalidInput, PrivacyWarning
from daskfc.federation import Federation, Local, PerClient, Sent
from daskfc.federation.methods.estimator import FederatedClusterer
from daskfc.federation.methods.parameters import param
from daskfc.federation.methods.sample_keys import digest_keys
from daskfc.federation.methods.samples import (
    ClientLabels,
    LabelledSamples,
    labelled_new,
    labelled_samples,
    linked_samples,
    new_digests,
    sample_digests,
)
from daskfc.protocols.kcagc import party, server
from daskfc.protocols.kcagc.maths.landmark_lloyd import tells_as_much
from daskfc.protocols.kcagc.maths.weighted_lloyd import LloydSettings
from daskfc.protocols.kcagc.messages import Intersections, LloydProgress, LocalClusters
from daskfc.protocols.kcagc.placed import Placed, dimensions, scalars_a_round
from daskfc.secure.sums import (
    AGGREGATORS,
    MaskedSum,
    SharedSum,
    check_aggregators,
    check_maskers,
)
from daskfc.stores import ClientStore

_Sum: TypeAlias = MaskedSum | SharedSum

log = logging.getLogger("daskfc.protocols")

_LARGEST_DISTANCE = 4.0 * (1 + 1e-9)  # of rows with norms up to 1


@dataclass(frozen=True)
class _Kept:
    """What `predict` needs of `fit`: handles of data that stay at the parties."""

    sums: _Sum
    rows: PerClient[Local]
    labels: Sent
    seen: Local


class KCAGC(FederatedClusterer):
    """Attributed graph clustering where participants hold columns of the same samples.

    Parameters
    ----------
    n_clusters : int
        Number of clusters, the paper's k.
    n_local_clusters : int, optional
        k̂, clusters that each participant looks for in its own columns; k by default.
    filter_order : int
        ψ, passes over the graph; 0 for features without a graph.
    graph_filter : {"agc", "laplacian"}
        ``((I + N) / 2)^ψ`` or ``(I - L_s / ‖L_s‖)^ψ``; see `daskfc.clustering.GraphOperator`.
    basis : {"global-norm", "U", "row-normalised"}
        Which coordinates, in its top k singular directions, a participant keeps of its filtered
        columns: U Σ with rows divided by their norms over all participants (one secure sum, which
        discloses these norms), and by their own norms for the local clusters; the singular
        vectors U, as in the paper; or U Σ with rows of norm 1 each.
    variant : {"optimised", "basic", "tree"}
        Cluster the intersections of local clusters (Protocol 3); or all samples (Protocol 2); or
        intersect two participants, then two pairs, and so on (Section 3.4.2).
    virtual_node : {"intersection", "local-centre"}
        What replaces an intersection: its own mean, or the centre of the local cluster that
        contains it, another reading of the paper's Protocol 3.
    distances : {"auto", "landmarks", "centres"}
        What is summed: once, distances to enough samples or virtual nodes (landmarks) to determine
        all others; or distances to the centres of each round, as in the paper. "auto" takes
        landmarks where the centres of all starts would reveal as much to the server.
    one_ninth : bool
        Leave samples near a boundary out of the first means (Protocol 1, line 10).
    n_init : int
        Starts, side by side in every sum; the best by inertia is kept.
    max_iter : int
        Rounds of Lloyd, at most.
    n_local_init : int
        Starts of k-means at each participant.
    n_refine : int
        Rounds on all samples after the variants "optimised" and "tree".
    averaging : {"masked", "shared"}
        Whether masks that hide what is summed are between neighbours, or held by two participants
        for all, which takes less of many; the server must not collude with both of these.
    aggregators : sequence of str, optional
        Who holds the masks with ``averaging="shared"``: two or more, and more than may
        collude; by default the first by name.
    n_colluding : int
        Participants that may collude with the server.
    allow_few : bool
        Allow fewer than two honest participants; the server then sees their distances.
    random_state : int, optional
        Seed of the algorithm.

    Attributes
    ----------
    labels_ : xarray.DataArray
        ``(sample,)`` int64, as the first client names its samples.
    n_virtual_nodes_ : int
        Non-empty intersections, at the root of a tree; the number of samples for the basic variant.
    n_rounds_ : int
        Rounds of Lloyd.
    n_secure_sums_, n_secure_scalars_ : int
        Vectorised secure sums, and the numbers in them: the paper's count of secure aggregations.
        They include a first sum, of distances to the mean of all samples, for variant "basic"
        without landmarks. A centre that some start had in its last round is not measured again.
    secure_scalars_a_round_ : dict of str to int
        The most numbers that a round of each variant sums; a log line says when variant "basic"
        sums no more than the chosen one.
    inertia_ : float
        Of the virtual nodes, or of the samples for the basic variant.

    Notes
    -----
    The partition does not depend on the order of samples in stores, nor on their ids and keys.

    Privacy: participants and server are semi-honest. The server sees each participant's local
    clusters, and sums over the participants: of distances to landmarks, which determine all
    distances between virtual nodes (or samples, variant "basic"), or of distances to centres, and
    (basis "global-norm") of squared norms. Masks hide a participant's own distances and norms from
    the server and `n_colluding` others. As many centres as dimensions reveal as much as landmarks:
    `choices` says so, and a fit warns. Features never leave a participant; all learn the
    intersections and the clusters, with ``distances="centres"`` those of each round.

    `predict` takes one secure sum of k distances a sample. New samples do not join the graph of
    `fit`: their features are taken as they are, or filtered over a graph of their own.

    References
    ----------
    R. Zhang et al., "Attributed graph clustering in collaborative settings".

    Examples
    --------
    >>> from daskfc.protocols import KCAGC
    >>> KCAGC(7, filter_order=9).get_params()["basis"]
    'global-norm'
    """

    split: ClassVar = "columns"
    method_name: ClassVar[str] = "kCAGC"
    n_clusters: int = param(integer(low=1), kw_only=False)
    n_local_clusters: int | None = param(optional(integer(low=1)), default=None)
    filter_order: int = param(integer(low=0), default=9)
    graph_filter: FilterKind = param(one_of("agc", "laplacian"), default="agc")
    basis: str = param(one_of("global-norm", "U", "row-normalised"), default="global-norm")
    variant: str = param(one_of("optimised", "basic", "tree"), default="optimised")
    virtual_node: str = param(one_of("intersection", "local-centre"), default="intersection")
    distances: str = param(one_of("auto", "landmarks", "centres"), default="auto")
    one_ninth: bool = param(boolean(), default=False)
    n_init: int = param(integer(low=1), default=50)
    max_iter: int = param(integer(low=1), default=100)
    n_local_init: int = param(integer(low=1), default=10)
    n_refine: int = param(integer(low=0), default=1)
    averaging: str = param(one_of("masked", "shared"), default="masked")
    aggregators: Sequence[str] | None = param(AGGREGATORS, default=None)
    n_colluding: int = param(integer(low=0), default=0)
    allow_few: bool = param(boolean(), default=False)

    def check(self, n_clients: int | None = None) -> None:
        """Check the parameters against their constraints and the number of participants."""
        super().check(n_clients)
        if self.variant == "tree" and self.virtual_node != "intersection":
            raise InvalidInput(
                "the 'virtual_node' of KCAGC must be 'intersection' with variant='tree'; got "
                f"{self.virtual_node!r}. Leave it out."
            )
        if n_clients is not None:
            check_maskers(
                2 if self.variant == "tree" else n_clients, self.n_colluding, self.allow_few
            )

    def check_data(self, stores: Mapping[str, ClientStore]) -> None:
        """Refuse stores without a graph to filter features over, and too many local clusters."""
        n = next(iter(stores.values())).n_samples
        if self.n_local_clusters is not None and self.n_local_clusters > n:
            raise InvalidInput(
                f"the 'n_local_clusters' parameter of KCAGC must be at most the number of samples, "
                f"{n}; got {self.n_local_clusters}. Lower it, or leave it out."
            )
        if self.filter_order != 0:
            for store in stores.values():
                party.check_graph(store)

    def fit(self, federation: Federation, y: None = None) -> Self:
        """See `FederatedClusterer.fit`."""
        super().fit(federation)
        costs = scalars_a_round(
            self.labels_.size, len(federation.clients), self.n_clusters, self._n_local()
        )
        self.secure_scalars_a_round_ = dict(costs)
        if costs["basic"] <= costs[self.variant] and self.variant != "basic":
            log.info(
                "variant 'basic' sums at most %d numbers a round, variant %r up to %d: the basic "
                "one hides local clusters and costs no more",
                costs["basic"],
                self.variant,
                costs[self.variant],
            )
        if alone := [n for n, own in federation.contract.columns.items() if len(own) == 1]:
            warnings.warn(
                "kCAGC compares directions in each participant's columns, which is the sign where "
                f"there is one: that of {', '.join(map(repr, alone))} counts for little.",
                stacklevel=2,
            )
        for placed in self._placed.values():
            if placed.n_centres is not None and placed.wholly:
                warnings.warn(
                    f"the server of kCAGC was told distances of all {placed.rows} to "
                    f"{placed.n_centres} centres, and they have at most {placed.n_dimensions} "
                    "dimensions: it can place all of them up to a rigid motion. Fewer starts and "
                    "rounds, or more participants with columns, tell it less.",
                    PrivacyWarning,
                    stacklevel=2,
                )
        return self

    @property
    def choices(self) -> Mapping[str, str]:
        """What the server learned distances to in the last fit, and which rows it can place."""
        return {stage: str(placed) for stage, placed in getattr(self, "_placed", {}).items()}

    def server_view(self, federation: Federation) -> np.ndarray:
        """Return the sums of distances that the server learned last, for a study of privacy.

        Parameters
        ----------
        federation : Federation
            The federation of `fit`, in the same run, opened with ``allow_raw=True``.

        Returns
        -------
        ndarray of float64, shape (n, k) or (v, k)
            Squared distances over all participants, of samples or virtual nodes, to the centres of
            the best start's last round; see `daskfc.privacy.privacy_leakage`.

        Raises
        ------
        InvalidInput
            When the run of `fit` is over.
        EgressRefused
            When the federation does not allow raw data.
        """
        check_is_fitted(self)
        self._still_running(federation)
        view = federation.publish(server.tell_view, self._fitted.seen)
        return view.sums

    def _fit(self, federation: Federation) -> PerClient[Sent]:
        self.n_rounds_ = self.n_secure_sums_ = self.n_secure_scalars_ = 0
        self._placed: dict[str, Placed] = {}
        sums = self._sums(federation, federation.clients)
        if self.variant != "tree" or self.basis == "global-norm":  # else `sums` is not used
            sums.prepare()
        with self._stage(federation, "linking"):
            digests = federation.ask(sample_digests, digest_keys(federation))
            n_samples = federation.on_server(linked_samples, digests)
            federation.wait(n_samples)
        with self._stage(federation, "projecting"):
            rows = self._project(federation, sums)
        if self.variant == "basic":
            with self._stage(federation, "clustering"):
                settings = self._settings(self.n_clusters, self.n_init, self.max_iter)
                settings = replace(settings, ordered=False)  # samples are sorted by pseudonym
                rank = self._rank(settings, len(federation.clients))
                state = federation.on_server(server.begin_on_samples, n_samples, settings, rank)
                n_seeds = 1 + self.n_clusters if rank is None else 0  # 1: the mean of all samples
                how = ("clustering", n_seeds, rank)
                state = self._cluster(federation, sums, rows, state, *how)
                found = federation.on_server(server.labels_of, state, None)
        else:
            found = self._optimised(federation, sums, rows)
        labels = federation.tell(found)
        self._fitted = _Kept(sums, rows, labels, self._seen)
        first = federation.clients[0]
        return federation.publish(labelled_samples, labels, party=[first], wait=False)

    def _sums(self, federation: Federation, clients: tuple[str, ...]) -> _Sum:
        """Return how arrays of some participants are summed: of all, as each has other columns."""
        how: dict[str, Any] = {"clients": clients, "allow_few": self.allow_few}
        how["n_colluding"] = self.n_colluding
        check_aggregators(self.aggregators, self.averaging, self.n_colluding, federation.clients)
        if self.averaging == "masked":
            return MaskedSum(federation, **how)
        named = self.aggregators
        return SharedSum(federation, threshold=len(clients), aggregators=named, **how)

    def _settings(self, n_clusters: int, n_init: int, max_iter: int) -> LloydSettings:
        return LloydSettings(
            n_clusters,
            seeds.integer_seed(self.seed_, "kCAGC"),
            n_init=n_init,
            max_iter=max_iter,
            one_ninth=self.one_ninth,
        )

    def _rank(self, settings: LloydSettings, n_clients: int) -> int | None:
        """Return a bound on all participants' dimensions together; None to measure to centres."""
        if self.distances == "auto" and not tells_as_much(settings, n_clients, self.n_clusters):
            return None
        return None if self.distances == "centres" else n_clients * self.n_clusters

    def _predict(
        self, federation: Federation, new: PerClient[Local[ClientStore]]
    ) -> PerClient[Sent[LabelledSamples]]:
        """Label new samples by one secure sum of k distances a sample."""
        fitted = self._fitted
        digests = federation.ask(new_digests, new, digest_keys(federation))
        federation.wait(federation.on_server(linked_samples, digests))
        rows = federation.on_clients(party.project_new, new, self._projection())
        if self.basis == "global-norm":
            rows = self._divided(federation, fitted.sums, rows)
        parts = federation.on_clients(
            party.measure_new, rows, fitted.rows, fitted.labels, self.n_clusters
        )
        total = fitted.sums.sum(parts, max_abs=None if self.basis == "U" else _LARGEST_DISTANCE)
        first = federation.clients[0]
        labels = federation.tell(server.nearest, total, clients=[first])
        return federation.publish(labelled_new, new[first], labels, party=[first], wait=False)

    def _projection(self) -> party.Projection:
        return party.Projection(self.n_clusters, self.basis, self.filter_order, self.graph_filter)

    def _project(self, federation: Federation, sums: _Sum) -> PerClient[Local]:
        rows = federation.on_clients(party.project, self._projection())
        if self.basis == "global-norm":
            rows = self._divided(federation, sums, rows)
        federation.wait(rows)
        return rows

    def _divided(
        self, federation: Federation, sums: _Sum, rows: PerClient[Local]
    ) -> PerClient[Local]:
        """Divide rows by their norms over all participants."""
        total = sums.sum(federation.on_clients(party.row_norms, rows))
        norms = federation.tell(server.global_norms, total)
        return federation.on_clients(party.divide_by_norms, rows, norms)

    def _optimised(
        self, federation: Federation, sums: _Sum, rows: PerClient[Local]
    ) -> Local[ClientLabels]:
        """Run Protocol 3: local clusters, their intersections, weighted k-means on these."""
        with self._stage(federation, "intersecting"):
            own = federation.on_clients(
                party.cluster_locally,
                rows,
                self._n_local(),
                self.basis,
                self.n_local_init,
                self.seed_,
            )
            clusters = federation.ask(own)
            federation.wait(clusters)
        with self._stage(federation, "clustering"):
            if self.variant == "tree":
                labels = self._tree(federation, rows, clusters)
            else:
                parts = [clusters[name] for name in sorted(clusters)]
                nodes = federation.on_server(server.intersect, parts)
                labels = self._on_nodes(federation, sums, rows, nodes, self.n_clusters, own)
        if self.n_refine:
            with self._stage(federation, "refining"):
                settings = self._settings(self.n_clusters, 1, self.n_refine)
                state = federation.on_server(server.start_from, labels, settings)
                state = self._cluster(federation, sums, rows, state, "refining")
                labels = federation.on_server(server.labels_of, state, None)
        assert isinstance(labels, Local)  # of two participants or more
        return labels

    def _tree(
        self,
        federation: Federation,
        rows: PerClient[Local],
        clusters: PerClient[Sent[LocalClusters]],
    ) -> Local[ClientLabels] | Sent[LocalClusters]:
        """Intersect the clusters of two children, cluster, up to the root (Section 3.4.2)."""
        level: list[tuple[tuple[str, ...], Local[ClientLabels] | Sent[LocalClusters]]]
        level = [((name,), sent) for name, sent in clusters.items()]
        while len(level) > 1:
            above = []
            for (left, a), (right, b) in zip(level[::2], level[1::2], strict=False):
                clients = left + right
                sums = self._sums(federation, clients)
                nodes = federation.on_server(server.intersect, [a, b])
                k = self.n_clusters if len(clients) == len(clusters) else self._n_local()
                above.append((clients, self._on_nodes(federation, sums, rows, nodes, k, None)))
            level = above + level[len(level) - len(level) % 2 :]  # an odd one moves up unchanged
        return level[0][1]

    def _on_nodes(
        self,
        federation: Federation,
        sums: _Sum,
        rows: PerClient[Local],
        nodes: Local[Intersections],
        n_clusters: int,
        clusters: PerClient[Local[LocalClusters]] | None,
    ) -> Local[ClientLabels]:
        """Cluster virtual nodes in the columns of some participants; return samples' labels."""
        clients = sums.clients
        told = federation.tell(nodes, clients=clients)
        among = (self.variant, self._n_local(), len(federation.clients))
        virtual = federation.on_clients(
            party.nodes_of, rows, told, clusters, self.virtual_node, *among, clients=clients
        )
        settings = self._settings(n_clusters, self.n_init, self.max_iter)
        fewer = n_clusters != self.n_clusters
        rank = self._rank(settings, len(clients))
        state = federation.on_server(server.begin_on_nodes, nodes, settings, rank, fewer=fewer)
        n_seeds = 0 if fewer or rank is not None else n_clusters
        how = ("clustering", n_seeds, rank)
        state = self._cluster(federation, sums, virtual, state, *how, of_samples=False)
        return federation.on_server(server.labels_of, state, nodes)

    def _n_local(self) -> int:
        return self.n_local_clusters or self.n_clusters

    def _cluster(
        self,
        federation: Federation,
        sums: _Sum,
        rows: PerClient[Local],
        state: Local,
        stage: str,
        n_seeds: int = 0,
        rank: int | None = None,
        of_samples: bool = True,
    ) -> Local:
        """Run weighted k-means, a secure sum a step; no round waits for the last one's report."""
        clients = sums.clients
        # steps for seeds and rounds; an inner node of a tree may have fewer seeds
        most = (
            self.n_refine if stage == "refining" else self.max_iter + max(n_seeds, self._n_local())
        )
        asked = self.distances, self.variant, self.n_refine
        sent: list[Sent[LloydProgress]] = []
        report: LloydProgress | None = None
        for step in itertools.count(1):
            request = federation.tell(server.next_measure, state, clients=clients)
            parts = federation.inline(party.measure, rows, request, *asked, clients=clients)
            total = sums.sum(parts, max_abs=_LARGEST_DISTANCE)
            state = self._seen = federation.on_server(server.take_sum, state, total)
            if step <= n_seeds:
                continue
            sent.append(federation.publish(server.progress, state, wait=False))
            while sent and (len(sent) > 1 or step == most):  # no round follows the last one
                report = sent.pop(0).result()
                federation.report_progress(stage, report.n_rounds, self.max_iter, "rounds")
            if report is not None and report.done:
                break
        assert report is not None
        self._note_placed(federation, clients, stage, of_samples, report, rank)
        self.n_rounds_ += report.n_rounds
        self.n_secure_sums_ += report.n_sums
        self.n_secure_scalars_ += report.n_scalars
        if stage == "clustering":
            self.n_virtual_nodes_ = report.n_nodes
            self.inertia_ = report.inertia
        return state

    def _note_placed(
        self,
        federation: Federation,
        clients: tuple[str, ...],
        stage: str,
        of_samples: bool,
        report: LloydProgress,
        rank: int | None,
    ) -> None:
        """Note what the stage's sums reveal, unless an earlier tree node's placed all rows."""
        columns = federation.contract.columns
        # a preparation changes the number of columns
        widths = [
            self.n_clusters if self._prepared.get(name) else len(columns[name]) for name in clients
        ]
        told = Placed(
            "samples" if of_samples else "virtual nodes",
            dimensions(widths, self.n_clusters, report.n_nodes),
            report.n_scalars // report.n_nodes if rank is None else None,
        )
        where = "distances" if stage == "clustering" else "distances of the refinement"
        if not (where in self._placed and self._placed[where].wholly):
            self._placed[where] = told
