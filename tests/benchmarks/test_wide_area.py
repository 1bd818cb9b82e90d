"""Methods over a wide area: 50 ms one way and 100 Mbit/s between sites, beside lines without limit.

Each client is a site in a network namespace of its own, with TLS; scheduler, server and driver are
a further site (`tests.benchmarks.wide_sites`). Every method is fitted by the same warm
processes: with lines without limit, with 50 ms one way and 100 Mbit/s each way, and so once more
where connections that were idle do not begin slowly again (`tcp_slow_start_after_idle` of Linux at
all sites). Labels must be the same each time. Making namespaces takes root's rights, or these tests
are skipped.

The last column has, for some, what the keys `latency` and `bandwidth` of a local cluster make of
it, which need no rights: each message is held back once. These fits are in processes of one
machine, and theirs are the same labels.

MNIST and Cora are where DASKFC_DATA says; without it generated samples stand in for MNIST. As an
ordinary test: three clients with 200 digits, one method. By itself, for some data and methods:

    python -m tests.benchmarks.test_wide_area --data FOLDER --only "digits" "MNIST"
"""

import argparse
import os
import tempfile
from pathlib import Path

import pytest

from daskfc import Federation
from daskfc.stores import load_storage
from tests.benchmarks.lines import Relay
from tests.benchmarks.test_fedsc import DATA, dealt, source_of
from tests.benchmarks.wide_sites import Row, WideSites, can_make_lines, fitted

LATENCY, BANDWIDTH = 0.05, 12.5e6  # one way, seconds; bytes a second each way
TRIPS = 3  # of a message: the word that it is there, the request for it, the message
FAST, WIDE, WARM = (0.0, None), (LATENCY, BANDWIDTH), (LATENCY, BANDWIDTH, False)
TEN = {"n_clusters": 10}
ON_ROWS = {
    "OmniFC, k-means": ("OmniFC", {**TEN, "clusterer": "k-means"}),
    "OmniFC, spectral": ("OmniFC", {**TEN, "clusterer": "spectral"}),
    "FedSC": ("FedSC", TEN),
    "federated kernel k-means": ("FederatedKernelKMeans", TEN),
    "k-FED": ("KFED", TEN),
    "FedMAvg": ("FedMAvg", TEN),
}
BY_KEYS = ("OmniFC, k-means", "FedSC", "k-FED")  # on digits
ON_COLUMNS = {"kCAGC": ("KCAGC", TEN)}
ON_VIEWS = {"ESFMC": ("ESFMC", TEN)}
ON_SHARES = {
    "OmniFC, dbscan": ("OmniFC", {"clusterer": {"dbscan": {"eps": 0.6}}}),
    "neighbours": ("OmniFC", {"clusterer": {"dbscan": {"eps": 0.6}}, "reveal": "neighbours"}),
    "labels": ("OmniFC", {"clusterer": {"dbscan": {"eps": 0.6}}, "reveal": "labels"}),
    "labels, k-means": ("OmniFC", {"n_clusters": 3, "clusterer": "k-means", "reveal": "labels"}),
}
N_CLIENTS = 5  # of rows; each takes two processes, and the machine is one
MANY = 10_000  # of MNIST


def digits(folder, n_clients=N_CLIENTS, **source):
    storage = {
        "source": {"dataset": "digits", **source},
        "partition": {"scheme": "label-skew", "clients": n_clients, "skew": 0.75, "seed": 0},
        "layout": {"chunk_rows": 1024, "dtype": "float32"},
    }
    return load_storage(storage).ensure(folder)


def of_file(name):
    return lambda folder: load_storage(Path("storage") / f"{name}.yaml").ensure(folder)


def mnist(folder):
    return dealt(source_of(DATA, MANY, Path(folder)), MANY, 0.75, folder, N_CLIENTS)


def cora(folder):
    storage = {
        "source": {"path": str(DATA / "cora.npz")},
        "partition": {"scheme": "vertical", "clients": 4},
    }
    return load_storage(storage).ensure(folder)


PLACES = {
    "digits": (digits, ON_ROWS),
    f"MNIST, {MANY:,}": (mnist, ON_ROWS),
    "digits, columns and a graph": (of_file("digits-graph"), ON_COLUMNS),
    "Cora": (cora, {"kCAGC": ("KCAGC", {"n_clusters": 7, "filter_order": 9})}),
    "digits, three views": (of_file("digits-views"), ON_VIEWS),
}


