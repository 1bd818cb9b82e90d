"""Coded similarities from several rounds of landmarks, and some more where those are too few."""

from dataclasses import replace

import numpy as np
import pytest

from daskfc.federation import Federation
from daskfc.protocols import FedSC
from daskfc.secure.distances.routes import columns
from daskfc.secure.distances.sizing import sizing
from daskfc.testing.federation import stores_of

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("approved")]


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    random = np.random.default_rng(4)
    rows = {
        f"client-{i}": 4.0 * np.eye(3, 6)[random.integers(0, 3, 30)] + random.normal(size=(30, 6))
        for i in range(4)
    }
    with Federation.local(stores_of(tmp_path_factory.mktemp("stores"), rows)) as running:
        yield running


def fitted(federation):
    return FedSC(3, similarity="coded", n_atoms=8, rounds=1, random_state=0).fit(federation)


def test_rounds_of_few_landmarks_give_the_same_labels(federation, monkeypatch):
    wanted = fitted(federation)
    monkeypatch.setattr(sizing, "LANDMARKS_A_ROUND", 2)
    monkeypatch.setattr(sizing, "_ROOM", 0)
    open_, publish = [True, False], federation.publish

    def once_open(step, *given, **how):
        status = publish(step, *given, **how)
        if step is columns.points_status and open_.pop(0):
            return replace(status, certified=0)
        return status

    monkeypatch.setattr(federation, "publish", once_open)
    found = fitted(federation)
    np.testing.assert_array_equal(found.labels_, wanted.labels_)
    assert not open_
    rounds = [row.shapes["positions"][0] for row in found.ledger_ if row.message == "Landmarks"]
    assert set(rounds[:-4]) <= {1, 2}
    assert rounds[-4:] == [8] * len(rounds[-4:])
