import pytest

from daskfc.baselines import BASELINES
from daskfc.protocols import METHODS
from tests.runs.fakes import FakeCentral, FakeFederation, FakeMethod


@pytest.fixture
def storage(tmp_path):
    return {
        "source": {"dataset": "iris"},
        "partition": {"scheme": "iid", "clients": 3, "seed": 0},
        "root": str(tmp_path / "stores"),
    }


@pytest.fixture
def fake(monkeypatch):
    """The method "Fake" and its raw twin "FakeRaw", on a federation without workers."""
    monkeypatch.setitem(METHODS, "Fake", FakeMethod)
    monkeypatch.setitem(BASELINES, "FakeRaw", FakeCentral)
    monkeypatch.setattr("daskfc.runs.execution.execution.open_federation", FakeFederation)
    monkeypatch.setattr(FakeMethod, "fits", [])
    monkeypatch.setattr(FakeMethod, "trouble", {})
    monkeypatch.setattr(FakeFederation, "opened", 0)
    return FakeMethod
