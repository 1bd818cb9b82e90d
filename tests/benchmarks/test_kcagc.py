"""kCAGC beside AGC on the pooled columns: cells of the paper's Tables II, time and processor time.

Participants hold columns of the same nodes; fits are in warm processes, none of which has the
filtered columns yet. AGC runs in this process, before and after. Processor time is that of all
processes, the scheduler's too. Nodes are Cora's where DASKFC_DATA names its folder, or of a
generated graph like it. With benchmarks off: few nodes, two participants.
"""

import os
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from scipy import sparse

from daskfc import Federation
from daskfc.baselines.maths.agc import cluster_agc
from daskfc.metrics import nmi
from daskfc.protocols import KCAGC
from daskfc.stores import write_store
from tests.benchmarks.test_rounds import processor_s

K = 7
DATA = Path(os.environ.get("DASKFC_DATA", "nowhere")) / "cora.npz"
CELLS = ((2, 1), (8, 1), (8, 4), (16, 1), (16, 4))  # participants; local clusters, in units of k


def generated(n: int, d: int) -> tuple[np.ndarray, sparse.csr_array, np.ndarray]:
    """Return rows of 0 and 1, links and groups: nodes of a group share words and neighbours."""
    random = np.random.default_rng(0)
    y = random.integers(0, K, n)
    words = random.random((K, d)) ** 8 * 0.2
    X = (random.random((n, d)) < words[y]).astype(np.uint8)
    ends = random.integers(0, n, (2, 40 * n))
    linked = (y[ends[0]] == y[ends[1]]) & (random.random(40 * n) < 0.3)
    linked |= random.random(40 * n) < 0.015
    ends = ends[:, linked & (ends[0] != ends[1])]
    graph = sparse.coo_array((np.ones(ends.shape[1]), tuple(ends)), shape=(n, n)).tocsr()
    return X, ((graph + graph.T) > 0).astype(np.float64), y


def nodes(n: int, d: int) -> tuple[np.ndarray, sparse.csr_array, np.ndarray]:
    """Return Cora where it is, and otherwise what is like it."""
    if not DATA.is_file():
        return generated(n, d)
    with np.load(DATA) as arrays:
        kept = arrays["X_data"], arrays["X_indices"], arrays["X_indptr"]
        X = sparse.csr_array(kept, shape=tuple(arrays["X_shape"])).toarray()
        ones = np.ones(arrays["A_indices"].size)
        linked = ones, arrays["A_indices"], arrays["A_indptr"]
        return X, sparse.csr_array(linked, shape=tuple(arrays["A_shape"])), arrays["y"]


def compared(
    X: np.ndarray,
    graph: sparse.csr_array,
    y: np.ndarray,
    cell: tuple[int, int],
    folder: Path,
    *,
    n_init: int = 50,
    order: int = 9,
) -> dict[str, float]:
    """Return what a cell takes, and AGC on the same nodes right before and after."""
    n_clients, m = cell
    urls, names = {}, [str(i) for i in range(len(X))]
    for number, columns in enumerate(np.array_split(np.arange(X.shape[1]), n_clients)):
        name = f"client-{number}"
        urls[name] = str(folder / f"{n_clients}-{m}-{name}.zarr")
        write_store(
            urls[name], name, X[:, columns], names, dtype="uint8", graph=graph,
            feature_names=[str(i) for i in columns],
        )  # fmt: skip

    def agc() -> tuple[float, float]:
        here, start = time.process_time(), time.perf_counter()
        cluster_agc(X.astype(np.float64), graph, K, filter_order=order, seed=0)
        return time.perf_counter() - start, time.process_time() - here

    with Federation.local(urls) as federation:
        processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
        how = {"n_local_clusters": m * K, "n_init": n_init}
        KCAGC(K, filter_order=1, **how).fit(federation)  # other rows are kept
        before = agc()
        used, start = processor_s(processes), time.perf_counter()
        model = KCAGC(K, filter_order=order, **how).fit(federation)
        seconds, used = time.perf_counter() - start, processor_s(processes) - used
        after = agc()
    base, base_used = (sum(pair) / 2 for pair in zip(before, after, strict=True))
    return {
        "participants": n_clients,
        "k̂": f"{m}k",
        "nodes": model.n_virtual_nodes_,
        "sums": model.n_secure_sums_,
        "numbers": model.n_secure_scalars_,
        "kCAGC, s": seconds,
        "AGC, s": base,
        "ratio": seconds / base,
        "of processor": used / base_used,
        "NMI": nmi(y, model.labels_.values),
    }


@pytest.mark.slow
def test_cells(benchmark, tmp_path):
    benchmark.group = "kCAGC beside AGC"
    if benchmark.enabled:
        data = nodes(2708, 1433)
        rows = benchmark.pedantic(lambda: [compared(*data, cell, tmp_path) for cell in CELLS])
    else:
        data = generated(210, 140)
        few = {"n_init": 3, "order": 2}
        rows = benchmark.pedantic(lambda: [compared(*data, (2, 1), tmp_path, **few)])
        assert rows[0]["NMI"] > 0.5
    benchmark.extra_info["rows"] = rows
    assert all(row["ratio"] > 0 for row in rows)
