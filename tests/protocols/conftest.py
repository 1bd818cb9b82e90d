"""One federation of real worker processes, six clients with iris, for all tests of protocols."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from daskfc.federation import Federation
from daskfc.stores import write_store

N_CLIENTS = 6


def deal(folder, X, owners, ids=None):
    """Write one store per owner; a sample's id is its row in X."""
    ids = np.arange(len(X)) if ids is None else np.asarray(ids)
    urls = {}
    for c in np.unique(owners):
        name = f"client-{c + 1}"
        mine = np.asarray(owners) == c
        urls[name] = str(folder / f"{name}.zarr")
        write_store(urls[name], name, X[mine], ids[mine].astype(str), dtype="float64")
    return urls


def by_id(labels):
    """Return labels in the order of the integer sample ids."""
    return labels.values[np.argsort(labels.sample_id.values.astype(int))]


@pytest.fixture(scope="session")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="session")
def skewed(iris):
    """Owners of the samples: every client has one class mostly."""
    X, y = iris
    random = np.random.default_rng(0)
    return np.where(random.random(len(X)) < 0.75, y * 2 + random.integers(0, 2, len(X)),
                    random.integers(0, N_CLIENTS, len(X)))  # fmt: skip


@pytest.fixture(scope="session")
def federation(tmp_path_factory, iris, skewed):
    urls = deal(tmp_path_factory.mktemp("stores"), iris[0], skewed)
    with Federation.local(urls) as running:
        yield running
