"""The federated methods: one package for each, with the client's and the server's steps."""

from daskfc.protocols.esfmc import ESFMC
from daskfc.protocols.federated_kmeans import FederatedKMeans
from daskfc.protocols.federated_mixture import FederatedGaussianMixture
from daskfc.protocols.fedsc import FedSC
from daskfc.protocols.fk_kmeans import FederatedKernelKMeans
from daskfc.protocols.kcagc import KCAGC
from daskfc.protocols.omnifc import OmniFC

__all__ = [
    "ESFMC",
    "KCAGC",
    "METHODS",
    "FedSC",
    "FederatedGaussianMixture",
    "FederatedKMeans",
    "FederatedKernelKMeans",
    "OmniFC",
]

METHODS = {
    "FederatedKMeans": FederatedKMeans,
    "FederatedGaussianMixture": FederatedGaussianMixture,
    "OmniFC": OmniFC,
    "FedSC": FedSC,
    "FederatedKernelKMeans": FederatedKernelKMeans,
    "kCAGC": KCAGC,
    "ESFMC": ESFMC,
}
