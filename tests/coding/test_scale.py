import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskfc.coding import (
    GRIDS,
    LagrangeCode,
    ResidueSystem,
    SecretKey,
    choose_residues,
    coded_distances,
    detect_grids,
    quantise,
    reconstruct,
    select_engine,
)
from daskfc.errors import InvalidInput, OverflowRefused

DEFAULTS = dict(n_features=784, tolerance=1e-4, grids=0, n_columns=392, n_points=11)


def squared(X):
    return ((X[:, None] - X[None]) ** 2).sum(-1)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("spelling", ["k / S", "k * (1 / S)"])
def test_grids_are_found(grid, dtype, spelling):
    k = np.random.default_rng(0).integers(-255, 256, (50, 9))
    k[0, 0] = 1  # so that no coarser grid fits
    X = (k / dtype(grid) if spelling == "k / S" else k * (dtype(1) / dtype(grid))).astype(dtype)
    found = [s for i, s in enumerate(GRIDS) if detect_grids(X) >> i & 1]
    assert found[0] == grid
    expected = [s for s in GRIDS if s % grid == 0]
    assert found == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_grid_in_noise(dtype):
    rng = np.random.default_rng(0)
    for X in (rng.normal(size=(40, 5)), 1e-9 * rng.normal(size=(40, 5)),
              1e4 + rng.normal(size=(40, 5)), 1e6 + rng.normal(size=(400, 5))):  # fmt: skip
        assert detect_grids(X.astype(dtype)) == 0 or (
            # float32 numbers near 1e6 are sixteenths themselves
            dtype is np.float32 and np.abs(X).max() > 1e5 and not detect_grids(X.astype(dtype)) & 1
        )


def test_no_rows_fit_every_grid_and_nan_none():
    assert detect_grids(np.empty((0, 3))) == (1 << len(GRIDS)) - 1
    assert detect_grids(np.array([[np.nan, 1.0]])) == 0


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 40), st.floats(1e-6, 1e-2), st.floats(1e-3, 1e4), st.integers(0, 2**32 - 1))
def test_error_stays_within_tolerance(d, tolerance, size, seed):
    X = size * np.random.default_rng(seed).normal(size=(60, d))
    X -= X.mean(0)
    D = squared(X)
    radius = float(np.sqrt((X**2).sum(1).max()))
    mean = D[~np.eye(60, dtype=bool)].mean()
    system = choose_residues(radius=radius, n_features=d, tolerance=tolerance, grids=0,
                             n_columns=d, n_points=5, mean_square=mean)  # fmt: skip
    D_hat = system.to_real(squared(quantise(X, system)))
    rms = np.sqrt(((D_hat - D)[~np.eye(60, dtype=bool)] ** 2).mean()) / mean
    assert rms < 1.6 * tolerance  # 60 rows: their distances are correlated
    assert squared(quantise(X, system)).max() <= system.bound < system.modulus


def test_numbers_of_the_design_page():
    # raw pixels: no error, 25 bits with rho about 9243; z-scored at 1e-4 with rho^2/Dm = 12: 31.6
    raw = choose_residues(radius=2500.0, **{**DEFAULTS, "grids": 1})
    assert (raw.scale, len(raw.primes)) == (1.0, 4)
    z = choose_residues(radius=110.0, **DEFAULTS)
    assert len(z.primes) == 4
    assert z.scale == pytest.approx(0.82 * math.sqrt(12) / (1e-4 * 110), rel=0.01)
    assert len(choose_residues(radius=110.0, **{**DEFAULTS, "tolerance": 1e-3}).primes) == 4
    assert len(choose_residues(radius=110.0, **{**DEFAULTS, "tolerance": 1e-6}).primes) == 6


def test_a_grid_too_fine_gives_way_to_the_tolerance():
    system = choose_residues(radius=1e12, **{**DEFAULTS, "grids": 1})
    assert system.scale < 1
    assert len(system.primes) == 4


def test_the_family_follows_points_and_bits():
    def primes(**changes):
        return choose_residues(**{**DEFAULTS, "radius": 110.0, **changes}).primes

    assert max(primes(n_points=220)) == 251
    assert len(primes(n_points=260)) == 2  # more points than any byte has residues
    assert min(primes(n_points=260)) > 9_000_000
    assert primes(n_points=245, tolerance=1e-3)[0] > 251  # 251 alone is not enough
    narrow = dict(radius=0.5 * 110, n_columns=2, n_features=4, mean_square=3e3)
    assert max(primes(tolerance=1.1e-7, **narrow)) > 251  # 47.5 bits: more than six bytes
    with pytest.raises(OverflowRefused, match=r"need .* bits; the primes for \d+ points offer 0"):
        primes(n_points=2**24)


