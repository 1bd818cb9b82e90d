from pathlib import Path

import numpy as np
import pytest

from daskfc.errors import StoreError
from daskfc.stores import load_storage
from daskfc.stores.config import SourceConfig
from daskfc.stores.readers import open_source
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


@needs_data
@pytest.mark.parametrize("name", ["hw_mfeat", "bdgp", "synthetic3d"])
def test_views(name):
    with pytest.raises(StoreError, match="several views"):
        open_source(SourceConfig(path=str(DATA / f"{name}.npz")))


@needs_data
@pytest.mark.slow
def test_a_thousand_digits_of_mnist(tmp_path, monkeypatch):
    monkeypatch.setenv("DASKFC_DATA", str(DATA))
    storage = load_storage(Path(__file__).parents[2] / "storage" / "mnist-1000.yaml")
    storage.build(str(tmp_path))
    storage.check(str(tmp_path))
    table = storage.inspect(str(tmp_path))
    assert [row["samples"] for row in table] == [100] * 10
