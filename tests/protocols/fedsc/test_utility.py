import numpy as np
import pytest
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

from daskfc.errors import InvalidInput
from daskfc.protocols.fedsc.privacy.bounds import perturbed_data_bound, perturbed_factors_bound
from tests.oracles import privacy as oracle
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

SEEDS = st.integers(0, 10_000)
DATA = {"width": 2.0, "n_samples": 50, "n_features": 30, "n_atoms": 8, "data_norm": 1.5}
DATA |= {"coefficient_norm": 0.7, "residual": 0.02, "failure": 0.01}
FACTORS = {name: value for name, value in DATA.items() if name != "data_norm"}


def samples(seed, *, n=24, gap=3.0):
    """Samples of three classes, the kernel, and the classes."""
    random = np.random.default_rng(seed)
    y = random.permutation(np.arange(n) % 3)
    X = gap * np.eye(3, 4)[y] + 0.4 * random.normal(size=(n, 4))
    return oracle.kernel(X, X, 2.0), y


def by_definition(K_hat, K, y, k, tolerance):
    """Definition 3.5 with its sets (26) and (28), sample by sample, (a) and (b) apart."""
    correct = []
    for i in range(len(K)):
        others = sorted((j for j in range(len(K)) if j != i), key=lambda j: (-K[i, j], j))[:k]
        intra = [K_hat[i, j] for j in others if y[j] == y[i]]
        inter = [K_hat[i, j] for j in others if y[j] != y[i]]
        a = all(value >= max(inter, default=-np.inf) - tolerance for value in intra)
        b = all(value <= min(intra, default=np.inf) + tolerance for value in inter)
        correct.append(a and b)
    return correct


@given(SEEDS, st.sampled_from([1, 3, 8, 23, 40]), st.sampled_from([0.0, 0.05]), st.floats(0, 0.3))
@settings(max_examples=60, deadline=None)
def test_correct_clustering_is_definition_3_5(seed, k, tolerance, size):
    K, y = samples(seed, gap=1.0)
    K_hat = K + size * np.random.default_rng(seed).uniform(-1, 1, K.shape)
    got = correctly_clustered(K_hat, K, y, n_neighbors=k, tolerance=tolerance)
    assert got.tolist() == by_definition(K_hat, K, y, k, tolerance)
    if k >= len(K) - 1:
        assert got.tolist() == correctly_clustered(K_hat, K, y, tolerance=tolerance).tolist()


@given(SEEDS, st.sampled_from([5, 12, None]), st.sampled_from([0.0, 0.2, 1.0]))
@settings(max_examples=60, deadline=None)
def test_errors_up_to_the_margin_do_no_harm_and_larger_ones_can(seed, k, tolerance):
    K, y = samples(seed, gap=2.0)
    known = {"n_neighbors": k, "tolerance": tolerance}
    try:
        margin = clustering_margin(K, y, **known)
    except InvalidInput:  # no sample has neighbours of both kinds
        reject()
    assume(margin > 0)
    same = y[:, None] == y
    random = np.random.default_rng(seed)
    worst = np.where(same, -1.0, 1.0)  # the class's own less similar, the others more
    for error in (random.uniform(-1, 1, K.shape), worst):
        assert correctly_clustered(K + 0.999999 * margin * error, K, y, **known).all()
    assert not correctly_clustered(K + 1.000001 * margin * worst, K, y, **known).all()


@given(SEEDS, st.sampled_from([0.0, 0.2]))
@settings(max_examples=40, deadline=None)
def test_the_printed_margin_is_stricter_where_it_is_given(seed, tolerance):
    K, y = samples(seed)
    ours = clustering_margin(K, y, tolerance=tolerance)
    if ours < tolerance / 2:
        with pytest.raises(InvalidInput, match=r"Eq\. \(29\) holds only where"):
            printed_clustering_margin(K, y, tolerance=tolerance)
        return
    printed = printed_clustering_margin(K, y, tolerance=tolerance)
    assert ours / 2 <= printed <= ours
    gap = max(  # u_i - v_i, by Eqs. (26), (28) and (29)
        max(K[i, y != y[i]]) - min(K[i, (y == y[i]) & (np.arange(len(y)) != i)])
        for i in range(len(y))
    )
    assert printed == pytest.approx(tolerance / 2 - gap / 4, rel=1e-12)


