"""disKPCA on arrays: against exact leverage scores and exact kernel principal components."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskfc.baselines.maths.kernel_pca import (
    SpanOfSamples,
    drawn,
    embedded,
    leading_directions,
    leverage_factor,
    leverage_scores,
    shares,
    sketched,
)
from daskfc.clustering.kernels.features import KERNELS, Kernel


def clients(seed=0, sizes=(90, 150, 60), d=4):
    rng = np.random.default_rng(seed)
    centers = 3 * rng.standard_normal((5, d))
    return [centers[rng.integers(5, size=n)] + 0.7 * rng.standard_normal((n, d)) for n in sizes]


def components(parts, kernel, k, *, p=60, t=50, columns=250, width=None, seed=0):
    """The whole algorithm, at clients and server in turn: coordinates of each client's samples."""
    features = kernel.features(400, seed, parts[0].shape[1])
    E = [embedded(features, part, t, seed) for part in parts]
    factor = leverage_factor(sketched([e], e.shape[1], columns, seed, i) for i, e in enumerate(E))
    Y = np.empty((0, parts[0].shape[1]))
    for what in ("leverage", "adaptive"):
        if what == "leverage":
            scores = [leverage_scores(factor, e) for e in E]
        else:
            scores = [SpanOfSamples(kernel, Y).residuals(part) for part in parts]
        counts = shares(np.array([one.sum() for one in scores]), p // 2, seed, what)
        more = [
            part[drawn(one, count, seed, what, i)]
            for i, (part, one, count) in enumerate(zip(parts, scores, counts, strict=True))
        ]
        Y = np.concatenate([Y, *more])
    span = SpanOfSamples(kernel, Y)
    Pi = [span.projected(part) for part in parts]
    W = leading_directions(
        [
            sketched([one], one.shape[1], width or len(Y), seed, "directions", i)
            for i, one in enumerate(Pi)
        ],
        k,
    )
    return [one.T @ W for one in Pi]


def errors(parts, kernel, coordinates, k):
    """How much of φ the coordinates miss, and how much the best k dimensions do."""
    X = np.concatenate(parts)
    K = kernel.values(X, X)
    found = np.trace(K) - np.square(np.concatenate(coordinates)).sum()
    return found, np.linalg.eigvalsh(K)[:-k].sum()


@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize("k", [2, 5])
def test_components_are_about_as_good_as_the_exact_ones(kind, k):
    parts, kernel = clients(), Kernel(kind, 5.0, 2)
    found, best = errors(parts, kernel, components(parts, kernel, k), k)
    assert best * (1 - 1e-9) <= found <= 1.12 * best


def test_more_representatives_come_nearer_to_the_exact_components():
    parts, kernel = clients(), Kernel("gaussian", 3.0)
    excess = []
    for p in (10, 40, 160):
        runs = [components(parts, kernel, 4, p=p, seed=seed) for seed in range(5)]
        pairs = [errors(parts, kernel, run, 4) for run in runs]
        excess.append(np.mean([found / best - 1 for found, best in pairs]))
    assert excess[0] > excess[1] > excess[2]
    assert excess[2] < 0.02


def test_all_samples_as_representatives_are_exact_kernel_pca():
    parts, kernel, k = clients(sizes=(20, 30)), Kernel("gaussian", 5.0), 4
    X = np.concatenate(parts)
    span = SpanOfSamples(kernel, X)
    Pi = [span.projected(part) for part in parts]
    W = leading_directions(Pi, k)
    found = np.concatenate([one.T @ W for one in Pi])
    values, vectors = np.linalg.eigh(kernel.values(X, X))
    best = (vectors[:, -k:] * values[-k:]) @ vectors[:, -k:].T
    np.testing.assert_allclose(found @ found.T, best, atol=1e-5)


def test_scores_are_the_leverage_scores_of_all_clients_columns():
    rng = np.random.default_rng(0)
    E = [rng.standard_normal((6, n)) @ np.diag(rng.exponential(size=n)) for n in (9, 14)]
    every = np.concatenate(E, axis=1)
    exact = np.diag(every.T @ np.linalg.inv(every @ every.T) @ every)
    factor = leverage_factor(E)
    found = np.concatenate([leverage_scores(factor, e) for e in E])
    np.testing.assert_allclose(found, exact, rtol=1e-9)
    assert found.sum() == pytest.approx(6)


def test_sketched_scores_are_about_the_exact_ones():
    rng = np.random.default_rng(1)
    E = [rng.standard_normal((10, n)) for n in (2000, 3000)]
    exact, factor = (
        leverage_factor(E),
        leverage_factor(sketched([e], e.shape[1], 250, 0, n) for n, e in enumerate(E)),
    )
    for e in E:
        ratio = leverage_scores(factor, e) / leverage_scores(exact, e)
        assert 0.5 < ratio.min() < ratio.max() < 2


def test_columns_without_rank_do_no_harm():
    E = np.outer(np.arange(1.0, 5.0), [1.0, 2.0, 0.0])
    factor = leverage_factor([E])
    assert factor.shape == (1, 4)
    np.testing.assert_allclose(leverage_scores(factor, E), [0.2, 0.8, 0.0], atol=1e-12)
    assert leverage_factor([np.zeros((3, 2))]).shape == (0, 3)
    assert leverage_scores(np.zeros((0, 3)), np.zeros((3, 2))).tolist() == [0.0, 0.0]


def test_features_fewer_than_the_sketch_are_sent_as_they_are():
    kernel, rows = Kernel("gaussian", 1.0), clients()[0]
    features = kernel.features(20, 0, 4)
    np.testing.assert_array_equal(embedded(features, rows, 50, 0), features.of(rows).T)
    assert embedded(kernel.features(200, 0, 4), rows, 50, 0).shape == (50, 90)


def test_a_sketch_keeps_products_on_average():
    matrix = np.random.default_rng(2).standard_normal((3, 700))
    mean = np.mean([(s := sketched([matrix], 700, 50, i)) @ s.T for i in range(300)], axis=0)
    np.testing.assert_allclose(mean, matrix @ matrix.T, atol=60)


def test_how_columns_are_cut_does_not_matter(monkeypatch):
    matrix = np.random.default_rng(3).standard_normal((2, 300))
    whole = sketched([matrix], 300, 40, 0, "a")
    monkeypatch.setattr("daskfc.baselines.maths.kernel_pca._BLOCK", 400)
    parts = sketched(np.split(matrix, [1, 77, 280], axis=1), 300, 40, 0, "a")
    np.testing.assert_allclose(parts, whole, atol=1e-12)
    np.testing.assert_array_equal(sketched(np.split(matrix, 3, axis=1), 300, 300, 0), matrix)


@given(seed=st.integers(0, 2**20), n=st.integers(0, 40), count=st.integers(0, 50))
def test_samples_are_drawn_once_and_never_without_a_score(seed, n, count):
    scores = np.maximum(np.random.default_rng(seed).standard_normal(n), 0.0)
    found = drawn(scores, count, seed, "test")
    assert len(set(found.tolist())) == len(found) == min(count, int((scores > 0).sum()))
    assert (scores[found] > 0).all()
    assert np.array_equal(found, drawn(scores, count, seed, "test"))


def test_shares_add_up_and_follow_the_scores():
    totals = np.array([1.0, 0.0, 3.0])
    found = np.sum([shares(totals, 100, seed, "test") for seed in range(50)], axis=0)
    assert found.sum() == 5000
    assert found[1] == 0
    assert abs(found[2] / 5000 - 0.75) < 0.05
    assert not shares(np.zeros(3), 10, 0, "test").any()


@pytest.mark.parametrize("kind", KERNELS)
def test_residuals_are_distances_to_the_span(kind):
    kernel = Kernel(kind, 2.0, 2)
    Y, X = clients(seed=3, sizes=(12, 30))
    Y = np.concatenate([Y, Y[:3]])  # equal representatives
    found = SpanOfSamples(kernel, Y).residuals(X)
    K = kernel.values(Y, Y)
    k = kernel.values(Y, X)
    exact = np.array([kernel.values(x[None], x[None]).item() for x in X])
    exact = exact - np.einsum("ij,ij->j", k, np.linalg.pinv(K, rcond=1e-12, hermitian=True) @ k)
    np.testing.assert_allclose(found, np.maximum(exact, 0), atol=1e-5)
    assert not SpanOfSamples(kernel, Y).residuals(Y).any()


def test_directions_beyond_the_representatives_are_zero():
    W = leading_directions([np.eye(2), np.diag([1.0, 0.0])], 4)
    assert W.round(12).tolist() == [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]]
