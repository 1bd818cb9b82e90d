"""Differential privacy by Gaussian noise, its accounting, measures of leakage, and attacks."""

from daskfc.privacy.accounting import Accountant, GaussianEvent, noise_multiplier
from daskfc.privacy.asked import asked_noise, budget_left, multiplier_of_each
from daskfc.privacy.attacks import (
    SubsetTerms,
    averaged_releases,
    guesses_behind,
    holders_by_order,
    rows_between_sums,
    rows_by_centres,
    rows_by_distances,
    terms_of_subset_sums,
)
from daskfc.privacy.gaussian import (
    classical_sigma,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_sigma,
)
from daskfc.privacy.leakage import entropy, mutual_information, privacy_leakage, privacy_level
from daskfc.privacy.mechanism import (
    REACH_OF_NOISE,
    RandomWords,
    add_gaussian_noise,
    clip_matrix,
    clip_rows,
    input_digest,
    noise_label,
    normal_deviates,
)
from daskfc.privacy.noised import Noised, Part, noise_of_part, with_noise_share

__all__ = [
    "REACH_OF_NOISE",
    "Accountant",
    "GaussianEvent",
    "Noised",
    "Part",
    "RandomWords",
    "SubsetTerms",
    "add_gaussian_noise",
    "asked_noise",
    "averaged_releases",
    "budget_left",
    "classical_sigma",
    "clip_matrix",
    "clip_rows",
    "entropy",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_sigma",
    "guesses_behind",
    "holders_by_order",
    "input_digest",
    "multiplier_of_each",
    "mutual_information",
    "noise_label",
    "noise_multiplier",
    "noise_of_part",
    "normal_deviates",
    "privacy_leakage",
    "privacy_level",
    "rows_between_sums",
    "rows_by_centres",
    "rows_by_distances",
    "terms_of_subset_sums",
    "with_noise_share",
]
