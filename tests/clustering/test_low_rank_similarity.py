import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_iris

from daskfc.clustering.kernels.kernels import atom_kernel
from daskfc.clustering.kernels.low_rank_similarity import (
    default_neighbors,
    dictionary_root,
    join_similar,
    most_similar,
    similarity_graph,
    similarity_rows,
)
from daskfc.errors import InvalidInput
from daskfc.metrics import accuracy
from daskfc.protocols.fedsc.maths.dictionary_start import first_dictionary, mean_distance
from daskfc.protocols.fedsc.maths.kernel_dictionary import coefficients, local_update
from daskfc.protocols.fedsc.maths.similarity_spectral import (
    cluster_graph,
    cluster_rows,
    graph_embedding,
    normalised_with_loops,
    row_embedding,
)
from tests.clustering.tiling import in_tiles
from tests.oracles import fedsc as oracle
from tests.protocols.fedsc.one_place import moments_of


def groups(n, d, seed, spread=0.3):
    """Rows B near the first three of d axes, and their groups."""
    random = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return np.eye(d)[y] + spread * np.abs(random.normal(size=(n, d))), y


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 3), st.floats(0.2, 50.0))
def test_rows_multiply_to_the_similarity(seed, d, repeats, width):
    random = np.random.default_rng(seed)
    Z = np.tile(random.normal(size=(d, 2)), (repeats, 1))  # repeated atoms: a singular kernel
    C = random.normal(size=(len(Z), 9))
    L = dictionary_root(Z, width)
    assert np.array_equal(L, np.tril(L))
    B = similarity_rows(C, L)
    np.testing.assert_allclose(B @ B.T, C.T @ oracle.kernel(Z, Z, width) @ C, atol=1e-9)


@given(st.integers(0, 2**32 - 1), st.integers(2, 25), st.data())
def test_the_streamed_graph_is_the_dense_one(seed, n, data):
    k = data.draw(st.integers(1, n))
    B = np.random.default_rng(seed).normal(size=(n, 3))  # similarities below 0 too
    got = similarity_graph(B, k)
    np.testing.assert_allclose(got.toarray(), oracle.sparsified(B @ B.T, k), atol=1e-12)
    assert (got != got.T).nnz == 0


def test_the_graph_does_not_depend_on_the_blocks(monkeypatch):
    B = groups(60, 5, seed=1)[0]
    whole = similarity_graph(B)
    monkeypatch.setattr("daskfc.clustering.kernels.low_rank_similarity._BLOCK", 60 * 7)
    np.testing.assert_allclose(similarity_graph(B).toarray(), whole.toarray(), atol=1e-12)
    K = B @ B.T
    parts = [most_similar(K[start : start + 25], start, 5) for start in (50, 0, 25)]
    np.testing.assert_allclose(join_similar(parts).toarray(), whole.toarray(), atol=1e-12)


