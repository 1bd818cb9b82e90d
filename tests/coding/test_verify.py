# ruff: noqa: E741  (l and t are the paper's letters)

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskfc.coding import (
    ENGINES,
    HidingPolynomial,
    LagrangeCode,
    ResidueSystem,
    SecretKey,
    coded_distances,
    find_wrong,
    reconstruct,
)
from daskfc.coding.codes.verify import _modular_product, _projections
from daskfc.coding.residues.modular import primes_below
from daskfc.errors import DecodingError
from tests.coding.conftest import byte_system
from tests.oracles import coding as oracle

ROWS = np.random.default_rng(2).integers(-50, 50, (13, 6))


def answers_of(code, system, hidden=True, rows=ROWS):
    shares = code.encode(rows, system, SecretKey.from_os())
    key = SecretKey.from_os()
    return [
        coded_distances(z, z, system, ENGINES["f64"], symmetric=True,
                        hiding=HidingPolynomial(code, system, j, key, (1, 1)) if hidden else None)
        for j, z in enumerate(shares)
    ]  # fmt: skip


def lie(answer, system, prime, rng, whole):
    """Change one residue, or the whole block of one prime."""
    p = system.primes[prime]
    part = answer[prime]
    where = (slice(None), slice(None)) if whole else tuple(rng.integers(0, part.shape))
    shift = rng.integers(1, p, part[where].shape)
    part[where] = (part[where].astype(np.int64) + shift) % p


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("system", [byte_system(4), byte_system(6),
                         ResidueSystem(primes_below(9562603, 2), 1.0, 2**40)])  # fmt: skip
@pytest.mark.parametrize("liars", [(), (4,), (0, 9), (2, 3, 10)])
def test_liars_are_named(system, liars, hidden):
    code = LagrangeCode(1, 2, 11)  # R = 5: six spare answers name three
    rng = np.random.default_rng(len(liars))
    for whole in (False, True):
        answers = answers_of(code, system, hidden)
        for j in liars:
            lie(answers[j], system, int(rng.integers(len(system.primes))), rng, whole)
        assert find_wrong(answers, range(11), code, system) == liars
        honest = [j for j in range(11) if j not in liars]
        D = reconstruct([answers[j] for j in honest], honest, code, system)
        assert D.tolist() == oracle.true_distances(ROWS.tolist())


def test_names_are_those_of_the_evaluators_who_answered():
    code, system = LagrangeCode(1, 1, 9), byte_system(2)
    order = [7, 2, 5, 0, 8]
    answers = answers_of(code, system)
    answers[8] = answers[8] ^ 1
    assert find_wrong([answers[j] for j in order], order, code, system) == (8,)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(1, 2), st.integers(1, 2), st.integers(0, 3))
def test_colluding_liars_are_named_up_to_the_bound(seed, l, t, e):
    """The liars' errors are consistent with one another: they shift a common other polynomial."""
    rng = np.random.default_rng(seed)
    R = 2 * l + 2 * t - 1
    code, system = LagrangeCode(l, t, R + 2 * e), byte_system(2)
    answers, others = answers_of(code, system), answers_of(code, system, rows=ROWS[::-1] + 1)
    liars = sorted(rng.choice(R + 2 * e, e, replace=False).tolist())
    for j in liars:
        answers[j] = others[j]
    assert find_wrong(answers, range(R + 2 * e), code, system) == tuple(liars)


def test_one_spare_detects_and_names_nobody():
    code, system = LagrangeCode(2, 2, 8), byte_system(3)
    answers = answers_of(code, system)
    assert find_wrong(answers, range(8), code, system) == ()
    answers[3] = answers[3] ^ 1
    with pytest.raises(DecodingError, match=r"no 0 of the evaluators explain it .* R \+ 2e"):
        find_wrong(answers, range(8), code, system)


def test_no_spare_finds_nothing():
    code, system = LagrangeCode(2, 2, 7), byte_system(3)
    answers = answers_of(code, system)
    answers[3] = answers[3] ^ 1
    assert find_wrong(answers, range(7), code, system) == ()


