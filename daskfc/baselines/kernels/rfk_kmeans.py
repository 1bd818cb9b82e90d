"""RFK k-means: random features of a kernel, then distributed linear k-means on them.

Paper       R. Chitta, R. Jin, A. K. Jain, "Efficient kernel clustering using random Fourier
            features", ICDM 2012, distributed as in the comparison of A Communication Efficient
            Federated Kernel k-means (Appendix G): k-means by the coresets of M.-F. Balcan,
            S. Ehrlich, Y. Liang, NeurIPS 2013.
Notation    paper    here                 shape, range
            D        n_features           int ≥ 1
            C        coreset_size         int ≥ 0, of all clients
            γ        1 / (2 width²)
Messages    KernelWidth    server → client, caller   once, if no width is given, after one sum
            of k-means     see daskfc.secure.kmeans  once; C D floats and more from clients
            KMeansCenters  server → caller           once
Departures  (1) Laplacian kernels have random Fourier features too; polynomial kernels have
            TensorSketch's. (2) The paper computes the width from all data; here it follows from a
            masked sum.
"""

from typing import ClassVar

import numpy as np

from daskfc.baselines.kernels.kernel_methods import FederatedKernelClusterer, KernelChoice
from daskfc.federation import Federation, PerClient, Sent
from daskfc.federation.methods.samples import Labelled, LabelledSamples, NewStores, own_labels
from daskfc.secure.kmeans import nearest_labels
from daskfc.secure.sums import KernelWidth
from daskfc.seeds import integer_seed
from daskfc.stores import ClientStore


def feature_rows(
    data: ClientStore,
    width: KernelWidth,
    *,
    choice: KernelChoice,
    n_features: int,
    random_state: int,
) -> np.ndarray:
    """Return random features ``(n, D)`` of a client's samples, the same draw for all clients."""
    seed = integer_seed(random_state, "RFK k-means")
    features = choice.of_width(width).features(n_features, seed, data.n_features)
    rows = np.empty((data.n_samples, n_features))
    for start, block in data.blocks():
        rows[start : start + len(block)] = features.of(block)
    return rows


def feature_labels(
    new: ClientStore,
    width: KernelWidth,
    centers: np.ndarray,
    *,
    choice: KernelChoice,
    random_state: int,
) -> LabelledSamples:
    """Label new samples with the nearest of ``(n_clusters, D)`` centres of random features."""
    rows = feature_rows(
        new, width, choice=choice, n_features=centers.shape[1], random_state=random_state
    )
    return own_labels(new, nearest_labels(rows, centers))


class RFKKMeans(FederatedKernelClusterer):
    """Distributed kernel k-means with random features.

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
        D, random features of a sample.
    coreset_size : int
        C, rows of random features that all clients together send to the server.
    n_init : int
        Starts of k-means at the server.
    random_state : int, optional
        Seed of the algorithm.

    Attributes
    ----------
    labels_ : xarray.DataArray
        ``(sample,)`` int64; coordinates ``client`` and ``sample_id``.
    cluster_centers_ : numpy.ndarray
        ``(n_clusters, D)`` float64, in the space of random features.
    kernel_width_ : float
        The width in use.

    Notes
    -----
    Privacy: the server sees the random features of `coreset_size` samples and each client's own
    centres of them. It knows the draw, and with D above the number of columns it can solve for the
    samples themselves: treat what is sent as raw. The ledger lists it as ``CoresetPart``.

    Examples
    --------
    >>> from daskfc.baselines import RFKKMeans
    >>> RFKKMeans(10, n_features=800).get_params()["coreset_size"]
    1000
    """

    method_name: ClassVar[str] = "RFK-k-means"
    model_at_parties: ClassVar = False

    cluster_centers_: np.ndarray

    def _fit(self, federation: Federation) -> PerClient[Sent]:
        with self._stage(federation, "features"):
            rows = federation.on_clients(
                feature_rows,
                self._width(federation),
                choice=self._choice,
                n_features=self.n_features,
                random_state=self.seed_,
            )
            federation.wait(rows)
        with self._stage(federation, "k-means"):
            clusters = self._clusters(federation, rows)
            self.cluster_centers_ = federation.publish(clusters.centers).centers
        labels = clusters.labels
        sent: PerClient[Sent] = federation.publish(own_labels, labels, party="clients", wait=False)
        return sent

    def _predict(self, federation: Federation, new: NewStores) -> Labelled:
        """Label new samples with the nearest of ``cluster_centers_``."""
        return federation.publish(
            feature_labels,
            new,
            KernelWidth(self.kernel_width_),
            self.cluster_centers_,
            choice=self._choice,
            random_state=self.seed_,
            party=tuple(new),
            wait=False,
        )
