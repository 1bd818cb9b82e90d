"""Every parameter of every formula is held to its range, by name, and its limits are allowed."""

import math

import numpy as np
import pytest

from daskfc.errors import InvalidInput
from daskfc.privacy import (
    Accountant,
    GaussianEvent,
    add_gaussian_noise,
    classical_sigma,
    clip_matrix,
    clip_rows,
    entropy,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_sigma,
    mutual_information,
    noise_multiplier,
    privacy_leakage,
    privacy_level,
)
from daskfc.privacy.ranges import check
from daskfc.protocols.fedsc.privacy.attacks import cluster_coefficients, reconstruct_rows
from daskfc.protocols.fedsc.privacy.bounds import perturbed_data_bound, perturbed_factors_bound
from daskfc.protocols.fedsc.privacy.noise_scale import (
    coefficient_sensitivity,
    composed_sigma,
    gradient_sensitivity,
    perturbed_data_sigma,
    printed_coefficient_sensitivity,
    printed_dictionary_sensitivity,
)
from tests.oracles.fedsc_margin import (
    clustering_margin,
    correctly_clustered,
    printed_clustering_margin,
)
from tests.oracles.fedsc_utility import (
    largest_coefficient_sigma,
    largest_data_sigma,
    largest_dictionary_sigma,
    perturbed_data_interval,
    perturbed_factors_interval,
)

NAN, INF = float("nan"), float("inf")
SHARE = (0.0, 1.0, 1, -0.1, NAN, "0.5", None)
POSITIVE = (0.0, -1.0, INF, NAN, "1", True, None)
FROM_ZERO = (-1e-9, INF, NAN, "1", True, None)
COUNT = (0, -1, 2.0, "2", True, None)
WRONG = {"delta": SHARE, "failure": SHARE}
WRONG |= dict.fromkeys(("max_iter", "seed"), (-1, 2.0, "2", True, None))
WRONG |= dict.fromkeys(("n_atoms", "n_features", "n_samples", "n_rounds", "n_clusters"), COUNT)
WRONG |= {"count": COUNT, "n_neighbors": COUNT[:-1]}
WRONG |= {"n_neighbours": COUNT, "n_bins": COUNT, "estimator": ("exact", "Nearest", None)}
WRONG |= dict.fromkeys(
    ("tolerance", "residual", "reach", "coefficient_norm", "dictionary_norm"), FROM_ZERO
)
WRONG |= dict.fromkeys(("data_sigma", "dictionary_sigma", "coefficient_sigma"), FROM_ZERO)

GAUSS, EVENTS = "the Gaussian mechanism", Accountant((GaussianEvent(3.0),))
BUDGET = {"epsilon": 0.5, "delta": 1e-5}
COSTS = {"width": 1.5, "n_samples": 9, "n_features": 3, "n_atoms": 4, "coefficient_norm": 0.7}
COSTS |= {"residual": 0.01, "failure": 0.01}
ON_DATA = COSTS | {"data_norm": 1.2}
NOISES = {"dictionary_sigma": 0.01, "coefficient_sigma": 0.01}
SIZES = {"step": 0.1, "width": 1.5, "n_atoms": 4}
NORMS = {"data_norm": 1.2, "reach": 2.0}
CLOSE = np.array([[1.0, 0.9, 0.5], [0.9, 1.0, 0.5], [0.5, 0.5, 1.0]])
CLASSES = {"kernel": CLOSE, "labels": [0, 0, 1], "n_neighbors": 2, "tolerance": 0.1}
PAIRS = {"X": np.arange(9.0), "Y": np.arange(9.0) ** 2, "n_neighbours": 3, "n_bins": 4}
PAIRS |= {"estimator": "nearest"}
FACTORS = {"Z": np.eye(3), "C": np.eye(3) + 0.1}
THEOREM_1 = dict.fromkeys(ON_DATA, "the bound of Theorem 3.1")
THEOREM_8 = dict.fromkeys(COSTS | NOISES, "the bound of Theorem 3.8")
MARGIN_6 = {"n_neighbors": "Definition 3.5"}

