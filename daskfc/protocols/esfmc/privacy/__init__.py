"""What ESFMC claims: the composition bound of Theorem 4.2."""

from daskfc.protocols.esfmc.privacy.composition import composed, printed_client_epsilon

__all__ = ["composed", "printed_client_epsilon"]
