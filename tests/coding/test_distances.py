"""Every engine, subset and code against Python integers; hypothesis round trips."""

# ruff: noqa: E741  (l and t are the paper's letters)

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from daskfc.coding import (
    BYTE_PRIMES,
    ENGINES,
    HidingPolynomial,
    LagrangeCode,
    ResidueSystem,
    SecretKey,
    coded_distances,
    find_wrong,
    prepare,
    reconstruct,
    select_engine,
)
from daskfc.coding.engines import engines
from daskfc.coding.residues.modular import primes_below
from daskfc.errors import DecodingError, InvalidInput
from tests.coding.conftest import byte_system
from tests.oracles import coding as oracle

LONG = ResidueSystem(primes_below(9562603, 2), 1.0, 2**45)


def available(name):
    if why := ENGINES[name].refusal(byte_system()):
        pytest.skip(why)
    return ENGINES[name]


@pytest.mark.parametrize("name", ["int8", "f32", "f64"])
@pytest.mark.parametrize(("l", "t", "m"), [(1, 1, 4), (2, 1, 6), (2, 2, 8), (3, 2, 9)])
def test_exact_for_every_subset(name, l, t, m, passes, integer_rows):
    engine, system, code = available(name), byte_system(4), LagrangeCode(l, t, m)
    shares = code.encode(integer_rows, system, SecretKey.from_os())
    answers = [coded_distances(z[:, :9], z, system, engine) for z in shares]
    truth = oracle.true_distances(integer_rows.tolist())[:9]
    for subset in combinations(range(m), code.threshold):
        chosen = [answers[j] for j in reversed(subset)]
        assert reconstruct(chosen, subset[::-1], code, system).tolist() == truth


@pytest.mark.parametrize("name", ["int8", "f32", "f64"])
@pytest.mark.parametrize("k", [1, 3, 64, 1071, 1072, 2500, 9001])
def test_answers_equal_the_oracle(name, k, passes):
    """Chunks of columns included: f32 is exact for 1073 columns at a time, int8 for 8422."""
    engine, system = available(name), ResidueSystem((251, 227), 1.0, 100)
    z = np.random.default_rng(k).integers(0, 227, (2, 5, k), dtype=np.uint8)
    z[:, 0], z[:, 1] = 226, 0  # the extremes
    z[0, 2], z[0, 3] = 125, 126  # of the balanced residues
    got = coded_distances(z[:, :3], z, system, engine)
    for a, p in enumerate(system.primes):
        rows = z[a].tolist()
        assert got[a].tolist() == [[oracle.distance(x, y, p) for y in rows] for x in rows[:3]]


def test_the_long_primes(passes, integer_rows):
    rows = integer_rows * 2000  # distances up to 2**46
    code = LagrangeCode(2, 2, 8)
    system = ResidueSystem(LONG.primes, 1.0, LONG.modulus - 1)
    shares = code.encode(rows, system, SecretKey.from_os())
    engine = select_engine(system, 6, "int8")
    assert engine.name == "f64"
    answers = [coded_distances(z, z, system, engine, symmetric=True) for z in shares]
    assert answers[0].dtype == np.uint32
    D = reconstruct(answers[1:], range(1, 8), code, system)
    assert D.tolist() == oracle.true_distances(rows.tolist())
    for p, answer in zip(system.primes, answers[3], strict=True):
        z = shares[3][system.primes.index(p)].tolist()
        assert int(answer[2, 7]) == oracle.distance(z[2], z[7], p)


