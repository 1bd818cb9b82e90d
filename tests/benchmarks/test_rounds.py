"""Rounds a second of a masked sum, beside the same round of plain Dask: what a message costs.

One round is what a protocol does in each iteration: a step at every client, a masked sum of its
array of 100 x 10, and the wait for the server's total. Plain Dask does the same with tasks of its
own workers, one submission each, without masks, guard and ledger. Processor time is that of this
process, which is driver and scheduler, and of all parties. With benchmarks off: two clients, two
rounds.
"""

import time
from collections.abc import Callable

import numpy as np
import psutil
from distributed import Client, LocalCluster, wait

from daskfc import Federation
from daskfc.secure.sums import MaskedSum
from daskfc.stores import write_store


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


def ours(n_clients: int, n_rounds: int, folder) -> dict[str, float]:
    stores = {f"client-{i}": str(folder / f"{n_clients}-{i}.zarr") for i in range(n_clients)}
    for name, url in stores.items():
        write_store(url, name, np.zeros((20, 3)), [f"{name}.{j}" for j in range(20)])
    with Federation.local(stores) as federation:
        federation.start_run("rounds", random_state=0)
        sums = MaskedSum(federation)

        def one_round(round: int) -> None:
            parts = federation.inline(own_array, round)
            federation.wait(sums.sum(parts, max_abs=1.0))

        return measured(one_round, n_rounds)


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
