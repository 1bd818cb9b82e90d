"""DBSCAN on shares: labels are those of a slow oracle and of scikit-learn, borders included."""

import numpy as np
import pytest
from scipy.stats import chi2
from sklearn.cluster import DBSCAN
from sklearn.datasets import make_blobs, make_moons

from daskfc.errors import InvalidInput, OverflowRefused
from daskfc.secure.shared import DensityClusters, cut_numbers
from daskfc.secure.shared.planes import unpacked
from tests.oracles.shared import dbscan
from tests.secure.shared.lockstep import in_lockstep, told


def fitted(x, squared_eps, min_samples, at_once=1 << 20):
    """Return labels as scikit-learn has them, -1 for noise, and the run."""
    bits = max(1, int(np.abs(x).max()).bit_length())
    plan = DensityClusters(len(x), x.shape[1], bits, squared_eps, min_samples, at_once=at_once)
    run = in_lockstep(lambda party, shares: plan.fit(party, shares), cut_numbers(x))
    planes = unpacked(told(run), len(x)).astype(int)
    labels = (planes << np.arange(len(planes))[:, np.newaxis]).sum(axis=0)
    return np.where(labels == 2**plan.label_bits - 1, -1, labels), run


def expected(x, squared_eps, min_samples):
    """Return scikit-learn's labels; eps is between the squares, where rounding moves nothing."""
    model = DBSCAN(eps=np.sqrt(squared_eps + 0.5), min_samples=min_samples, algorithm="brute")
    return model.fit(x.astype(float)).labels_


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "min_samples", "at_once"),
    [
        *((n, min_samples, 1 << 20) for n in (1, 2, 5, 63, 64, 65, 130) for min_samples in (1, 4)),
        (65, 2, 1),
        (130, 3, 1 << 10),
    ],
)
def test_labels_of_scattered_samples(n, min_samples, at_once):
    x = np.random.default_rng(n).integers(-25, 26, (n, 2))
    labels, _ = fitted(x, 18, min_samples, at_once)
    assert np.array_equal(labels, dbscan(x, 18, min_samples))
    assert np.array_equal(labels, expected(x, 18, min_samples))


@pytest.mark.slow
@pytest.mark.parametrize("make", [
    lambda: make_moons(300, noise=0.05, random_state=0)[0],
    lambda: make_blobs(300, centers=6, cluster_std=0.7, random_state=1)[0],
    lambda: make_blobs(300, 5, centers=3, cluster_std=1.3, random_state=2)[0],
])  # fmt: skip
def test_labels_are_those_of_scikit_learn(make):
    x = np.rint(make() * 2**10).astype(np.int64)
    for eps in (0.15, 0.5, 1.5):
        squared = int(eps**2 * 4**10)
        labels, _ = fitted(x, squared, 5)
        assert np.array_equal(labels, expected(x, squared, 5))


def test_a_border_sample_is_of_the_first_cluster_near_it():
    """Two clusters of core samples, and one sample near both, listed before or after them."""
    left, right, middle = [[0], [1], [2], [3]], [[11], [12], [13], [14]], [[7]]
    for order, wanted in (
        (left + middle + right, [0] * 4 + [0] + [1] * 4),
        (right + middle + left, [0] * 4 + [0] + [1] * 4),
        (middle + right + left, [0] + [0] * 4 + [1] * 4),
    ):
        x = np.array(order)
        labels, _ = fitted(x, 16, 4)
        assert labels.tolist() == wanted
        assert np.array_equal(labels, expected(x, 16, 4))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("order", "most"), [("sorted", 1), ("zigzag", 2), ("shuffled", 8), ("by bits", 9)]
)
def test_a_long_chain_is_one_cluster(order, most):
    """Labels have to go a long way, and passes are few: about the logarithm of the chain."""
    n = 256
    x = np.arange(n)
    if order == "shuffled":
        np.random.default_rng(0).shuffle(x)
    elif order == "zigzag":
        x = x.reshape(2, -1).T.ravel()
    elif order == "by bits":  # each sample lies between two of which both come later, or before
        x = x.reshape((2,) * 8).T.ravel()
    labels, run = fitted(x.reshape(n, 1), 1, 2)
    assert not labels.any()
    assert passes(run) <= most


def passes(run):
    """Count the bits that were opened: the last of seven or more rounds of a single word."""
    sizes = "".join("1" if words.size == 1 else " " for words in run.seen[0])
    return sum(len(one) >= 7 for one in sizes.split())


def test_all_noise_and_all_alike():
    x = np.arange(70).reshape(70, 1) * 10
    assert fitted(x, 99, 2)[0].tolist() == [-1] * 70
    assert fitted(x, 99, 71)[0].tolist() == [-1] * 70
    assert fitted(x, 10**9, 70)[0].tolist() == [0] * 70
    assert fitted(np.zeros((70, 3), dtype=int), 0, 70)[0].tolist() == [0] * 70
    assert fitted(x, 0, 1)[0].tolist() == [*range(70)]


def test_samples_at_eps_are_neighbours():
    x = np.array([[0, 0], [3, 4]])
    assert fitted(x, 25, 2)[0].tolist() == [0, 0]
    assert fitted(x, 24, 2)[0].tolist() == [-1, -1]


def test_features_at_the_ends_of_their_range():
    top = 2**30 - 1
    x = np.array([[top], [-top], [top - 1], [-top + 1], [0]])
    assert fitted(x, 1, 2)[0].tolist() == [0, 1, 0, 1, -1]


# -- new samples ----------------------------------------------------------------------------------


