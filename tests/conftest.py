"""What all tests share: data sets, one secret of all stores, no deadlines on a busy machine."""

import gc
import os
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from daskfc.stores.layout import id_key
from tests.approved.recorder import Recorder

settings.register_profile("daskfc", deadline=None, print_blob=True)
settings.load_profile("daskfc")


def same_secret():
    """Return the secret of all stores: the order of samples, and a seed's draws, hang on it."""
    return b"the same in all tests, for order"


id_key.new_key = same_secret


@pytest.fixture
def own_secrets(monkeypatch):
    """Each store that is written meanwhile has a secret of its own, as all have but in tests."""
    monkeypatch.setattr(id_key, "new_key", lambda: os.urandom(32))


_BESIDE = Path(__file__).parents[2] / "shared" / "data"  # of the checkout
DATA = Path(os.environ.get("DASKFC_DATA", _BESIDE))


def needs_data(test):
    """Mark a test of the real data sets, which users do not have."""
    missing = not (DATA / "mnist.npz").is_file()
    reason = "DASKFC_DATA names no folder of data sets"
    return pytest.mark.data(pytest.mark.skipif(missing, reason=reason)(test))


_recorder = Recorder()


@pytest.fixture(scope="session", autouse=True)
def recorder():
    """Hold every step that a test asks for against the approved protocols."""
    _recorder.start()
    yield _recorder
    _recorder.stop()


@pytest.fixture
def approved(recorder):
    """A party of a site would have performed every step: daskfc.site.protocols has it."""
    before = len(recorder.refusals)
    yield
    told = list(recorder.refusals)[before:]
    assert not told, f"{' '.join(told)} Add them, as tests/approved/write.py says."


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Look for garbage in what tests make, and not, again and again, in all modules and tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(items):
    """Whoever leaves out slow tests leaves out long ones, and cases beyond a test's few."""
    tests = defaultdict(list)
    for item in items:
        if item.get_closest_marker("few"):
            tests[item.nodeid.partition("[")[0]].append(item)
    for cases in tests.values():
        (n,) = cases[0].get_closest_marker("few").args
        cases.sort(key=lambda item: tuple(item.callspec.indices.values()))  # whatever the order
        kept = set(np.linspace(0, len(cases) - 1, min(n, len(cases))).astype(int))
        for number, item in enumerate(cases):
            if number not in kept:
                item.add_marker("long")
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.slow)


def pytest_terminal_summary(terminalreporter):
    """Name steps that a party of a site would refuse; tests of every method fail of them."""
    for sentence in _recorder.refusals:
        terminalreporter.write_line(f"not approved: {sentence}")
