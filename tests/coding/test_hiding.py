from itertools import combinations, product

import numpy as np
import pytest
from scipy.stats import chisquare

from daskfc.coding import (
    BYTE_PRIMES,
    ENGINES,
    HidingPolynomial,
    LagrangeCode,
    ResidueSystem,
    SecretKey,
    coded_distances,
    reconstruct,
)
from daskfc.coding.codes.hiding import _factors, _free_evaluators
from daskfc.coding.residues.modular import lagrange_weights
from tests.coding.conftest import byte_system, hiding_values

CODES = [(1, 1, 3), (1, 1, 5), (2, 1, 5), (2, 2, 7), (2, 2, 9), (3, 2, 10)]


def all_values(code, system, key, block, shape, symmetric=False):
    """What all evaluators answer where every distance is 0."""
    left, right = (np.zeros((len(system.primes), n, 1), system.dtype) for n in shape)
    return np.array([
        coded_distances(
            left, right, system, ENGINES["f64"], symmetric=symmetric,
            hiding=HidingPolynomial(code, system, j, key, block),
        )
        for j in range(code.n_evaluators)
    ])  # fmt: skip


@pytest.mark.parametrize("numbers", CODES)
@pytest.mark.parametrize(
    "primes", [BYTE_PRIMES, (257, 509), (9562603, 9562591)], ids=["bytes", "more", "long"]
)
def test_one_polynomial_with_a_vanishing_sum(numbers, primes, passes):
    """All m values lie on one polynomial of degree R - 1 whose values at the segments sum to 0."""
    code, system = LagrangeCode(*numbers), ResidueSystem(primes, 1.0, 10)
    key, R = SecretKey.from_os(), LagrangeCode(*numbers).threshold
    for block in ((0, 0), (0, 1), (2, 5)):
        values = all_values(code, system, key, block, (3, 4)).astype(np.int64)
        assert (values < np.array(primes)[:, None, None]).all()
        for a, p in enumerate(primes):
            for subset in combinations(range(code.n_evaluators), R):
                part = values[list(subset), a]
                total = np.einsum("j,jab->ab", code.weights(subset, p), part) % p
                assert (total == 0).all()


@pytest.mark.parametrize("numbers", [(1, 1, 3), (2, 1, 5), (2, 1, 6)])
def test_the_polynomial_is_uniform_over_its_space(numbers):
    """The map from the streams to the values at any R - 1 evaluators is one to one for some R - 1.

    Every evaluator's value is a fixed linear combination of R - 1 independent uniform streams; the
    factors of R - 1 of them form an invertible matrix, and the space has dimension R - 1.
    """
    code = LagrangeCode(*numbers)
    for p, turn in product((11, 227, 251), range(code.n_evaluators)):
        free = _free_evaluators(code, p, turn)
        assert len(free) == code.threshold - 1
        G = np.array([
            [_factors(code, p, turn, j).get(f, 0) for f in free] for j in range(code.n_evaluators)
        ])  # fmt: skip
        assert (G[list(free)] == np.eye(len(free))).all()
        # the rest follows from the constraint: weights of any R evaluators annihilate G
        for subset in combinations(range(code.n_evaluators), code.threshold):
            assert not (code.weights(subset, p) @ G[list(subset)] % p).any()


def test_evaluators_that_do_not_determine_the_polynomial_are_not_free():
    """With l = 3, t = 1, m = 8 modulo 241, three windows of evaluators leave ϕ open."""
    code, p = LagrangeCode(3, 1, 8), 241
    for turn in range(code.n_evaluators):
        free = _free_evaluators(code, p, turn)
        for own in set(range(code.n_evaluators)) - set(free):
            assert code.weights([*free, own], p)[-1] != 0  # else ϕ there is not theirs to say


def test_free_evaluators_rotate():
    code = LagrangeCode(2, 2, 7)
    dependent = [set(range(7)) - set(_free_evaluators(code, 251, turn)) for turn in range(7)]
    assert len({next(iter(x)) for x in dependent}) >= 5


def test_streams_depend_on_key_block_and_prime():
    code, system = LagrangeCode(1, 1, 3), byte_system(2)
    key = SecretKey.from_os()
    base = hiding_values(code, system, 0, key, (1, 1), (40, 40))
    seen = [
        base,
        hiding_values(code, system, 0, SecretKey.from_os(), (1, 1), (40, 40)),
        hiding_values(code, system, 0, key, (1, 4), (40, 40)),
        hiding_values(code, system, 0, key, (4, 1), (40, 40)),
        hiding_values(code, system, 0, key, (2, 3), (40, 40)),
        base[::-1],
    ]
    for one, other in combinations(seen, 2):
        assert (one == other).mean() < 0.02
    again = hiding_values(code, system, 0, key, (1, 1), (40, 40))
    np.testing.assert_array_equal(base, again)


