"""OmniFC: the estimator, which runs the three steps of the paper's Algorithm 1."""

import logging
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import xarray as xr
from sklearn.exceptions import ConvergenceWarning

from daskfc import seeds
from daskfc.checks import Constraint, boolean, integer, one_of, optional, real
from daskfc.clustering import Clusterer, ExactPoints, Spectral, View, make_clusterer
from daskfc.clustering.views.order import Order
from daskfc.coding import RESOLVED
from daskfc.errors import InvalidInput, OverflowRefused
from daskfc.federation import Federation, Local, PerClient, Sent
from daskfc.federation.methods.cluster_scores import ClusterScores, joined
from daskfc.federation.methods.estimator import FederatedClusterer
from daskfc.federation.methods.parameters import param
from daskfc.federation.methods.sample_map import SampleMap
from daskfc.federation.methods.samples import (
    LabelledSamples,
    labelled_new,
    labelled_samples,
    own_labels,
)
from daskfc.protocols.omnifc import clusters, scores, splits
from daskfc.protocols.omnifc.clusters import read_by
from daskfc.protocols.omnifc.messages import ClusterReport
from daskfc.protocols.omnifc.on_shares import (
    CLAIMS,
    THREE,
    OnShares,
    check_members,
    check_on_shares,
    check_placing,
)
from daskfc.protocols.omnifc.scores import Found
from daskfc.secure.distances import Reader, SecureDistances, Tiles, choose_code, graph_of_points
from daskfc.stores import ClientStore
from daskfc.stores.store.together import Split

log = logging.getLogger("daskfc.protocols")

ROWS_TOLERANCE = 1e-9  # of the mean squared distance: the coordinates are exact up to rounding
_OF_SPAN = 8  # ours: distances are off by 4 times what coordinates leave out
_UNKEPT = "all anew: distances in blocks are not kept"
_GRIDS = 8  # ours: at most; each resolves smaller distances than the one before


@dataclass(frozen=True)
class _Fitted:
    """What `predict` needs of the run: handles of data that stay at the parties."""

    clusterer: Clusterer
    distances: SecureDistances
    clustering: Local[clusters.Clustered]
    some: Local[scores.Sampled] | None  # the samples of a map


