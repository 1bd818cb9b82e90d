"""Every kind of k-means passes the one suite: here on plain arrays, twice on real processes."""

import numpy as np
import pytest

from daskfc.secure.kmeans import open_kmeans
from daskfc.secure.kmeans.groups import SMALLEST
from daskfc.secure.sums import PlainSum
from daskfc.testing.federation import federation_of
from daskfc.testing.kmeans import KMeansTests
from tests.secure.kmeans.here import Here

CLIENTS = tuple(f"client-{i}" for i in range(1, 6))


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    rows = {name: np.eye(3) for name in CLIENTS}
    with federation_of(tmp_path_factory.mktemp("stores"), rows) as federation:
        yield federation


class TestCoreset(KMeansTests):
    sees = frozenset({"LocalCost", "CoresetPart"})

    @pytest.fixture
    def federation(self):
        return Here(CLIENTS)

    def open(self, federation, n_clusters, seed=0):
        return open_kmeans(federation, "coreset", n_clusters=n_clusters, seed=seed)


class TestSums(KMeansTests):
    sees = frozenset({"PlainPart"})
    however_dealt = True
    smallest = SMALLEST

    @pytest.fixture
    def federation(self):
        return Here(CLIENTS)

    def open(self, federation, n_clusters, seed=0):
        sums = PlainSum(federation)
        return open_kmeans(federation, "sums", n_clusters=n_clusters, seed=seed, sums=sums)


class Processes:
    @pytest.fixture
    def federation(self, processes, tmp_path):
        processes.start_run("run", random_state=0, workspace=str(tmp_path), deadline_s=60)
        return processes


@pytest.mark.slow
class TestCoresetOfProcesses(Processes, TestCoreset):
    pass


@pytest.mark.slow
class TestMaskedSums(Processes, TestSums):
    sees = frozenset({"Magnitude", "PublicKeys", "MaskedPart"})

    def open(self, federation, n_clusters, seed=0):
        return open_kmeans(federation, "sums", n_clusters=n_clusters, seed=seed)
