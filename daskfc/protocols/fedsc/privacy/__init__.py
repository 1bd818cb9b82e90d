"""The privacy of FedSC: noise scales, bounds on errors, and attacks that measure leakage."""

from daskfc.protocols.fedsc.privacy.attacks import cluster_coefficients, reconstruct_rows
from daskfc.protocols.fedsc.privacy.bounds import (
    feature_residual,
    perturbed_data_bound,
    perturbed_factors_bound,
)
from daskfc.protocols.fedsc.privacy.noise_scale import (
    coefficient_sensitivity,
    composed_sigma,
    gradient_sensitivity,
    perturbed_data_sigma,
    printed_coefficient_sensitivity,
    printed_dictionary_sensitivity,
)

__all__ = [
    "cluster_coefficients",
    "coefficient_sensitivity",
    "composed_sigma",
    "feature_residual",
    "gradient_sensitivity",
    "perturbed_data_bound",
    "perturbed_data_sigma",
    "perturbed_factors_bound",
    "printed_coefficient_sensitivity",
    "printed_dictionary_sensitivity",
    "reconstruct_rows",
]
