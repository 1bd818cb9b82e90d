import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskfc.errors import StoreError
from daskfc.stores.dealing.partitions import PARTITIONS, dirichlet, iid, label_skew
from tests.oracles.partitions import main_cluster_wishes

label_lists = st.lists(st.integers(0, 5), min_size=1, max_size=80).map(np.array)
seeds = st.integers(0, 2**31)
extra = {"iid": {}, "label-skew": {"skew": 0.6}, "dirichlet": {"alpha": 0.3}}


def deals(data, labels):
    return data.draw(st.integers(1, len(labels)))


@pytest.mark.parametrize("scheme", sorted(PARTITIONS))
@settings(deadline=None)  # two loaded cores
@given(labels=label_lists, seed=seeds, data=st.data())
def test_every_row_is_dealt_once(scheme, labels, seed, data):
    n_clients = deals(data, labels)
    parts = PARTITIONS[scheme](labels, n_clients, seed=seed, **extra[scheme])
    assert len(parts) == n_clients
    assert all(len(part) for part in parts)
    assert all((np.diff(part) > 0).all() for part in parts)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(len(labels)))
    again = PARTITIONS[scheme](labels, n_clients, seed=seed, **extra[scheme])
    for one, two in zip(parts, again, strict=True):
        np.testing.assert_array_equal(one, two)


@settings(deadline=None)  # two loaded cores
@given(
    labels=label_lists, seed=seeds, skew=st.sampled_from([0, 0.25, 0.5, 0.75, 1]), data=st.data()
)
def test_label_skew_against_the_oracle(labels, seed, skew, data):
    n_clients = deals(data, labels)
    parts = label_skew(labels, n_clients, skew=skew, seed=seed)
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    for part, (cluster, got) in zip(
        parts, main_cluster_wishes(labels, n_clients, skew), strict=True
    ):
        assert (labels[part] == cluster).sum() >= got


def test_full_skew_of_equal_clusters_is_one_cluster_a_client():
    labels = np.tile(np.arange(3), 50)  # iris' sizes, Figure 6
    for client, part in enumerate(label_skew(labels, 3, skew=1.0, seed=7)):
        assert set(labels[part]) == {client}


def test_clients_share_clusters_round_robin():
    labels = np.repeat([0, 1], 30)
    mains = [set(labels[part]) for part in label_skew(labels, 4, skew=1.0, seed=0)]
    assert mains == [{0}, {1}, {0}, {1}]


def test_skew_fraction_of_a_large_source():
    labels = np.repeat(np.arange(10), 400)
    for client, part in enumerate(label_skew(labels, 10, skew=0.75, seed=1)):
        counts = np.bincount(labels[part], minlength=10)
        # 300 on purpose and about a tenth of the remaining 100 by chance
        assert 300 <= counts[client] <= 330
        others = np.delete(counts, client)
        assert others.min() > 0


@pytest.mark.parametrize(("skew", "wanted"), [(0.4, 6), (0.6, 10)], ids=["down", "up"])
def test_the_skewed_part_is_rounded_to_the_nearest(skew, wanted):
    labels = np.repeat(np.arange(50), 16)  # of 16: 6.4 and 9.6
    parts = label_skew(labels, 50, skew=skew, seed=0)
    counts = [(labels[part] == client).sum() for client, part in enumerate(parts)]
    assert min(counts) == wanted  # the rest comes from 50 clusters, so that many get none of it


def test_no_skew_looks_like_iid():
    labels = np.repeat(np.arange(4), 1000)
    for part in label_skew(labels, 4, skew=0.0, seed=3):
        counts = np.bincount(labels[part], minlength=4)
        np.testing.assert_allclose(counts, 250, atol=5 * np.sqrt(1000 * 3 / 16))


def test_a_small_cluster_is_shared_and_the_rest_filled():
    labels = np.array([0] * 90 + [1] * 10)
    parts = label_skew(labels, 4, skew=1.0, seed=0)
    assert [len(part) for part in parts] == [25] * 4
    assert [(labels[part] == 1).sum() for part in parts] == [0, 5, 0, 5]


def test_dirichlet_concentration():
    labels = np.repeat(np.arange(5), 200)

    def purity(alpha):
        parts = dirichlet(labels, 5, alpha=alpha, seed=0)
        return np.mean([np.bincount(labels[p]).max() / len(p) for p in parts])

    assert purity(0.05) > 0.6 > 0.35 > purity(1000.0)


def test_tiny_alpha_leaves_nobody_empty():
    parts = dirichlet(np.zeros(20, dtype=int), 20, alpha=1e-3, seed=0)
    assert [len(part) for part in parts] == [1] * 20


def test_seeds_differ():
    labels = np.zeros(50, dtype=int)
    assert not np.array_equal(iid(labels, 2, seed=0)[0], iid(labels, 2, seed=1)[0])


@pytest.mark.parametrize("scheme", sorted(PARTITIONS))
def test_more_clients_than_samples(scheme):
    with pytest.raises(StoreError, match="got 4 clients for 3 samples"):
        PARTITIONS[scheme](np.zeros(3, dtype=int), 4, seed=0, **extra[scheme])
