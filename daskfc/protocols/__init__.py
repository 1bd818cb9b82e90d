"""The federated methods, one paper each, both sides of it in one place."""

from daskfc.protocols.fedsc import FedSC
from daskfc.protocols.kcagc import KCAGC
from daskfc.protocols.omnifc import OmniFC

__all__ = ["KCAGC", "METHODS", "FedSC", "OmniFC"]

METHODS = {"OmniFC": OmniFC, "FedSC": FedSC, "kCAGC": KCAGC}
