"""Distances of samples and of rows pass the one suite."""

import sys

import cloudpickle
import numpy as np
import pytest

from daskfc.errors import InvalidInput
from daskfc.secure.distances import SecureDistances, choose_code
from daskfc.secure.distances.sizing import landmark_memory
from daskfc.secure.distances.sizing.memory import NOBODY
from daskfc.testing.distances import (
    SecureDistancesTests,
    all_distances,
    positions_of,
    rows_at_client,
)
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


def flat_rows_at_client(data):
    """Rows of rank 2: residues cannot tell whether samples lie off what landmarks span."""
    rows = rows_at_client(data)
    rows[:, 2] = rows[:, 0]
    return rows


@pytest.mark.parametrize(
    ("step", "tolerance", "by"),
    [
        (rows_at_client, 1e-4, "of 45 columns, and rounding, give the rest"),
        (rows_at_client, 2e-7, "of 45 columns, and residues modulo 1 prime, give the rest"),
        (flat_rows_at_client, 1e-4, "of 45 columns, and rounding, give the rest"),
        (flat_rows_at_client, 2e-7, "columns leave distances open by"),
    ],
)
def test_what_columns_leave_open_is_settled(federation, step, tolerance, by):
    """At the smaller tolerance distances have 46 bits, and rounding of coordinates is no proof."""
    code = choose_code(len(federation.clients), 1, 2, None)

    def opened():
        own = federation.on_clients(step)
        return SecureDistances.of_rows(
            federation, code, own, positions_of(federation), tolerance=tolerance, radius=None
        )

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        distances = opened()
        found = federation.publish(all_distances, distances.all_pairs("full")).values
        blocks = federation.publish(all_distances, opened().blocks("full")).values
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    assert by in distances.reason
    assert distances.route == ("blocks" if "open" in by else "columns")
    np.testing.assert_array_equal(found, blocks)


def test_columns_that_do_not_fit_are_blocks(federation, monkeypatch):
    code = choose_code(len(federation.clients), 1, 2, None)
    distances = SecureDistances.of_samples(federation, code, tolerance=1e-6)
    n, limit = distances.n_samples, 450_000_000
    monkeypatch.setattr(landmark_memory, "_EACH", 10**6)  # as of many samples: 400 MB for pairs
    monkeypatch.setattr(federation, "limits", lambda: dict.fromkeys(federation.parties, limit))
    federation.wait(distances.all_pairs("neighbours", n_neighbors=3))
    assert distances.route == "blocks"
    assert "the landmark columns of 45 samples with 3 features would take" in distances.reason
    assert n == 45


def test_few_samples_are_blocks(federation, monkeypatch):
    code = choose_code(len(federation.clients), 1, 2, None)
    distances = SecureDistances.of_samples(federation, code, tolerance=1e-6)
    monkeypatch.setattr(distances.sizing, "_n_features", 21)
    assert distances.sizing.cheaper("full", None, NOBODY)[0] == "blocks"
    monkeypatch.setattr(distances.sizing, "_n_features", 20)
    assert distances.sizing.cheaper("full", None, NOBODY)[0] == "columns"


@pytest.mark.parametrize(
    ("tile", "n_samples", "told"),
    [
        (1, 100, "tiles of 1 rows make 5,050 blocks .* at least 3, or"),
        (31, 31 * 45, "tiles of 31 rows make 1,035 blocks .* at least 33, or"),
        (32, 32 * 200, "tiles of 32 rows make 20,100 blocks .* at least 33, or"),
    ],
)
def test_blocks_without_number_are_refused(federation, tile, n_samples, told):
    code = choose_code(len(federation.clients), None, None, None)
    distances = SecureDistances.of_samples(federation, code, tolerance=1e-6, tile=tile)
    distances.sizing._n_samples = n_samples
    with pytest.raises(InvalidInput, match=told):
        distances.blocks("full")