@pytest.mark.parametrize("tiles", [1, 3])
@pytest.mark.parametrize(
    "kind", ["spread", "repeated", "closer than float32 can tell", "some rows far smaller", "zero"]
)
def test_screening_in_float32_changes_nothing(monkeypatch, kind, tiles):
    n, k = 300, 4
    random = np.random.default_rng(5)
    B = random.normal(size=(n, 3))
    if kind == "repeated":  # exact in float64, with many ties
        B = np.rint(2 * B)
    elif kind == "closer than float32 can tell":
        B[:, 0] = 1.0 + 1e-11 * B[:, 0]
        B[::2, 1:] = 0.0
    elif kind == "some rows far smaller":
        B *= 10.0 ** random.uniform(-30, 0, size=(n, 1))
    elif kind == "zero":
        B[:] = 0.0
    in_tiles(monkeypatch, n // tiles)
    if kind in ("spread", "some rows far smaller"):  # nothing needs float64 as a whole
        monkeypatch.delattr("daskfc.clustering.kernels.low_rank_similarity.most_similar")
    got = similarity_graph(B, k)
    assert (got != got.T).nnz == 0
    want = join_similar([most_similar(B @ B.T, 0, k)])
    np.testing.assert_allclose(got.toarray(), want.toarray(), rtol=0, atol=1e-13)


def test_similarities_that_overflow_are_refused():
    with pytest.raises(InvalidInput, match="the similarities must be finite"):
        similarity_graph(np.full((3, 1), 1e200))


def test_ties_follow_no_pattern_of_numbers_and_a_sample_is_its_own_neighbour():
    K = np.array([[1.0, 2.0, 2.0, 2.0]])
    assert most_similar(K, 0, 3).indices.tolist() == [[0, 2, 1]]
    graph = similarity_graph(np.ones((4, 1)), 2)  # all alike: nothing to scale by
    want = [[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1]]
    assert graph.toarray().tolist() == want


@pytest.mark.parametrize(("n", "k"), [(1, 1), (2, 1), (150, 6), (1440, 8), (70_000, 12)])
def test_the_number_of_neighbours_is_the_papers(n, k):
    assert default_neighbors(n) == k


def test_the_embedding_of_a_graph_is_the_dense_eigenproblems():
    B = groups(80, 4, seed=2, spread=0.5)[0]
    graph = similarity_graph(B, 20)
    got = graph_embedding(normalised_with_loops(graph), 3, seed=0)
    want = oracle.spectral_rows(graph.toarray(), 3)
    np.testing.assert_allclose(got @ got.T, want @ want.T, atol=1e-7)  # up to a rotation


@given(st.integers(0, 2**32 - 1), st.integers(6, 60), st.integers(3, 6), st.integers(1, 3))
def test_the_embedding_of_all_entries_is_the_dense_eigenproblems(seed, n, d, k):
    B = groups(n, d, seed)[0]
    got, want = row_embedding(B, k), oracle.spectral_rows(B @ B.T, k)
    np.testing.assert_allclose(got @ got.T, want @ want.T, atol=1e-6)


def test_both_ways_find_planted_groups():
    B, y = groups(90, 6, seed=3)
    assert accuracy(y, cluster_graph(similarity_graph(B), 3, seed=0, n_init=3).labels) == 1.0
    assert accuracy(y, cluster_rows(B, 3, seed=0, n_init=3).labels) == 1.0


def test_more_components_than_clusters_are_noted():
    graph = sparse.csr_array(np.kron(np.eye(3), np.ones((2, 2))))
    found = cluster_graph(graph, 2, seed=0, n_init=3)
    assert "3 components, more than the 2 clusters" in found.notes[0]


def test_a_sample_without_any_similarity_is_no_obstacle():
    graph = sparse.csr_array(np.diag([1.0, 0.0, 1.0]) + np.eye(3)[::-1] * np.array([1.0, 0.0, 1.0]))
    assert np.isfinite(graph_embedding(normalised_with_loops(graph), 2, seed=0)).all()


def iris_labels(clients, seed, n_atoms=20, all_entries=False):
    """FedSC in plain arrays: 5 rounds of preconditioned steps, averaged."""
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(X))
    shards = np.array_split(X[order], clients)
    width = np.mean([mean_distance(own) for own in shards])
    Z = first_dictionary(moments_of(*shards), n_atoms, seed)
    for _ in range(5):
        shares = [len(own) / len(X) * local_update(own, Z, width, 1e-3) for own in shards]
        Z = np.sum(shares, axis=0)
    L = dictionary_root(Z, width)
    C = np.hstack([coefficients(own, Z, width, 1e-3) for own in shards])
    B = similarity_rows(C, L)
    np.testing.assert_allclose(B @ B.T, C.T @ atom_kernel(Z, width) @ C, atol=1e-9)
    if all_entries:
        return y[order], cluster_rows(B, 3, seed=seed).labels
    return y[order], cluster_graph(similarity_graph(B), 3, seed=seed).labels


@pytest.mark.slow
@pytest.mark.parametrize("clients", [1, 2, 8])
def test_iris_reaches_the_papers_accuracy(clients):
    scores = [accuracy(*iris_labels(clients, seed)) for seed in range(5)]
    assert np.mean(scores) > 0.89, scores
    assert min(scores) > 0.85, scores


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: similarity_graph([[np.inf]]), "B must be finite"),
        (lambda: row_embedding(np.ones((4, 2)), 3), "'n_clusters' parameter of row_embedding"),
        (lambda: row_embedding([[1.0], [-0.5]], 1), "got some of 2 samples for which they do not"),
        (lambda: cluster_rows(np.ones((4, 2)), 2, seed=-1), "'seed' parameter"),
        (
            lambda: cluster_graph(sparse.csr_array(np.ones((2, 2))), 3, seed=0),
            "'n_clusters' parameter of graph_embedding",
        ),
        (
            lambda: cluster_graph(sparse.csr_array(np.ones((2, 2))), 1, seed=0, n_init=0),
            "'n_init' parameter",
        ),
    ],
)
def test_bad_input_is_refused(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()
