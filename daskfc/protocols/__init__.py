"""The federated methods, one paper each, both sides of it in one place."""

from daskfc.protocols.fedsc import FedSC
from daskfc.protocols.fk_kmeans import FederatedKernelKMeans
from daskfc.protocols.kcagc import KCAGC
from daskfc.protocols.omnifc import OmniFC

__all__ = ["KCAGC", "METHODS", "FedSC", "FederatedKernelKMeans", "OmniFC"]

METHODS = {
    "OmniFC": OmniFC,
    "FedSC": FedSC,
    "FederatedKernelKMeans": FederatedKernelKMeans,
    "kCAGC": KCAGC,
}