def far_apart(sender, receiver):
    """Return whether a message goes over a line; server and caller are at one site."""
    return not {sender, receiver} <= {"server", "caller"}


def in_a_row(rows, latency):
    """Return how many messages over lines at most were sent one after the other's arrival.

    Times of sending are by one clock, as all sites are on one machine.
    """
    arrived = {}  # by party: (when, length of the chain up to there)
    longest = 0
    for row in sorted(rows, key=lambda row: row.time):
        before = max((n for when, n in arrived.get(row.sender, ()) if when <= row.time), default=0)
        far = far_apart(row.sender, row.receiver)
        arrived.setdefault(row.receiver, []).append((row.time + far * latency, before + far))
        longest = max(longest, before + far)
    return longest


def lines_of(rows):
    """Return bytes on the wire by class of message, for each direction of each site's line."""
    lines = {}
    for row in rows:
        if far_apart(row.sender, row.receiver):
            for site, way in ((row.sender, "out"), (row.receiver, "in")):
                line = lines.setdefault(("server" if site == "caller" else site, way), {})
                line[row.message] = line.get(row.message, 0) + row.wire_bytes
    return lines


def busiest(rows):
    """Return the bytes that the busiest direction of a line takes."""
    return max(sum(line.values()) for line in lines_of(rows).values())


def row_of(place, name, fast, wide, warm, keys):
    chain, line = in_a_row(wide["rows"], LATENCY), busiest(wide["rows"])
    return {
        "data": place,
        "method": name,
        "messages": len(wide["rows"]),
        "in a row": chain,
        "MB": sum(row.wire_bytes for row in wide["rows"]) / 1e6,
        "busiest line, MB": line / 1e6,
        "no limits, s": fast["seconds"],
        "trips, s": chain * TRIPS * LATENCY,
        "bytes, s": line / BANDWIDTH,
        "wide area, s": wide["seconds"],
        "no slow start, s": warm["seconds"],
        "by keys, s": keys["seconds"] if keys else "–",
    }


def by_keys(urls, method, params):
    """Fit on this machine alone with the keys of a cluster file that stand for such lines."""
    cluster = {
        "cluster": "local", "latency": LATENCY, "bandwidth": "100Mbit", "deadline": "600s",
        "worker": {"nthreads": 1, "blas_threads": 1, "memory_limit": "2GB"},
    }  # fmt: skip
    with Federation.local(urls, cluster=cluster) as federation:
        fitted(federation, method, params)
        return fitted(federation, method, params)


def measured(sites, method, params, *, keys):
    """Fit with each setting of the lines, and by keys if asked; labels must not differ."""
    sites.set_lines(*FAST)
    sites.fit(method, params)  # what only the first fit of a process costs
    found = []
    for setting in (FAST, WIDE, WARM):
        sites.set_lines(*setting)
        found.append(sites.fit(method, params))
    found.append(by_keys(sites.urls, method, params) if keys else None)
    assert all(one["labels"] == found[0]["labels"] for one in found if one)
    return found


def rows_of(places, folder, told=print):
    """Return a line a method of each of the places."""
    rows = []
    for number, (place, (stores, methods)) in enumerate(places.items()):
        urls = stores(str(folder / f"stores-{number}"))
        with WideSites(folder / f"sites-{number}", urls) as sites:
            for name, (method, params) in methods.items():
                keys = place == "digits" and name in BY_KEYS
                rows.append(row_of(place, name, *measured(sites, method, params, keys=keys)))
                told(f"{rows[-1]}; load {os.getloadavg()[0]:.1f}")
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_wide_area(benchmark, tmp_path, place):
    if benchmark.enabled and place == "Cora" and DATA is None:
        pytest.skip("DASKFC_DATA names no folder with Cora")
    if not benchmark.enabled and place != "digits":
        pytest.skip("with benchmarks off, a few digits")
    if not can_make_lines():
        pytest.skip("network namespaces with devices take the rights of root")
    few = {"subsample": {"n": 200, "seed": 0}}
    stores = {place: (lambda folder: digits(folder, 3, **few), {"k-FED": ON_ROWS["k-FED"]})}
    places = {place: PLACES[place]} if benchmark.enabled else stores
    benchmark.group = "Methods over a wide area"
    benchmark.extra_info["rows"] = rows = benchmark.pedantic(rows_of, args=(places, tmp_path))
    for row in rows:
        assert row["wide area, s"] > max(row["trips, s"], row["bytes, s"])


