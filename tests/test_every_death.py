"""A party's process that dies in the middle of a fit changes nothing, whatever the method.

Dask repeats what was lost with it, steps of long ago among them, while later results are there.
"""

import os
import signal

import numpy as np
import pytest

from daskfc.federation import Federation
from daskfc.stores.store.together import SPLITS
from tests.test_every_method import METHODS, model_of, split_of, stores

pytestmark = pytest.mark.slow

POOLED = ("AGC", "GCC")  # pool raw graphs, which these stores have none of


@pytest.fixture(scope="module")
def federations(tmp_path_factory):
    """One federation for each way in which data lie with clients."""
    folder = tmp_path_factory.mktemp("stores")
    opened = {
        split: Federation.local(stores(folder / split, split), allow_raw=True) for split in SPLITS
    }
    yield opened
    for federation in opened.values():
        federation.close()


@pytest.mark.long
@pytest.mark.parametrize("method", [name for name in METHODS if name not in POOLED])
def test_who_dies_in_the_middle_of_a_fit(federations, monkeypatch, method):
    federation, heard = federations[split_of(method)], []
    monkeypatch.setattr(federation, "on_progress", lambda *told: heard.append(told))
    whole = model_of(method).fit(federation)
    middle = heard[len(heard) // 2]

    def kill(*told):
        if told == middle and not killed:
            killed.append(federation.processes.pid(party))
            os.kill(killed[-1], signal.SIGKILL)

    monkeypatch.setattr(federation, "on_progress", kill)
    for party in ("server", "b"):
        killed: list[int] = []
        model = model_of(method).fit(federation)
        assert killed
        np.testing.assert_array_equal(model.labels_, whole.labels_, err_msg=party)
