import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from daskfc.baselines.maths.walk_embedding import match_signs, neighbour_similarity, walk_embedding


def slow_similarity(X, k, scale):
    """max(S, Sᵀ) entry by entry."""
    n = len(X)
    distance = [[float(np.sqrt(((X[i] - X[j]) ** 2).sum())) for j in range(n)] for i in range(n)]
    S = np.zeros((n, n))
    for i in range(n):
        for j in sorted((j for j in range(n) if j != i), key=lambda j: (distance[i][j], j))[:k]:
            S[i, j] = S[j, i] = np.exp(-((distance[i][j] / scale) ** 2))
    return S


@given(
    seed=st.integers(0, 2**16),
    n=st.integers(1, 25),
    k=st.integers(0, 8),
    scale=st.sampled_from([0.5, 1.0, 4.0]),
)
def test_similarity_equals_the_definition(seed, n, k, scale):
    X = np.random.default_rng(seed).standard_normal((n, 3))
    k = min(k, n - 1)
    found = neighbour_similarity(X, k, scale)
    np.testing.assert_allclose(found.toarray(), slow_similarity(X, k, scale), rtol=1e-9)


def test_weights_that_underflow_are_no_edges():
    graph = neighbour_similarity(np.array([[0.0], [1.0], [1e9]]), 1, 1.0)
    assert graph.nnz == 2
    assert neighbour_similarity(np.array([[0.0], [1e9]]), 1, 1e-300).nnz == 0


@pytest.mark.parametrize("n", [40, 700])  # a full decomposition, and an iteration
def test_embedding_solves_the_generalised_problem(n):
    X = np.random.default_rng(1).standard_normal((n, 2)) * [3.0, 1.0]
    graph = neighbour_similarity(X, 10, 2.0)
    W = graph.toarray()
    D = np.diag(W.sum(axis=0))
    values, vectors = scipy.linalg.eigh(D - W, D)
    assert np.diff(values[:5]).min() > 5e-4, values[:5]  # else the vectors are not determined
    expected = vectors[:, :4] / np.linalg.norm(vectors[:, :4], axis=0)
    found = walk_embedding(graph, 4, seed=0)
    signs = np.sign(np.einsum("ij,ij->j", expected, found))
    np.testing.assert_allclose(found, expected * signs, atol=1e-7)


@given(seed=st.integers(0, 2**16))
def test_signs_agree_afterwards_and_theirs_do_not_matter_beyond_that(seed):
    rng = np.random.default_rng(seed)
    V, theirs = rng.standard_normal((6, 4)), rng.standard_normal(4)
    found = match_signs(V, V[-1], theirs)
    assert (found[-1] * theirs >= 0).all()
    np.testing.assert_array_equal(np.abs(found), np.abs(V))
    np.testing.assert_array_equal(match_signs(-V, -V[-1], 3 * theirs), found)


def test_a_zero_flips_nothing():
    V = np.array([[1.0, -2.0], [0.0, -3.0]])
    np.testing.assert_array_equal(match_signs(V, V[-1], np.array([-1.0, 0.0])), V)