@pytest.mark.slow
def test_labels_on_shares_over_a_wide_area(benchmark, tmp_path):
    if not benchmark.enabled:
        pytest.skip("with benchmarks off, the methods of the other test")
    if not can_make_lines():
        pytest.skip("network namespaces with devices take the rights of root")
    benchmark.group = "Labels on shares over a wide area"
    places = {"iris": (of_file("iris"), ON_SHARES)}
    rows = benchmark.pedantic(rows_of, args=(places, tmp_path))
    told = ("method", "messages", "in a row", "MB", "no limits, s", "trips, s", "wide area, s")
    benchmark.extra_info["rows"] = [{key: row[key] for key in told} for row in rows]


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def packet(receiver, n_bytes):
    return bytes([0x45]) + bytes(18) + bytes([receiver + 1]) + bytes(n_bytes - 20)


def arrivals(relay, clock, until):
    found = []
    while (soon := relay.next_s()) is not None and clock.now + soon <= until:
        clock.now += soon
        found += [(round(clock.now, 6), receiver, len(one)) for receiver, one in relay.due()]
    return found


def test_packets_come_late_and_one_after_the_other():
    clock = Clock()
    relay = Relay(3, clock)
    relay.latency, relay.bandwidth = 0.05, 100_000.0
    relay.take(0, packet(2, 1000))
    relay.take(0, packet(1, 1000))  # the same line out
    relay.take(1, packet(2, 1000))  # the same line in
    assert arrivals(relay, clock, 200.0) == [
        (100.07, 2, 1000), (100.08, 1, 1000), (100.08, 2, 1000)
    ]  # fmt: skip


def test_without_a_bandwidth_packets_take_the_latency_alone():
    clock = Clock()
    relay = Relay(2, clock)
    relay.latency = 0.05
    for _ in range(2):
        relay.take(0, packet(1, 1500))
    assert arrivals(relay, clock, 200.0) == [(100.05, 1, 1500)] * 2


def test_a_full_queue_drops_and_strangers_are_left_out():
    clock = Clock()
    relay = Relay(2, clock)
    relay.bandwidth = 1e6
    for _ in range(1500):
        relay.take(0, packet(1, 1500))
    assert relay.dropped == 499
    relay.take(0, packet(7, 100))
    relay.take(0, bytes([0x60]) + packet(1, 100)[1:])  # IPv6
    assert sum(map(len, relay.waiting)) == 1001


def test_messages_in_a_row_follow_what_had_arrived():
    def row(sender, receiver, time, wire=1):
        return Row(sender, receiver, "Message", wire, time)

    rows = [
        row("a", "server", 0.0),
        row("b", "server", 0.0),
        row("b", "server", 0.04),  # nothing has come to b
        row("server", "caller", 0.06),  # beside each other
        row("server", "a", 0.07),
        row("a", "server", 0.11),  # sent before it came
        row("a", "b", 0.13),
    ]
    assert in_a_row(rows, 0.05) == 3
    assert busiest([*rows, row("b", "caller", 9.0, 100)]) == 104


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="as DASKFC_DATA")
    parser.add_argument("--only", nargs="+", default=[""], help="parts of the data's names")
    parser.add_argument("--methods", nargs="+", default=[""], help="parts of the methods' names")
    asked = parser.parse_args()
    if asked.data is not None:
        os.environ["DASKFC_DATA"] = str(asked.data)
        globals()["DATA"] = asked.data
    places = {
        place: (stores, chosen)
        for place, (stores, methods) in PLACES.items()
        if any(part in place for part in asked.only)
        and (chosen := {m: one for m, one in methods.items() if any(p in m for p in asked.methods)})
    }
    with tempfile.TemporaryDirectory() as folder:
        rows_of(places, Path(folder))


if __name__ == "__main__":
    main()
