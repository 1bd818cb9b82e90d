"""Fig. 3: normalised mutual information beside uploads, of ours and of what it is compared with.

A fit's eigenpairs of iteration t do not depend on T, so that one fit serves all T: its clients make
the coordinates that t iterations give from what the server told them, and cluster these, as a fit
that ended there would have.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from daskfc import seeds
from daskfc.baselines import CEPCA, Central, RFKKMeans
from daskfc.federation import Federation
from daskfc.federation.methods.estimator import FederatedClusterer, labels_array
from daskfc.federation.methods.samples import own_labels
from daskfc.protocols import FederatedKernelKMeans
from daskfc.protocols.fk_kmeans.features import FeatureSettings
from daskfc.secure.kmeans import open_kmeans
from daskfc.stores import ClientStore
from pipelines.papers.fk_kmeans.data import Dataset, Pool
from pipelines.papers.fk_kmeans.fits import VERSIONS, fitted, settings_of
from pipelines.papers.fk_kmeans.recovery import prefix_coordinates, prefix_weights
from pipelines.papers.fk_kmeans.uploads import floats_of, uploaded, uploads_by_round
from pipelines.papers.fk_kmeans.values import CE_PCA, CORESET, RFK_CORESETS, RFK_FEATURES
from pipelines.papers.journal import Record

__all__ = [
    "METHODS",
    "ON_SUMS",
    "OURS",
    "central",
    "clusters_of_prefixes",
    "on_sums",
    "others",
    "ours",
]

Floats = NDArray[np.float64]

OURS = {"FK k-means, Lanczos": "CEM, Lanczos", "FK k-means, one sum": "CEM, one sum"}
ON_SUMS = "FK k-means, k-means on sums"  # ours: all rows of H are clustered, none is sent
METHODS = (*OURS, ON_SUMS, "RFK k-means", "CE PCA", "CK k-means", "SK k-means")


def prefix_rows(
    data: ClientStore, *, weights: Sequence[Floats], settings: FeatureSettings, width: float
) -> Floats:
    """Return H_t[m] for several t, (prefixes, n, s), which stay at the client."""
    blocks = [prefix_coordinates(rows, weights, settings, width) for _, rows in data.blocks()]
    return np.concatenate(blocks, axis=1)


def rows_of_one(rows: Floats, *, index: int) -> Floats:
    """Return H_t[m] of one t."""
    one: Floats = rows[index]
    return one


def clusters_of_prefixes(
    model: FederatedKernelKMeans, federation: Federation, prefixes: Sequence[int]
) -> Iterator[tuple[int, xr.DataArray]]:
    """Cluster what fits of fewer iterations would have, each in a round of its own.

    Parameters
    ----------
    model : FederatedKernelKMeans
        Fitted, with coresets.
    federation : Federation
        In the run of the fit.
    prefixes : sequence of int
        t.

    Yields
    ------
    round : int
        Of the messages of this clustering.
    labels : xarray.DataArray
        As `labels_` of a fit.
    """
    s = model.n_eigenvectors or model.n_clusters
    rows = federation.on_clients(
        prefix_rows,
        weights=prefix_weights(model.eigenpairs_, prefixes, model.n_features, s),
        settings=settings_of(model),
        width=model.kernel_width_,
    )
    seed = seeds.integer_seed(model.random_state, "FK k-means", "clustering")
    for index in range(len(prefixes)):
        number = federation.next_round()
        kmeans = open_kmeans(
            federation,
            "coreset",
            n_clusters=model.n_clusters,
            seed=seed,
            n_init=model.n_init,
            coreset_size=model.coreset_size,
        )
        labels = kmeans.fit(federation.on_clients(rows_of_one, rows, index=index)).labels
        told = federation.publish(own_labels, labels, party="clients")
        yield number, labels_array(dict(told.items()))


def ours(
    federation: Federation, pool: Pool, data: Dataset, method: str, seed: int, ends: Sequence[int]
) -> Iterator[Record]:
    """Yield the records of one fit: NMI and uploads for every T, what is asked for included."""
    own = max(ends)
    model = fitted(federation, data, seed, own, **VERSIONS[OURS[method]])
    found = {own: (own + 1, model.labels_)}
    shorter = [t for t in ends if t != own]
    if shorter:
        clustered = clusters_of_prefixes(model, federation, shorter)
        found |= dict(zip(shorter, clustered, strict=True))
    uploads = uploads_by_round(federation.ledger)
    for t in sorted(found):
        number, labels = found[t]
        iterations = sum(uploads[i].floats for i in range(t + 1) if i in uploads)
        yield {
            "kind": "quality",
            "data": data.name,
            "method": method,
            "setting": f"T = {t}",
            "T": t,
            "seed": seed,
            "floats": iterations + uploads[number].floats,
            "clustering_floats": uploads[number].floats,
            "nmi": pool.nmi(labels),
            "seconds": model.timing_["total_s"],
        }


def _judged(model: FederatedClusterer, federation: Federation, pool: Pool) -> Record:
    model.fit(federation)
    return {
        "floats": sum(map(floats_of, uploaded(model.ledger_))),
        "nmi": pool.nmi(model.labels_),
        "seconds": model.timing_["total_s"],
    }


def on_sums(
    federation: Federation, pool: Pool, data: Dataset, seed: int, iterations: int
) -> Iterator[Record]:
    """Yield the record of one fit whose rows of H are clustered by secure sums, not by coresets."""
    model = fitted(
        federation, data, seed, iterations, **VERSIONS["CEM, one sum"], clustering="sums"
    )
    yield {
        "kind": "quality",
        "data": data.name,
        "method": ON_SUMS,
        "setting": f"T = {iterations}",
        "T": iterations,
        "seed": seed,
        "floats": sum(map(floats_of, uploaded(model.ledger_))),
        "nmi": pool.nmi(model.labels_),
        "seconds": model.timing_["total_s"],
    }


def others(
    federation: Federation, pool: Pool, data: Dataset, method: str, seed: int
) -> Iterator[Record]:
    """Yield the records of RFK k-means or CE PCA with the hyper-parameters of Appendix G."""
    k, s = data.setting.n_clusters, data.setting.n_eigenvectors
    models: dict[str, FederatedClusterer] = {}
    rfk: Callable[..., FederatedClusterer] = RFKKMeans
    ce_pca: Callable[..., FederatedClusterer] = CEPCA
    if method == "RFK k-means":
        for size in RFK_CORESETS[data.name]:
            models[f"C = {size}"] = rfk(
                k,
                n_features=RFK_FEATURES[data.name],
                coreset_size=size,
                random_state=seed,
            )
    else:
        for n_features in CE_PCA[data.name]:
            models[f"D = {n_features}"] = ce_pca(
                k,
                n_components=s,
                n_features=n_features,
                coreset_size=CORESET,
                random_state=seed,
            )
    about = {"kind": "quality", "data": data.name, "method": method, "seed": seed}
    for setting, model in models.items():
        yield {**about, "setting": setting, **_judged(model, federation, pool)}


def central(
    federation: Federation, pool: Pool, data: Dataset, method: str, seed: int
) -> Iterator[Record]:
    """Yield the record of CK or SK k-means on pooled rows."""
    name = {"CK k-means": "kernel-k-means", "SK k-means": "nystroem-k-means"}[method]
    clusterer = {name: {"n_eigenvectors": data.setting.n_eigenvectors}}
    model = Central(data.setting.n_clusters, clusterer=clusterer, random_state=seed)
    about = {"kind": "quality", "data": data.name, "method": method, "seed": seed}
    yield {**about, "setting": "pooled rows", **_judged(model, federation, pool)}