# the function, arguments it takes, whose its parameters are, those with another owner
FORMULAS = [
    (gaussian_delta, {"epsilon": 0.5, "sigma": 2.0, "sensitivity": 1.0}, GAUSS, {}),
    (gaussian_epsilon, {"sigma": 2.0, "delta": 0.1, "sensitivity": 1.0}, GAUSS, {}),
    (gaussian_sigma, BUDGET | {"sensitivity": 1.0}, GAUSS, {}),
    (classical_sigma, BUDGET | {"sensitivity": 1.0}, GAUSS, {}),
    (noise_multiplier, BUDGET | {"n_rounds": 3}, "noise_multiplier", {}),
    (GaussianEvent, {"noise_multiplier": 2.0, "count": 3}, "GaussianEvent", {}),
    (Accountant().epsilon, {"delta": 1e-5}, "the accountant", {}),
    (Accountant().delta, {"epsilon": 0.5}, "the accountant", {}),
    (EVENTS.epsilon, {"delta": 1e-5}, "the accountant", {}),
    (clip_rows, {"X": np.eye(2), "bound": 0.5}, "clipping", {}),
    (clip_matrix, {"Z": np.eye(2), "bound": 0.5}, "clipping", {}),
    (add_gaussian_noise, {"values": np.eye(2), "sigma": 0.5}, GAUSS, {}),
    (
        perturbed_data_sigma,
        BUDGET | {"data_norm": 1.2},
        GAUSS,
        {"data_norm": "Proposition 3.7"},
    ),
    (composed_sigma, BUDGET | {"sensitivity": 1.0, "n_rounds": 3}, "Theorem 3.9", {}),
    (
        printed_coefficient_sensitivity,
        NORMS | {"ridge": 0.1, "width": 1.5, "n_atoms": 4},
        "Lemma J.1",
        {},
    ),
    (coefficient_sensitivity, {"ridge": 0.1}, "the sensitivity of C", {}),
    (
        printed_dictionary_sensitivity,
        SIZES | NORMS | {"coefficient_norm": 0.7, "dictionary_norm": 2.0},
        "Lemma J.2",
        {},
    ),
    (gradient_sensitivity, SIZES | {"ridge": 0.1}, "the sensitivity of Z", {}),
    (perturbed_data_bound, ON_DATA | {"data_sigma": 0.1}, "the bound of Theorem 3.1", {}),
    (perturbed_factors_bound, COSTS | NOISES, "the bound of Theorem 3.8", {}),
    (largest_data_sigma, ON_DATA | {"margin": 0.3}, "Eq. (30)", THEOREM_1),
    (
        perturbed_data_interval,
        ON_DATA | BUDGET | {"margin": 0.3, "clip_norm": 1.2},
        "Eq. (31)",
        THEOREM_1 | {"margin": "Eq. (30)", "epsilon": GAUSS, "delta": GAUSS},
    ),
    (perturbed_factors_interval, COSTS | NOISES | {"margin": 0.3}, "Eq. (36)", THEOREM_8),
    (
        largest_dictionary_sigma,
        COSTS | {"margin": 0.3, "coefficient_sigma": 0.01},
        "Eq. (36)",
        THEOREM_8,
    ),
    (
        largest_coefficient_sigma,
        COSTS | {"margin": 0.3, "dictionary_sigma": 0.01},
        "Eq. (36)",
        THEOREM_8,
    ),
    (correctly_clustered, CLASSES | {"similarity": CLOSE}, "Definition 3.5", {}),
    (clustering_margin, CLASSES, "the margin of Theorem 3.6", MARGIN_6),
    (printed_clustering_margin, CLASSES, "the margin of Theorem 3.6", MARGIN_6),
    (entropy, {name: PAIRS[name] for name in PAIRS if name != "X"}, "a leakage measure", {}),
    (mutual_information, PAIRS, "a leakage measure", {}),
    (privacy_level, PAIRS, "a leakage measure", {}),
    (privacy_leakage, PAIRS, "a leakage measure", {}),
    (cluster_coefficients, {"C": np.eye(3), "n_clusters": 2, "seed": 0}, "the attack on C", {}),
    (
        reconstruct_rows,
        FACTORS | {"width": 1.5, "ridge": 0.1, "max_iter": 2},
        "the reconstruction attack",
        {},
    ),
]
PARAMETERS = [
    pytest.param(function, known, name, owners.get(name, owner), id=f"{function.__name__}-{name}")
    for function, known, owner, owners in FORMULAS
    for name, value in known.items()
    if isinstance(value, int | float | str)
]


