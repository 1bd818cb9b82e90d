import gc
import itertools
import os
from types import SimpleNamespace

import numpy as np
import pytest

from daskfc.federation.party import party as party_module
from daskfc.federation.worker import door
from daskfc.federation.worker import guard as module
from daskfc.testing.federation import federation_of

ROWS = {
    f"client-{i}": np.arange(12, dtype=np.float64).reshape(6, 2) + 1234.5678 * i for i in (1, 2, 3)
}
_runs = itertools.count()


@pytest.fixture(scope="session")
def processes(tmp_path_factory):
    """Starting a federation takes seconds, so that its tests share one, those that kill too."""
    with federation_of(tmp_path_factory.mktemp("stores"), ROWS) as federation:
        yield federation


@pytest.fixture
def federation(processes, tmp_path):
    processes.start_run(
        f"run-{next(_runs)}", random_state=0, workspace=str(tmp_path), deadline_s=30
    )
    return processes


@pytest.fixture
def pipes(tmp_path):
    paths = [str(tmp_path / name) for name in ("started", "release")]
    for path in paths:
        os.mkfifo(path)
    return paths


@pytest.fixture
def told(monkeypatch):
    """What a worker does to its process and says in its log, which are left as they are."""
    told = SimpleNamespace(threads=[], devices=[], said=[])

    def said(text, *of):
        told.said.append(text % of)

    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(module, "allow_threads", told.threads.append)
    monkeypatch.setattr(module, "allow_device", told.devices.append)
    monkeypatch.setattr(party_module, "_LOGGERS", ())
    monkeypatch.setattr(party_module.logging, "captureWarnings", lambda capture: None)
    for one in (module, door):
        monkeypatch.setattr(one, "logger", SimpleNamespace(warning=said, exception=said))
    return told
