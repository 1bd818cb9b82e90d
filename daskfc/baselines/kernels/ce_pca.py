"""CE PCA: distributed kernel principal components (disKPCA), then distributed linear k-means.

Paper       M.-F. Balcan, Y. Liang, L. Song, D. Woodruff, B. Xie, "Communication efficient
            distributed kernel principal component analysis", KDD 2016 (arXiv 1503.06858), as in
            the comparison of A Communication Efficient Federated Kernel k-means (Appendix G):
            k-means by the coresets of M.-F. Balcan, S. Ehrlich, Y. Liang, NeurIPS 2013.
Notation    Appendix G   here                 shape, range
            d            n_components         int ≥ 1
            D            n_features           int ≥ 1
            d_s          embedding_size       int ≥ 1
            d_p          sketch_size          int ≥ 1
            p            n_representatives    int ≥ 2
            C            coreset_size         int ≥ 0, of all clients
            others in maths/kernel_pca.py, which has the steps on arrays
Messages    KernelWidth         server → client, caller   once, if no width is given, after a sum
            PointSketch         client → server    once, d_s d_p floats
            LeverageFactor      server → client    once, d_s² floats
            ScoreTotal          client → server    twice, a number
            SampleShare         server → client    twice, a number
            OwnRepresentatives  client → server    twice, p samples of all clients; RAW DATA
            Representatives     server → client    twice, p / 2 samples, then p; RAW DATA
            ProjectedSketch     client → server    once, p² floats
            Directions          server → client    once, p d floats
            of k-means          see daskfc.secure.kmeans; C d floats and more from clients
Departures  (1) Neither paper says how p divides: half are drawn by leverage, half by their distance
            to the first half's span. (2) The last sketch has a column for each representative;
            Appendix G states no number. (3) A client with too few samples draws fewer than its
            share, which makes p smaller. (4) See maths/kernel_pca.py.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from daskfc.baselines.kernels.kernel_methods import FederatedKernelClusterer, KernelChoice
from daskfc.baselines.maths.kernel_pca import (
    SpanOfSamples,
    drawn,
    embedded,
    leading_directions,
    leverage_factor,
    leverage_scores,
    shares,
    sketched,
)
from daskfc.checks import integer, optional
from daskfc.clustering.views.order import order_of_rows
from daskfc.federation import Federation, Local, Message, PerClient, Sent, array
from daskfc.federation.methods.parameters import param
from daskfc.federation.methods.samples import Labelled, LabelledSamples, NewStores, own_labels
from daskfc.federation.party.site_rules import FREE, SiteRules
from daskfc.federation.steps.rules import as_many_as_announced, takes
from daskfc.secure.kmeans import KMeansCenters, own_clusters
from daskfc.secure.sums import KernelWidth
from daskfc.seeds import integer_seed
from daskfc.stores import ClientStore


class PointSketch(
    Message,
    route="client → server",
    reveals="random combinations of a client's samples in the kernel's space; where it has fewer "
    "samples than that, the random features of each",
):
    """E T of a client: its embedded samples, sketched to a few columns."""

    sketch: np.ndarray = array("embedding", "column", dtype="float64")


class LeverageFactor(
    Message, route="server → client", reveals="in which directions all clients' samples spread"
):
    """Z^(-T), from which clients compute leverage scores."""

    factor: np.ndarray = array("rank", "embedding", dtype="float64")


class ScoreTotal(
    Message, route="client → server", reveals="how much a client's samples add to all others'"
):
    """The sum of a client's scores."""

    total: float


class SampleShare(
    Message, route="server → client", reveals="how much each client's own samples add, by a draw"
):
    """The number of representatives that a client draws."""

    n_samples: int


class OwnRepresentatives(
    Message,
    protection="raw",
    route="client → server",
    reveals="all features of the samples that were drawn",
):
    """Samples of a client, as they are."""

    rows: np.ndarray = array("representative", "feature", dtype="float64")


class Representatives(
    Message,
    protection="raw",
    route="server → client",
    reveals="all features of the samples that were drawn, to all clients",
):
    """The drawn samples of all clients, as they are: Y."""

    rows: np.ndarray = array("representative", "feature", dtype="float64")


class ProjectedSketch(
    Message,
    route="client → server",
    reveals="random combinations of a client's samples as the representatives see them; where it "
    "has fewer samples than that, each sample so seen",
):
    """Π T of a client: its projected samples, sketched to as many columns as representatives."""

    sketch: np.ndarray = array("representative", "column", dtype="float64")


class Directions(
    Message, route="server → client", reveals="the principal components over all clients"
):
    """W: principal components in the span of the representatives."""

    directions: np.ndarray = array("representative", "n_components", dtype="float64")


