"""Normalised adjacency, components and leading eigenvectors against dense linear algebra."""

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.csgraph import laplacian

from daskfc.linalg import (
    NormalisedAdjacency,
    components_of,
    laplacian_eigenvalues,
    laplacian_embedding,
    largest_eigenpairs,
)


def graph(n, seed, blocks=1):
    random = np.random.default_rng(seed)
    W = random.random((n, n)) * (random.random((n, n)) < 0.3)
    part = np.arange(n) % blocks
    W *= part[:, None] == part
    return W + W.T


@pytest.mark.parametrize("make", [np.array, sparse.csr_array])
def test_normalised_adjacency_is_one_minus_the_laplacian(make):
    W = graph(30, 0)
    expected = np.eye(30) - laplacian(W, normed=True)
    N = NormalisedAdjacency.of(make(W)).matrix
    N = N if isinstance(N, np.ndarray) else N.toarray()
    np.testing.assert_allclose(N, expected, atol=1e-14)


@pytest.mark.parametrize("make", [np.array, sparse.csr_array])
def test_components_and_nodes_without_edges(make):
    W = np.zeros((6, 6))
    W[0, 3] = W[3, 0] = W[2, 5] = W[5, 2] = 1.0
    assert components_of(make(W)).tolist() == [0, 1, 2, 0, 3, 2]
    normal = NormalisedAdjacency.of(make(W))
    assert normal.n_components == 4
    assert normal.root_degrees.tolist() == [1.0] * 6


@pytest.mark.parametrize("n", [40, pytest.param(900, marks=pytest.mark.slow)])
@pytest.mark.parametrize("blocks", [1, 3])
def test_embedding_spans_the_dense_eigenvectors(n, blocks):
    W = graph(n, 1, blocks)
    k = 5
    embedding = laplacian_embedding(NormalisedAdjacency.of(sparse.csr_array(W)), k, 0)
    degrees = W.sum(axis=0) - W.diagonal()  # loops are ignored
    L, root = laplacian(W, normed=True), np.sqrt(degrees)
    values, vectors = np.linalg.eigh(L)
    found = embedding * root[:, None]
    np.testing.assert_allclose(found.T @ found, np.eye(k), atol=1e-8)
    np.testing.assert_allclose(np.einsum("ij,ij->j", found, L @ found), values[:k], atol=1e-8)
    np.testing.assert_allclose(found @ found.T, vectors[:, :k] @ vectors[:, :k].T, atol=1e-6)
    told = laplacian_eigenvalues(NormalisedAdjacency.of(sparse.csr_array(W)), k, 0)
    np.testing.assert_allclose(told, values[:k], atol=1e-8)
    assert not told[:blocks].any()
    assert told[blocks] > 0


def test_more_components_than_vectors_keeps_the_largest():
    W = np.zeros((7, 7))
    for i, j in [(0, 1), (2, 3), (3, 4), (5, 6)]:
        W[i, j] = W[j, i] = 1.0
    embedding = laplacian_embedding(NormalisedAdjacency.of(W), 2, 0)
    assert (embedding != 0).T.tolist() == [
        [False, False, True, True, True, False, False],
        [True, True, False, False, False, False, False],
    ]


@pytest.mark.parametrize("n", [30, 700])
def test_leading_eigenpairs_by_size_and_by_value(n):
    random = np.random.default_rng(0)
    Q = np.linalg.qr(random.normal(size=(n, 4)))[0]
    A = Q @ np.diag([3.0, -7.0, 2.0, -1.0]) @ Q.T
    values, vectors = largest_eigenpairs(lambda x: A @ x, n, 3, 0, by_size=True)
    np.testing.assert_allclose(values, [-7, 3, 2], atol=1e-7)
    np.testing.assert_allclose(A @ vectors, vectors * values, atol=1e-7)
    assert (vectors[np.abs(vectors).argmax(axis=0), range(3)] > 0).all()
    values, _ = largest_eigenpairs(lambda x: A @ x, n, 2, 0, by_size=False)
    np.testing.assert_allclose(values, [3, 2], atol=1e-7)
