import numpy as np
import pytest
from scipy import sparse
from sklearn.cluster import KMeans

from daskfc.baselines.maths.agc import cluster_agc
from daskfc.errors import InvalidInput
from daskfc.metrics import accuracy
from tests.conftest import DATA, needs_data
from tests.oracles import kcagc as oracle


def planted(n, k, seed):
    """A graph with k groups of nodes and features that hardly tell them apart."""
    random = np.random.default_rng(seed)
    y = np.arange(n) % k
    A = np.triu(random.random((n, n)) < np.where(y[:, None] == y, 0.4, 0.01), 1).astype(float)
    X = random.normal(size=(n, 12)) + 0.7 * np.eye(12)[y]
    return X, A + A.T, y


def graph(name):
    with np.load(DATA / f"{name}.npz") as file:
        X = sparse.csr_array(
            (file["X_data"], file["X_indices"], file["X_indptr"]), shape=file["X_shape"]
        )
        ones = np.ones(file["A_indices"].size)
        A = sparse.csr_array((ones, file["A_indices"], file["A_indptr"]), shape=file["A_shape"])
        return X, A, file["y"]


def test_it_is_k_means_on_the_left_singular_vectors_of_the_smoothed_features():
    X, A, y = planted(90, 3, seed=0)
    got = cluster_agc(X, A, 3, filter_order=4, seed=0)
    U = np.linalg.svd(oracle.filtered(A, X, 4, "agc"), full_matrices=False)[0][:, :3]
    assert accuracy(KMeans(3, n_init=20, random_state=1).fit_predict(U), got) == 1.0
    assert accuracy(y, got) == 1.0
    assert accuracy(y, KMeans(3, n_init=5, random_state=0).fit_predict(X)) < 0.8
    assert np.array_equal(cluster_agc(sparse.csr_array(X), A, 3, filter_order=4, seed=0), got)


def test_the_other_filter_is_another_option():
    X, A, y = planted(90, 3, seed=2)
    got = cluster_agc(X, A, 3, filter_order=4, filter_kind="laplacian", seed=0)
    assert accuracy(y, got) == 1.0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"n_clusters": 91},
            r"'n_clusters' parameter of cluster_agc must be a whole number in \[1, 90\]",
        ),
        ({"filter_order": -1}, "'order' parameter"),
        ({"filter_kind": "low"}, "'kind' parameter"),
    ],
)
def test_bad_parameters_are_refused(options, words):
    X, A, _ = planted(90, 3, seed=0)
    with pytest.raises(InvalidInput, match=words):
        cluster_agc(X, A, **{"n_clusters": 3, "filter_order": 2, "seed": 0, **options})


@needs_data
@pytest.mark.slow
def test_cora_has_the_accuracy_of_the_papers_row():
    X, A, y = graph("cora")
    found = cluster_agc(X, A, 7, filter_order=9, seed=0)
    assert 100 * accuracy(y, found) == pytest.approx(68.17, abs=0.1)  # Table II
