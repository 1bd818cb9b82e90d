"""Rounds a second of a masked sum, beside the same round of plain Dask: what a message costs.

One round is what a protocol does in each iteration: a step at every client, a masked sum of its
array of 100 x 10, and the wait for the server's total. Plain Dask does the same with tasks of its
own workers, one submission each, without masks, guard and ledger. Processor time is that of this
process, which is driver and scheduler, and of all parties. The ways to hide arrays are compared in
one federation each: clients are processes of their own up to 64, and 200 in four processes
(`light_parties`) beside scheduler, server and driver. With benchmarks off: few clients, two rounds.
"""

import time
from collections.abc import Callable

import numpy as np
import psutil
import pytest
from distributed import Client, LocalCluster, wait

from daskfc import Federation
from daskfc.secure.sums import MaskedSum, RecoveringSum, SharedSum
from daskfc.site import RunRequest
from daskfc.stores import write_store
from tests.benchmarks.many_parties import light_federation

LONG = {"cluster": "local", "startup": "600s", "deadline": "600s"}


def own_array(data, round: int) -> np.ndarray:
    """Return a client's array of a round."""
    return np.full((100, 10), 1.0 / (round + data.n_samples))


def plain_array(round: int) -> np.ndarray:
    return np.full((100, 10), 1.0 / (round + 20))


def plain_part(part: np.ndarray) -> np.ndarray:
    return part.copy()


def plain_total(*parts: np.ndarray) -> np.ndarray:
    return np.sum(parts, axis=0)


def processor_s(processes):
    return sum(sum(p.cpu_times()[:2]) for p in processes)


def measured(one_round: Callable[[int], object], n_rounds: int) -> dict[str, float]:
    """Return rounds a second, and the processor's time of a round here and in other processes."""
    one_round(0)  # keys, connections
    here = [psutil.Process()]
    others = here[0].children(recursive=True)
    before, start = (processor_s(here), processor_s(others)), time.perf_counter()
    for round in range(1, n_rounds + 1):
        one_round(round)
    seconds = time.perf_counter() - start
    used = processor_s(here) - before[0], processor_s(others) - before[1]
    return {
        "rounds a second": n_rounds / seconds,
        "driver, ms": 1000 * used[0] / n_rounds,
        "parties, ms": 1000 * used[1] / n_rounds,
    }


def stores_of(n_clients: int, folder) -> dict[str, str]:
    stores = {f"client-{i}": str(folder / f"{n_clients}-{i}.zarr") for i in range(n_clients)}
    for name, url in stores.items():
        write_store(url, name, np.zeros((20, 3)), [f"{name}.{j}" for j in range(20)])
    return stores


def summing(federation, sums) -> Callable[[int], object]:
    def one_round(round: int) -> None:
        parts = federation.inline(own_array, round)
        federation.wait(sums.sum(parts, max_abs=1.0))

    return one_round


def ours(n_clients: int, n_rounds: int, folder) -> dict[str, float]:
    with Federation.local(stores_of(n_clients, folder)) as federation:
        federation.start_run("rounds", random_state=0)
        return measured(summing(federation, MaskedSum(federation)), n_rounds)


def plain(n_clients: int, n_rounds: int) -> dict[str, float]:
    cluster = LocalCluster(n_clients + 1, threads_per_worker=1, dashboard_address=None)
    with cluster, Client(cluster) as client:
        server, *workers = client.scheduler_info(n_workers=-1)["workers"]

        def one_round(round: int) -> None:
            pinned = {"pure": False, "allow_other_workers": False}
            parts = [client.submit(plain_array, round, workers=[w], **pinned) for w in workers]
            pairs = zip(parts, workers, strict=True)
            sent = [client.submit(plain_part, part, workers=[w], **pinned) for part, w in pairs]
            wait(client.submit(plain_total, *sent, workers=[server], **pinned))

        return measured(one_round, n_rounds)


def test_rounds(benchmark, tmp_path):
    counts, n_rounds = ((2, 8, 16), 200) if benchmark.enabled else ((2,), 2)

    def compare() -> list[dict]:
        rows = []
        for n in counts:
            found, dask = ours(n, n_rounds, tmp_path), plain(n, n_rounds)
            ratio = dask["rounds a second"] / found["rounds a second"]  # of seconds a round
            rows.append(
                {"clients": n, **found, "plain Dask": dask["rounds a second"], "ratio": ratio}
            )
        return rows

    benchmark.group = "Rounds of a masked sum"
    benchmark.extra_info["rows"] = rows = benchmark.pedantic(compare)
    assert all(row["ratio"] > 0 for row in rows)


def hidden(federation, n_rounds: int, processes: str, with_recovery: bool) -> dict:
    """Return rounds a second of every way to hide arrays, in turns, and what the first takes."""
    n = len(federation.clients)
    ways = {
        "masked": MaskedSum(federation),
        "recovering": RecoveringSum(federation, patience_s=60.0) if with_recovery else None,
        "shared": SharedSum(federation, patience_s=60.0),
        "shared, all stay": SharedSum(federation, threshold=n),
    }
    found: dict[str, list[dict]] = {name: [] for name, sums in ways.items() if sums is not None}
    first, number = {}, 0
    for name in found:
        start = time.perf_counter()
        summing(federation, ways[name])(number := number + 1)
        first[name] = time.perf_counter() - start
    for _ in range(4):  # turns: other work on the machine meets all of them
        for name, turns in found.items():
            turns.append(measured(summing(federation, ways[name]), max(2, n_rounds // 4)))
    row: dict = {"clients": n, "client processes": processes}
    for name in ways:
        rates = [turn["rounds a second"] for turn in found.get(name, ())]
        row[name] = float(np.median(rates)) if rates else "–"
    for name in ("masked", "shared"):
        row[f"first, {name}, s"] = first[name]
    return row


@pytest.mark.slow
def test_rounds_of_shared_sums(benchmark, tmp_path):
    settings = ((8, 60), (16, 40), (64, 12)), 200, 8
    if not benchmark.enabled:
        settings = ((4, 2),), 5, 2

    def compare() -> list[dict]:
        counts, n_light, light_rounds = settings
        rows = []
        for n, n_rounds in counts:
            with Federation.local(stores_of(n, tmp_path), cluster=LONG) as federation:
                federation.start_run("rounds", random_state=0)
                rows.append(hidden(federation, n_rounds, str(n), n <= 16))
        with light_federation(tmp_path / "light", n_light, min(4, n_light)) as (federation, _):
            request = RunRequest("rounds", package="tests")
            federation.start_run("rounds", random_state=0, request=request)
            rows.append(hidden(federation, light_rounds, "4", False))
        return rows

    benchmark.group = "Rounds of shared sums"
    benchmark.extra_info["rows"] = rows = benchmark.pedantic(compare)
    for row in rows:
        assert all(row[kind] > 0 for kind in ("masked", "shared", "shared, all stay"))