@pytest.mark.parametrize("shape", [(5, 5), (530, 530), (520, 300)])
@pytest.mark.parametrize("name", list(ENGINES))
def test_words_are_added_before_the_reduction(shape, name, passes):
    if why := ENGINES[name].refusal(byte_system(2)):
        pytest.skip(why)
    symmetric = shape[0] == shape[1]
    code, system, key = LagrangeCode(2, 1, 6), byte_system(2), SecretKey.from_os()
    z = np.random.default_rng(0).integers(0, 241, (2, max(shape), 3), dtype=np.uint8)
    left, right = z[:, : shape[0]], z[:, : shape[1]]
    for j in (0, 3, 5):
        fused = coded_distances(
            left, right, system, ENGINES[name], symmetric=symmetric,
            hiding=HidingPolynomial(code, system, j, key, (2, 2)),
        )  # fmt: skip
        values = hiding_values(code, system, j, key, (2, 2), shape, symmetric)
        plain = coded_distances(left, right, system, ENGINES["f64"]).astype(int)
        expected = (plain + values) % np.array(system.primes)[:, None, None]
        np.testing.assert_array_equal(fused, expected)
        if symmetric:
            np.testing.assert_array_equal(fused, fused.transpose(0, 2, 1))


def test_many_streams_are_reduced_in_groups(passes):
    code, system = LagrangeCode(6, 6, 24), byte_system(1)
    key = SecretKey.from_os()
    values = all_values(code, system, key, (0, 1), (2, 2)).astype(int)
    for subset in (range(23), range(1, 24)):
        total = np.einsum("j,jab->ab", code.weights(subset, 251), values[list(subset), 0])
        assert not (total % 251).any()


def segment_distances(answers, code, p):
    """What a server can interpolate: the polynomial's values at the segments' points."""
    R = code.threshold
    W = lagrange_weights(code.betas[:R], code.alphas[: code.n_segments], p)
    return np.einsum("oj,jab->oab", W, np.array(answers[:R], dtype=np.int64)) % p


def test_without_hiding_the_server_learns_the_distance_of_every_segment():
    """The leak that hiding closes; with it, only the sum is left."""
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 5, (8, 6))
    code, system = LagrangeCode(2, 2, 7), byte_system(1, bound=250)
    p = system.primes[0]
    shares = code.encode(rows, system, SecretKey.from_os())
    parts = [((s[:, None] - s) ** 2).sum(-1) for s in (rows[:, :3], rows[:, 3:])]
    plain = [coded_distances(z, z, system, ENGINES["f64"]) for z in shares]
    np.testing.assert_array_equal(segment_distances([x[0] for x in plain], code, p), parts)
    key = SecretKey.from_os()
    hidden = [
        coded_distances(z, z, system, ENGINES["f64"],
                        hiding=HidingPolynomial(code, system, j, key, (0, 0)), symmetric=True)
        for j, z in enumerate(shares)
    ]  # fmt: skip
    seen = segment_distances([x[0] for x in hidden], code, p)
    assert (seen != parts).mean() > 0.9
    np.testing.assert_array_equal(seen.sum(0) % p, sum(parts))
    np.testing.assert_array_equal(reconstruct(hidden, range(7), code, system), sum(parts))


def test_hidden_segment_distances_are_uniform():
    """The same pair over and over, with fixed shares: what the server sees of one segment."""
    code, system = LagrangeCode(2, 1, 5), ResidueSystem((11,), 1.0, 10)
    z = np.zeros((1, 300, 2), np.uint8)
    key = SecretKey.from_os()
    answers = [
        coded_distances(z, z, system, ENGINES["f64"],
                        hiding=HidingPolynomial(code, system, j, key, (0, 1)))[0]
        for j in range(5)
    ]  # fmt: skip
    first, second = segment_distances(answers, code, 11)
    assert not ((first + second) % 11).any()
    assert chisquare(np.bincount(first.ravel(), minlength=11)).pvalue > 1e-6
    # and all R - 1 free answers are jointly uniform: pairs of them
    joint = answers[0].astype(int) * 11 + answers[3]
    assert chisquare(np.bincount(joint.ravel(), minlength=121)).pvalue > 1e-6
