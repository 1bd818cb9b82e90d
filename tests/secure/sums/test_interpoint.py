"""The width of a kernel over all clients: exact sums of pairs, rounding, refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from daskfc.clustering.kernels.width import interpoint_width
from daskfc.coding import FixedPoint
from daskfc.errors import InvalidInput, PartyError
from daskfc.secure.sums import Total, agree_on_width, open_sum
from daskfc.secure.sums.few import power_of_four
from daskfc.secure.sums.interpoint import interpoint_moments, width_of_total
from daskfc.stores import ClientStore
from daskfc.testing.federation import federation_of, stores_of

KINDS = ("gaussian", "laplacian", "polynomial")


class Rows:
    """A client's store, in memory."""

    def __init__(self, values):
        self.values = np.asarray(values, dtype=np.float64)
        self.n_samples, self.n_features = self.values.shape

    def blocks(self, rows=3):
        for start in range(0, self.n_samples, rows):
            yield start, self.values[start : start + rows]


def brute_width(X, kind):
    """The mean over all pairs, equal ones included."""
    if kind == "polynomial":
        return np.sqrt((X**2).sum(axis=1).mean())
    if kind == "gaussian":
        return np.sqrt(cdist(X, X, "sqeuclidean").mean())
    return sum(
        np.sqrt(cdist(X[:, [j]], X[:, [j]], "sqeuclidean").mean()) for j in range(X.shape[1])
    )


def width(parts, kind):
    """As the server finds it: of one sum in fixed point."""
    bound = power_of_four(max(interpoint_moments(Rows(part), kind).max() for part in parts))
    moments = [interpoint_moments(Rows(part), kind, None, bound)[:, None] for part in parts]
    ring = FixedPoint.for_bound(bound, n_terms=len(parts))
    values = ring.decode(sum(ring.encode(moment) for moment in moments))
    return width_of_total(Total(values, ring.error_bound, ()), kind, bound).width


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 2**30), scale=st.integers(-400, 400), shift=st.floats(-20, 20))
def test_the_width_is_that_of_all_pairs(kind, seed, scale, shift):
    rng = np.random.default_rng(seed)
    sizes, d = rng.integers(1, 20, 4), int(rng.integers(1, 6))
    X = 2.0**scale * (rng.standard_normal((sizes.sum(), d)) + shift)
    parts = np.split(X, np.cumsum(sizes)[:-1])
    expected = brute_width(X, kind)
    assert width(parts, kind) == pytest.approx(expected, rel=1e-4)
    assert interpoint_width(X, kind) == pytest.approx(expected, rel=1e-9)


def test_the_gaussian_width_is_the_papers_gamma():
    X = np.random.default_rng(0).standard_normal((40, 3))
    gamma = len(X) ** 2 / (2 * sum(((x - y) ** 2).sum() for x in X for y in X))
    assert 1 / (2 * interpoint_width(X) ** 2) == pytest.approx(gamma)


def test_the_laplacian_width_is_at_least_the_mean_distance():
    X = np.random.default_rng(0).gamma(1.0, size=(60, 4))
    mean = cdist(X, X, "cityblock").mean()
    assert mean < width([X], "laplacian") < 2 * mean


def test_how_samples_are_dealt_does_not_matter():
    X = np.random.default_rng(1).uniform(size=(30, 4))
    for kind in KINDS:
        one = width([X], kind)
        assert width(np.split(X, [1, 7, 29]), kind) == pytest.approx(one, rel=1e-12)


def test_a_constant_feature_counts_nothing():
    X = np.random.default_rng(2).uniform(size=(50, 2))
    wide = np.hstack([X, np.full((50, 1), 1e3 / 3)])
    assert width([wide[:9], wide[9:]], "laplacian") == pytest.approx(width([X], "laplacian"))


@pytest.mark.parametrize("kind", ["gaussian", "laplacian"])
@pytest.mark.parametrize("value", [0.0, 1 / 3, -1e5 / 7])
def test_constant_samples_have_no_width(kind, value):
    X = np.full((20, 3), value)
    with pytest.raises(InvalidInput, match="not all alike"):
        width([X], kind)
    with pytest.raises(InvalidInput, match="all alike"):
        interpoint_width(X, kind)


def test_zeros_have_no_norm():
    with pytest.raises(InvalidInput, match="not all alike"):
        width([np.zeros((4, 2))], "polynomial")
    with pytest.raises(InvalidInput, match="too large"):
        interpoint_width(np.zeros((4, 2)), "polynomial")


