"""Load: how many parties and how many messages a federation on one machine bears.

`start_up`: from the command to the end of every party's first step, in a process of its own; plain
Dask starts as many workers, which import Dask alone. `clients`: parties as they are, processes of
their own, and a fit. `parties`: many in few processes (`light_parties`), against a scheduler, a
driver and a server that are as always; what is scarce is counted. `messages`: one run, and the
memory of its processes as it goes on. Memory is the proportional share (PSS) of pages, so that
shared ones count once; the growth of one process is that of its resident pages. With benchmarks
off: few parties and messages.
"""

import json
import os
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

import numpy as np
import psutil
import pytest
from distributed import Client, LocalCluster
from sklearn.datasets import load_digits

from daskfc import Federation, FedSC, OmniFC
from daskfc.metrics import nmi
from daskfc.secure.sums import MaskedSum, RecoveringSum
from daskfc.site import RunRequest
from daskfc.stores import write_store
from tests.benchmarks.many_parties import light_federation
from tests.benchmarks.test_rounds import LONG, own_array
from tests.benchmarks.test_security_cost import processor_s, timed

ROOT = Path(__file__).parents[2]
LONGEST_S = 900  # a run of messages ends then, on a busy machine with fewer than it should have


def stores(folder, n):
    folder.mkdir(parents=True, exist_ok=True)
    urls = {f"client-{i}": str(folder / f"{i}.zarr") for i in range(n)}
    for name, url in urls.items():
        write_store(url, name, np.zeros((20, 3)), [f"{name}.{j}" for j in range(20)])
    return urls


def pss_mb(processes):
    return sum(one.memory_full_info().pss for one in processes) / 1e6


def descendants(process=None):
    own = process or psutil.Process()
    return [own, *own.children(recursive=True)]


def one_round(federation, sums, round):
    return sums.sum(federation.inline(own_array, round), max_abs=1.0)


# -- start-up -------------------------------------------------------------------------------------


def nothing():
    """Do nothing, as a first step."""


