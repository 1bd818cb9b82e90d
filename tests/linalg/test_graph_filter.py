import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from daskfc.errors import InvalidInput
from daskfc.linalg.graph_filter import GraphOperator, filter_features, row_blocks
from tests.oracles import kcagc as oracle


def graph(n, seed, loops=True):
    """A weighted graph with some loops and one node without edges."""
    random = np.random.default_rng(seed)
    A = np.triu(random.random((n, n)) * (random.random((n, n)) < 0.3), k=0 if loops else 1)
    A = A + np.triu(A, 1).T
    A[n - 1] = A[:, n - 1] = 0.0
    return A, random.normal(size=(n, 3))


@settings(max_examples=40)
@given(st.integers(2, 25), st.integers(0, 9), st.sampled_from(["agc", "laplacian"]), st.booleans())
def test_products_equal_the_decomposition_of_the_paper(n, order, kind, self_loops):
    A, X = graph(n, seed=n + order)
    got = filter_features(sparse.csr_array(A), X, order=order, kind=kind, self_loops=self_loops)
    assert np.allclose(got, oracle.filtered(A, X, order, kind, self_loops), atol=1e-12)


@pytest.mark.parametrize("order", [0, 1, 4])
def test_the_filter_of_gcc_averages_by_rows_that_sum_to_1(order):
    A = np.array([[0.0, 2, 1, 0], [2, 0, 0, 0], [1, 0, 3, 0], [0, 0, 0, 0]])  # loop, lone node
    looped = A + np.eye(4)
    root = np.sqrt(looped.sum(axis=1))
    S = looped / root[:, None] / root + np.eye(4)
    S /= S.sum(axis=1, keepdims=True)
    X = np.random.default_rng(0).normal(size=(4, 3))
    wanted = np.linalg.matrix_power(S, order) @ X
    found = filter_features(sparse.csr_array(A), X, order=order, kind="gcc")
    np.testing.assert_allclose(found, wanted, atol=1e-14)


def test_order_0_changes_nothing_and_the_input_stays():
    A, X = graph(9, seed=0)
    before = X.copy()
    assert np.allclose(filter_features(A, X, order=0), X, atol=1e-15)
    filter_features(A, X, order=3)
    assert np.array_equal(X, before)


def test_a_filter_for_many_rounds_leaves_the_smoothest_function_of_a_component():
    ring = np.roll(np.eye(8), 1, axis=1) + np.roll(np.eye(8), -1, axis=1)
    X = np.arange(8.0)[:, None]
    assert np.allclose(filter_features(ring, X, order=500), X.mean())


def test_row_blocks_and_column_blocks_give_the_same_numbers():
    A, X = graph(23, seed=4)
    whole = filter_features(A, X, order=5)
    operator = GraphOperator.of(row_blocks(A, rows=4), 23)
    columns = [operator.filtered(X[:, [j]], order=5) for j in range(3)]
    assert np.allclose(np.hstack(columns), whole, atol=1e-15)
    assert np.allclose(operator.apply(X), oracle.normalised(A) @ X)


def test_sparse_features_and_float32():
    A, X = graph(12, seed=1)
    whole = filter_features(A, X, order=4)
    assert np.allclose(filter_features(A, sparse.csr_array(X), order=4), whole)
    single = filter_features(A, X, order=4, dtype=np.float32)
    assert single.dtype == np.float32
    assert np.allclose(single, whole, atol=1e-5)


@pytest.mark.parametrize("self_loops", [True, False])
def test_the_norm_by_lanczos_is_the_largest_eigenvalue(self_loops):
    random = np.random.default_rng(2)
    pairs = random.integers(0, 400, (2, 1500))
    A = sparse.coo_array((np.ones(1500), pairs), shape=(400, 400)).tocsr()
    A = A + A.T
    operator = GraphOperator.of(row_blocks(A), 400, self_loops=self_loops)
    exact = np.linalg.eigvalsh(np.eye(400) - oracle.normalised(A.toarray(), self_loops))[-1]
    assert operator.laplacian_norm() == pytest.approx(exact, rel=1e-10)
    assert operator.laplacian_norm() == operator.laplacian_norm()


def test_a_graph_of_loops_only_has_nothing_to_smooth():
    X = np.arange(6.0).reshape(3, 2)
    got = filter_features(sparse.eye_array(3), X, order=4, kind="laplacian")
    assert np.array_equal(got, X)


@pytest.mark.slow
def test_a_large_graph_takes_no_more_than_two_copies_of_a_column_block():
    random = np.random.default_rng(0)
    n, edges, columns = 200_000, 1_000_000, 8
    pairs = random.integers(0, n, (2, edges))
    A = sparse.coo_array((np.ones(edges, np.float32), pairs), shape=(n, n)).tocsr()
    A = A + A.T
    X = random.random((n, columns))
    operator = GraphOperator.of(row_blocks(A, rows=10_000), n)
    tracemalloc.start()
    operator.filtered(X, order=2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * X.nbytes + 10 * n * 8


def asymmetric():
    A = np.zeros((3, 3))
    A[0, 1] = 1.0
    return A


@pytest.mark.parametrize(
    ("A", "X", "options", "words"),
    [
        (asymmetric(), np.ones((3, 1)), {}, "must be symmetric"),
        (np.ones((3, 2)), np.ones((3, 1)), {}, "must be square"),
        (-np.eye(3), np.ones((3, 1)), {}, "finite and at least 0"),
        (np.diag([np.inf] * 3), np.ones((3, 1)), {}, "finite and at least 0"),
        (np.eye(3), np.ones((4, 1)), {}, r"must have shape \(3, d\); got \(4, 1\)"),
        (np.eye(3), np.ones((3, 1)), {"order": -1}, "'order' parameter"),
        (np.eye(3), np.ones((3, 1)), {"kind": "high"}, "'kind' parameter"),
    ],
)
def test_bad_input_is_refused(A, X, options, words):
    with pytest.raises(InvalidInput, match=words):
        filter_features(sparse.csr_array(A), X, **{"order": 1, **options})


def test_blocks_must_be_all_rows_in_order():
    A = sparse.csr_array(np.eye(4))
    with pytest.raises(InvalidInput, match="must hold all its rows; got 2"):
        GraphOperator.of(lambda: [(0, A[:2])], 4)
    with pytest.raises(InvalidInput, match="where row 0 was due"):
        GraphOperator.of(lambda: [(2, A[2:]), (0, A[:2])], 4)
    with pytest.raises(InvalidInput, match="row sums differ"):
        GraphOperator.of(row_blocks(asymmetric()), 3)