@pytest.mark.parametrize("kind", ["gaussian", "laplacian"])
def test_what_rounding_hides_is_refused_and_never_wrong(kind):
    rng = np.random.default_rng(3)
    refused = 0
    for exponent in range(1, 14):
        X = rng.standard_normal((100, 2)) + 10.0**exponent
        try:
            found = width([X[:50], X[50:]], kind)
        except InvalidInput:
            refused += 1
        else:
            assert found == pytest.approx(brute_width(X, kind), rel=1e-4)
    assert 5 <= refused <= 10  # 1e4 passes


def test_a_client_adds_counts_squares_and_sums():
    X = np.array([[1.0, -2.0], [3.0, 0.5], [0.0, 4.0], [-1.0, 1.0]])
    for kind, squares, firsts in [
        ("gaussian", [32.25], [3.0, 3.5]),
        ("laplacian", [11.0, 21.25], [3.0, 3.5]),
        ("polynomial", [32.25], []),
    ]:
        assert interpoint_moments(Rows(X), kind).tolist() == squares
        found = interpoint_moments(Rows(X), kind, None, 2.0**36).tolist()
        assert found == [4.0, *squares, *firsts]


@pytest.mark.parametrize(
    ("kind", "square", "mean", "unit", "found"),
    [
        # A mean square may be in doubt by 1e-4 of itself, of an error of 0.4 of 1000 samples.
        ("polynomial", 4.1, (), 1.0, True),
        ("polynomial", 3.9, (), 1.0, False),
        # Of a variance, with |mean| = 1: three times; 33 times where sums are in 1/16.
        ("gaussian", 13.1, (1.0,), 1.0, True),
        ("gaussian", 12.9, (1.0,), 1.0, False),
        ("gaussian", 133.1, (1.0,), 1 / 16, True),
        ("gaussian", 132.9, (1.0,), 1 / 16, False),
    ],
)
def test_a_width_counts_where_rounding_leaves_a_ten_thousandth_at_most(
    kind, square, mean, unit, found
):
    bound = 2.0**36 * unit**2
    values = np.array([unit**2, square, *(m * unit for m in mean)])
    total = Total(values[:, None] * 1000, 0.4, ())
    if found:
        variance = square - sum(m * m for m in mean)
        assert width_of_total(total, kind, bound).width == pytest.approx(
            np.sqrt(variance * (1 if kind == "polynomial" else 2))
        )
    else:
        with pytest.raises(InvalidInput, match="rounding hides"):
            width_of_total(total, kind, bound)


@pytest.mark.parametrize("kind", KINDS)
def test_the_rows_of_a_store_are_read_in_blocks(kind, tmp_path):
    X = np.random.default_rng(4).standard_normal((50, 3))
    data = ClientStore.open(stores_of(tmp_path, {"client-1": X})["client-1"])
    np.testing.assert_allclose(interpoint_moments(data, kind), interpoint_moments(Rows(X), kind))


@pytest.mark.slow
def test_clients_agree_on_a_width_and_tell_nothing_else(tmp_path):
    rng = np.random.default_rng(5)
    rows = {f"client-{i}": rng.standard_normal((10 * i, 3)) for i in (1, 2, 3)}
    (tmp_path / "stores").mkdir()
    with federation_of(tmp_path / "stores", rows) as federation:
        federation.start_run("run", random_state=0, workspace=str(tmp_path), deadline_s=60)
        sums = open_sum(federation, "masked")
        X = np.concatenate(list(rows.values()))
        for kind in KINDS:
            found = federation.publish(agree_on_width(federation, sums, kind)).width
            assert found == pytest.approx(brute_width(X, kind), rel=1e-9)
        told = {row.message for row in federation.ledger}
        assert told == {"PublicKeys", "Magnitude", "MaskedPart", "KernelWidth"}
        with pytest.raises(InvalidInput, match="'kind' parameter of a kernel"):
            agree_on_width(federation, sums, "linear")
        federation.start_run("again", random_state=0, workspace=str(tmp_path), deadline_s=60)
    same = {name: np.full((4, 2), 0.1) for name in rows}
    (tmp_path / "same").mkdir()
    with federation_of(tmp_path / "same", same) as federation:
        federation.start_run("run", random_state=0, workspace=str(tmp_path), deadline_s=60)
        with pytest.raises((InvalidInput, PartyError), match="not all alike"):
            federation.publish(
                agree_on_width(federation, open_sum(federation, "masked"), "gaussian")
            )
