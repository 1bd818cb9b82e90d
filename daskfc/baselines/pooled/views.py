"""Baselines for multi-view clustering: all views pooled, and one view alone.

Notation    N samples of all views; X (N, Σ d_m), the pooled columns.
Messages    KeyOffer, SealedDigestKey   client → client  once, 72 bytes for each other client
            SampleDigests  client → server  once, 8 bytes per sample
            JoinedViews:   TableShape       client → caller  once, two numbers
                           RawRows          client → server  all rows, in blocks; "raw"
            OneView:       ViewScore        client → caller  once, one number
                           OwnClusters      client → server  of the chosen client alone
            ClientLabels   server → client  once
Departures  JoinedViews: columns are scaled to [0, 1] before they are joined. A sample that a view
            lacks gets the mean of its columns. OneView: the view is chosen without true labels, by
            the modularity of its clusters; papers report the view with the best scores.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from daskfc import seeds
from daskfc.arrays import Floats
from daskfc.baselines.pooled.central import RawRows, blocks_of_rows, table_shape
from daskfc.checks import Constraint, integer
from daskfc.clustering import Clusterer, make_clusterer
from daskfc.clustering.clusterers.local_labels import LocalLabels, spectral_labels
from daskfc.federation import Federation, Local, Message, PerClient, Sent, array
from daskfc.federation.methods.estimator import FederatedClusterer
from daskfc.federation.methods.linking import Linked, link_views, views_of
from daskfc.federation.methods.parameters import param
from daskfc.federation.methods.sample_keys import digest_keys
from daskfc.federation.methods.samples import ClientLabels, labelled_samples, sample_digests
from daskfc.stores import ClientStore


def add_rows(
    before: Mapping[str, Floats] | None, parts: Mapping[str, RawRows]
) -> dict[str, Floats]:
    """Append blocks of rows to those that clients sent before."""
    rows = dict(before or {})
    for name, part in parts.items():
        rows[name] = np.concatenate([rows[name], part.rows]) if name in rows else part.rows
    return rows


def joined_columns(rows: Mapping[str, Floats], found: Linked) -> Floats:
    """Return the columns of all views, (N, Σ d_m), scaled to [0, 1], with gaps filled by means."""
    views = []
    for view in sorted(set(found.views.values())):
        owners = [name for name in rows if found.views[name] == view]
        columns = np.full((found.n_samples, rows[owners[0]].shape[1]), np.nan)
        for name in owners:
            columns[found.places[name]] = rows[name]
        low, high = np.nanmin(columns, axis=0), np.nanmax(columns, axis=0)
        columns = (columns - low) / np.where(high > low, high - low, 1.0)
        views.append(np.where(np.isnan(columns), np.nanmean(columns, axis=0), columns))
    return np.concatenate(views, axis=1)


def cluster_joined(
    rows: Mapping[str, Floats], found: Linked, clusterer: Clusterer, n_clusters: int, seed: int
) -> Mapping[str, ClientLabels]:
    """Cluster the pooled columns; return each client's labels of its samples."""
    every = clusterer.pooled_labels(joined_columns(rows, found), n_clusters, seed)
    return {name: ClientLabels(every[places]) for name, places in found.places.items()}


class JoinedViews(FederatedClusterer):
    """The central algorithm on the columns of all views, which the clients send.

    Parameters
    ----------
    n_clusters : int
        Number of clusters, the paper's K.
    clusterer : str, mapping or Clusterer
        As for OmniFC; runs on the samples.
    random_state : int, optional
        Seed of the algorithm.

    Attributes
    ----------
    labels_ : xarray.DataArray
        ``(sample,)`` int64, each sample once, with the first client that has it.

    Notes
    -----
    Privacy: none. Every row reaches the server in the clear; the federation refuses it unless it
    was started with ``allow_raw=True``. There is no ``predict``: the algorithms on pooled data keep
    no model.

    Examples
    --------
    >>> from daskfc.baselines import JoinedViews
    >>> JoinedViews(10, clusterer="k-means").get_params()["clusterer"]
    'k-means'
    """

    split: ClassVar = "views"
    method_name: ClassVar[str] = "joined-views"
    needs_raw: ClassVar[bool] = True
    n_clusters: int = param(integer(low=1), kw_only=False)
    clusterer: str | Mapping[str, Any] | Clusterer = param(
        Constraint("a clusterer", lambda value: value is not None), default="spectral"
    )

    def _fit(self, federation: Federation) -> PerClient[Sent]:
        self._check_raw(federation, "raw rows to the server")
        with self._stage(federation, "pool"):
            digests = federation.ask(sample_digests, digest_keys(federation))
            found = federation.on_server(link_views, digests, views_of(federation))
            rows = self._pool(federation)
        clusterer = make_clusterer(self.clusterer)
        with self._stage(federation, "cluster"):
            seed = seeds.integer_seed(self.seed_, clusterer.name)
            labels = federation.tell(cluster_joined, rows, found, clusterer, self.n_clusters, seed)
            federation.wait(labels)
        return federation.publish(labelled_samples, labels, party="clients", wait=False)

    def _pool(self, federation: Federation) -> Local[dict[str, Floats]]:
        """Move all rows to the server, one block of each client at a time."""
        rows: Local[dict[str, Floats]] | None = None
        shapes = federation.publish(table_shape, party="clients")
        for _, parts in blocks_of_rows(federation, shapes):
            rows = federation.on_server(add_rows, rows, parts)
            federation.wait([rows])
        assert rows is not None
        return rows


