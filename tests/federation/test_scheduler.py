"""Requests to a guarded scheduler that its certificates decide, one at a time."""

from types import SimpleNamespace

import pytest
from distributed.protocol import dumps, loads

from daskfc.deploy.config.peers import Peer
from daskfc.federation.scheduler.scheduler import GuardedScheduler

ALICE, BOB = Peer("submitter", "alice"), Peer("submitter", "bob")
WORKERS = {"tcp://1": "a", "tcp://2": "b"}


@pytest.fixture
def scheduler():
    """One with two parties, of whom the first is in a run of Alice's."""
    made = object.__new__(GuardedScheduler)
    made.workers = {at: SimpleNamespace(name=name) for at, name in WORKERS.items()}
    made.coerce_address = str
    made._revoked, made._began = None, {"a": (ALICE, "her client")}
    return made


@pytest.mark.parametrize(
    ("peer", "workers", "may"),
    [
        (ALICE, ["tcp://1"], True),
        (ALICE, ["tcp://1", "tcp://2"], False),
        (BOB, ["tcp://1"], False),
        (ALICE, None, False),  # all of them
    ],
)
def test_parties_are_restarted_by_whoever_began_their_run(scheduler, peer, workers, may):
    """Whatever Dask makes of the list on its way."""
    asked = loads(dumps({"op": "restart_workers", "workers": workers}))
    why = scheduler._why_not(peer, "restart_workers", asked)
    assert (why is None) == may, why