def test_the_printed_margin_promises_too_much_where_classes_overlap():
    K = np.array([[1.0, 0.5, 0.6], [0.5, 1.0, 0.4], [0.6, 0.4, 1.0]])
    y, tolerance = np.array([0, 0, 1]), 0.2  # sample 0: u - v = 0.1
    printed = tolerance / 2 - 0.1 / 4
    error = printed * np.array([[0, -1, 1], [-1, 0, 1], [1, 1, 0]])
    assert not correctly_clustered(K + error, K, y, tolerance=tolerance).all()
    assert clustering_margin(K, y, tolerance=tolerance) == pytest.approx(0.05)
    with pytest.raises(InvalidInput, match="Take clustering_margin"):
        printed_clustering_margin(K, y, tolerance=tolerance)


positive = st.floats(1e-3, 10.0)
counts = st.integers(1, 2000)


@given(st.floats(1e-9, 5.0), positive, counts, counts, counts, positive, positive)
def test_eq_30_exhausts_theorem_3_1(room, width, n, m, d, theta, tau):
    known = {"width": width, "n_samples": n, "n_features": m, "n_atoms": d, "data_norm": theta}
    known |= {"coefficient_norm": tau, "residual": 0.1, "failure": 0.05}
    margin = perturbed_data_bound(0.0, **known) + room
    sigma = largest_data_sigma(margin, **known)
    assert perturbed_data_bound(sigma, **known) == pytest.approx(margin, rel=1e-12)
    assert perturbed_data_bound(1.001 * sigma, **known) > margin
    assert largest_data_sigma(margin + 0.1, **known) > sigma


def test_eq_30_as_derived():
    margin, b_2 = 0.3, (np.sqrt(8) * 0.7 + 1) * 0.02
    t = np.log(50 * 49 / 0.01)
    xi = np.sqrt(30 + 2 * np.sqrt(30 * t) + 2 * t)
    want = (np.sqrt(4 * (margin - b_2) + 2 * 1.5**2) - np.sqrt(2) * 1.5) / xi
    assert largest_data_sigma(margin, **DATA) == pytest.approx(want, rel=1e-10)


def test_eq_31_is_proposition_3_7_and_eq_30():
    privacy = {"epsilon": 0.5, "delta": 1e-5, "clip_norm": 1.5}
    least, most = perturbed_data_interval(0.3, **privacy, **DATA)
    assert least == pytest.approx(2 * np.sqrt(2 * np.log(1.25e5)) * 1.5 / 0.5, rel=1e-12)
    assert most == largest_data_sigma(0.3, **DATA)
    assert least > most  # noise for privacy hides classes of kernel width 2
    wide = perturbed_data_interval(0.3, **privacy, **(DATA | {"width": 1e6, "residual": 0.0}))
    assert wide[0] < wide[1]
    with pytest.raises(InvalidInput, match="below 1"):
        perturbed_data_interval(0.3, **(privacy | {"epsilon": 2.0}), **DATA)


@given(st.floats(1e-6, 5.0), positive, counts, counts, counts, positive, st.floats(0.0, 0.5))
def test_eq_34_exhausts_theorem_3_8(room, width, n, m, d, tau, other):
    known = {"width": width, "n_samples": n, "n_features": m, "n_atoms": d}
    known |= {"coefficient_norm": tau, "residual": 0.1, "failure": 0.05}
    margin = perturbed_factors_bound(0.0, other, **known) + room
    sigma_z = largest_dictionary_sigma(margin, other, **known)
    if np.isinf(sigma_z):
        assert perturbed_factors_bound(1e9, other, **known) <= margin * (1 + 1e-12)
    else:
        exact = pytest.approx(margin, rel=1e-7)  # 1 - R²/2τ² loses digits as σ_Z goes to infinity
        assert perturbed_factors_bound(sigma_z, other, **known) == exact
    margin = perturbed_factors_bound(other, 0.0, **known) + room
    sigma_c = largest_coefficient_sigma(margin, other, **known)
    assert perturbed_factors_bound(other, sigma_c, **known) == pytest.approx(margin, rel=1e-12)
    assert perturbed_factors_bound(other, 1.001 * sigma_c, **known) > margin


