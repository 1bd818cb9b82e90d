# ruff: noqa: E741  (l and t are the paper's letters)

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import chisquare

from daskfc.coding import BYTE_PRIMES, LagrangeCode, ResidueSystem, SecretKey
from daskfc.coding.residues.modular import inverse, is_prime, lagrange_weights, primes_below
from daskfc.errors import InvalidInput
from tests.coding.conftest import byte_system
from tests.oracles import coding as oracle

SMALL = ResidueSystem((11, 13), scale=1.0, bound=100)


@pytest.mark.parametrize(("l", "t", "m"), [(1, 1, 3), (2, 1, 6), (1, 2, 5), (3, 2, 9), (2, 2, 7)])
@pytest.mark.parametrize("primes", [BYTE_PRIMES[:2], (9562603, 9562591)], ids=["bytes", "long"])
def test_encoding_equals_the_paper(l, t, m, primes, passes, integer_rows):
    system = ResidueSystem(primes, 1.0, 100)
    code = LagrangeCode(l, t, m)
    shares = code.encode(integer_rows, system, SecretKey.from_os())
    alphas, betas = oracle.points(l, t, m)
    assert (list(code.alphas), list(code.betas)) == (alphas, betas)
    nodes = alphas[:l] + betas[:t]
    for a, p in enumerate(primes):
        for i in (0, 5, len(integer_rows) - 1):
            row, drawn = integer_rows[i].tolist(), shares[:t, a, i].tolist()
            parts = [*oracle.segments(row, l), *drawn]
            noise = [  # the paper's, which the first t shares tell
                [
                    oracle.lagrange_value(nodes, [x % p for x in c], alpha, p)
                    for c in zip(*parts, strict=True)
                ]
                for alpha in alphas[l:]
            ]
            assert shares[:, a, i].tolist() == oracle.encode(row, noise, l, alphas, betas, p)


def test_the_first_shares_are_expanded_from_keys_that_hold_nothing_of_the_rows(passes):
    code, system, secret = LagrangeCode(1, 2, 6), byte_system(3), SecretKey.from_os()
    random = np.random.default_rng(0)
    one, other = (code.encode(random.integers(0, 9, (17, 5)), system, secret) for _ in range(2))
    for j in range(2):
        of_key = code.expand(code.seed(secret, j), (17, 5), system)
        np.testing.assert_array_equal(of_key, one[j])
        np.testing.assert_array_equal(of_key, other[j])
    assert (one[0] != one[1]).mean() > 0.9
    assert all((one[j] != other[j]).mean() > 0.7 for j in range(2, 6))
    assert code.seed(secret, 0) != code.seed(secret, 1)


def test_strips_do_not_change_the_rows(monkeypatch, passes, integer_rows):
    """Any noise is as good as another, so decode by t + l evaluators instead of comparing bytes."""
    monkeypatch.setattr("daskfc.coding.codes.lagrange._STRIP_ENTRIES", 7 * 4)
    code, system = LagrangeCode(3, 1, 7), byte_system(2)
    shares = code.encode(integer_rows, system, SecretKey.from_os())
    k = code.n_columns(11)
    for a, p in enumerate(system.primes):
        W = lagrange_weights(code.betas[:4], code.alphas[:3], p)
        segments = np.einsum("oj,jnk->onk", W, shares[:4, a].astype(np.int64)) % p
        rows = np.concatenate(list(segments), axis=1)
        assert (rows[:, :11] == integer_rows % p).all()
        assert (rows[:, 11:] == 0).all()
        assert k == 4


def test_privacy_every_strip_has_noise_of_its_own(monkeypatch, passes):
    """Equal rows in two strips look unlike: the same noise would tell their difference."""
    monkeypatch.setattr("daskfc.coding.codes.lagrange._STRIP_ENTRIES", 7 * 4)
    code, system = LagrangeCode(3, 1, 7), byte_system(2)
    shares = code.encode(np.zeros((23, 11), np.int64), system, SecretKey.from_os())
    for share in shares:  # (r, n, k) of one evaluator
        assert len({share[:, i].tobytes() for i in range(23)}) == 23


@pytest.mark.parametrize(("l", "t", "m"), [(1, 1, 5), (2, 2, 9), (1, 3, 8), (3, 2, 10)])
@pytest.mark.parametrize("p", [227, 251, 9562603])
def test_privacy_every_t_evaluators_see_uniform_noise(l, t, m, p):
    """For every coalition the t x t matrix of noise weights is invertible modulo p.

    Their shares are (matrix @ noise + something fixed), so with uniform noise they are uniform and
    independent of the row: a proof for this code, not a sample.
    """
    code = LagrangeCode(l, t, m)
    E = lagrange_weights(code.alphas, code.betas, p)
    for coalition in combinations(range(m), t):
        assert determinant(E[np.ix_(coalition, range(l, l + t))].tolist(), p) != 0


@pytest.mark.parametrize("m", [120, 220])
def test_privacy_with_consecutive_points(m):
    code = LagrangeCode(2, 2, m)
    assert code.betas == tuple(range(4, 4 + m))
    E = lagrange_weights(code.alphas, code.betas, 227)[:, 2:]
    x, y = E[:, None], E[None]
    pairs = (x[..., 0] * y[..., 1] - x[..., 1] * y[..., 0]) % 227
    assert ((pairs != 0) | np.eye(m, dtype=bool)).all()


