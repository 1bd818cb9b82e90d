import numpy as np
import pytest

from daskfc.federation import Federation
from daskfc.stores import write_store


class ArrayStore:
    """A client's rows in memory, with the reading side of ClientStore; counts what it hands out."""

    def __init__(self, rows, block=7, name="client-1"):
        self._rows = np.asarray(rows, dtype=np.float64)
        self._block = block
        self.name = name
        self.attributes = {}
        self.n_samples, self.n_features = self._rows.shape
        self.largest_read = 0

    def rows(self, start, stop):
        assert 0 <= start <= stop <= self.n_samples, (start, stop)
        part = self._rows[start:stop].copy()
        self.largest_read = max(self.largest_read, len(part))
        return part

    def blocks(self, rows=None):
        step = rows or self._block
        for start in range(0, self.n_samples, step):
            yield start, self.rows(start, min(start + step, self.n_samples))

    def sample_ids(self):
        return np.array([f"{self.name}/{i}" for i in range(self.n_samples)])

    def id_key(self):
        return bytes(32)


@pytest.fixture
def store():
    return ArrayStore


def blobs(n_clusters=4, per_cluster=30, n_features=5, spread=0.3, seed=0):
    """Well-separated blobs along different directions from the origin, all values positive."""
    rng = np.random.default_rng(seed)
    centers = 10 * np.eye(n_clusters, n_features) + 2
    truth = np.repeat(np.arange(n_clusters), per_cluster)
    rows = centers[truth] + spread * rng.standard_normal((len(truth), n_features))
    order = rng.permutation(len(truth))
    return rows[order], truth[order]


@pytest.fixture(scope="session")
def easy():
    return blobs()


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("baselines")


@pytest.fixture(scope="session")
def urls(folder, easy):
    """Stores of three clients of different sizes; sample ``s<i>`` is row i of `easy`."""
    rows, _ = easy
    found = {}
    for number, part in enumerate(np.split(np.arange(len(rows)), [30, 70])):
        name = f"client-{number + 1}"
        found[name] = f"{folder}/{name}.zarr"
        ids = [f"s{i}" for i in part]
        write_store(found[name], name, rows[part], ids, chunk_rows=16, dtype="float64")
    return found


@pytest.fixture(scope="session")
def federation(urls):
    with Federation.local(urls, allow_raw=True) as opened:
        yield opened
