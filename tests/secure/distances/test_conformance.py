"""Distances of samples and of rows pass the one suite."""

import numpy as np
import pytest

from daskfc.secure.distances import SecureDistances, choose_code
from daskfc.testing.distances import SecureDistancesTests, positions_of, rows_at_client
from daskfc.testing.federation import federation_of, stores_of

pytestmark = pytest.mark.slow

ROWS = {f"client-{i}": np.random.default_rng(i).normal(size=(9, 3)) for i in range(1, 6)}
NEW = {"client-2": np.random.default_rng(9).normal(size=(4, 3))}


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    with federation_of(tmp_path_factory.mktemp("stores"), ROWS) as federation:
        yield federation


@pytest.fixture
def federation(processes, tmp_path):
    folder = str(tmp_path / "run")
    processes.start_run("run", random_state=0, workspace=folder, deadline_s=60)
    return processes


@pytest.fixture
def rows():
    return ROWS


@pytest.fixture
def new(tmp_path):
    return stores_of(tmp_path / "new", NEW)


class TestSamples(SecureDistancesTests):
    def open(self, federation):
        code = choose_code(len(federation.clients), None, None, None)
        return SecureDistances.of_samples(federation, code, tolerance=1e-6)


class TestRows(SecureDistancesTests):
    def open(self, federation):
        code = choose_code(len(federation.clients), 1, 2, None)
        own = federation.on_clients(rows_at_client)
        return SecureDistances.of_rows(
            federation, code, own, positions_of(federation), tolerance=1e-6, radius=None
        )
