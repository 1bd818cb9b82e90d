"""The federated methods, one paper each, both sides of it in one place."""

from daskfc.protocols.kcagc import KCAGC
from daskfc.protocols.omnifc import OmniFC

__all__ = ["KCAGC", "METHODS", "OmniFC"]

METHODS = {"OmniFC": OmniFC, "kCAGC": KCAGC}
