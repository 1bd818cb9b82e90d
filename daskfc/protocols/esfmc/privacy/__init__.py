"""The privacy of ESFMC: the bound of Theorem 4.2, and model inversion, which measures leakage."""

from daskfc.protocols.esfmc.privacy.composition import composed, printed_client_epsilon
from daskfc.protocols.esfmc.privacy.inversion import inversion_error

__all__ = ["composed", "inversion_error", "printed_client_epsilon"]
