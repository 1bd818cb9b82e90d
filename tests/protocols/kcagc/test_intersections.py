import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from daskfc.errors import InvalidInput
from daskfc.metrics import accuracy
from daskfc.protocols.kcagc.maths.intersections import intersect, local_clusters, virtual_nodes
from tests.oracles import kcagc as oracle

PARTITIONS = st.integers(1, 20).flatmap(
    lambda n: st.lists(st.lists(st.integers(0, 5), min_size=n, max_size=n), min_size=1, max_size=4)
)


def groups(ids):
    return [np.flatnonzero(ids == c).tolist() for c in range(ids.max() + 1)]


@given(PARTITIONS)
def test_intersections_are_those_of_sets(labels):
    ids, sizes = intersect(*map(np.array, labels))
    assert groups(ids) == oracle.intersections(labels)
    assert sizes.tolist() == [len(nodes) for nodes in groups(ids)]


@given(PARTITIONS, st.randoms())
def test_neither_the_order_of_nodes_nor_gaps_in_their_numbering_nor_a_tree_matters(labels, random):
    arrays = [np.array(own) for own in labels]
    ids, sizes = intersect(*arrays)
    names = np.array(sorted(random.sample(range(1000), 6)))
    dealt = np.array(random.sample(range(ids.size), ids.size))
    again, weights = intersect(*(names[own][dealt] for own in arrays))
    assert np.array_equal(again, ids[dealt])
    assert np.array_equal(weights, sizes)
    pairwise = arrays[0]
    for own in arrays[1:]:
        pairwise, _ = intersect(pairwise, own)
    assert np.array_equal(intersect(pairwise)[0], ids)


@pytest.mark.slow
def test_a_million_nodes_take_seconds():
    random = np.random.default_rng(0)
    labels = [random.integers(0, 80, 1_000_000) for _ in range(4)]
    began = time.perf_counter()
    ids, sizes = intersect(*labels)
    assert time.perf_counter() - began < 20
    assert sizes.sum() == ids.size
    assert sizes.size == np.unique(np.stack(labels), axis=1).shape[1]


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([], "at least 1 participant"),
        ([[0, 1], [0, 1, 1]], "participant 1 must be 2 integers"),
        ([[0, -1]], "participant 0 must be"),
        ([[0.0, 1.0]], "got float64"),
    ],
)
def test_bad_partitions_are_refused(labels, words):
    with pytest.raises(InvalidInput, match=words):
        intersect(*map(np.array, labels))


def test_virtual_nodes_are_means_and_their_weighted_sum_is_that_of_the_rows():
    random = np.random.default_rng(1)
    rows = random.normal(size=(50, 3))
    ids, sizes = intersect(random.integers(0, 4, 50), random.integers(0, 4, 50))
    got = virtual_nodes(rows, ids)
    expected = [rows[nodes].mean(axis=0) for nodes in groups(ids)]
    assert np.allclose(got, expected)
    assert np.allclose(sizes @ got, rows.sum(axis=0))


def test_the_other_virtual_node_is_the_centre_of_the_local_cluster():
    random = np.random.default_rng(2)
    rows = random.normal(size=(40, 2))
    own, other = random.integers(3, 7, 40), random.integers(0, 4, 40)
    ids, _ = intersect(own, other)
    got = virtual_nodes(rows, ids, kind="local-centre", labels=own)
    for number, nodes in enumerate(groups(ids)):
        assert np.allclose(got[number], rows[own == own[nodes[0]]].mean(axis=0))
    for kind, labels in (("intersection", own), ("local-centre", None)):
        with pytest.raises(InvalidInput, match="takes 'labels' for kind 'local-centre'"):
            virtual_nodes(rows, ids, kind=kind, labels=labels)


@given(PARTITIONS, st.randoms())
def test_participants_in_another_order_make_the_same_intersections(labels, random):
    ids, _ = intersect(*map(np.array, labels))
    others, _ = intersect(*map(np.array, random.sample(labels, len(labels))))
    assert np.array_equal(ids[:, None] == ids, others[:, None] == others)


def test_local_clusters_are_those_of_k_means_in_order_of_their_rows():
    random = np.random.default_rng(3)
    rows = np.concatenate([random.normal(c, 0.05, (20, 2)) for c in (0.0, 3.0, 7.0)])
    rows = rows[random.permutation(60)]
    got = local_clusters(rows, 3, seed=5)
    assert accuracy(KMeans(3, n_init=10, random_state=0).fit_predict(rows), got) == 1.0
    first = [rows[got == c, 0].min() for c in range(3)]
    assert first == sorted(first)
    dealt = random.permutation(60)
    assert np.array_equal(local_clusters(rows[dealt], 3, seed=5), got[dealt])
    assert np.array_equal(local_clusters(rows, 3, seed=5), got)
    two = local_clusters(rows[:2], 3, seed=5)  # no more clusters than nodes
    assert two.tolist() == np.argsort(rows[:2, 0]).tolist()
    with pytest.raises(InvalidInput, match="'n_clusters' parameter of local_clusters"):
        local_clusters(rows, 0, seed=5)


@pytest.mark.filterwarnings("ignore:local clusters was asked for")
def test_rows_that_are_equal_but_for_rounding_share_a_local_cluster():
    random = np.random.default_rng(4)
    rows = random.integers(0, 2, (80, 2)).astype(float)
    noise = 1e-15 * random.normal(size=rows.shape)
    own = (rows @ [1, 2]).astype(int)
    for seed in range(5):
        got = local_clusters(rows + noise, 6, seed=seed)
        assert len(set(zip(own.tolist(), got.tolist(), strict=True))) == 4
