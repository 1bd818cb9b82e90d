"""What rounds leave in memory: runs of many messages need no more than short ones.

Counted are the blocks that Python's own allocator has handed out, which a machine that is busy does
not change. Dask's logs of so many entries are kept short, so that they are full from the beginning;
its cache of task names, which has an end as well, is emptied before each count.
"""

import gc
import sys

import numpy as np
import pytest
from dask.utils import key_split

from daskfc.secure.sums import MaskedSum
from daskfc.testing.federation import federation_of

SHORT_LOGS = {
    "cluster": "local",
    "dask": {
        "distributed.admin.low-level-log-length": 10,
        "distributed.admin.log-length": 10,
        "distributed.admin.system-monitor.log-length": 2,
        "distributed.diagnostics.computations.max-history": 2,
    },
}
ROUNDS = 60
FEW = 15  # blocks a round; a client remembers each tag that it masked for


def blocks():
    gc.collect()
    key_split.cache_clear()
    return sys.getallocatedblocks()


def own(data, round):
    return np.full(3, float(round))


def note(file):
    with open(file, "a") as noted:
        noted.write(f"{blocks()}\n")


def test_no_scheduler_keeps_measurements_of_each_round(federation):
    """Dask's "spans" are some 20 blocks a round with three clients, and never forgotten."""
    extensions = federation.processes._scheduler.extensions
    assert "events" in extensions  # by which parties tell of refusals
    assert not {"spans", "stealing"} & set(extensions)


@pytest.mark.long
def test_rounds_leave_nothing_in_memory(tmp_path):
    rows = {f"client-{i}": np.zeros((4, 2)) for i in range(3)}
    with federation_of(tmp_path / "stores", rows, cluster=SHORT_LOGS) as federation:
        federation.start_run("long", random_state=0)
        sums = MaskedSum(federation)
        here = []
        for round in range(3 * ROUNDS + 1):
            if round % ROUNDS == 0:
                noted = [federation.on_server(note, str(tmp_path / "server"))]
                noted += federation.on_clients(note, str(tmp_path / "clients")).values()
                federation.wait(noted)
                del noted
                here.append(blocks())
            federation.wait(sums.sum(federation.inline(own, round), max_abs=1000.0))
        assert len(federation.ledger) == 3 * (3 * ROUNDS + 1) + 6
    server = np.loadtxt(tmp_path / "server")
    clients = np.loadtxt(tmp_path / "clients").reshape(-1, 3).mean(axis=1)
    # The first rounds fill caches and logs.
    growth = {
        name: (counts[3] - counts[1]) / (2 * ROUNDS)
        for name, counts in {"driver": here, "server": server, "client": clients}.items()
    }
    assert all(each < FEW for each in growth.values()), growth
