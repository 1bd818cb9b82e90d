"""Clustering on shares of three clients: seconds, rounds, bytes and memory.

Four clients hold blobs of whole numbers; the first three compute. Seconds are those from the rows
at the clients to labels at the clients, with the threads that parties have by default. With
benchmarks off: few samples.
"""

import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.cluster import DBSCAN

from daskfc import Federation
from daskfc.federation import own_labels
from daskfc.federation.steps.handles import results
from daskfc.metrics import ari
from daskfc.secure.shared import DensityClusters, Lloyd
from daskfc.secure.three_parties import (
    CentresOfShares,
    DensityOfShares,
    SharedComputation,
    WholeRows,
)
from daskfc.testing.federation import stores_of

N_CLIENTS, EPS = 4, 13
TRIPS = 3  # of a message: the word that it is there, the request for it, and it


def blobs(n: int, d: int, k: int) -> np.ndarray:
    """Return whole numbers (n, d) in k groups."""
    random = np.random.default_rng(0)
    centres = np.rint(96 * random.normal(size=(k, d)))
    return np.rint(centres[random.integers(0, k, n)] + 9.6 * random.normal(size=(n, d)))


def whole(data) -> WholeRows:
    return WholeRows(data.rows(0, data.n_samples).astype(np.int64))


def row_of(what: str, X: np.ndarray, task, place: Path) -> tuple[dict, np.ndarray]:
    """Cluster in a new federation; return what it took, and the labels."""
    parts = {f"client-{i}": part for i, part in enumerate(np.array_split(X, N_CLIENTS))}
    folder = place / what.replace(" ", "-")
    folder.mkdir()
    with Federation.local(stores_of(folder, parts), cluster={"cluster": "local"}) as federation:
        federation.start_run("shares", random_state=0)
        computation = SharedComputation(federation)
        rows = federation.on_clients(whole)
        federation.wait(rows)
        start = time.perf_counter()
        labels = computation.labels(rows, task)
        federation.wait(labels)
        seconds = time.perf_counter() - start
        frame = federation.ledger.to_frame()
        sent = frame[frame["sender"] == computation.members[0]]["payload_bytes"].sum()
        told = results(federation.publish(own_labels, labels, party="clients", wait=False))
        found = {
            "what": what,
            "samples": len(X),
            "features": X.shape[1],
            "s": seconds,
            "rounds": computation.n_rounds,
            "a member sends, MB": sent / 1e6,
            "trips and bytes, s": TRIPS * computation.n_rounds * 0.05 + sent * 8 / 1e8,
            "member, MB": max(federation.peak_memory().values()) / 1e6,
        }
    return found, np.concatenate([told[name].labels for name in parts])


def density(n: int, place: Path) -> dict:
    X = blobs(n, 4, 8)
    bits = int(np.abs(X).max()).bit_length()
    task = DensityOfShares(DensityClusters(n, 4, bits, EPS**2, 5))
    row, labels = row_of(f"DBSCAN of {n:,}", X, task, place)
    assert ari(DBSCAN(eps=EPS).fit_predict(X), labels) == 1.0
    return row


def centres(n: int, iterations: int, place: Path) -> dict:
    X = blobs(n, 16, 10)
    bits = int(np.abs(X).max()).bit_length()
    task = CentresOfShares(Lloyd(n, 16, 10, bits, iterations), seed=0)
    row, labels = row_of(f"k-means of {n:,}, {iterations} iterations", X, task, place)
    assert len(set(labels)) > 5
    return row


@pytest.mark.slow
def test_labels_on_shares(benchmark, tmp_path):
    benchmark.group = "Labels on shares of three clients"
    large = benchmark.enabled

    def rows() -> list[dict]:
        found = [density(n, tmp_path) for n in ((400, 2000, 5000, 10_000) if large else (200,))]
        return [*found, centres(100_000 if large else 500, 20 if large else 2, tmp_path)]

    benchmark.extra_info["rows"] = benchmark.pedantic(rows)
