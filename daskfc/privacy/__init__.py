"""Privacy: Gaussian mechanisms and what they cost, FedSC's noise, measures of leakage, attacks."""

from daskfc.privacy.accounting import Accountant, GaussianEvent, noise_multiplier
from daskfc.privacy.attacks import cluster_coefficients, reconstruct_rows
from daskfc.privacy.fedsc_bounds import (
    feature_residual,
    perturbed_data_bound,
    perturbed_factors_bound,
)
from daskfc.privacy.fedsc_margin import (
    clustering_margin,
    correctly_clustered,
    printed_clustering_margin,
)
from daskfc.privacy.fedsc_noise import (
    coefficient_sensitivity,
    composed_sigma,
    gradient_sensitivity,
    perturbed_data_sigma,
    printed_coefficient_sensitivity,
    printed_dictionary_sensitivity,
)
from daskfc.privacy.fedsc_utility import (
    largest_coefficient_sigma,
    largest_data_sigma,
    largest_dictionary_sigma,
    perturbed_data_interval,
    perturbed_factors_interval,
)
from daskfc.privacy.gaussian import (
    classical_sigma,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_sigma,
)
from daskfc.privacy.leakage import entropy, mutual_information, privacy_leakage, privacy_level
from daskfc.privacy.mechanism import (
    RandomWords,
    add_gaussian_noise,
    clip_matrix,
    clip_rows,
    input_digest,
    noise_label,
    normal_deviates,
)

__all__ = [
    "Accountant",
    "GaussianEvent",
    "RandomWords",
    "add_gaussian_noise",
    "classical_sigma",
    "clip_matrix",
    "clip_rows",
    "cluster_coefficients",
    "clustering_margin",
    "coefficient_sensitivity",
    "composed_sigma",
    "correctly_clustered",
    "entropy",
    "feature_residual",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_sigma",
    "gradient_sensitivity",
    "input_digest",
    "largest_coefficient_sigma",
    "largest_data_sigma",
    "largest_dictionary_sigma",
    "mutual_information",
    "noise_label",
    "noise_multiplier",
    "normal_deviates",
    "perturbed_data_bound",
    "perturbed_data_interval",
    "perturbed_data_sigma",
    "perturbed_factors_bound",
    "perturbed_factors_interval",
    "printed_clustering_margin",
    "printed_coefficient_sensitivity",
    "printed_dictionary_sensitivity",
    "privacy_leakage",
    "privacy_level",
    "reconstruct_rows",
]
