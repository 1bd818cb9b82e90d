"""AGC and GCC on pooled columns: central methods for comparison with kCAGC.

Papers      X. Zhang, H. Liu, Q. Li, X.-M. Wu, "Attributed graph clustering via adaptive graph
            convolution", IJCAI 2019; C. Fettal, L. Labiod, M. Nadif, "Efficient graph convolution
            for joint node representation learning and clustering", WSDM 2022.
Messages    KeyOffer, SealedDigestKey   client → client   once, 72 bytes for each other client
            SampleDigests  client → server           once, 8 bytes per sample
            RawColumns     client → server           all columns; protection "raw"
            RawGraph       client → server           the graph, from the first client; "raw"
            ClientLabels   server → client           once
Departures  The order of AGC's filter is a parameter, not searched for. With `participant`, AGC runs
            at one client on its own columns and graph, and nothing raw leaves it.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from daskfc import seeds
from daskfc.arrays import Ints
from daskfc.baselines.maths.agc import cluster_agc
from daskfc.baselines.maths.gcc import cluster_gcc
from daskfc.checks import Constraint, boolean, integer, one_of, optional
from daskfc.errors import InvalidInput
from daskfc.federation import Federation, Message, PerClient, Sent, array
from daskfc.federation.methods.estimator import FederatedClusterer
from daskfc.federation.methods.parameters import param
from daskfc.federation.methods.sample_keys import digest_keys
from daskfc.federation.methods.samples import (
    ClientLabels,
    labelled_samples,
    linked_samples,
    own_labels,
    sample_digests,
)
from daskfc.stores import ClientStore


class RawColumns(
    Message,
    protection="raw",
    route="client → server",
    reveals="everything: the participant's data itself",
):
    """All raw columns of one participant."""

    columns: np.ndarray = array("sample", "feature", dtype="float64")


class RawGraph(
    Message,
    protection="raw",
    route="client → server",
    reveals="every edge of the participant's graph",
):
    """A participant's graph, in compressed rows."""

    starts: np.ndarray = array("row", dtype="int64")
    neighbours: np.ndarray = array("edge", dtype="int64")
    weights: np.ndarray = array("edge", dtype="float64")


def raw_columns(data: ClientStore) -> RawColumns:
    """Return all columns, for the server."""
    return RawColumns(np.ascontiguousarray(data.rows(0, data.n_samples)))


def _graph_of(data: ClientStore) -> Any:
    graph = data.graph()
    if graph is None:
        raise InvalidInput(
            f"client {data.name!r} has no graph in its store; AGC and GCC need one. Add a graph to "
            "the storage file."
        )
    return graph


def raw_graph(data: ClientStore) -> RawGraph:
    """Return the graph, for the server."""
    graph = _graph_of(data)
    return RawGraph(
        graph.indptr.astype(np.int64), graph.indices.astype(np.int64), graph.data.astype(np.float64)
    )


def _pool(columns: Mapping[str, RawColumns], graphs: Mapping[str, RawGraph]) -> tuple[Any, Any]:
    X = np.hstack([part.columns for part in columns.values()])
    (graph,) = graphs.values()
    shape = (len(X), len(X))
    return X, sparse.csr_array((graph.weights, graph.neighbours, graph.starts), shape=shape)


def agc_of_pool(
    columns: Mapping[str, RawColumns], graphs: Mapping[str, RawGraph], options: dict[str, Any]
) -> ClientLabels:
    """Run AGC on the columns of all participants."""
    return ClientLabels(cluster_agc(*_pool(columns, graphs), **options))


def gcc_of_pool(
    columns: Mapping[str, RawColumns], graphs: Mapping[str, RawGraph], options: dict[str, Any]
) -> ClientLabels:
    """Run GCC on the columns of all participants."""
    return ClientLabels(cluster_gcc(*_pool(columns, graphs), **options))


def agc_alone(data: ClientStore, options: dict[str, Any]) -> Ints:
    """Run AGC on the participant's own columns and graph."""
    return cluster_agc(data.rows(0, data.n_samples), _graph_of(data), **options)