def embed(
    data: ClientStore,
    width: KernelWidth,
    *,
    choice: KernelChoice,
    n_features: int,
    embedding_size: int,
    random_state: int,
) -> np.ndarray:
    """Return E, (embedding_size, n), the embedded samples of a client, which stay there."""
    seed = integer_seed(random_state, "CE PCA")
    features = choice.of_width(width).features(n_features, seed, data.n_features)
    parts = [embedded(features, rows, embedding_size, seed) for _, rows in data.blocks()]
    return np.concatenate(parts, axis=1)


def point_sketch(E: np.ndarray, *, sketch_size: int, random_state: int, party: str) -> PointSketch:
    """Return a sketch of a client's embedded samples, for the server."""
    E = E[:, order_of_rows(E.T)]
    return PointSketch(sketched([E], E.shape[1], sketch_size, random_state, "points", party))


def factor_of_all(parts: Mapping[str, PointSketch]) -> LeverageFactor:
    """Factorise the sketches of all clients."""
    return LeverageFactor(leverage_factor(parts[name].sketch for name in sorted(parts)))


def leverage(E: np.ndarray, factor: LeverageFactor) -> np.ndarray:
    """Return the leverage scores of a client's samples, (n,); they stay there."""
    return leverage_scores(factor.factor, E)


def score_total(scores: np.ndarray) -> ScoreTotal:
    """Return the sum of a client's scores, for the server."""
    return ScoreTotal(float(scores.sum()))


def tell_shares(
    parts: Mapping[str, ScoreTotal], *, n_samples: int, random_state: int, what: str
) -> Mapping[str, SampleShare]:
    """Return the number of representatives for each client to draw."""
    names = sorted(parts)
    totals = np.array([parts[name].total for name in names])
    counts = shares(totals, n_samples, random_state, what)
    return {name: SampleShare(int(count)) for name, count in zip(names, counts, strict=True)}


def send_representatives(
    data: ClientStore,
    scores: np.ndarray,
    share: SampleShare,
    *,
    random_state: int,
    what: str,
    party: str,
) -> OwnRepresentatives:
    """Return samples drawn in proportion to their scores, for the server."""
    order = order_of_rows(scores[:, None])
    places = order[drawn(scores[order], share.n_samples, random_state, what, party)]
    rows = np.empty((len(places), data.n_features))
    for start, block in data.blocks():
        own = (places >= start) & (places < start + len(block))
        rows[own] = block[places[own] - start]
    return OwnRepresentatives(rows)


def tell_representatives(
    parts: Mapping[str, OwnRepresentatives], before: Representatives | None
) -> Representatives:
    """Join the clients' samples with those drawn before."""
    rows = [] if before is None else [before.rows]
    return Representatives(np.concatenate(rows + [parts[name].rows for name in sorted(parts)]))


def _span(found: Representatives, width: KernelWidth, choice: KernelChoice) -> SpanOfSamples:
    return SpanOfSamples(choice.of_width(width), found.rows)


def distances_to_span(
    data: ClientStore, found: Representatives, width: KernelWidth, *, choice: KernelChoice
) -> np.ndarray:
    """Return squared distances of a client's samples to the representatives' span, (n,)."""
    span = _span(found, width, choice)
    return np.concatenate([span.residuals(rows) for _, rows in data.blocks()])


def projected_sketch(
    data: ClientStore,
    found: Representatives,
    width: KernelWidth,
    *,
    choice: KernelChoice,
    random_state: int,
    party: str,
) -> ProjectedSketch:
    """Return a sketch of a client's samples, projected to the representatives' span."""
    span = _span(found, width, choice)
    projected = np.concatenate([span.projected(rows) for _, rows in data.blocks()], axis=1)
    projected = projected[:, order_of_rows(projected.T)]
    key = (random_state, "projections", party)
    return ProjectedSketch(sketched([projected], data.n_samples, len(found.rows), *key))


def tell_directions(parts: Mapping[str, ProjectedSketch], *, n_components: int) -> Directions:
    """Find the principal components of all clients' projected samples."""
    sketches = (parts[name].sketch for name in sorted(parts))
    return Directions(leading_directions(sketches, n_components))


def coordinates(
    data: ClientStore,
    found: Representatives,
    directions: Directions,
    width: KernelWidth,
    *,
    choice: KernelChoice,
) -> np.ndarray:
    """Return a client's samples on the principal components, (n, n_components); they stay there."""
    span, W = _span(found, width, choice), directions.directions
    return np.concatenate([span.projected(rows).T @ W for _, rows in data.blocks()])


@takes(centers=as_many_as_announced)
def _labelled_new(
    new: ClientStore,
    found: Representatives,
    directions: Directions,
    width: KernelWidth,
    centers: KMeansCenters,
    *,
    choice: KernelChoice,
    site: SiteRules = FREE,
) -> LabelledSamples:
    site.check_model(found.rows, directions.directions, centers.centers)
    rows = coordinates(new, found, directions, width, choice=choice)
    return own_labels(new, own_clusters(rows, centers))