def start(kind, folder, n):
    """Start so many clients and a server, have each do a step, and tell what it took so far."""
    if kind == "daskfc":
        urls = {f"client-{i}": str(Path(folder) / f"{i}.zarr") for i in range(n)}
        with Federation.local(urls, cluster=LONG) as federation:
            federation.start_run("start", random_state=0)
            steps = [*federation.on_clients(nothing).values(), federation.on_server(nothing)]
            federation.wait(steps)
            tell_cost()
        return
    with (
        LocalCluster(n_workers=n + 1, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(n + 1)
        workers = client.scheduler_info(n_workers=-1)["workers"]
        client.gather([client.submit(int, workers=[w], pure=False) for w in workers])
        tell_cost()


def tell_cost():
    processes = descendants()
    used = sum(sum(p.cpu_times()[:2]) for p in processes)
    told = {"processor s": used, "memory, MB": pss_mb(processes), "ready": time.time()}
    print(json.dumps(told), flush=True)


def started(kind, folder, n):
    code = f"from {__name__} import start; start({kind!r}, {str(folder)!r}, {n})"
    began = time.time()
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    told = json.loads(done.stdout.splitlines()[-1])
    return {"start, s": told.pop("ready") - began, **told}


def start_up(counts, folder):
    rows = []
    for n in counts:
        place = folder / str(n)
        stores(place, n)
        own, dask_s = started("daskfc", place, n), started("dask", place, n)
        rows.append(
            {
                "clients, and a server": n,
                **own,
                "plain Dask, s": dask_s["start, s"],
                "its processor s": dask_s["processor s"],
                "its memory, MB": dask_s["memory, MB"],
                "ratio": own["start, s"] / dask_s["start, s"],
            }
        )
    return rows


@pytest.mark.slow
def test_start_up(benchmark, tmp_path):
    counts = (10, 32) if benchmark.enabled else (2,)
    benchmark.group = "Start-up of 10 and 32 clients"
    benchmark.extra_info["rows"] = rows = benchmark.pedantic(start_up, (counts, tmp_path))
    assert [row["clients, and a server"] for row in rows] == list(counts)
    assert all(0 < row["processor s"] and row["memory, MB"] > 100 for row in rows)


# -- clients as they are --------------------------------------------------------------------------


def digits(folder, n):
    """Deal scikit-learn's digits to so many clients, one after the other."""
    folder.mkdir(parents=True, exist_ok=True)
    X, y = load_digits(return_X_y=True)
    urls = {f"client-{i}": str(folder / f"{i}.zarr") for i in range(n)}
    ids = np.array([f"digit-{j}" for j in range(len(X))])
    for i, (name, url) in enumerate(urls.items()):
        write_store(url, name, X[i::n], ids[i::n], y[i::n])
    return urls


def fits(counts, folder):
    rows, labels = [], {}
    for n in counts:
        urls = digits(folder / f"digits-{n}", n)
        for model in (OmniFC(10, clusterer="k-means"), FedSC(10)):
            kind = type(model).__name__
            with Federation.local(urls, cluster=LONG) as federation:
                _, seconds, used = timed(lambda m=model, f=federation: m.fit(f), [psutil.Process()])
                peak = federation.peak_memory()
            found = model.labels_
            ids = np.argsort(found["sample_id"].to_numpy().astype(str))
            own = found.to_numpy()[ids]
            rows.append(
                {
                    "fit": f"{kind}, {n} clients",
                    "seconds": seconds,
                    "processor s": used,
                    "messages": len(model.ledger_),
                    "wire, MB": model.ledger_.wire_bytes / 1e6,
                    "server, MB": peak.pop("server") / 1e6,
                    "client, MB": max(peak.values()) / 1e6,
                    "NMI with the fewest clients": nmi(labels.setdefault(kind, own), own),
                }
            )
    return rows


@pytest.mark.slow
def test_fits_of_many_clients(benchmark, tmp_path):
    counts = (8, 32) if benchmark.enabled else (3,)
    benchmark.group = "Fits of 8 and 32 clients"
    benchmark.extra_info["rows"] = rows = benchmark.pedantic(fits, (counts, tmp_path))
    for row in rows:
        if row["fit"].startswith("OmniFC"):  # exact distances, whoever holds the samples
            assert row["NMI with the fewest clients"] == pytest.approx(1.0)
        assert row["messages"] > 0


def rounds_of(federation, parties, n_rounds):
    """Return what the first sum took, and rounds after it."""
    sums = MaskedSum(federation)
    _, first, _ = timed(lambda: federation.wait(one_round(federation, sums, 0)), parties)

    def rounds():
        for round in range(1, 1 + n_rounds):
            federation.wait(one_round(federation, sums, round))

    rounds()  # connections
    before = len(federation.ledger)
    _, seconds, used = timed(rounds, parties)
    ledger = federation.ledger
    n_messages = len(ledger) - before
    return {
        "first sum, s": first,
        "round, ms": 1000 * seconds / n_rounds,
        "round, processor ms": 1000 * used / n_rounds,
        "messages a round": n_messages // n_rounds,
        "wire a round, kB": sum(row.wire_bytes for row in ledger.rows[before:]) / n_rounds / 1e3,
    }


def processes_of(counts, folder, n_rounds):
    rows = []
    for n in counts:
        began = time.perf_counter()
        with Federation.local(stores(folder / f"own-{n}", n), cluster=LONG) as federation:
            opened = time.perf_counter() - began
            federation.start_run("rounds", random_state=0)
            found = rounds_of(federation, [psutil.Process()], n_rounds)
            every = descendants()
            rows.append(
                {
                    "clients": n,
                    "open, s": opened,
                    **found,
                    "memory, MB": pss_mb(every),
                    "a client, MB": psutil.Process(federation.processes.pid("client-0"))
                    .memory_full_info()
                    .pss
                    / 1e6,
                    "descriptors of scheduler and driver": every[0].num_fds(),
                }
            )
    return rows


@pytest.mark.slow
def test_clients_as_processes(benchmark, tmp_path):
    counts, n_rounds = ((8, 32, 64), 50) if benchmark.enabled else ((3,), 2)
    benchmark.group = "Clients as processes of one machine"
    arguments = counts, tmp_path, n_rounds
    benchmark.extra_info["rows"] = rows = benchmark.pedantic(processes_of, arguments)
    assert [row["messages a round"] for row in rows] == list(counts)


# -- many parties ---------------------------------------------------------------------------------


def sum_s(federation, sums, round):
    start = time.perf_counter()
    federation.wait(one_round(federation, sums, round))
    return time.perf_counter() - start


def parties(counts, folder, n_hosts, n_rounds, most_pairs):
    rows = []
    for n in counts:
        began = time.perf_counter()
        with light_federation(folder / f"light-{n}", n, n_hosts) as (federation, processes):
            joined = time.perf_counter() - began
            request = RunRequest("load", package="tests")
            _, begin_s, _ = timed(
                lambda f=federation, r=request: f.start_run("load", random_state=0, request=r), []
            )
            scheduler = processes[0]
            found = rounds_of(federation, [psutil.Process(), *processes], n_rounds)
            every_pair = shares = None
            if n <= most_pairs:
                every_sum = MaskedSum(federation, n_colluding=n - 2)
                every_pair = sum_s(federation, every_sum, n_rounds + 1)
                shares = sum_s(federation, RecoveringSum(federation), n_rounds + 2)
            rows.append(
                {
                    "clients": n,
                    "join, s": joined,
                    "begin a run, s": begin_s,
                    **found,
                    "keys of all pairs and a sum, s": "–" if every_pair is None else every_pair,
                    "sum that bears losses, s": "–" if shares is None else shares,
                    "scheduler, descriptors": scheduler.num_fds(),
                    "server, descriptors": processes[-1].num_fds(),
                    "scheduler, MB": pss_mb([scheduler]),
                    "a client, MB": pss_mb(processes[1:-1]) / n,
                }
            )
    return rows


@pytest.mark.slow
def test_many_parties(benchmark, tmp_path):
    settings = ((32, 64, 128, 200), tmp_path, 4, 20, 64)
    if not benchmark.enabled:
        settings = ((4,), tmp_path, 2, 2, 4)
    benchmark.group = "200 clients against one scheduler"
    benchmark.extra_info["rows"] = rows = benchmark.pedantic(parties, settings)
    for row in rows:
        assert row["messages a round"] == row["clients"]
        assert row["server, descriptors"] > row["clients"]


# -- many messages --------------------------------------------------------------------------------


def resident_mb(process):
    return process.memory_info().rss / 1e6


def slope(samples, column, after):
    """Return bytes a message, by least squares over what was seen after so many of them."""
    late = np.array([[one["messages"], one[column]] for one in samples if one["messages"] >= after])
    return float(np.polyfit(late[:, 0], late[:, 1] * 1e6, 1)[0])


def long_run(folder, n_clients, n_messages, every):
    """Return samples of memory, and what the ledger of all messages took."""
    ahead = deque()  # rounds that were started and not waited for: what is ready travels together
    samples = []
    with Federation.local(stores(folder, n_clients), cluster=LONG) as federation:
        federation.start_run("long", random_state=0)
        sums = MaskedSum(federation)
        pids = {name: psutil.Process(federation.processes.pid(name)) for name in federation.parties}
        start = time.perf_counter()
        for round in range(1, n_messages // n_clients + 1):
            ahead.append(one_round(federation, sums, round))
            if len(ahead) > 32:
                federation.wait(ahead.popleft())
            late = time.perf_counter() - start > LONGEST_S
            if late or round * n_clients % every < n_clients:
                clients = [resident_mb(pids[name]) for name in federation.clients]
                samples.append(
                    {
                        "messages": round * n_clients,
                        "seconds": time.perf_counter() - start,
                        "driver and scheduler": resident_mb(psutil.Process()),
                        "server": resident_mb(pids["server"]),
                        "client": sum(clients) / n_clients,
                    }
                )
            if late:
                break
        federation.wait(list(ahead))
        seconds = time.perf_counter() - start
        before = resident_mb(psutil.Process())
        ledger, collected, _ = timed(lambda: federation.ledger, [])
        told = {
            "messages": len(ledger),
            "messages a second": len(ledger) / seconds,
            "processor s": processor_s([psutil.Process()]),
            "ledger, s": collected,
            "ledger, MB": resident_mb(psutil.Process()) - before,
        }
    return samples, told


@pytest.mark.slow
def test_many_messages(benchmark, tmp_path):
    n_clients, n_messages, every = (8, 100_000, 2500) if benchmark.enabled else (3, 60, 6)
    arguments = tmp_path, n_clients, n_messages, every
    benchmark.group = "Memory as messages go by"
    samples, told = benchmark.pedantic(long_run, arguments)
    places = sorted({len(samples) // 5, len(samples) // 2, len(samples) - 1})
    benchmark.extra_info["samples"], benchmark.extra_info["told"] = samples, told
    benchmark.extra_info["rows"] = rows = [
        {
            "process": process,
            **{f"MB at {samples[at]['messages']:,}": samples[at][process] for at in places},
            "bytes a message": slope(samples, process, samples[-1]["messages"] // 5),
            "messages a second": told["messages a second"],
        }
        for process in ("driver and scheduler", "server", "client")
    ]
    rows[0]["its ledger, s"], rows[0]["its ledger, MB"] = told["ledger, s"], told["ledger, MB"]
    assert told["messages"] >= samples[-1]["messages"]
    if benchmark.enabled:
        assert all(row["bytes a message"] < 1000 for row in rows), rows