@pytest.mark.parametrize(("function", "known", "name", "owner"), PARAMETERS)
def test_a_parameter_outside_its_range_is_named_with_its_formula(function, known, name, owner):
    function(**known)
    for wrong in WRONG.get(name, POSITIVE):
        with pytest.raises(InvalidInput) as error:
            function(**(known | {name: wrong}))
        assert f"the {name!r} parameter of {owner} must be " in str(error.value)


LEAST = dict.fromkeys(
    ("n_rounds", "count", "n_samples", "n_features", "n_atoms", "n_bins", "n_clusters"), 1
)
LEAST |= {"max_iter": 0, "seed": 0, "n_neighbours": 1}
LEAST |= {name: 0 for name, wrong in WRONG.items() if wrong is FROM_ZERO}


@pytest.mark.parametrize(
    ("function", "known", "name"),
    [
        pytest.param(*parameter.values[:3], id=parameter.id)
        for parameter in PARAMETERS
        if parameter.values[2] in LEAST
    ],
)
def test_the_least_of_a_range_is_allowed(function, known, name):
    function(**(known | {name: LEAST[name]}))


@pytest.mark.parametrize(
    ("function", "known"), [pytest.param(f, known, id=f.__name__) for f, known, _, _ in FORMULAS]
)
def test_defaults_are_those_of_the_documentation(function, known):
    """What may be left out is worth what is written there."""
    written = {"failure": 0.05, "tolerance": 0.0, "count": 1, "n_neighbours": 3, "n_bins": 16}
    written |= {"estimator": "nearest", "n_neighbors": None, "max_iter": 50}
    if function is noise_multiplier:
        written["n_rounds"] = 1
    options = {name: value for name, value in written.items() if name in known}
    required = {name: value for name, value in known.items() if name not in options}
    if function is add_gaussian_noise:  # never the same twice
        return
    np.testing.assert_equal(function(**required), function(**required, **options))


def test_restarts_of_the_attack_on_c_and_the_largest_seed():
    with pytest.raises(InvalidInput, match="'n_init' parameter of the attack on C must be"):
        cluster_coefficients(np.eye(3), 2, 0, n_init=0)
    with pytest.raises(InvalidInput, match="'seed' parameter of the attack on C must be"):
        cluster_coefficients(np.eye(3), 2, 2**32)
    assert len(cluster_coefficients(np.eye(3), 2, 2**32 - 1)) == 3


def test_a_leakage_needs_samples():
    for measure in (entropy, lambda none, **options: mutual_information(none, none, **options)):
        with pytest.raises(InvalidInput, match=r"of a leakage measure must have shape"):
            measure(np.empty((0, 2)), estimator="histogram")


@pytest.mark.parametrize("spread", [0.0, -1.0, NAN])
def test_a_spread_is_above_0_and_may_be_infinite(spread):
    with pytest.raises(InvalidInput, match="'spread' parameter of the sensitivity of C"):
        coefficient_sensitivity(0.1, spread=spread)
    assert math.isfinite(coefficient_sensitivity(0.1, spread=INF))


def test_a_name_without_a_range_is_no_parameter():
    with pytest.raises(InvalidInput, match="clipping has no parameter 'bounds'"):
        check("clipping", bounds=1.0)