class OmniFC(FederatedClusterer):
    """Cluster on exactly reconstructed distances, by Lagrange coded computing.

    Parameters
    ----------
    n_clusters : int, optional
        Number of clusters; leave it out for clusterers that find it, such as ``"dbscan"``.
    clusterer : str, mapping or Clusterer
        ``"spectral"``, ``"landmark-spectral"``, ``"dbscan"``, ``"hierarchical"``,
        ``"k-medoids"``, ``"k-means"``, ``"reduced-k-means"``, ``"fuzzy-c-means"``,
        ``"gaussian-mixture"``, ``"nmf"``, ``"kernel-k-means"``, ``"nystroem-k-means"``,
        ``"hdbscan"``, ``"umap"``, ``"optics"``, ``"affinity-propagation"``; with parameters as
        ``{"dbscan": {"eps": 0.5}}``; or another one of scikit-learn's, as ``{"scikit-learn":
        {"estimator": "Birch"}}``. All but NMF give the labels of the pooled samples: NMF factorises
        rows of distances, because samples may have negative coordinates.
    split : {"samples", "columns", "grid"}
        What of the data each client holds: samples, columns of the same samples in one order, or a
        cell of a grid, some columns of some samples. Labels are those of the pooled columns.
    balance : bool or "modularity"
        With columns: divide each client's by the root of their mean squared distance, which stays
        there, so that no unit and no number of columns outweighs those of others. "modularity" then
        weighs a client's by how clearly it finds `n_clusters` groups in them, one number each.
    gaps : {"refuse", "scale", "apart"}
        With a grid, what becomes of samples that lack columns. "scale" takes the squared distance
        over what two samples share times the weight of all columns over that of the common ones,
        and refuses pairs that share none; "apart" takes these to be farther apart than all others.
        For clusterers that need no coordinates; there is no `predict` then.
    reveal : {"distances", "neighbours", "labels"}
        What is learned. With "labels" nobody learns a distance: three clients cluster on shares, by
        k-means (one start by k-means++, 20 iterations at most) or DBSCAN; no two of them may
        collude. With "neighbours" the server learns which samples are within eps of each other, and
        runs DBSCAN, or spectral clustering with ``affinity: radius``, on that in fewer rounds.
    members : sequence of str, optional
        The three clients that compute on shares; by default the first ones by name.
    distances : {"exact", "blocks", "landmark"}
        "exact" computes every pair's distance; when n > 2 (d + 2), from a few columns, which
        determine all to the last bit, as distances have rank d + 2 at most, and reveals to the
        evaluators which samples these columns belong to. "blocks" computes all n² / 2 pairs and
        reveals nothing to them. "landmark" computes coordinates from the columns of adaptively
        chosen landmarks, exact up to `landmark_tolerance`.
    n_segments, n_colluding : int, optional
        The paper's l and t: any `n_colluding` clients that collude learn nothing. By default the
        cheapest, l = 1, and t = 2 from 5 clients on. More segments make shares smaller, d / l
        numbers a row, and need more answers.
    n_spares : int, optional
        Evaluators beyond the necessary 2l + 2t - 1: they replace stragglers and validate answers.
        By default one, if there is a client for it.
    tolerance : float
        Upper bound on the root mean square error of squared distances, relative to their mean. Data
        on a grid (integers, pixels / 255) have no error at all; other data are rounded to a grid on
        which the distances that labels depend on are off by at most a thousandth.
    max_abs : float, optional
        Declared bound on every ``|x|``; without it each client sends its largest norm, rounded up.
    hide_segments : bool
        With l > 1, add a shared random polynomial that keeps the distances of single segments from
        the server.
    landmark_tolerance : float
        The search for landmarks ends when no sample is farther from their span than this, as
        squared distance relative to the mean squared distance.
    start : {"anew", "last"}
        "last" computes the distances of new samples alone, where the server has kept those of the
        last fit with these parameters, preparation and clients, and each client's first samples are
        the same; else all. Labels depend on it where rounding decides between equal distances.
    engine : {"auto", "int8", "f32", "f64"}
        Kernel of the modular products; all give identical distances.
    tile : int, optional
        Rows of a block; by default the largest that fits well into every party's memory.
    random_state : int, optional
        Seed of the clusterer. Masks and noise come from the operating system and have no seed.

    Attributes
    ----------
    labels_ : xarray.DataArray
        ``(sample,)`` int64 with the coordinates ``client`` and ``sample_id``; -1 is noise (DBSCAN).
    n_clusters_ : int
        Number of clusters.
    dropped_evaluators_ : dict of str to str
        Evaluators that were left out during the run, and why.
    silhouette_, silhouettes_ : float or None, dict of int to float
        Mean silhouette of at most 2,000 samples in clusters, in [-1, 1], and of each cluster with 5
        of them; None and empty where the server has no distances, and for fewer than two clusters.
    modularity_ : float or None
        Newman's, of clusters in the graph of these samples' nearest neighbours, in [-1/2, 1].
    weights_ : dict of str to float
        With ``balance="modularity"`` the weight of each client's columns; they sum to 1.
    route_ : str
        How distances were computed: from "columns", in "blocks", or by "landmark" as requested.
    ledger_ : Ledger
        Every message of the run.
    gaps_ : GapReport or None
        What came of samples that lack columns, if any do.

    Notes
    -----
    Privacy: the server learns all distances (and lengths, with ``centred: false``), which give the
    samples up to shifts and turns; `n_colluding` clients learn nothing, even together.

    References
    ----------
    J. Yan, X. Liu, Z.-Y. Zhang, "OmniFC: Rethinking Federated Clustering via Lossless and Secure
    Distance Reconstruction".

    Examples
    --------
    >>> from daskfc import Federation, OmniFC  # doctest: +SKIP
    >>> with Federation.local("storage/iris.yaml") as federation:  # doctest: +SKIP
    ...     model = OmniFC(n_clusters=3, clusterer="spectral").fit(federation)
    """

    resumable = True
    mapped_by = "coordinates that follow from the distances"
    n_clusters: int | None = param(optional(integer(low=1)), default=None, kw_only=False)
    clusterer: str | Mapping[str, Any] | Clusterer = param(
        Constraint("a clusterer", lambda value: True), default="spectral"
    )
    split: Split = param(  # type: ignore[misc]
        one_of("samples", "columns", "grid"), default="samples"
    )
    balance: bool | str = param(splits.BALANCE, default=False)
    gaps: str = param(one_of("refuse", "scale", "apart"), default="refuse")
    reveal: str = param(one_of("distances", "neighbours", "labels"), default="distances")
    members: Sequence[str] | None = param(optional(THREE), default=None)
    distances: str = param(one_of("exact", "blocks", "landmark"), default="exact")
    n_segments: int | None = param(optional(integer(low=1)), default=None)
    n_colluding: int | None = param(optional(integer(low=1)), default=None)
    n_spares: int | None = param(optional(integer(low=0)), default=None)
    tolerance: float = param(real(above=0), default=1e-4)
    max_abs: float | None = param(optional(real(above=0)), default=None)
    hide_segments: bool = param(boolean(), default=True)
    landmark_tolerance: float = param(real(above=0), default=1e-6)
    start: str = param(one_of("anew", "last"), default="anew")
    engine: str = param(one_of("auto", "int8", "f32", "f64"), default="auto")
    tile: int | None = param(optional(integer(low=1)), default=None)

    def check(self, n_clients: int | None = None) -> None:
        """Check the parameters against their constraints, before anything runs.

        Parameters
        ----------
        n_clients : int, optional
            Number of clients, where it is known already.

        Raises
        ------
        InvalidInput
            For the first parameter that breaks its rule.
        """
        super().check(n_clients)
        clusterer = make_clusterer(self.clusterer)
        if clusterer.finds_n_clusters != (self.n_clusters is None):
            rule = "be left out" if clusterer.finds_n_clusters else "be given"
            raise InvalidInput(
                f"the 'n_clusters' parameter of OmniFC must {rule} with clusterer "
                f"{clusterer.name!r}; got {self.n_clusters!r}. Change one of the two."
            )
        given = (self.reveal, self.n_segments, self.max_abs, clusterer, self.n_clusters)
        splits.check_split(self.split, self.balance, *given, gaps=self.gaps)
        splits.check_gaps(self.gaps, self.split, self.distances, clusterer)
        splits.check_start(self.start, self.split, self.reveal, self.distances)
        check_members(self.members, self.reveal)
        if self.reveal != "distances":
            check_on_shares(self.reveal, clusterer, self.distances, self.n_colluding, n_clients)
        if n_clients is not None:
            choose_code(n_clients, self.n_segments, self.n_colluding, self.n_spares)

    def check_data(self, stores: Mapping[str, ClientStore]) -> None:
        """Refuse samples that two clients share, and graphs of more neighbours than samples."""
        splits.check_stores(stores, self.split, make_clusterer(self.clusterer))
        check_members(self.members, self.reveal, stores)

    @property
    def privacy_claim(self) -> str:
        """What is claimed with these parameters, where less than all distances is revealed."""
        return CLAIMS.get(self.reveal, "")

    @property
    def criteria(self) -> tuple[str, ...]:
        """Criteria for the number of clusters; see the base class."""
        return scores.criteria_of(make_clusterer(self.clusterer), self.reveal)

    def _scores_of(
        self, federation: Federation, n_clusters: Sequence[int], by: str
    ) -> ClusterScores:
        how: dict[str, Any]
        most = max(n_clusters)
        seen = self._clustered(federation, most)
        clusterer, seed = seen.clusterer, seen.seed
        with self._stage(federation, "clustering"):
            if by == "eigengap":
                assert isinstance(clusterer, Spectral)
                how = {"clusterer": clusterer, "n_clusters": list(n_clusters), "seed": seed}
                return cast(ClusterScores, federation.publish(scores.eigengaps, seen.view, **how))
            if self._some is None:
                raise InvalidInput(
                    f"the server of OmniFC has no distances to tell the {by} from: from blocks it "
                    "keeps the nearest neighbours alone. Choose the number of clusters by "
                    "'eigengap' or 'stability', or give distances='landmark'."
                )
            told: list[ClusterScores] = []
            for k in n_clusters:
                federation.report_progress(f"{k} clusters", len(told), len(n_clusters))
                how = {"clusterer": clusterer, "n_clusters": k, "seed": seed}
                if by == "gap":
                    told.append(federation.publish(scores.gap, self._some, **how))
                    continue
                found = seen.clustering
                if k < most:
                    found = federation.on_server(clusters.cluster, seen.view, self._order, **how)
                told.append(federation.publish(scores.cluster_score, found, self._some, by))
            return joined(told)

    def _opened(self, federation: Federation, n_clusters: int | None) -> SecureDistances:
        """Open the distances on the first grid, which resolves the radius of a graph."""
        clusterer = make_clusterer(self.clusterer)
        code = choose_code(
            len(federation.clients), self.n_segments, self.n_colluding, self.n_spares
        )
        with self._stage(federation, "planning"):
            columns, how = federation.contract.columns, (self.split, self.balance, self.gaps)
            weights, self.weights_ = splits.weights_by(
                self.balance, federation, n_clusters, self.seed_
            )
            distances = SecureDistances.of_samples(
                federation,
                code,
                tolerance=self.tolerance,
                max_abs=self.max_abs,
                held=splits.held_by(columns, *how, weights, self.weights_),
                resolve=clusterer.radius2,
                hide_segments=self.hide_segments,
                engine=self.engine,
                tile=self.tile,
                since_last=self.start == "last",
            )
        splits.check_enough(clusterer, distances.n_samples, distances.n_features, n_clusters)
        return distances

    def _clustered(self, federation: Federation, n_clusters: int | None) -> Found:
        """Cluster on finer and finer grids, until one resolves the distances that labels need."""
        clusterer = make_clusterer(self.clusterer)
        seed = seeds.integer_seed(self.seed_, clusterer.name)
        distances, nearest = self._opened(federation, n_clusters), math.inf
        apart: float | None = None
        how = {"clusterer": clusterer, "n_clusters": n_clusters, "seed": seed}
        lengths = distances.squared_lengths(clusterer) if clusterer.from_origin else None
        for _ in range(_GRIDS):
            with self._stage(federation, "distances"):
                view = self._view(distances, clusterer, nearest, n_clusters or 0)
                if lengths is not None:
                    view = federation.on_server(clusters.from_origin, view, self._order, lengths)
            self.dropped_evaluators_ = distances.dropped
            with self._stage(federation, "clustering"):
                clustering = federation.on_server(clusters.cluster, view, self._order, **how)
                report = federation.publish(scores.cluster_report, clustering, self._some, view)
            finest = report.finest
            if report.equal and not distances.system.exact:  # rounding may have made them equal
                apart = distances.nearest_apart() if apart is None else apart
                finest = min(finest or apart, apart)
            allowed = RESOLVED * finest
            coarse = distances.error_of(finest) > allowed > 0
            rough = report.error > allowed > 0 and self.distances == "exact"
            if not coarse and not rough:
                return Found(clusterer, distances, view, clustering, report, seed)
            if rough and not coarse and nearest <= allowed:
                break
            nearest = allowed / _OF_SPAN if rough else nearest
            if coarse:
                log.info("labels depend on squared distances of %.3g: on a finer grid", finest)
                distances = distances.finer(finest)
        why = f"labels depend on squared distances of {finest:.3g}, which rounding hides"
        distances.refuse_far_samples(why)
        raise OverflowRefused(f"{why}. Remove outliers, or scale the features.")

    def _fit(self, federation: Federation) -> PerClient[Sent[LabelledSamples]]:
        if self.reveal != "distances":
            return self._fit_on_shares(federation)
        seen = self._clustered(federation, self.n_clusters)
        report, clustering, since = seen.report, seen.clustering, seen.distances.since
        self.gaps_ = seen.distances.gaps
        self._start = {} if since is None else {"start": since.said or _UNKEPT}
        self._read(report)
        self._fitted: _Fitted | OnShares = _Fitted(
            seen.clusterer, seen.distances, clustering, self._some
        )
        labels = federation.tell(clusters.labels_for, clustering, seen.distances.plan)
        once = splits.with_all_samples(federation.contract.columns, self.split, self.gaps_)
        return federation.publish(labelled_samples, labels, party=once, wait=False)

    def _read(self, report: ClusterReport) -> None:
        self.silhouette_, self.silhouettes_, self.modularity_ = report.told()
        self.n_clusters_ = len(report.sizes)
        if report.notes:
            warnings.warn(report.notes, ConvergenceWarning, stacklevel=4)

    def _fit_on_shares(self, federation: Federation) -> PerClient[Sent[LabelledSamples]]:
        """Have three clients compute on shares; each client tells the labels of its samples."""
        clusterer = make_clusterer(self.clusterer)
        self.silhouette_, self.silhouettes_, self.modularity_ = None, {}, None
        with self._stage(federation, "clustering"):
            shares = OnShares(
                federation,
                choose_code(len(federation.clients), self.n_segments, 1, self.n_spares),
                clusterer,
                seed=seeds.integer_seed(self.seed_, clusterer.name),
                tolerance=self.tolerance,
                max_abs=self.max_abs,
                members=self.members,
            )
            if self.reveal == "labels":
                labels = shares.labels(self.n_clusters)
                told = federation.publish(own_labels, labels, party="clients", wait=False)
            else:
                sent, report = shares.labels_of_neighbours(self.n_clusters)
                self._read(report)
                told = federation.publish(labelled_samples, sent, party="clients", wait=False)
        self.dropped_evaluators_, self._fitted, self._start = {}, shares, {}
        self.weights_, self.gaps_, self.route_ = {}, None, "shares"
        self._reason = f"{shares.computation.n_rounds} rounds of three clients"
        return told

    def _told_labels(self, parts: PerClient[Sent[LabelledSamples]]) -> xr.DataArray:
        labels = super()._told_labels(parts)
        if self.reveal == "labels":
            self.n_clusters_ = self.n_clusters or 1 + int(labels.max(initial=-1))
        return labels

    def _view(
        self, distances: SecureDistances, clusterer: Clusterer, nearest: float, k: int
    ) -> Local[View]:
        """Have the server build the clusterer's input, exact up to squared distances `nearest`."""
        federation, n = distances.federation, distances.n_samples
        route = self.distances if distances.gaps is None else "blocks"
        need, reader = read_by(clusterer, distances, k, route)
        n_neighbors = clusterer.graph_neighbors if need == "neighbours" else None
        graph: dict[str, Any] = {"n_neighbors": n_neighbors, "radius2": clusterer.radius2}
        sample = {"n": n, "seed": seeds.integer_seed(self.seed_, "silhouette")}
        self._some: Local[scores.Sampled] | None = None  # only if the server has distances
        self._order: Local[Order | None] | None = None
        on_points = need in ("rows", "coordinates")
        if route == "landmark" or (on_points and route != "blocks"):
            if need == "coordinates" and clusterer.told_apart:
                graph["told_apart"] = True
            return self._view_of_landmarks(distances, need, nearest, reader, graph, sample)
        # few samples: all distances, so that ties depend on nothing else
        few = on_points or n <= clusters.FEW
        keep = "full" if few or need == "blocks" else need
        kept = graph if keep == need and keep != "full" else {}
        found: Local[ExactPoints] | Local[Tiles]
        if self.distances == "blocks":
            found = distances.blocks(keep, **kept, reader=reader)
            self.route_, self._reason = "blocks", "as asked for"
        else:
            found = distances.all_pairs(keep, **kept, reader=reader)
            self.route_, self._reason = distances.route, distances.reason
        log.info("distances from %s: %s", self.route_, self._reason)
        if self.route_ == "columns":
            points = federation.on_server(clusters.in_order, cast(Local[ExactPoints], found))
            self._order = federation.on_server(clusters.order_of, points)
            if need in ("neighbours", "radius"):
                self._some = federation.on_server(scores.sampled, points, None, **sample)
                return graph_of_points(distances, points, **graph)
            found = points
        read = need if need == "blocks" else keep
        view = federation.on_server(clusters.view_of_all, found, needs=read, **graph)
        if keep == "full":
            self._order = self._order or federation.on_server(clusters.order_of, view)
            self._some = federation.on_server(scores.sampled, view, None, **sample)
        return view

    def _view_of_landmarks(
        self,
        distances: SecureDistances,
        need: str,
        nearest: float,
        reader: Reader,
        graph: Mapping[str, Any],
        sample: Mapping[str, Any],
    ) -> Local[View]:
        federation, exact = distances.federation, self.distances == "exact"
        tolerance = ROWS_TOLERANCE if exact else self.landmark_tolerance
        span = (tolerance, 0.0) if math.isinf(nearest) else (0.0, nearest)
        kept = {"full": "full", "blocks": "full", "coordinates": "rows"}.get(need, need)
        embedding = distances.columns(
            *span, keep=kept, n_neighbors=graph["n_neighbors"], reader=reader
        )
        self.route_ = "columns" if exact else "landmark"
        self._reason = "distances to some samples give all others" if exact else "as asked for"
        self._order = federation.on_server(clusters.order_of, embedding)
        self._some = federation.on_server(scores.sampled, embedding, self._order, **sample)
        return federation.on_server(
            clusters.view_of_landmarks,
            embedding,
            self._order,
            n_features=distances.n_features,
            needs=need,
            **graph,
        )

    @property
    def choices(self) -> Mapping[str, str]:
        """The last fit's choices, and the reasons."""
        found = {"distances": f"{self.route_}: {self._reason}"} if hasattr(self, "route_") else {}
        weights = getattr(self, "weights_", {})
        told = ", ".join(f"{name} {weight:.3f}" for name, weight in weights.items())
        by_weight = {"weights of columns": told} if told else {}
        if gaps := getattr(self, "gaps_", None):
            found["columns in common"] = gaps.in_words()
        return {**found, **by_weight, **getattr(self, "_start", {})}

    def _sample_map(self, federation: Federation) -> SampleMap | None:
        fitted = self._fitted
        if isinstance(fitted, OnShares) or fitted.some is None:
            return None
        return federation.publish(scores.sample_map, fitted.clustering, fitted.some)

    def _check_clients(self, stores: Mapping[str, str], federation: Federation) -> None:
        check_placing(self.reveal, make_clusterer(self.clusterer))
        splits.check_new(getattr(self, "gaps_", None))
        super()._check_clients(stores, federation)

    def _predict(
        self, federation: Federation, new: PerClient[Local[ClientStore]]
    ) -> PerClient[Sent[LabelledSamples]]:
        fitted = self._fitted
        if isinstance(fitted, OnShares):
            return fitted.labels_of_new(new)
        plan, panels = fitted.distances.to_new_samples(new)
        found = {name: list[Local]() for name in new} if plan is None else {}
        for panel in panels:
            given = (fitted.clustering, panel.columns)
            label = federation.on_server(clusters.predict_panel, *given, clusterer=fitted.clusterer)
            found.setdefault(panel.owner, []).append(label)
        once = splits.with_all_samples({n: self._contract.columns[n] for n in new}, self.split)
        told = federation.tell(clusters.new_labels, found, plan, clients=tuple(new))
        return federation.publish(labelled_new, new, told, party=once, wait=False)
