"""Reduced k-means: its objective, what it is for, and new samples."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import ortho_group

from daskfc.clustering import FullDistances, ReducedKMeans, RowFactors
from daskfc.clustering.clusterers import reduced_kmeans as module
from daskfc.clustering.clusterers.kmeans import best_partition
from daskfc.clustering.clusterers.reduced_kmeans import reduced
from daskfc.errors import InvalidInput
from daskfc.metrics import ari


def hidden(n=300, noise=40, seed=0):
    """Three groups in a plane, among columns of noise that vary more than they do."""
    random = np.random.default_rng(seed)
    y = random.integers(0, 3, n)
    plane = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])[y] + random.normal(size=(n, 2))
    return np.hstack([plane, 2.0 * random.normal(size=(n, noise))]), y


def loss(X, labels, W, F):
    return np.linalg.norm(X - F[labels] @ W.T)


def test_no_step_of_the_alternation_raises_the_objective():
    X, _ = hidden()
    X = X - X.mean(axis=0)
    start = np.random.default_rng(1).integers(0, 3, len(X))
    embedded = X @ np.linalg.eigh(X.T @ X)[1][:, -2:]
    found = [reduced(X, start, embedded, 3, max_iter=i, tolerance=0.0) for i in range(1, 8)]
    losses = [loss(X, one.labels, one.W, one.F) for one in found]
    assert np.all(np.diff(losses) <= 1e-9)
    assert losses[-1] < losses[0]
    best = found[-1]
    np.testing.assert_allclose(best.W.T @ best.W, np.eye(2), atol=1e-12)
    for c in range(3):  # means of the embedding, and samples at the nearest of them
        np.testing.assert_allclose(best.F[c], (X @ best.W)[best.labels == c].mean(axis=0))
    apart = np.linalg.norm((X @ best.W)[:, None] - best.F[None], axis=2)
    assert (apart.argmin(axis=1) == best.labels).mean() > 0.98


def test_it_ends_where_principal_components_and_k_means_begin_or_better():
    X, y = hidden()
    X = X - X.mean(axis=0)
    components = np.linalg.eigh(X.T @ X)[1][:, -2:]
    tandem = best_partition(X @ components, 3, 0, n_init=10, max_iter=300, owner="test").labels
    means = np.array([(X @ components)[tandem == c].mean(axis=0) for c in range(3)])
    found, clustering = ReducedKMeans(n_components=2)._found(X, 3, 0)
    assert loss(X, found.labels, found.W, found.F) < loss(X, tandem, components, means)
    assert ari(clustering.labels, y) > 0.97


def test_a_rotation_and_a_shift_change_no_label():
    X, _ = hidden()
    moved = 5.0 + X @ ortho_group.rvs(X.shape[1], random_state=0)
    one, other = (ReducedKMeans(2).fit(RowFactors(rows), 3, 0).labels for rows in (X, moved))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("n_components", [None, 1, 2])
def test_new_samples_go_to_the_nearest_mean_in_the_directions_found(n_components):
    X, _ = hidden()
    new = hidden(seed=5)[0]
    model = ReducedKMeans(n_components)
    fitted = model.fit(RowFactors(X), 3, 0)
    D = cdist(new, X, "sqeuclidean")
    centred = X - X.mean(axis=0)
    reduced_ = model._found(centred, 3, 0)[0]
    embedded = (new - X.mean(axis=0)) @ reduced_.W
    wanted = np.linalg.norm(embedded[:, None] - reduced_.F[None], axis=2).argmin(axis=1)
    np.testing.assert_array_equal(model.predict(fitted, D), wanted)


def test_more_directions_than_features_are_as_many_as_these():
    X = np.repeat([[0.0], [5.0], [9.0]], 4, axis=0)
    found = ReducedKMeans(n_components=7).pooled_labels(X, 3, 0)
    assert ari(found, np.repeat([0, 1, 2], 4)) == 1.0


def test_the_samples_of_a_fit_go_to_their_own_clusters(monkeypatch):
    def otherwise_named(*given, **how):
        found = best_partition(*given, **how)
        return replace(found, labels=2 - found.labels)

    monkeypatch.setattr(module, "best_partition", otherwise_named)
    X, _ = hidden()
    fitted = ReducedKMeans(2).fit(RowFactors(X), 3, 0)
    assert fitted.labels[:2].tolist() == [0, 1]  # names follow the order of samples
    found = ReducedKMeans(2).predict(fitted, cdist(X, X, "sqeuclidean"))
    np.testing.assert_array_equal(found, fitted.labels)


@pytest.mark.filterwarnings("ignore:.*fewer distinct values")
def test_no_new_sample_goes_to_an_empty_cluster():
    X = np.repeat([[0.0], [9.0]], 3, axis=0)
    fitted = ReducedKMeans().fit(RowFactors(X), 3, 0)
    new = np.linspace(-20.0, 20.0, 41)[:, None]
    assert set(ReducedKMeans().predict(fitted, cdist(new, X, "sqeuclidean"))) <= set(fitted.labels)


def far_from_origin(n=200, d=6, seed=0):
    """Samples in a flat of four dimensions that does not hold the origin, rotated."""
    random = np.random.default_rng(seed)
    X = np.hstack([random.normal(size=(n, 4)) * [3.0, 1.0, 1e-3, 2.0], np.full((n, d - 4), 7.0)])
    return (X + random.normal(size=d)) @ ortho_group.rvs(d, random_state=seed)


def squares(X):
    return np.einsum("ij,ij->i", X, X)


@pytest.mark.parametrize("X", [far_from_origin(), hidden()[0], np.full((5, 2), 3.0)])
def test_lengths_place_the_origin(X):
    """Wherever the coordinates begin, inner products are those of the samples."""
    shifted = X @ ortho_group.rvs(X.shape[1], random_state=3) - 11.0
    found = RowFactors(shifted).about(squares(X))
    np.testing.assert_allclose(found.points @ found.points.T, X @ X.T, atol=1e-9)
    np.testing.assert_allclose(
        cdist(found.points, found.points, "sqeuclidean"), cdist(X, X, "sqeuclidean"), atol=1e-9
    )
    assert found.from_origin


def on_rays(n=240, seed=0):
    """Samples near three rays, which one plane about their mean does not tell apart."""
    random = np.random.default_rng(seed)
    y = np.arange(n) % 3
    rays = np.abs(random.normal(size=(3, 30)))
    return rays[y] * random.uniform(0.2, 3.0, (n, 1)) + 0.05 * random.normal(size=(n, 30)), y


def test_without_centring_samples_are_seen_from_the_origin():
    X, _ = on_rays()
    spec = ReducedKMeans(2, centred=False)
    moved = X @ ortho_group.rvs(X.shape[1], random_state=0) + 5.0
    found = spec.fit(RowFactors(moved).about(squares(X)), 3, 0).labels
    np.testing.assert_array_equal(found, spec.pooled(X, 3, 0).labels)
    assert ari(found, ReducedKMeans(2).pooled(X, 3, 0).labels) < 1.0
    embedded = X @ np.linalg.eigh(np.cov(X.T))[1][:, -2:]
    start = best_partition(embedded, 3, 0, n_init=10, max_iter=300, owner=spec.name).labels
    wanted = reduced(X, start, embedded, 3, max_iter=100, tolerance=1e-7 * np.linalg.norm(X))
    assert ari(found, wanted.labels) == 1.0


def test_new_samples_are_seen_from_the_origin_too():
    X, _ = on_rays()
    new = 1.5 * X[::2] + 0.1
    model = ReducedKMeans(2, centred=False)
    fitted = model.fit(RowFactors(X - 3.0).about(squares(X)), 3, 0)
    of_pool = model._found(X, 3, 0)[0]
    wanted = np.linalg.norm((new @ of_pool.W)[:, None] - of_pool.F[None], axis=2).argmin(axis=1)
    found = model.predict(fitted, cdist(new, X, "sqeuclidean"))
    np.testing.assert_array_equal(found, wanted)
    assert len(set(found)) == 3


def test_distances_alone_do_not_tell_the_origin():
    X, _ = on_rays()
    D = cdist(X, X, "sqeuclidean")
    for view in (RowFactors(X), FullDistances(D)):
        with pytest.raises(InvalidInput, match="without centring needs samples whose distances to"):
            ReducedKMeans(centred=False).fit(view, 3, 0)
