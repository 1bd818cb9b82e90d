"""Every number that a calculator or an attack takes is refused outside its range, by name."""

import re

import numpy as np
import pytest

from daskfc.errors import InvalidInput
from daskfc.protocols.fedsc.privacy import attacks, bounds, noise_scale

WIDTH = {"width": 1.0, "n_atoms": 2}
FACTORS = {"n_samples": 9, "n_features": 3, "coefficient_norm": 0.5, "residual": 0.1, **WIDTH}
RELEASE = {"epsilon": 0.5, "delta": 1e-5}

CALCULATORS = [
    ("Proposition 3.7", noise_scale.perturbed_data_sigma, {**RELEASE, "data_norm": 1.0}),
    ("Theorem 3.9", noise_scale.composed_sigma, {**RELEASE, "sensitivity": 1.0, "n_rounds": 3}),
    (
        "Lemma J.1",
        noise_scale.printed_coefficient_sensitivity,
        {"ridge": 0.1, "data_norm": 1.0, "reach": 2.0, **WIDTH},
    ),
    (
        "Lemma J.2",
        noise_scale.printed_dictionary_sensitivity,
        {
            "step": 0.1,
            "coefficient_norm": 1.0,
            "data_norm": 1.0,
            "dictionary_norm": 1.0,
            "reach": 2.0,
            **WIDTH,
        },
    ),
    (
        "the sensitivity of Z",
        noise_scale.gradient_sensitivity,
        {"step": 0.1, "ridge": 0.1, **WIDTH},
    ),
    (
        "the bound of Theorem 3.1",
        bounds.perturbed_data_bound,
        {"data_sigma": 0.1, "data_norm": 1.0, "failure": 0.1, **FACTORS},
    ),
    (
        "the bound of Theorem 3.8",
        bounds.perturbed_factors_bound,
        {"dictionary_sigma": 0.1, "coefficient_sigma": 0.1, "failure": 0.1, **FACTORS},
    ),
    (
        "the attack on C",
        lambda **numbers: attacks.cluster_coefficients(np.eye(4), **numbers),
        {"n_clusters": 2, "seed": 0, "n_init": 1},
    ),
    (
        "the reconstruction attack",
        lambda **numbers: attacks.reconstruct_rows(np.eye(2), np.eye(2), **numbers),
        {"width": 1.0, "ridge": 0.1, "max_iter": 1},
    ),
]


@pytest.mark.parametrize(
    ("owner", "calculator", "numbers", "name"),
    [
        pytest.param(owner, calculator, numbers, name, id=f"{owner}-{name}")
        for owner, calculator, numbers in CALCULATORS
        for name in numbers
    ],
)
def test_a_number_outside_its_range_is_refused_by_name(owner, calculator, numbers, name):
    calculator(**numbers)
    if owner == "Proposition 3.7" and name in RELEASE:
        owner = "the Gaussian mechanism"  # whose formula it is
    with pytest.raises(InvalidInput, match=f"^the '{name}' parameter of {re.escape(owner)} must"):
        calculator(**{**numbers, name: -1})


@pytest.mark.parametrize("bound", [bounds.perturbed_data_bound, bounds.perturbed_factors_bound])
def test_a_bound_fails_once_in_twenty_by_default(bound):
    numbers = next(numbers for _, calculator, numbers in CALCULATORS if calculator is bound)
    default = {name: number for name, number in numbers.items() if name != "failure"}
    assert bound(**default) == bound(**default, failure=0.05) != bound(**numbers)