class ViewScore(
    Message,
    route="client → caller",
    reveals="to the caller how far apart the clusters of the client's own columns lie",
):
    """The modularity of a client's own clusters."""

    modularity: float


class OwnClusters(
    Message, route="client → server", reveals="which samples are alike in the client's columns"
):
    """The clusters of a client's samples in its own columns."""

    labels: np.ndarray = array("sample", dtype="int64")


def own_clusters(data: ClientStore, n_clusters: int, seed: int) -> LocalLabels:
    """Cluster a client's samples by its own columns; they stay there."""
    return spectral_labels(data.rows(0, data.n_samples), n_clusters, seed=seed)


def tell_score(found: LocalLabels) -> ViewScore:
    """Return the modularity of the own clusters, for the caller."""
    return ViewScore(found.score)


def tell_clusters(found: LocalLabels) -> OwnClusters:
    """Return the own clusters, for the server."""
    return OwnClusters(found.labels)


def labels_of_view(
    found: Linked, clusters: Mapping[str, OwnClusters]
) -> Mapping[str, ClientLabels]:
    """Return each client's labels of its samples from the chosen view."""
    every = np.full(found.n_samples, -1, dtype=np.int64)
    for name, own in clusters.items():
        every[found.places[name]] = own.labels
    every[every < 0] = np.bincount(every[every >= 0]).argmax()
    return {name: ClientLabels(every[places]) for name, places in found.places.items()}


class OneView(FederatedClusterer):
    """The clusters of one view alone, the one with the best separated clusters.

    Parameters
    ----------
    n_clusters : int
        Number of clusters, the paper's K, at least 2.
    random_state : int, optional
        Seed of the algorithm.

    Attributes
    ----------
    labels_ : xarray.DataArray
        ``(sample,)`` int64, each sample once, with the first client that has it.
    view_ : str
        The client whose columns were chosen.
    modularity_ : dict of str to float
        Modularity of each client's own clusters; the largest was chosen.

    Notes
    -----
    Privacy: the server learns the clusters that the chosen client finds in its own columns, and the
    caller one number of each client. There is no ``predict``.

    Samples that the chosen client lacks get the largest cluster.

    Examples
    --------
    >>> from daskfc.baselines import OneView
    >>> OneView(10).get_params()["n_clusters"]
    10
    """

    split: ClassVar = "views"
    method_name: ClassVar[str] = "one-view"
    n_clusters: int = param(integer(low=2), kw_only=False)

    def _fit(self, federation: Federation) -> PerClient[Sent]:
        with self._stage(federation, "linking"):
            digests = federation.ask(sample_digests, digest_keys(federation))
            found = federation.on_server(link_views, digests, views_of(federation))
        with self._stage(federation, "clustering"):
            seed = seeds.integer_seed(self.seed_, "one view")
            own = federation.on_clients(own_clusters, self.n_clusters, seed)
            scores = federation.publish(tell_score, own, party="clients")
            self.modularity_ = {name: told.modularity for name, told in scores.items()}
            self.view_ = max(self.modularity_, key=lambda name: self.modularity_[name])
            clusters = federation.ask(tell_clusters, own, clients=[self.view_])
            labels = federation.tell(labels_of_view, found, clusters)
        return federation.publish(labelled_samples, labels, party="clients", wait=False)