class _Pooled(FederatedClusterer):
    """A central method on the columns of all participants."""

    split: ClassVar = "columns"
    needs_raw: ClassVar[bool] = True

    def _publish(self, federation: Federation, step: Any, options: Any) -> PerClient[Sent]:
        self._check_raw(federation, "raw columns to the server")
        first = federation.clients[0]
        with self._stage(federation, "pool"):
            digests = federation.ask(sample_digests, digest_keys(federation))
            linked = federation.on_server(linked_samples, digests)
            columns = federation.ask(raw_columns)
            graphs = federation.ask(raw_graph, clients=[first])
            federation.wait([linked, columns, graphs])
        with self._stage(federation, "cluster"):
            labels = federation.tell(step, columns, graphs, options, clients=[first])
            federation.wait(labels)
        return federation.publish(labelled_samples, labels, party=[first], wait=False)


class AGC(_Pooled):
    """Adaptive graph convolution of Zhang et al., on all columns or on one participant's.

    Parameters
    ----------
    n_clusters : int
        Number of clusters, the paper's k.
    filter_order : int
        Passes over the graph.
    graph_filter : {"agc", "laplacian"}
        See `daskfc.clustering.GraphOperator`.
    n_init : int
        Starts of k-means.
    participant : str, optional
        A client that clusters its own columns alone.
    random_state : int, optional
        Seed of the algorithm.

    Attributes
    ----------
    labels_ : xarray.DataArray
        ``(sample,)`` int64, as the first client, or the participant, names its samples.

    Notes
    -----
    Privacy: none; the server sees all raw columns and the graph. With `participant` only labels
    leave it.

    Examples
    --------
    >>> from daskfc.baselines import AGC
    >>> AGC(7, filter_order=9).get_params()["n_init"]
    10
    """

    n_clusters: int = param(integer(low=1), kw_only=False)
    filter_order: int = param(integer(low=0), default=9)
    graph_filter: str = param(one_of("agc", "laplacian"), default="agc")
    n_init: int = param(integer(low=1), default=10)
    participant: str | None = param(
        optional(Constraint("a client's name", lambda x: isinstance(x, str))), default=None
    )

    def _fit(self, federation: Federation) -> PerClient[Sent]:
        options = {
            "n_clusters": self.n_clusters,
            "filter_order": self.filter_order,
            "filter_kind": self.graph_filter,
            "seed": seeds.integer_seed(self.seed_, "AGC"),
            "n_init": self.n_init,
        }
        if self.participant is None:
            return self._publish(federation, agc_of_pool, options)
        with self._stage(federation, "cluster"):
            labels = federation.on_client(self.participant, agc_alone, options)
            federation.wait(labels)
        return federation.publish(own_labels, labels, party=[self.participant], wait=False)


class GCC(_Pooled):
    """Graph convolutional clustering of Fettal, Labiod and Nadif, on all columns.

    Parameters
    ----------
    n_clusters : int
        Number of clusters, the paper's k.
    filter_order : int
        p, passes over the graph: 12 for Cora, 5 for Citeseer, 150 for Pubmed, 4 for Wiki.
    tf_idf : bool
        Whether features are word counts, which are weighted by tf-idf first.
    n_init : int
        Starts of k-means.
    random_state : int, optional
        Seed of the algorithm.

    Attributes
    ----------
    labels_ : xarray.DataArray
        ``(sample,)`` int64, as the first client names its samples.

    Notes
    -----
    Privacy: none; the server sees all raw columns and the graph.

    Examples
    --------
    >>> from daskfc.baselines import GCC
    >>> GCC(7, filter_order=12, tf_idf=True).get_params()["n_init"]
    10
    """

    n_clusters: int = param(integer(low=1), kw_only=False)
    filter_order: int = param(integer(low=0), default=12)
    tf_idf: bool = param(boolean(), default=False)
    n_init: int = param(integer(low=1), default=10)

    def _fit(self, federation: Federation) -> PerClient[Sent]:
        options = {
            "n_clusters": self.n_clusters,
            "filter_order": self.filter_order,
            "tf_idf": self.tf_idf,
            "seed": seeds.integer_seed(self.seed_, "GCC"),
            "n_init": self.n_init,
        }
        return self._publish(federation, gcc_of_pool, options)
