"""k-means from several starts at once against scikit-learn's from the same starts."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, make_blobs
from sklearn.exceptions import ConvergenceWarning

from daskfc.clustering.clusterers import kmeans
from daskfc.clustering.clusterers.lloyd import _Lloyd, best_run
from tests.oracles import clustering as oracle

HOW = {"n_init": 3, "max_iter": 300, "tol": 1e-4, "threads": 1, "copy": True}


def library(rows, k, seed, **changes):
    how = {name: (HOW | changes)[name] for name in ("n_init", "max_iter", "tol")}
    return KMeans(k, random_state=seed, **how).fit(rows)


def assert_same(found, expected, rows):
    assert oracle.same_partition(found.labels, expected.labels_)
    scale = ((rows - rows.mean(axis=0)) ** 2).sum()
    if expected.n_init == 1:
        assert found.inertia == pytest.approx(expected.inertia_, rel=1e-9, abs=1e-13 * scale)
        return
    # of runs that end in one partition scikit-learn keeps the first, we the one of least inertia
    slack = 1e-9 * expected.inertia_ + 1e-13 * scale
    means = [rows[found.labels == one] for one in np.unique(found.labels)]
    least = sum(((part - part.mean(axis=0)) ** 2).sum() for part in means)
    assert least - slack <= found.inertia <= expected.inertia_ + slack


@example(1, 125, 1, 12, 0.0, 0.01)
@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(2, 300), st.integers(1, 40), st.integers(1, 12),
    st.sampled_from([0.0, 1e4]), st.sampled_from([0.01, 1.0, 5.0]),
)  # fmt: skip
def test_steps_are_those_of_scikit_learn(seed, n, q, k, offset, spread):
    k = min(k, n)
    rows, _ = make_blobs(n_samples=n, n_features=q, centers=k, cluster_std=spread,
                         random_state=seed)  # fmt: skip
    rows += offset
    assert_same(best_run(rows, k, seed, **HOW), library(rows, k, seed), rows)


@pytest.mark.parametrize("max_iter", [1, 2, 3, 300])
@pytest.mark.parametrize("tol", [0.0, 1e-4, 1e-1])
def test_digits(max_iter, tol):
    rows = load_digits().data
    how = {"max_iter": max_iter, "tol": tol, "n_init": 2}
    with np.errstate(all="raise"):
        found = best_run(rows, 10, 0, **(HOW | how))
    expected = library(rows, 10, 0, **how)
    assert_same(found, expected, rows)
    assert found.n_iter == expected.n_iter_


@pytest.mark.parametrize("n_far", [1, 3])
def test_centres_without_rows_go_to_the_rows_farthest_from_theirs(n_far):
    random = np.random.default_rng(n_far)
    rows = random.normal(size=(300, 4))
    rows -= rows.mean(axis=0)
    centres = rows[:6].copy()
    centres[6 - n_far :] += 1e3
    expected = KMeans(6, init=centres, n_init=1, tol=0.0).fit(rows)
    found = _Lloyd(rows, (rows**2).sum(axis=1), centres).run(300, 0.0)
    assert_same(found, expected, rows)
    assert len(set(found.labels.tolist())) == 6


def test_fewer_different_rows_than_clusters():
    rows = np.repeat(np.random.default_rng(0).normal(size=(5, 3)), 30, axis=0)
    found = best_run(rows, 8, 0, **HOW)
    assert len(set(found.labels.tolist())) == 5
    assert found.inertia < 1e-20
    assert best_run(np.zeros((9, 2)), 3, 0, **HOW).labels.tolist() == [0] * 9
    assert best_run(rows, 1, 0, **HOW).labels.tolist() == [0] * 150


@pytest.mark.parametrize("threads", [2, 5, None])
def test_threads_change_no_bit(threads):
    rows = np.random.default_rng(0).normal(size=(3000, 20))
    one = best_run(rows, 15, 0, **HOW)
    other = best_run(rows, 15, 0, **(HOW | {"threads": threads}))
    assert np.array_equal(one.labels, other.labels)
    assert (one.inertia, one.n_iter) == (other.inertia, other.n_iter)


def test_rows_that_are_not_copied_are_shifted_back():
    rows = np.random.default_rng(0).normal(size=(400, 6)) + 3.0
    before = rows.copy()
    one = best_run(before, 5, 0, **HOW)
    other = best_run(rows, 5, 0, **(HOW | {"copy": False}))
    np.testing.assert_allclose(rows, before, rtol=1e-14)
    assert np.array_equal(one.labels, other.labels)
    with pytest.raises(ValueError, match="n_samples=400"):
        best_run(rows, 500, 0, **(HOW | {"copy": False}))
    np.testing.assert_allclose(rows, before, rtol=1e-14)


def test_large_rows_take_this_way_with_the_same_partition(monkeypatch):
    rows = load_digits().data
    few = kmeans.best_partition(rows, 10, 0, n_init=2, max_iter=300, owner="k-means")
    monkeypatch.setattr(kmeans, "_FEW", 0)
    rows.flags.writeable = False  # they are the caller's
    many = kmeans.best_partition(rows, 10, 0, n_init=2, max_iter=300, owner="k-means")
    assert np.array_equal(few.labels, many.labels)
    assert (few.inertia, few.converged) == (pytest.approx(many.inertia), many.converged)
    short = kmeans.best_partition(rows, 10, 0, n_init=1, max_iter=2, owner="k-means")
    assert not short.converged
    with pytest.warns(ConvergenceWarning, match="fewer distinct values"):
        kmeans.best_partition(rows[[0, 0, 1]], 3, 0, n_init=1, max_iter=9, owner="k-means")
