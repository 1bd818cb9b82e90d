from pathlib import Path

import numpy as np
import pytest
from sklearn.preprocessing import MinMaxScaler

from daskfc.stores import load_storage
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.sources.readers import open_source
from daskfc.stores.store.together import check_together, number_of_samples
from tests.conftest import DATA, needs_data


@needs_data
@pytest.mark.parametrize(
    ("name", "shape", "clusters"),
    [
        ("iris", (150, 4), 3),
        ("digits", (1797, 64), 10),
        ("coil20", (1440, 1024), 20),
        ("mushrooms", (8124, 112), 2),
    ],
)
def test_tables(name, shape, clusters):
    samples = open_source(SourceConfig(path=str(DATA / f"{name}.npz")))
    assert (samples.n_samples, len(samples.feature_names)) == shape
    assert len(np.unique(samples.labels)) == clusters
    assert sum(len(block) for block in samples.blocks(500)) == shape[0]


VIEWS = {
    "hw_mfeat": (2000, [76, 216, 64, 240, 47, 6], 10),
    "bdgp": (2500, [1750, 79], 5),
    "synthetic3d": (600, [3, 3, 3], 3),
}


@needs_data
@pytest.mark.parametrize("name", VIEWS)
def test_views(name, tmp_path):
    n, widths, clusters = VIEWS[name]
    partition = {"scheme": "views", "overlap": 0.5, "seed": 1}
    source = {"path": str(DATA / f"{name}.npz"), "scaling": "min-max"}
    storage = load_storage({"source": source, "partition": partition, "root": str(tmp_path)})
    assert storage.client_names() == tuple(f"client-{i}" for i in range(1, len(widths) + 1))
    storage.build()
    storage.check()
    stores = list(storage.open().values())
    assert [store.n_features for store in stores] == widths
    assert check_together(storage.open()) == "views"
    everywhere = set.intersection(*(set(store.sample_ids()) for store in stores))
    assert len(everywhere) == n // 2
    assert number_of_samples(storage.open()) == n
    for number, store in enumerate(stores):
        rows = store.sample_ids().astype(int)
        with np.load(DATA / f"{name}.npz") as content:
            wanted = MinMaxScaler().fit_transform(content[f"view{number}"].astype(np.float64))
            np.testing.assert_array_equal(store.labels(), content["y"][rows])
        np.testing.assert_allclose(store.rows(0, store.n_samples), wanted[rows], atol=1e-6)
        assert len(np.unique(store.labels())) == clusters


@needs_data
@pytest.mark.slow
def test_a_thousand_digits_of_mnist(tmp_path, monkeypatch):
    monkeypatch.setenv("DASKFC_DATA", str(DATA))
    storage = load_storage(Path(__file__).parents[2] / "storage" / "mnist-1000.yaml")
    storage.build(str(tmp_path))
    storage.check(str(tmp_path))
    table = storage.inspect(str(tmp_path))
    assert [row["samples"] for row in table] == [100] * 10
