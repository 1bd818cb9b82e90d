from importlib.util import find_spec

import numpy as np
import pytest

from daskfc.baselines import BASELINES, Central
from daskfc.baselines.pooled.central import cluster_pool, place_rows, raw_rows, table_shape
from daskfc.clustering import CLUSTERERS, make_clusterer
from daskfc.errors import InvalidInput
from daskfc.federation.methods.sample_keys import order_of
from daskfc.metrics import kappa


def pool(stores, workspace, block=8):
    """Central's wiring without a federation: positions, rows placed."""
    positions = order_of(stores)
    shape = (sum(s.n_samples for s in stores.values()), next(iter(stores.values())).n_features)
    placed = 0
    for start in range(0, max(data.n_samples for data in stores.values()), block):
        parts = {
            name: raw_rows(data, start=start, stop=start + block)
            for name, data in stores.items()
            if data.n_samples > start
        }
        placed = place_rows(
            parts, positions, placed, start=start, shape=shape, run="r", workspace=str(workspace)
        )
    return positions, placed


def test_the_pool_holds_every_row_at_its_place(store, tmp_path, easy):
    rows, _ = easy
    stores = {"a": store(rows[:50], name="a"), "b": store(rows[50:], name="b")}
    positions, placed = pool(stores, tmp_path / "new folder")
    assert placed == len(rows)
    kept = np.load(tmp_path / "new folder" / "central-r.npy")
    np.testing.assert_array_equal(kept[positions["a"]], rows[:50])
    np.testing.assert_array_equal(kept[positions["b"]], rows[50:])


def test_raw_rows_that_a_killed_start_left_are_removed(store, tmp_path, easy):
    (tmp_path / "central-before.npy").write_bytes(b"raw rows")
    pool({"a": store(easy[0], name="a")}, tmp_path)
    assert [path.name for path in tmp_path.glob("*.npy")] == ["central-r.npy"]


def test_equals_the_central_algorithm_and_deletes_the_raw_rows(store, tmp_path, easy):
    rows, truth = easy
    stores = {"a": store(rows[:50], name="a"), "b": store(rows[50:], name="b")}
    positions, placed = pool(stores, tmp_path)
    X = np.load(tmp_path / "central-r.npy")
    labels = cluster_pool(
        placed,
        clusterer=make_clusterer("k-means"),
        n_clusters=4,
        seed=3,
        run="r",
        workspace=str(tmp_path),
    )
    np.testing.assert_array_equal(labels, make_clusterer("k-means").pooled_labels(X, 4, 3))
    assert kappa(truth, np.concatenate([labels[positions[name]] for name in stores])) == 1
    assert list(tmp_path.iterdir()) == []


def test_the_raw_rows_go_even_when_the_algorithm_fails(store, tmp_path):
    _, placed = pool({"a": store(np.eye(3))}, tmp_path)
    with pytest.raises(InvalidInput):
        cluster_pool(
            placed,
            clusterer=make_clusterer("k-means"),
            n_clusters=9,
            seed=0,
            run="r",
            workspace=str(tmp_path),
        )
    assert list(tmp_path.iterdir()) == []


def test_a_message_of_raw_rows_says_what_it_is(store):
    message = raw_rows(store(np.eye(3)), start=2, stop=99)
    assert message.rows.tolist() == [[0.0, 0.0, 1.0]]
    assert type(message).protection == "raw"
    assert table_shape(store(np.ones((4, 2)))).n_samples == 4


@pytest.mark.parametrize("name", sorted(CLUSTERERS))
def test_every_clusterer_has_a_central_version(name):
    if name == "umap" and find_spec("umap") is None:
        pytest.skip("umap-learn is missing: pip install 'daskfc[umap]'")
    found = CLUSTERERS[name].finds_n_clusters
    needed = {"dbscan": {"eps": 0.5}, "scikit-learn": {"estimator": "Birch"}}
    spec = {name: needed[name]} if name in needed else name
    Central(None if found else 3, clusterer=spec).check()
    with pytest.raises(InvalidInput, match="'n_clusters' parameter of Central must be"):
        Central(3 if found else None, clusterer=spec).check()


def test_an_unknown_clusterer_is_refused():
    with pytest.raises(InvalidInput):
        Central(3, clusterer="kmean").check()


def test_the_table_of_baselines():
    on_rows = ["k-FED", "MUFC", "FFCM", "FedMAvg", "DSC"]
    on_graphs, kernels = ["AGC", "GCC"], ["RFK-k-means", "CE-PCA"]
    assert list(BASELINES) == [*on_rows, *on_graphs, *kernels, "joined-views", "one-view"]
    for kind in BASELINES.values():
        assert kind(3).get_params()["n_clusters"] == 3