@pytest.mark.parametrize("r", [1, 2, 3, 4, 5, 6])
def test_chinese_remainder(r, passes):
    """Constant polynomials: the answers are the residues of any integer below M."""
    system, code = byte_system(r), LagrangeCode(1, 1, 3)
    values = [0, 1, system.modulus - 1, system.modulus // 2, 123456789 % system.modulus]
    answer = np.array([[[v % p for v in values]] for p in system.primes], np.uint8)
    l_times = reconstruct([answer] * 3, [2, 0, 1], code, system)
    assert l_times.tolist() == [values]
    residues = [v[0] for v in answer[:, 0, 4:].tolist()]
    assert oracle.chinese_remainder(residues, system.primes) == values[4]


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_decoding_inverts_encoding(data):
    l, t = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    spare = data.draw(st.integers(0, 3))
    n, d = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 9))
    code = LagrangeCode(l, t, 2 * l + 2 * t - 1 + spare)
    byte = data.draw(st.booleans())
    system = byte_system(4) if byte else LONG
    limit = 10_000 if byte else 10**6  # 9 (2 * 10**4)**2 < 2**31.6, 9 (2 * 10**6)**2 < 2**45.1
    entries = st.lists(st.integers(-limit // 2, limit // 2), min_size=d, max_size=d)
    rows = np.array(data.draw(st.lists(entries, min_size=n, max_size=n)))
    shares = code.encode(rows, system, SecretKey.from_os())
    engine = ENGINES["f64"]
    key = SecretKey.from_os()
    hidden = data.draw(st.booleans())
    answers = [
        coded_distances(z, z, system, engine, symmetric=hidden,
                        hiding=HidingPolynomial(code, system, j, key, (3, 3)) if hidden else None)
        for j, z in enumerate(shares)
    ]  # fmt: skip
    subset = data.draw(st.permutations(range(code.n_evaluators)))[: code.threshold]
    D = reconstruct([answers[j] for j in subset], subset, code, system)
    assert D.tolist() == oracle.true_distances(rows.tolist())
    assert find_wrong(answers, range(code.n_evaluators), code, system) == ()


@pytest.mark.parametrize("name", ["int8", "f32", "f64"])
@pytest.mark.parametrize("n", [513, pytest.param(1100, marks=pytest.mark.slow)])
def test_blocks_larger_than_a_tile(name, n, passes):
    engine, system, code = available(name), byte_system(2), LagrangeCode(1, 1, 3)
    rows = np.random.default_rng(n).integers(-20, 20, (n, 5))
    shares = code.encode(rows, system, SecretKey.from_os())
    plain = [coded_distances(z, z, system, engine) for z in shares]
    mirrored = [coded_distances(z, z, system, engine, symmetric=True) for z in shares]
    for x, y in zip(plain, mirrored, strict=True):
        np.testing.assert_array_equal(x, y)
    D = reconstruct(plain, range(3), code, system)
    np.testing.assert_array_equal(D, ((rows[:, None] - rows) ** 2).sum(-1))
    assert (D.diagonal() == 0).all()
    rectangle = [coded_distances(z[:, :7], z[:, 7:], system, engine) for z in shares]
    np.testing.assert_array_equal(reconstruct(rectangle, range(3), code, system), D[:7, 7:])


@pytest.mark.parametrize("name", ["int8", "f32", "f64"])
def test_operands_are_reusable(name, integer_rows):
    engine, system, code = available(name), byte_system(3), LagrangeCode(2, 1, 5)
    z = code.encode(integer_rows, system, SecretKey.from_os())[4]
    A, B = (prepare(z, system, engine, side) for side in ("left", "right"))
    found = coded_distances(A, B, system, engine)
    np.testing.assert_array_equal(found, coded_distances(z, z, system, ENGINES["f64"]))
    with pytest.raises(InvalidInput, match="shares must be uint8"):
        coded_distances(z.astype(np.int64), z, system, engine)


def test_engines_give_the_same_bytes(integer_rows):
    system, code = byte_system(6), LagrangeCode(2, 2, 7)
    z = code.encode(integer_rows, system, SecretKey.from_os())[6]
    key = SecretKey.from_os()
    hiding = HidingPolynomial(code, system, 6, key, (0, 2))
    answers = [
        coded_distances(z, z, system, available(name), hiding=hiding).tobytes() for name in ENGINES
    ]
    assert len(set(answers)) == 1


def test_the_fastest_exact_engine_is_chosen():
    system = byte_system(2)
    if ENGINES["int8"].refusal(system) is None:
        assert select_engine(system, 40).name == "int8"
    assert select_engine(system, 40, "f32").name == "f32"
    assert select_engine(LONG, 40, "f32").name == "f64"


def test_an_engine_that_rounds_is_found(monkeypatch):
    """An f32 engine without chunks would round for more than 1073 columns."""
    monkeypatch.setattr(type(ENGINES["f32"]), "chunk", lambda self, p: 10**9)
    engines._self_test.cache_clear()
    assert engines._self_test(ENGINES["f32"], (251,), 900) is None
    assert "wrong for p=251" in engines._self_test(ENGINES["f32"], (251,), 4000)
    engines._self_test.cache_clear()


def test_unknown_engine():
    with pytest.raises(InvalidInput, match="one of int8, f32, f64; got 'gpu'"):
        select_engine(byte_system(2), 4, "gpu")


def test_real_distances_are_the_integers_over_the_squared_scale(integer_rows):
    system = ResidueSystem(BYTE_PRIMES[:4], scale=12.75, bound=byte_system(4).bound)
    code = LagrangeCode(1, 1, 3)
    shares = code.encode(integer_rows, system, SecretKey.from_os())
    answers = [coded_distances(z, z, system, ENGINES["f64"]) for z in shares]
    D = reconstruct(answers, range(3), code, system)
    squared = ((integer_rows[:, None] - integer_rows) ** 2).sum(axis=2)
    real = system.to_real(D)
    assert real.dtype == np.float64
    np.testing.assert_array_equal(real, squared / 12.75**2)


@pytest.mark.parametrize("bound_below", [1, 10**6])
def test_a_distance_beyond_the_bound_is_refused(passes, integer_rows, bound_below):
    truth = np.array(oracle.true_distances(integer_rows.tolist())).max()
    code = LagrangeCode(1, 1, 3)
    system = byte_system(4, bound=int(truth) - bound_below)
    shares = code.encode(integer_rows, system, SecretKey.from_os())
    answers = [coded_distances(z, z, system, ENGINES["f64"]) for z in shares]
    with pytest.raises(DecodingError, match="exceeds the bound"):
        reconstruct(answers, range(3), code, system)
    exact = byte_system(4, bound=int(truth))
    assert reconstruct(answers, range(3), code, exact).max() == truth


def test_bad_answers(integer_rows):
    code, system = LagrangeCode(1, 1, 4), byte_system(2)
    answers = [np.zeros((2, 3, 4), np.uint8)] * 4
    with pytest.raises(DecodingError, match=r"needs 3 answers .* got 2"):
        reconstruct(answers[:2], [0, 1], code, system)
    with pytest.raises(DecodingError, match="the answer of evaluator 3 is uint8"):
        reconstruct([*answers[:2], answers[2][:, :2]], [0, 1, 3], code, system)
    with pytest.raises(DecodingError, match="expected uint8"):
        reconstruct([*answers[:2], answers[2].astype(int)], [0, 1, 3], code, system)
    with pytest.raises(InvalidInput, match="4 answers of 3"):
        reconstruct(answers, [0, 1, 2], code, system)
    with pytest.raises(InvalidInput, match="distinct"):
        reconstruct(answers, [0, 1, 2, 2], code, system)


def test_empty_blocks():
    code, system = LagrangeCode(1, 1, 3), byte_system(2)
    rows = np.zeros((0, 4), np.int64)
    shares = code.encode(rows, system, SecretKey.from_os())
    answers = [coded_distances(z, z, system, ENGINES["f64"]) for z in shares]
    assert reconstruct(answers, range(3), code, system).shape == (0, 0)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("hides", [False, True])
@pytest.mark.parametrize("name", ["int8", "f32"])
def test_the_number_of_threads_changes_no_bit(name, hides, symmetric):
    engine, system, code = available(name), byte_system(3), LagrangeCode(2, 1, 6)
    rows = np.random.default_rng(3).integers(-9, 9, (1100, 7))
    shares = code.encode(rows, system, SecretKey.from_os())
    key = SecretKey.from_os()

    def decoded():
        answers = [
            coded_distances(
                z,
                z,
                system,
                engine,
                symmetric=symmetric,
                hiding=HidingPolynomial(code, system, j, key, (0, 0)) if hides else None,
            )
            for j, z in enumerate(shares)
        ]
        return answers, reconstruct(answers, range(6), code, system)

    with threadpool_limits(1, "blas"):
        alone = decoded()
    with threadpool_limits(3, "blas"):
        found = decoded()
    np.testing.assert_array_equal(found[0], alone[0])
    np.testing.assert_array_equal(found[1], alone[1])
    np.testing.assert_array_equal(found[1], np.square(rows[:, None] - rows).sum(axis=2))
