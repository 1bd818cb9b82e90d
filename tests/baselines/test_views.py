"""The columns of all views pooled at the server, against scikit-learn on one table."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import MinMaxScaler

from daskfc.baselines import JoinedViews, OneView
from daskfc.baselines.pooled.views import joined_columns
from daskfc.clustering.clusterers.local_labels import spectral_labels
from daskfc.errors import PrivacyError
from daskfc.federation import Federation
from daskfc.federation.methods.linking import Linked
from daskfc.stores import write_store

N, K = 90, 3
TRUE = np.repeat(np.arange(K), N // K)
VIEWS = [
    10.0 * v + np.random.default_rng(v).normal(size=(N, 4)) + 3.0 * np.eye(K, 4)[TRUE]
    for v in range(2)
]
HELD = {
    "a": (0, np.random.default_rng(5).permutation(N)[:50]),
    "b": (0, np.random.default_rng(5).permutation(N)[50:]),
    "c": (1, np.arange(N)[::-1][:80]),
}


def found():
    both = np.isin(np.arange(N), HELD["c"][1])
    views = {name: view for name, (view, _) in HELD.items()}
    return Linked(N, {name: rows for name, (_, rows) in HELD.items()}, views, both)


def pooled():
    second = VIEWS[1].copy()
    second[~np.isin(np.arange(N), HELD["c"][1])] = np.nan
    second = MinMaxScaler().fit_transform(second)
    second = np.where(np.isnan(second), np.nanmean(second, axis=0), second)
    return np.hstack([MinMaxScaler().fit_transform(VIEWS[0]), second])


def test_columns_stand_beside_each_other_and_gaps_have_means():
    rows = {name: VIEWS[view][samples] for name, (view, samples) in HELD.items()}
    np.testing.assert_allclose(joined_columns(rows, found()), pooled(), atol=1e-12)


@pytest.fixture
def stores(tmp_path):
    urls = {}
    for name, (view, samples) in HELD.items():
        urls[name] = str(tmp_path / f"{name}.zarr")
        names = [f"view{view}.{i}" for i in range(4)]
        write_store(
            urls[name], name, VIEWS[view][samples], samples.astype(str), feature_names=names,
            dtype="float64",
        )  # fmt: skip
    return urls


@pytest.mark.slow
def test_labels_are_those_of_the_pooled_table(stores):
    with Federation.local(stores, allow_raw=True) as federation:
        model = JoinedViews(K, clusterer="k-means").fit(federation)
    at = model.labels_["sample_id"].to_numpy().astype(int)
    assert sorted(at) == list(range(N))
    wanted = KMeans(K, n_init=10, random_state=0).fit_predict(pooled())
    assert adjusted_rand_score(wanted[at], model.labels_) == 1.0
    with Federation.local(stores) as federation, pytest.raises(PrivacyError, match="allow_raw"):
        JoinedViews(K).fit(federation)


@pytest.mark.slow
def test_one_view_is_the_most_separate_alone(tmp_path):
    """The clear view is the second client's; it lacks ten samples."""
    urls = {}
    noise = np.random.default_rng(9).normal(size=(N, 4))
    for name, rows, samples in (
        ("a", noise, np.arange(N)),
        ("b", VIEWS[0], np.arange(N)[::-1][:80]),
    ):
        urls[name] = str(tmp_path / f"{name}.zarr")
        names = [f"{name}.{i}" for i in range(4)]
        write_store(urls[name], name, rows[samples], samples.astype(str), feature_names=names)
    with Federation.local(urls) as federation:
        model = OneView(K).fit(federation)
    assert model.view_ == "b"
    assert model.modularity_["b"] == max(model.modularity_.values())
    at = model.labels_["sample_id"].to_numpy().astype(int)
    assert sorted(at) == list(range(N))
    there = at >= N - 80
    wanted = spectral_labels(VIEWS[0][at[there]], K, seed=0).labels
    assert adjusted_rand_score(wanted, model.labels_[there]) > 0.95
    rest = model.labels_[~there].to_numpy()
    assert set(rest) == {np.bincount(model.labels_[there]).argmax()}
    assert {row.message for row in model.ledger_} == {
        "KeyOffer", "SealedDigestKey",
        "SampleDigests", "ViewScore", "OwnClusters", "ClientLabels", "LabelledSamples"
    }  # fmt: skip
