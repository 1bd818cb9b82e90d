"""k-means on shares: bit for bit Lloyd's algorithm in the same arithmetic, and scikit-learn's."""

import numpy as np
import pytest
from scipy.stats import chi2
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs

from daskfc.errors import InvalidInput, OverflowRefused
from daskfc.secure.shared import Lloyd, cut_numbers, put_together
from daskfc.secure.shared.planes import unpacked
from tests.oracles.shared import lloyd
from tests.secure.shared.lockstep import in_lockstep


def fitted(plan, x, centres):
    """Return labels, centres and the run; each sample has one label."""
    run = in_lockstep(
        lambda party, *shares: plan.fit(party, *shares), cut_numbers(x), cut_numbers(centres)
    )
    rows, moved = (put_together(run.results[0][i], run.results[1][i]) for i in range(2))
    bits = unpacked(rows, plan.n_samples)
    assert (bits.sum(axis=0) == 1).all()
    assert int(np.bitwise_count(rows).sum()) == plan.n_samples  # bits beyond them are zeros
    return bits.argmax(axis=0), moved.view(np.int64), run


@pytest.mark.parametrize(
    ("n", "d", "k", "bits", "iterations"),
    [(1, 1, 1, 1, 1), (65, 1, 2, 4, 3), (300, 3, 4, 12, 4), (77, 2, 10, 20, 3), (50, 2, 3, 24, 5)],
)
@pytest.mark.parametrize(("at_once", "flat"), [(1, False), (1 << 20, False), (1 << 20, True)])
def test_labels_and_centres_are_those_of_the_same_arithmetic(
    n, d, k, bits, iterations, at_once, flat
):
    rng = np.random.default_rng(n)
    top = 2**bits - 1
    x = rng.integers(-top, top + 1, (n, d))
    x[0], x[-1] = top, -top
    centres = rng.integers(-top, top + 1, (k, d))
    centres[-1] = top
    plan = Lloyd(n, d, k, bits, iterations, at_once=at_once, flat=flat)
    labels, moved, _ = fitted(plan, x, centres)
    expected_labels, expected = lloyd(x, centres, iterations, bits)
    assert np.array_equal(labels, expected_labels)
    assert np.array_equal(moved, expected)


def test_an_empty_cluster_keeps_its_centre_and_the_first_of_equal_centres_counts():
    x = np.array([[1, 1], [2, 2], [3, 3]])
    centres = np.array([[2, 2], [100, -100], [2, 2]])
    labels, moved, _ = fitted(Lloyd(3, 2, 3, 8, 2), x, centres)
    assert labels.tolist() == [0, 0, 0]
    assert moved.tolist() == centres.tolist()


@pytest.mark.parametrize("bits", [1, 8, 20, 26])
def test_a_moved_centre_is_within_a_unit_of_the_mean(bits):
    """The bound of the documentation, for every size of one cluster and the largest sums."""
    rng = np.random.default_rng(bits)
    top = 2**bits - 1
    for n in (1, 2, 3, 7, 100):
        for x in (np.full((n, 1), top), np.full((n, 1), -top), rng.integers(-top, top, (n, 1))):
            _, moved, _ = fitted(Lloyd(n, 1, 1, bits, 1), x, x[:1])
            assert abs(int(moved[0, 0]) * n - int(x.sum())) <= n


@pytest.mark.parametrize("seed", range(3))
def test_labels_are_those_of_scikit_learn_on_separated_data(seed):
    n, d, k, bits, fraction = 400, 4, 5, 16, 10
    data, _ = make_blobs(n, d, centers=k, cluster_std=0.5, random_state=seed)
    x = np.rint(data * 2.0**fraction).astype(np.int64)
    assert np.abs(x).max() < 2**bits
    start = x[np.random.default_rng(seed).choice(n, k, replace=False)]
    labels, moved, _ = fitted(Lloyd(n, d, k, bits, 12), x, start)
    model = KMeans(k, init=start / 2.0**fraction, n_init=1, tol=0, max_iter=100).fit(data)
    assert model.n_iter_ <= 12
    assert np.array_equal(labels, model.labels_)
    assert np.abs(moved / 2.0**fraction - model.cluster_centers_).max() <= 2.0**-fraction * 1.5


def test_rounds_and_bytes_do_not_depend_on_data():
    found = set()
    for seed in range(2):
        rng = np.random.default_rng(seed)
        x = rng.integers(-9, 10**seed, (100, 2))
        _, _, run = fitted(Lloyd(100, 2, 3, 10, 2), x, x[:3])
        found.add((run.n_rounds, run.n_bytes))
    assert len(found) == 1


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("at_once", [500, 1 << 20])
@pytest.mark.parametrize(("n", "k"), [(100, 1), (100, 2), (300, 5), (1000, 11)])
def test_what_it_costs_is_known_before(n, k, flat, at_once):
    x = np.random.default_rng(n).integers(-900, 900, (n, 3))
    plan = Lloyd(n, 3, k, 10, 2, at_once=at_once, flat=flat)
    _, _, run = fitted(plan, x, x[:k])
    assert (run.n_rounds, run.n_bytes) == (plan.cost().rounds, plan.cost().n_bytes)


@pytest.mark.slow
def test_what_a_party_sees_is_uniform():
    """The bound of a chi-square test is passed once in 10^9 runs."""
    x = np.zeros((200, 2), dtype=int)
    _, _, run = fitted(Lloyd(200, 2, 3, 10, 2), x, x[:3])
    for i in range(3):
        counts = np.bincount(run.view(i).view(np.uint8), minlength=256)
        expected = counts.sum() / 256
        assert ((counts - expected) ** 2 / expected).sum() < chi2.isf(1e-9 / 3, 255)


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_samples", 0), ("n_features", 0.5), ("magnitude_bits", 31), ("iterations", -1)],
)
def test_parameters_are_checked(name, value):
    given = {"n_samples": 9, "n_features": 2, "n_clusters": 2, "magnitude_bits": 8, "iterations": 1}
    with pytest.raises(InvalidInput, match=f"'{name}' parameter of Lloyd"):
        Lloyd(**given | {name: value})


def test_numbers_without_room_are_refused():
    Lloyd(2**19 - 1, 2, 2, 20, 1)
    with pytest.raises(OverflowRefused, match="Use fewer fraction bits"):
        Lloyd(2**19, 2, 2, 20, 1)
    with pytest.raises(OverflowRefused, match="Use fewer fraction bits"):
        Lloyd(2, 16, 2, 29, 1)
