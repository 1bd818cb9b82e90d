"""The federated methods: one package for each paper, with the client's and the server's steps."""

from daskfc.protocols.esfmc import ESFMC
from daskfc.protocols.fedsc import FedSC
from daskfc.protocols.fk_kmeans import FederatedKernelKMeans
from daskfc.protocols.kcagc import KCAGC
from daskfc.protocols.omnifc import OmniFC

__all__ = ["ESFMC", "KCAGC", "METHODS", "FedSC", "FederatedKernelKMeans", "OmniFC"]

METHODS = {
    "OmniFC": OmniFC,
    "FedSC": FedSC,
    "FederatedKernelKMeans": FederatedKernelKMeans,
    "kCAGC": KCAGC,
    "ESFMC": ESFMC,
}