def test_beyond_the_largest_sigma_of_z_the_bound_exceeds_the_margin():
    sigma = largest_dictionary_sigma(0.3, 1e-3, **FACTORS)
    assert perturbed_factors_bound(sigma, 1e-3, **FACTORS) == pytest.approx(0.3, rel=1e-12)
    assert perturbed_factors_bound(1.001 * sigma, 1e-3, **FACTORS) > 0.3


@given(st.floats(1e-9, 10.0), st.floats(0.0, 0.1), st.floats(0.0, 0.1))
def test_eq_36_says_whether_theorem_3_8_stays_within_the_margin(margin, sigma_z, sigma_c):
    least, most = perturbed_factors_interval(margin, sigma_z, sigma_c, **FACTORS)
    assert most * (most + 2) == pytest.approx(margin, rel=1e-12)
    bound = perturbed_factors_bound(sigma_z, sigma_c, **FACTORS)
    assert least * (least + 2) == pytest.approx(bound, rel=1e-12)
    printed = -1 + 2 * np.sqrt(1 + margin)  # with the factor 2 of Appendix B
    assert printed * (printed + 2) > margin + 3


def test_a_margin_that_the_bound_uses_up_leaves_no_noise():
    with pytest.raises(InvalidInput, match=r"Eq\. \(30\) has an answer only where"):
        largest_data_sigma(perturbed_data_bound(0.0, **DATA), **DATA)


def no_pairs():
    return clustering_margin(np.eye(3), [0, 0, 0])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: largest_data_sigma(0.0, **DATA), r"'margin' parameter of Eq\. \(30\)"),
        (lambda: largest_data_sigma(-0.1, **DATA), r"'margin' parameter of Eq\. \(30\)"),
        (lambda: largest_data_sigma(0.05, **DATA), r"Eq\. \(30\) has an answer only where"),
        (lambda: largest_dictionary_sigma(0.04, 0.0, **FACTORS), r"Eq\. \(34\) has an answer"),
        (lambda: largest_dictionary_sigma(0.3, 1.0, **FACTORS), r"Eq\. \(34\) .* lower the other"),
        (lambda: largest_coefficient_sigma(0.3, 1.0, **FACTORS), r"Eq\. \(34\) .* lower the other"),
        (lambda: largest_coefficient_sigma(0.3, -1.0, **FACTORS), "'dictionary_sigma' parameter"),
        (
            lambda: perturbed_data_interval(0.3, epsilon=0.5, delta=0.1, clip_norm=0.0, **DATA),
            "'clip_norm' parameter",
        ),
        (lambda: perturbed_factors_interval(0.0, 0.1, 0.1, **FACTORS), "'margin' parameter"),
        (no_pairs, "neighbours both of its own class and of another; got none"),
        (lambda: clustering_margin(np.eye(2), [0, 1], tolerance=-1.0), "'tolerance' parameter"),
        (lambda: clustering_margin(np.eye(2), [0, 1], n_neighbors=0), "'n_neighbors' parameter"),
        (lambda: clustering_margin(np.eye(2), [0, 1, 2]), "one for each of the 2 samples"),
        (lambda: clustering_margin(np.ones((2, 3)), [0, 1]), "the kernel .* a square matrix"),
        (lambda: clustering_margin(np.full((2, 2), np.nan), [0, 1]), "finite numbers"),
        (lambda: correctly_clustered(np.eye(3), np.eye(2), [0, 1]), "of the same samples"),
    ],
)
def test_what_is_not_covered_is_refused(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()