@pytest.mark.parametrize("spare", [2, 3, 5])
def test_beyond_the_bound_is_refused(spare):
    code, system = LagrangeCode(1, 1, 3 + spare), byte_system(3)
    rng = np.random.default_rng(spare)
    answers = answers_of(code, system)
    for j in range(spare // 2 + 1):
        for prime in range(3):
            lie(answers[j], system, prime, rng, True)
    with pytest.raises(DecodingError, match="contradict each other"):
        find_wrong(answers, range(3 + spare), code, system)


def test_many_evaluators():
    code, system = LagrangeCode(2, 2, 61), byte_system(2)
    answers = answers_of(code, system, hidden=False)
    liars = tuple(range(1, 55, 2))  # 27 of 61: all that 54 spare answers allow
    for j in liars:
        answers[j] = answers[j] ^ 1
    assert find_wrong(answers, range(61), code, system) == liars


def test_equals_the_exhaustive_search():
    """On single entries the oracle tries every way to leave evaluators out."""
    code, system = LagrangeCode(1, 1, 7), ResidueSystem((251,), 1.0, 250)
    rng = np.random.default_rng(0)
    for _ in range(20):
        answers = answers_of(code, system, rows=rng.integers(-3, 4, (1, 2)))
        for j in rng.choice(7, rng.integers(0, 3), replace=False):
            answers[j] = (answers[j] + rng.integers(1, 5)).astype(np.uint8) % 251
        values = [int(answer[0, 0, 0]) for answer in answers]
        for errors in range(3):
            found = oracle.consistent_subsets(code.betas, values, 3, errors, 251)
            if found:
                break
        assert found == [find_wrong(answers, range(7), code, system)]


def test_a_fixed_secret_repeats_the_projections():
    code, system = LagrangeCode(1, 1, 5), byte_system(2)
    answers = answers_of(code, system)
    answers[2] = answers[2] ^ 1
    secret = SecretKey.from_os()
    found = {find_wrong(answers, range(5), code, system, secret=secret) for _ in range(3)}
    assert found == {(2,)}


def test_projections_cannot_be_foreseen(monkeypatch):
    """Without a secret each call draws anew: who knows the projections hides a lie from them."""
    seen = []

    def projections(*arguments):
        seen.append(_projections(*arguments))
        return seen[-1]

    monkeypatch.setattr("daskfc.coding.codes.verify._projections", projections)
    code, system = LagrangeCode(1, 1, 5), byte_system(2)
    answers = answers_of(code, system)
    for _ in range(2):
        assert find_wrong(answers, range(5), code, system) == ()
    for p in system.primes:
        assert not np.array_equal(seen[0][p], seen[1][p])


@pytest.mark.parametrize("liars", [(0, 3, 5), (1, 2, 6), (2, 4, 5)])
def test_liars_of_every_prime_count(liars):
    """One lies modulo the first prime, two more modulo the second only: too many to name."""
    code, system = LagrangeCode(1, 1, 7), byte_system(2)  # R = 3: four spare answers name two
    rng = np.random.default_rng(0)
    answers = answers_of(code, system)
    lie(answers[liars[0]], system, 0, rng, True)
    for j in liars:
        lie(answers[j], system, 1, rng, True)
    with pytest.raises(DecodingError, match="contradict each other"):
        find_wrong(answers, range(7), code, system)


@pytest.mark.parametrize("p", [227, 251, 257, 9562603, 16777213])
@pytest.mark.parametrize("sigma", ["middle", "around", "third", "top", "any"])
def test_projections_are_exact(p, sigma):
    """Sums of the largest operands, odd and even, at and around the length of a chunk."""
    rng = np.random.default_rng(p)
    # columns of one float product, as many as a test has time for
    exact = min(2 ** (24 if p < 256 else 53) // ((p - 1) * (p // 2)), 1000)
    lowest = {
        "middle": p // 2, "around": p // 2, "third": p // 3 + 1, "top": p - 4, "any": 0,
    }[sigma]  # fmt: skip
    span = {"middle": 1, "around": 2, "third": 5, "top": 4, "any": p}[sigma]
    for columns in (1, exact - 1, exact, exact + 3, 2 * exact + 1):
        rows = 300 if columns < 700 else 20  # more rows than are projected at once
        block = p - 1 - (rng.random((rows, columns)) < 0.1)
        draws = rng.integers(lowest, lowest + span, (columns, 4))
        found = _modular_product(block.astype(np.uint8 if p < 256 else np.uint32), draws, p)
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found, products(block, draws, p))


def products(block, draws, p):
    """block @ draws mod p in int64: terms below 2**48, at most 2**12 of them."""
    return block.astype(np.int64) @ draws.astype(np.int64) % p


def test_projections_are_those_of_the_stream():
    """ρ^T D σ of every answer: σ of the columns is drawn first, then ρ of the rows."""
    system, rng = byte_system(2), np.random.default_rng(0)
    answers = [rng.integers(0, 227, (2, 7, 5), dtype=np.uint8) for _ in range(3)]
    key = SecretKey.from_bytes(bytes(range(32)))
    found, stream = _projections(answers, system, key.stream()), key.stream()
    for a, p in enumerate(system.primes):
        sigma, rho = stream.uniform(p, (5, 4)), stream.uniform(p, (7, 4))
        expected = [
            [int(rho[:, s] @ answer[a].astype(int) @ sigma[:, s]) % p for answer in answers]
            for s in range(4)
        ]
        assert found[p].dtype == np.int64
        assert found[p].tolist() == expected


def test_wide_blocks_are_projected_exactly():
    """More columns than float32 sums hold exactly (536)."""
    code, system = LagrangeCode(1, 1, 5), byte_system(1)
    rng = np.random.default_rng(0)
    base = rng.integers(0, 251, (2, 300, 1300))
    answers = [  # lines in β: polynomials of degree 1 < R
        ((base[0] + beta * base[1]) % 251).astype(np.uint8)[None] for beta in code.betas
    ]
    assert find_wrong(answers, range(5), code, system) == ()
    for i, j in combinations(range(5), 2):
        assert i != j
    answers[1][0, 299, 1299] ^= 1
    assert find_wrong(answers, range(5), code, system) == (1,)
