"""Every kind of sum passes the one suite."""

import numpy as np
import pytest

from daskfc.secure.sums import MaskedSum, PlainSum, RecoveringSum, SharedSum
from daskfc.testing.federation import federation_of
from daskfc.testing.sums import SecureSumTests

pytestmark = pytest.mark.slow

ROWS = {
    f"client-{i}": np.random.default_rng(i).uniform(-5, 5, (30, 4)).round(3) for i in range(1, 7)
}


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    with federation_of(tmp_path_factory.mktemp("stores"), ROWS) as federation:
        yield federation


@pytest.fixture
def federation(processes, tmp_path):
    processes.start_run("run", random_state=0, workspace=str(tmp_path), deadline_s=30)
    return processes


@pytest.fixture
def rows():
    return ROWS


class TestPlain(SecureSumTests):
    hides = False

    def open(self, federation, clients):
        return PlainSum(federation)


class TestMasked(SecureSumTests):
    def open(self, federation, clients):
        return MaskedSum(federation, clients=clients)


class TestRecovering(SecureSumTests):
    def open(self, federation, clients):
        return RecoveringSum(federation, clients=clients)


class TestShared(SecureSumTests):
    def open(self, federation, clients):
        return SharedSum(federation, clients=clients)


class TestSharedAmongAll(SecureSumTests):
    """A sum that no client may leave, which waits for nobody."""

    def open(self, federation, clients):
        return SharedSum(federation, clients=clients, threshold=len(clients))
