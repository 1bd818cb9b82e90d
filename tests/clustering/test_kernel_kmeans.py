"""Kernel k-means against eigenvectors of the whole kernel matrix, and its Nyström approximation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.datasets import make_circles
from sklearn.kernel_approximation import Nystroem

from daskfc.clustering import FullDistances, KernelKMeans, NystroemKMeans, RowFactors
from daskfc.clustering.clusterers import kernel_kmeans
from daskfc.clustering.clusterers.kernel_kmeans import exact_embedding, landmark_embedding
from daskfc.clustering.kernels.features import KERNELS, Kernel
from daskfc.clustering.kernels.products import (
    KernelProducts,
    kernel_of_distances,
    kernel_of_points,
)
from daskfc.clustering.views.nearest import exact_squared_distances
from daskfc.errors import InvalidInput
from daskfc.linalg.block_krylov import block_eigenpairs
from tests.oracles.clustering import same_partition


def samples(n=700, d=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) + 3 * rng.standard_normal((6, d))[rng.integers(6, size=n)]


# -- products with the kernel ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize("single", [False, True])
def test_blocks_are_the_values_of_the_kernel(kind, single):
    X, kernel = samples(50) + 100, Kernel(kind, 4.0, 2)
    rows, columns = np.array([3, 1, 49]), slice(10, 30)
    found = kernel_of_points(X, kernel, single=single)(rows, columns)
    assert found.dtype == (np.float32 if single else np.float64)
    expected = kernel.values(X[rows], X[columns])
    np.testing.assert_allclose(found, expected, rtol=2e-5 if single else 1e-9, atol=1e-12)


def test_blocks_of_distances_are_the_gaussian_kernel():
    X = samples(30)
    found = kernel_of_distances(cdist(X, X, "sqeuclidean"), 2.0)(slice(0, 9), np.array([8, 2]))
    expected = Kernel("gaussian", 2.0).values(X[:9], X[[8, 2]])
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("step", [1, 7, 64])
def test_a_product_in_blocks_is_the_product(held, step, monkeypatch):
    monkeypatch.setattr("daskfc.clustering.kernels.products._STEP", step)
    monkeypatch.setattr("daskfc.clustering.kernels.products.HELD", 1 << 20 if held else 0)
    X, kernel = samples(40), Kernel("gaussian", 2.0)
    products = KernelProducts(kernel_of_points(X, kernel), 40)
    V = np.random.default_rng(0).standard_normal((40, 3))
    for _ in range(2):  # the second time from what is held
        np.testing.assert_allclose(products.dot(V), kernel.values(X, X) @ V, atol=1e-11)
    assert (products._held is not None) == held


def test_half_a_matrix_is_held_within_the_budget():
    assert KernelProducts.holds(10_606, np.float64)
    assert not KernelProducts.holds(10_620, np.float64)
    assert KernelProducts.holds(15_391, np.float32)


# -- eigenpairs -----------------------------------------------------------------------------------


@given(seed=st.integers(0, 2**30), n=st.integers(1, 60), rank=st.integers(0, 60))
def test_eigenpairs_are_those_of_the_whole_matrix(seed, n, rank):
    """Of full rank and not, with values that repeat, from any start."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    values = np.where(np.arange(n) < rank, np.round(4 * rng.exponential(size=n)), 0.0)
    A = (Q * values) @ Q.T
    A = (A + A.T) / 2
    k = int(rng.integers(1, n + 1))
    start = rng.standard_normal((n, min(n, k + 3)))
    found = block_eigenpairs(lambda x: A @ x, start, k, tolerance=1e-10, max_products=80)
    expected = np.sort(values)[::-1][:k]
    np.testing.assert_allclose(found.values, expected, atol=1e-8 * (1 + values.max()))
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(k), atol=1e-9)
    residual = np.linalg.norm(A @ found.vectors - found.vectors * found.values, axis=0).max()
    assert residual <= 1e-8 * (1 + values.max())


def test_too_few_products_say_how_exact_they_are():
    A = np.diag(np.linspace(1.0, 2.0, 300))
    start = np.random.default_rng(0).standard_normal((300, 4))
    found = block_eigenpairs(lambda x: A @ x, start, 2, tolerance=1e-12, max_products=3)
    assert found.n_products == 3
    assert found.residual > 1e-3
    assert np.abs(found.values - 2.0).max() <= found.residual + 0.01


# -- coordinates ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize("n", [200, 900])
def test_coordinates_are_those_of_the_whole_kernel_matrix(kind, n):
    """With 900 samples by products of blocks, with 200 of the whole matrix."""
    X, s = samples(n), 4
    kernel = Kernel(kind, 6.0, 2)
    K = kernel.values(X, X)
    block = kernel_of_points(X, kernel)
    H, _, projection, converged = exact_embedding(block, n, s, 0, dtype=np.float64)
    values, vectors = np.linalg.eigh(K)
    best = (vectors[:, -s:] * values[-s:]) @ vectors[:, -s:].T
    assert converged
    np.testing.assert_allclose(H @ H.T, best, atol=1e-4 * np.abs(best).max())
    np.testing.assert_allclose(K @ projection, H, atol=1e-4 * np.abs(H).max())