@pytest.mark.parametrize("radius", [np.nan, -1.0])
def test_bad_choices(radius):
    with pytest.raises(InvalidInput, match=r"'radius' .* got"):
        choose_residues(**{**DEFAULTS, "radius": radius})


def test_too_many_bits():
    with pytest.raises(OverflowRefused, match=r"need 11\d.\d bits; .* offer 100\.8"):
        choose_residues(radius=110.0, **{**DEFAULTS, "tolerance": 1e-17})


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 50), st.floats(1e-9, 0.5), st.floats(1e-3, 1e6), st.booleans(),
       st.integers(0, 2**32 - 1))  # fmt: skip
def test_a_distance_to_resolve_is_told_to_a_thousandth(d, near, radius, equal_columns, seed):
    """Also where all columns are rounded the same way, as equal columns are."""
    random = np.random.default_rng(seed)
    resolve = (near * radius) ** 2
    step = random.normal(size=(40, d))
    step = np.ones((40, d)) * random.normal(size=(40, 1)) if equal_columns else step
    step *= math.sqrt(resolve) / np.linalg.norm(step, axis=1, keepdims=True)
    X = (random.random((40, 1)) if equal_columns else random.random((40, d))) * np.ones((40, d))
    X *= radius / (4 * math.sqrt(d))
    system = choose_residues(radius=radius, n_features=d, tolerance=0.1, grids=0, n_columns=d,
                             n_points=9, resolve=resolve)  # fmt: skip
    assert not system.exact
    told = (quantise(X + step, system) - quantise(X, system)).astype(object)
    found = np.array([float(sum(v * v for v in row)) for row in told]) / system.scale**2
    allowed = system.error_of(resolve, d)
    assert allowed <= 1.0000001e-3 * resolve
    # the sums X + step are rounded themselves
    assert (np.abs(found - resolve) <= allowed + 1e-14 * radius * math.sqrt(resolve)).all()


def test_points_all_the_same():
    system = choose_residues(radius=0.0, **DEFAULTS)
    assert (quantise(np.zeros((3, 784)), system) == 0).all()


@pytest.mark.parametrize(
    ("primes", "scale", "bound", "error"),
    [
        ((251, 251), 1.0, 5, InvalidInput), ((250,), 1.0, 5, InvalidInput),
        ((), 1.0, 0, InvalidInput),
        ((251, 9562603), 1.0, 5, InvalidInput), ((251,), 0.0, 5, InvalidInput),
        ((251,), np.inf, 5, InvalidInput), ((251,), 1.0, 251, OverflowRefused),
        ((9562603, 9562591, 9562571), 1.0, 5, InvalidInput),
    ],
)  # fmt: skip
def test_bad_systems(primes, scale, bound, error):
    with pytest.raises(error):
        ResidueSystem(primes, scale, bound)


def test_data_times_20_is_refused_by_the_client_and_would_have_been_wrong():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 20))
    radius = float(np.sqrt((X**2).sum(1).max()))
    system = choose_residues(radius=radius, n_features=20, tolerance=1e-4, grids=0, n_columns=10,
                             n_points=11, mean_square=40.0)  # fmt: skip
    quantise(X, system)
    with pytest.raises(OverflowRefused, match="rows lie outside the radius"):
        quantise(20 * X, system)
    # what the check prevents: most distances wrap around, and reconstruct without complaint
    code = LagrangeCode(2, 2, 7)
    loose = ResidueSystem(system.primes, system.scale, system.modulus - 1)
    rows = np.rint(20 * system.scale * X).astype(np.int64)
    shares = code.encode(rows, loose, SecretKey.from_os())
    engine = select_engine(loose, 10)
    answers = [coded_distances(share, share, loose, engine) for share in shares]
    wrong = reconstruct(answers, range(7), code, loose) != squared(rows)
    assert wrong.mean() > 0.5


def test_refusals_show_no_values():
    system = ResidueSystem((251,), 1.0, 200)
    with pytest.raises(OverflowRefused) as refused:
        quantise(np.array([[1.0, 2.0], [123456.0, 1.0], [3e300, 0.0]]), system)
    assert "some of 3 rows" in str(refused.value)  # how many would tell norms, bound by bound
    assert "123456" not in str(refused.value)
    with pytest.raises(InvalidInput, match="some of 2 rows hold NaN"):
        quantise(np.array([[1.0, np.nan], [2.0, 3.0]]), system)
