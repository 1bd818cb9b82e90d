"""Rounds a second of a masked sum, with 2, 8 and 16 clients: what a message costs beside its bytes.

One round is what a protocol does in each iteration: a step at every client, a masked sum of its
array of 100 x 10, and the wait for the server's total. Small when benchmarks are off.
`pytest tests/benchmarks/test_rounds.py --benchmark-enable` says rounds a second, and the processor
time of a round: of this process, which is driver and scheduler, and of all parties.
"""

import os
import time

import numpy as np
import psutil
import pytest

from daskfc import Federation
from daskfc.secure.sums import MaskedSum
from daskfc.stores import write_store


def own_array(data, round: int) -> np.ndarray:
    """Return a client's array of a round."""
    return np.full((100, 10), 1.0 / (round + data.n_samples))


def one_round(federation, total, round):
    parts = federation.inline(own_array, round)
    federation.wait(total.sum(parts, max_abs=1.0))


def processor_s(processes):
    return sum(sum(p.cpu_times()[:2]) for p in processes)


@pytest.mark.parametrize("n_clients", [2, 8, 16])
def test_rounds(benchmark, tmp_path, n_clients):
    n_clients, n_rounds = (n_clients, 100) if benchmark.enabled else (3, 2)
    stores = {f"client-{i}": str(tmp_path / f"{i}.zarr") for i in range(n_clients)}
    for name, url in stores.items():
        write_store(url, name, np.zeros((20, 3)), [f"{name}.{j}" for j in range(20)])
    with Federation.local(stores) as federation:
        federation.start_run("rounds", random_state=0)
        total = MaskedSum(federation)
        one_round(federation, total, 0)  # keys, and the first sight of the stores
        me = psutil.Process()
        parties = me.children(recursive=True)
        before = processor_s([me]), processor_s(parties)
        start = time.perf_counter()

        def rounds():
            for round in range(1, n_rounds + 1):
                one_round(federation, total, round)

        benchmark.pedantic(rounds, rounds=1)
        passed = time.perf_counter() - start
        after = processor_s([me]), processor_s(parties)
    benchmark.extra_info["cores"] = os.cpu_count()
    benchmark.extra_info["rounds a second"] = round(n_rounds / passed, 1)
    for who, a, b in zip(("driver and scheduler", "parties"), before, after, strict=True):
        benchmark.extra_info[f"{who}, ms a round"] = round(1000 * (b - a) / n_rounds, 1)