def placed(x, new, squared_eps, min_samples, at_once=1 << 20):
    """Return labels of new samples after a fit to x, the plan, and the run of placing alone."""
    bits = max(1, int(np.abs(np.concatenate([x, new])).max()).bit_length())
    plan = DensityClusters(len(x), x.shape[1], bits, squared_eps, min_samples, at_once=at_once)
    kept = [None] * 3

    def fit(party, shares):
        kept[party.index] = shares, *(yield from plan.clustered(party, shares))
        return kept[party.index][1]

    in_lockstep(fit, cut_numbers(x))
    run = in_lockstep(
        lambda party, shares: plan.placed(party, shares, *kept[party.index]), cut_numbers(new)
    )
    planes = unpacked(told(run), len(new)).astype(int)
    labels = (planes << np.arange(len(planes))[:, np.newaxis]).sum(axis=0)
    return np.where(labels == 2**plan.label_bits - 1, -1, labels), plan, run


def first_near(x, new, squared_eps, min_samples):
    """Return the first cluster of scikit-learn's that has a core sample near, one by one."""
    model = DBSCAN(eps=np.sqrt(squared_eps + 0.5), min_samples=min_samples, algorithm="brute")
    labels = model.fit(x.astype(float)).labels_
    found = []
    for one in new:
        near = [
            labels[i]
            for i in model.core_sample_indices_
            if ((x[i] - one) ** 2).sum() <= squared_eps
        ]
        found.append(min(near, default=-1))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "m", "min_samples", "at_once"),
    [
        *((n, m, 3, 1 << 20) for n in (1, 63, 64, 130) for m in (1, 64, 65)),
        (65, 200, 1, 1),
        (130, 200, 4, 1 << 14),
    ],
)
def test_new_samples_are_of_the_first_cluster_with_a_core_sample_near(n, m, min_samples, at_once):
    random = np.random.default_rng(n + m)
    x, new = random.integers(-25, 26, (n, 2)), random.integers(-35, 36, (m, 2))
    labels, plan, run = placed(x, new, 18, min_samples, at_once)
    assert labels.tolist() == first_near(x, new, 18, min_samples)
    cost = plan.cost_of_placing(m)
    assert (run.n_rounds, run.n_bytes) == (cost.rounds, cost.n_bytes)


def test_samples_of_the_fit_keep_their_labels_where_they_are_placed():
    """Cores and borders, and one at eps of a border sample alone, which is noise."""
    x = np.array([[0], [1], [2], [3], [7], [11], [12], [13], [14], [30], [18]])
    own, _ = fitted(x, 16, 4)
    labels, _, _ = placed(x, np.concatenate([x, [[22], [15]]]), 16, 4)
    assert labels.tolist() == [*own.tolist(), -1, 1]
    assert own.tolist() == [0] * 5 + [1] * 4 + [-1, 1]


def test_where_nothing_is_core_new_samples_are_noise():
    x = np.arange(5).reshape(5, 1) * 10
    for min_samples in (2, 6):  # of no neighbours, and of fewer samples than that
        assert placed(x, x, 4, min_samples)[0].tolist() == [-1] * 5


@pytest.mark.slow
def test_placing_opens_nothing_and_what_a_party_sees_is_uniform():
    x = np.repeat(np.arange(10), 13).reshape(-1, 1)
    _, _, run = placed(x, x, 1, 3)
    for i in range(3):
        seen = np.concatenate([words.reshape(-1) for words in run.seen[i]])
        counts = np.bincount(seen.view(np.uint8), minlength=256)
        mean = counts.sum() / 256
        assert ((counts - mean) ** 2 / mean).sum() < chi2.isf(1e-9 / 3, 255)


# -- costs, views, parameters ---------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "spread", "min_samples", "at_once"),
    [
        (1, 1, 1, 1 << 20),
        (99, 8, 3, 1 << 20),
        (99, 30, 99, 1 << 12),
        (130, 60, 2, 1 << 12),
        (300, 900, 1, 1 << 20),
    ],
)
def test_what_it_costs_depends_on_passes_alone(n, spread, min_samples, at_once):
    x = np.random.default_rng(n).integers(-spread, spread, (n, 1))
    x[0] = 1023
    _, run = fitted(x, 2, min_samples, at_once)
    plan = DensityClusters(n, 1, 10, 2, min_samples, at_once=at_once)
    cost = plan.cost(passes(run))
    assert (run.n_rounds, run.n_bytes) == (cost.rounds, cost.n_bytes)
    assert plan.cost(passes(run) + 1).n_bytes > cost.n_bytes
    assert DensityClusters(n, 1, 10, 2, n + 1).cost().rounds == 0


@pytest.mark.slow
def test_what_a_party_sees_is_uniform_but_for_the_opened_bits():
    """The bound of a chi-square test is passed once in 10^9 runs."""
    x = np.repeat(np.arange(10), 13).reshape(-1, 1)
    _, run = fitted(x, 1, 3)
    for i in range(3):
        seen = np.concatenate([words.reshape(-1) for words in run.seen[i] if words.size > 1])
        counts = np.bincount(seen.view(np.uint8), minlength=256)
        mean = counts.sum() / 256
        assert ((counts - mean) ** 2 / mean).sum() < chi2.isf(1e-9 / 3, 255)


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_samples", 0), ("squared_eps", -1), ("squared_eps", 0.5), ("min_samples", 0)],
)
def test_parameters_are_checked(name, value):
    given = {"n_samples": 9, "n_features": 2, "magnitude_bits": 8, "squared_eps": 4}
    with pytest.raises(InvalidInput, match=f"'{name}' parameter of DensityClusters"):
        DensityClusters(**given | {"min_samples": 2} | {name: value})


def test_numbers_without_room_are_refused():
    DensityClusters(9, 3, 29, 1, 1)
    with pytest.raises(OverflowRefused, match="Use fewer fraction bits"):
        DensityClusters(9, 17, 29, 1, 1)
