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


def width(parts, kind, *, exact=False):
    """As the server finds it: of one sum in fixed point."""
    moments = [interpoint_moments(Rows(part), kind)[:, None] for part in parts]
    ring = FixedPoint.for_bound(
        2.0 ** np.ceil(np.log2(np.max(np.abs(moments)))), n_terms=len(parts)
    )
    values = ring.decode(sum(ring.encode(moment) for moment in moments))
    total = (
        Total(np.sum(moments, axis=0), 0.0, ()) if exact else Total(values, ring.error_bound, ())
    )
    return width_of_total(total, kind).width


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 2**30), scale=st.integers(-12, 15), shift=st.floats(-20, 20))
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
        width_of_total(Total(interpoint_moments(Rows(X), kind)[:, None], 0.0, ()), kind)
    with pytest.raises(InvalidInput, match="all alike"):
        interpoint_width(X, kind)


def test_zeros_have_no_norm():
    with pytest.raises(InvalidInput, match="not all alike"):
        width_of_total(
            Total(interpoint_moments(Rows(np.zeros((4, 2))), "polynomial"), 0.0, ()), "polynomial"
        )
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
    assert interpoint_moments(Rows(X), "gaussian").tolist() == [4.0, 32.25, 3.0, 3.5]
    assert interpoint_moments(Rows(X), "laplacian").tolist() == [4.0, 11.0, 21.25, 3.0, 3.5]
    assert interpoint_moments(Rows(X), "polynomial").tolist() == [4.0, 32.25]


@pytest.mark.parametrize(
    ("kind", "n", "square", "mean", "error", "found"),
    [
        # A mean square may be in doubt by 1e-4 of itself. n is whole: of the squares, error / n.
        ("polynomial", 1000, 4.1, (), 0.4, True),
        ("polynomial", 1000, 3.9, (), 0.4, False),
        # Of a variance, with |mean| = 1: 3 error / n.
        ("gaussian", 1000, 13.1, (1.0,), 0.4, True),
        ("gaussian", 1000, 12.9, (1.0,), 0.4, False),
        # n is not known to be whole: by error / n of the squares, and twice that of the mean's.
        ("polynomial", 1000, 1e6, (), 0.49, True),
        ("polynomial", 1000, 1e6, (), 0.5, False),
        ("gaussian", 100_000, 1.40, (1.0,), 0.6, True),
        ("gaussian", 100_000, 1.37, (1.0,), 0.6, False),
    ],
)
def test_a_width_counts_where_rounding_leaves_a_ten_thousandth_at_most(
    kind, n, square, mean, error, found
):
    total = Total(np.array([1.0, square, *mean])[:, None] * n, error, ())
    if found:
        variance = square - sum(m * m for m in mean)
        assert width_of_total(total, kind).width == pytest.approx(
            np.sqrt(variance * (1 if kind == "polynomial" else 2))
        )
    else:
        with pytest.raises(InvalidInput, match="rounding hides"):
            width_of_total(total, kind)


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
