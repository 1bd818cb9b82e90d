"""Privacy: measures of leakage."""

from daskfc.privacy.leakage import entropy, mutual_information, privacy_leakage, privacy_level

__all__ = ["entropy", "mutual_information", "privacy_leakage", "privacy_level"]
