"""What is told to stop: a party and all its processes, a scheduler in an awkward moment."""

import asyncio
import os
import signal
from types import SimpleNamespace

import distributed.core
import pytest
from distributed import Scheduler
from distributed.core import Server

from daskfc.deploy.connections.stopping import close_scheduler
from daskfc.deploy.processes.local import LocalParties
from tests.deploy.test_sites import Site
from tests.deployments.slurm_cluster import until

GONE = "tcp://127.0.0.1:9"
QUIET = {"host": "127.0.0.1", "port": 0, "dashboard": False, "dashboard_address": "127.0.0.1:0"}


async def _no_answer(*_, **__):
    await asyncio.get_running_loop().create_future()


async def _closed(monkeypatch, close):
    """Return a scheduler that was closed right after a worker left that it was connecting to."""
    scheduler = await Scheduler(**QUIET)
    monkeypatch.setattr(distributed.core, "connect", _no_answer)
    attempt = asyncio.create_task(scheduler.rpc.connect(GONE))
    while GONE not in scheduler.rpc._connecting:
        await asyncio.sleep(0)
    pool_closes, calls = scheduler.rpc.close, []

    async def leaves_first():
        if not calls:
            scheduler.rpc.remove(GONE)
            await asyncio.sleep(0)  # in which the attempt begins to end
        calls.append("close")
        await pool_closes()

    monkeypatch.setattr(scheduler.rpc, "close", leaves_first)
    try:
        await close(scheduler)
    finally:
        await asyncio.gather(attempt, return_exceptions=True)
    return scheduler


def test_dask_cannot_close_a_scheduler_while_a_worker_leaves(monkeypatch):
    """When it can, `close_scheduler` is needed no more."""

    async def close(scheduler):
        with pytest.raises(RuntimeError, match="expiring"):
            await scheduler.close()
        await asyncio.sleep(0.01)
        await Server.close(scheduler)  # what it has left open

    asyncio.run(_closed(monkeypatch, close))


def test_a_scheduler_is_closed_while_a_worker_leaves(monkeypatch):
    async def close(scheduler):
        address = scheduler.address.removeprefix("tcp://").split(":")
        await close_scheduler(scheduler, "a test")
        assert scheduler._event_finished.is_set()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*address)

    asyncio.run(_closed(monkeypatch, close))


def test_a_scheduler_that_nobody_leaves_is_closed_by_dask():
    async def whole():
        scheduler = await Scheduler(**QUIET)
        await close_scheduler(scheduler, "a test")
        return scheduler.status

    assert asyncio.run(whole()) == distributed.core.Status.closed


def test_a_party_that_cannot_be_closed_keeps_no_scheduler_open():
    async def refuses(**_):
        raise OSError("a process that is gone")

    async def stopped():
        scheduler = await Scheduler(**QUIET)
        parties = SimpleNamespace(
            _nannies={"a": SimpleNamespace(close=refuses)}, _scheduler=scheduler
        )
        await LocalParties._stop(parties)
        return scheduler.status

    assert asyncio.run(stopped()) == distributed.core.Status.closed


@pytest.mark.slow
def test_a_party_all_of_whose_processes_are_told_to_stop_at_once_ends_quietly(tmp_path):
    """As a terminal or a service's manager tells them, and not the first one alone."""
    site = Site(tmp_path)
    try:
        party = site.party("server", site.scheduler("127.0.0.1"), narrates=True)
        until(lambda: "joined" in site.said(party), lambda: site.said(party))
        os.killpg(party.pid, signal.SIGTERM)
        assert party.wait(60) == 0
    finally:
        site.end()
    told = [line.partition(": ")[2].partition(" ")[0] for line in site.said(party).splitlines()]
    assert told == ["holds", "joined;", "stopped"]
    assert site.said(party).rstrip().endswith("stopped by SIGTERM")