def test_coordinates_of_copies_have_no_more_dimensions_than_there_are_samples():
    X = np.repeat(samples(3), 300, axis=0)
    block = kernel_of_points(X, Kernel("gaussian", 3.0))
    H, _, projection, _ = exact_embedding(block, 900, 5, 0, dtype=np.float64)
    assert np.abs(H[:, 3:]).max() < 1e-4
    assert np.isfinite(projection).all()
    np.testing.assert_allclose(H @ H.T, block(slice(0, 900), slice(0, 900)), atol=1e-4)


def test_all_samples_as_landmarks_are_exact():
    X, kernel = samples(150), Kernel("gaussian", 5.0)
    block = kernel_of_points(X, kernel)
    exact = exact_embedding(block, 150, 4, 0, dtype=np.float64)[0]
    found, places, projection, _ = landmark_embedding(block, 150, 4, 150, 0)
    assert sorted(places) == list(range(150))
    np.testing.assert_allclose(found @ found.T, exact @ exact.T, atol=1e-6)
    np.testing.assert_allclose(kernel.values(X, X[places]) @ projection, found, atol=1e-8)


def test_landmarks_give_the_best_rank_of_scikit_learns_approximation():
    X, kernel, s = samples(300), Kernel("gaussian", 5.0), 3
    H, places, _, _ = landmark_embedding(kernel_of_points(X, kernel), 300, s, 40, 1)
    library = Nystroem(gamma=1 / 50.0, n_components=40, random_state=0).fit(X[places])
    B = library.transform(X)
    U, sigma, _ = np.linalg.svd(B, full_matrices=False)
    best = (U[:, :s] * sigma[:s] ** 2) @ U[:, :s].T
    np.testing.assert_allclose(H @ H.T, best, atol=1e-6)
    K = kernel.values(X, X)
    values = np.linalg.eigvalsh(K)
    optimal = np.sqrt((values[:-s] ** 2).sum())
    assert np.linalg.norm(K - H @ H.T) < 1.2 * optimal


# -- clusters -------------------------------------------------------------------------------------


@pytest.mark.parametrize("clusterer", [KernelKMeans, NystroemKMeans])
def test_circles_are_found_by_a_kernel(clusterer):
    X, y = make_circles(400, factor=0.2, noise=0.02, random_state=0)
    found = clusterer(kernel_width=0.3, n_eigenvectors=4).pooled(X, 2, 0)
    assert same_partition(found.labels, y)
    poly = clusterer(kernel="polynomial", degree=2, n_eigenvectors=6).pooled(X, 2, 0)
    assert poly.model == {}  # distances do not tell inner products


@pytest.mark.parametrize("clusterer", [KernelKMeans(), NystroemKMeans(n_landmarks=60)])
def test_distances_rows_and_samples_give_one_clustering(clusterer):
    X = samples(300)
    pooled = clusterer.pooled(X, 5, 3)
    distances = exact_squared_distances(X)
    for view in (FullDistances(distances), RowFactors(X - X[0])):
        found = clusterer.fit(view, 5, 3)
        assert np.array_equal(found.labels, pooled.labels)
        assert found.score == pytest.approx(pooled.score)
    for model in (pooled, found):
        assert np.array_equal(clusterer.predict(model, distances), pooled.labels)


@pytest.mark.parametrize("clusterer", [KernelKMeans(), NystroemKMeans()])
def test_equal_samples_make_one_cluster(clusterer):
    found = clusterer.pooled(np.full((9, 2), 4.0), 1, 0)
    assert not found.labels.any()
    assert not clusterer.predict(found, np.zeros((2, 9))).any()


def test_other_kernels_need_samples():
    for kind in ("laplacian", "polynomial"):
        clusterer = KernelKMeans(kernel=kind)
        assert clusterer.pooled(samples(40), 3, 0).labels.size == 40
        for ask in (lambda c: c.needs(40, 5), lambda c: c.fit(RowFactors(samples(40)), 3, 0)):
            with pytest.raises(InvalidInput, match="must be 'gaussian' on squared distances"):
                ask(clusterer)


def test_ranks_that_cannot_be_are_refused():
    X = samples(20)
    with pytest.raises(InvalidInput, match=r"'n_eigenvectors' parameter .* at most .* 20; got 21"):
        KernelKMeans(n_eigenvectors=21).pooled(X, 2, 0)
    with pytest.raises(InvalidInput, match=r"'n_landmarks' parameter .* eigenvectors, 4; got 3"):
        NystroemKMeans(n_landmarks=3).pooled(X, 4, 0)


def test_what_is_not_exact_is_said(monkeypatch):
    monkeypatch.setattr(kernel_kmeans, "_PRODUCTS", 1)
    monkeypatch.setattr(kernel_kmeans, "_TOLERANCE", 1e-14)
    found = KernelKMeans(kernel_width=0.5).pooled(samples(700), 3, 0)
    assert not found.converged
    assert "less exact than 1e-6" in found.notes[0]