@pytest.mark.parametrize("m", [7, 113, 114, 115, 116, 220])
def test_points_are_the_papers_while_they_are_below_every_prime(m):
    """0, 2, 4, ... up to 226; 227 is the smallest prime of a byte."""
    code = LagrangeCode(2, 2, m)
    alphas, betas = oracle.points(2, 2, m)
    if betas[-1] >= 227:
        alphas, betas = list(range(4)), list(range(4, 4 + m))
    assert (list(code.alphas), list(code.betas)) == (alphas, betas)
    assert max(alphas) < max(betas) < 227
    code.check_points(BYTE_PRIMES)


def determinant(matrix, p):
    if not matrix:
        return 1
    for i, row in enumerate(matrix):
        if row[0] % p:
            sign = -1 if i else 1
            matrix[0], matrix[i] = matrix[i], matrix[0]
            scale = inverse(matrix[0][0], p)
            rest = [
                [(x - r[0] * scale * y) % p for x, y in zip(r[1:], matrix[0][1:], strict=True)]
                for r in matrix[1:]
            ]
            return sign * matrix[0][0] * determinant(rest, p) % p
    return 0


def test_privacy_two_shares_of_a_fixed_row_are_jointly_uniform():
    code, system = LagrangeCode(2, 2, 7), SMALL
    code = LagrangeCode(1, 2, 5)
    rows = np.full((60_000, 1), 5)
    shares = code.encode(rows, system, SecretKey.from_os())
    for a, p in enumerate(system.primes):
        for i, j in ((0, 1), (2, 4)):
            joint = shares[i, a, :, 0].astype(int) * p + shares[j, a, :, 0]
            assert chisquare(np.bincount(joint, minlength=p * p)).pvalue > 1e-6


def test_t_plus_1_shares_are_not_independent_of_the_row():
    code, p = LagrangeCode(1, 1, 3), 11
    system = ResidueSystem((p,), 1.0, 10)
    shares = code.encode(np.full((50, 1), 5), system, SecretKey.from_os()).astype(int)
    W = lagrange_weights(code.betas[:2], code.alphas[:1], p)[0]
    assert set(((W[0] * shares[0] + W[1] * shares[1]) % p).ravel().tolist()) == {5}


def test_noise_is_fresh_for_every_prime_and_row():
    code, system = LagrangeCode(1, 1, 3), byte_system(3)
    shares = code.encode(np.zeros((500, 8), np.int64), system, SecretKey.from_os())
    flat = shares[0].reshape(3, -1).astype(float)
    correlation = np.corrcoef(flat)
    assert np.abs(correlation[~np.eye(3, dtype=bool)]).max() < 0.09  # 5.7 sigma of 4000
    again = code.encode(np.zeros((500, 8), np.int64), system, SecretKey.from_os())
    assert (again != shares).mean() > 0.9


def test_too_many_points_for_the_primes():
    code = LagrangeCode(2, 2, 240)
    with pytest.raises(InvalidInput, match=r"244 points .* the smallest is 241"):
        code.encode(np.zeros((1, 2), np.int64), byte_system(2), SecretKey.from_os())
    LagrangeCode(2, 2, 223).check_points(BYTE_PRIMES)  # points 0 to 226, the smallest prime is 227
    with pytest.raises(InvalidInput, match=r"228 points .* the smallest is 227"):
        LagrangeCode(2, 2, 224).check_points(BYTE_PRIMES)
    LagrangeCode(2, 2, 3000).check_points((9562603,))


@pytest.mark.parametrize(
    ("numbers", "match"),
    [
        ((0, 1, 5), "'n_segments' parameter of LagrangeCode .* at least 1; got 0"),
        ((1, 0, 5), "'n_colluding' parameter of LagrangeCode .* at least 1; got 0"),
        ((2, 2, 6), "'n_evaluators' parameter of LagrangeCode .* at least 7; got 6"),
    ],
)
def test_bad_codes(numbers, match):
    with pytest.raises(InvalidInput, match=match):
        LagrangeCode(*numbers)


@pytest.mark.parametrize("evaluators", [[0, 0, 1], [0, 1, 3], [-1, 0, 1]])
def test_bad_evaluators(evaluators):
    with pytest.raises(InvalidInput, match=r"distinct and in \[0, 3\)"):
        LagrangeCode(1, 1, 3).weights(evaluators, 251)


@pytest.mark.parametrize("p", [11, 251, 9562603])
def test_weights_equal_the_oracle(p):
    code = LagrangeCode(2, 1, 6) if p > 11 else LagrangeCode(1, 1, 5)
    alphas, betas = list(code.alphas), list(code.betas)
    for subset in combinations(range(code.n_evaluators), code.threshold):
        nodes = [betas[j] for j in subset]
        values = [(3 * j * j + 5) % p for j in subset]
        got = int(code.weights(subset, p) @ np.array(values) % p)
        assert got == oracle.interpolate(nodes, values, alphas, code.n_segments, p)


def test_primes():
    assert primes_below(251, 6) == BYTE_PRIMES
    assert primes_below(9562603, 2)[0] == 9562603
    assert [x for x in range(-2, 30) if is_prime(x)] == [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]