class CEPCA(FederatedKernelClusterer):
    """Distributed kernel PCA of Balcan et al., then distributed linear k-means.

    Parameters
    ----------
    n_clusters : int
        Clusters over all clients.
    kernel : {"gaussian", "laplacian", "polynomial"}
        The kernel.
    kernel_width : float, optional
        r of ``exp(-|x - y|² / (2 r²))``, in units of the data; by default the root mean squared
        distance of all samples, computed by a masked sum.
    degree : int
        Degree of the polynomial kernel.
    n_features : int
        D, random features of a sample, from which its leverage is estimated.
    coreset_size : int
        C, rows of coordinates that all clients together send to the server.
    n_init : int
        Starts of k-means at the server.
    n_components : int, optional
        d, principal components; by default as many as clusters.
    embedding_size : int
        d_s, size of the sketch of a sample's random features.
    sketch_size : int
        d_p, columns of the sketch of a client's samples.
    n_representatives : int
        p, samples of all clients that every party gets.
    random_state : int, optional
        Seed of the algorithm.

    Attributes
    ----------
    labels_ : xarray.DataArray
        ``(sample,)`` int64; coordinates ``client`` and ``sample_id``.
    kernel_width_ : float
        The width in use.

    Notes
    -----
    Privacy: none for the representatives. Up to `n_representatives` samples reach the server and
    every other client in the clear, and the federation refuses that unless it was started with
    ``allow_raw=True``. A client with fewer samples than `sketch_size` also reveals the random
    features of each.

    Examples
    --------
    >>> from daskfc.baselines import CEPCA
    >>> CEPCA(10, n_representatives=300).get_params()["embedding_size"]
    50
    """

    needs_raw: ClassVar[bool] = True

    method_name: ClassVar[str] = "CE-PCA"
    n_components: int | None = param(optional(integer(low=1)), default=None)
    embedding_size: int = param(integer(low=1), default=50)
    sketch_size: int = param(integer(low=1), default=250)
    n_representatives: int = param(integer(low=2), default=500)

    def _fit(self, federation: Federation) -> PerClient[Sent]:
        self._check_raw(federation, "raw samples to the server and to all clients")
        with self._stage(federation, "representatives"):
            width = self._width(federation)
            found = self._representatives(federation, width)
        how: dict[str, Any] = {"choice": self._choice}
        with self._stage(federation, "components"):
            sketches = federation.ask(
                projected_sketch, found, width, random_state=self.seed_, **how
            )
            wanted = self.n_components or self.n_clusters
            directions = federation.tell(tell_directions, sketches, n_components=wanted)
            rows = federation.on_clients(coordinates, found, directions, width, **how)
            federation.wait(rows)
        with self._stage(federation, "k-means"):
            clusters = self._clusters(federation, rows)
            federation.wait(clusters.labels)
        self._fitted = (found, directions, width, clusters.told)
        labels = clusters.labels
        sent: PerClient[Sent] = federation.publish(own_labels, labels, party="clients", wait=False)
        return sent

    def _representatives(
        self, federation: Federation, width: KernelWidth | Sent[KernelWidth]
    ) -> Sent[Representatives]:
        """Draw half by leverage, half by distance to the first half's span; send them to all."""
        how: dict[str, Any] = {"choice": self._choice}
        seed = self.seed_
        E = federation.on_clients(
            embed,
            width,
            n_features=self.n_features,
            embedding_size=self.embedding_size,
            random_state=seed,
            **how,
        )
        sketches = federation.ask(point_sketch, E, sketch_size=self.sketch_size, random_state=seed)
        factor = federation.tell(factor_of_all, sketches)
        scores = federation.on_clients(leverage, E, factor)
        half = self.n_representatives // 2
        first = self._joined(federation, scores, half, "leverage", None)
        scores = federation.on_clients(distances_to_span, federation.tell(first), width, **how)
        rest = self.n_representatives - half
        return federation.tell(self._joined(federation, scores, rest, "distance", first))

    def _joined(
        self,
        federation: Federation,
        scores: PerClient[Local],
        n_samples: int,
        what: str,
        before: Local[Representatives] | None,
    ) -> Local[Representatives]:
        """Draw samples by scores; return them at the server, with those drawn before."""
        key: dict[str, Any] = {"random_state": self.seed_, "what": what}
        totals = federation.ask(score_total, scores)
        share = federation.tell(tell_shares, totals, n_samples=n_samples, **key)
        parts = federation.ask(send_representatives, scores, share, **key)
        return federation.on_server(tell_representatives, parts, before)

    def _predict(self, federation: Federation, new: NewStores) -> Labelled:
        """Label new samples with the nearest centre on the principal components."""
        return federation.publish(
            _labelled_new, new, *self._fitted, choice=self._choice, party=tuple(new), wait=False
        )
