"""Run kCAGC on a generated graph of a million nodes and write docs/results/kcagc-large-graph.md.

    python -m pipelines.papers.kcagc.large_graph [--nodes 1000000] [--folder FOLDER]

A stochastic block model of ten groups: four of ten edges are drawn within a group; of 100 features
each node shows its group's mean behind noise of twelve times its spread. Four participants with 25
columns each, one worker process each, every process limited to 2 GB. The stores stay in FOLDER, if
one is given.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy import sparse

from daskfc import seeds
from daskfc.federation import Federation
from daskfc.metrics import accuracy, nmi
from daskfc.protocols import KCAGC
from daskfc.stores import ClientStore, write_store
from pipelines.papers.federations import true_labels
from pipelines.papers.results import markdown_table, number, write_page

GROUPS, FEATURES, CLIENTS = 10, 100, 4
WITHIN = 0.4  # of the edges
NOISE = 12.0  # times the spread of the groups' means
BLOCK = 1 << 16
ORDER = 9


def generated_graph(labels: np.ndarray, n_edges: int) -> sparse.csr_array:
    """Return a symmetric graph with about so many edges, most of them within groups."""
    n, random = len(labels), seeds.generator(0, "graph")
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], np.arange(GROUPS + 1))
    left = random.integers(0, n, n_edges, dtype=np.int32)
    low, high = starts[labels[left]], starts[labels[left] + 1]
    inside = order[low + (random.random(n_edges) * (high - low)).astype(np.int64)]
    right = np.where(random.random(n_edges) < WITHIN, inside, random.integers(0, n, n_edges))
    ones = np.ones(n_edges, dtype=np.float64)
    upper = sparse.csr_array((ones, (left, right.astype(np.int32))), shape=(n, n))
    graph = sparse.csr_array(upper + upper.T)
    graph.data[:] = 1.0
    return graph


def feature_blocks(labels: np.ndarray, client: int) -> Iterator[np.ndarray]:
    """Yield rows of a client's columns."""
    width = FEATURES // CLIENTS
    means = seeds.generator(0, "means", client).standard_normal((GROUPS, width))
    for start in range(0, len(labels), BLOCK):
        own = labels[start : start + BLOCK]
        noise = seeds.generator(0, "noise", client, start).standard_normal((len(own), width))
        yield (means[own] + NOISE * noise).astype(np.float32)


def build(folder: Path, n: int, n_edges: int) -> dict[str, str]:
    """Write the clients' stores, unless they are there, and return their URLs."""
    urls = {f"client-{i + 1}": str(folder / f"client-{i + 1}.zarr") for i in range(CLIENTS)}
    if all(Path(url).exists() for url in urls.values()):
        return urls
    labels = seeds.generator(0, "labels").integers(0, GROUPS, n)
    graph = generated_graph(labels, n_edges)
    ids = np.arange(n).astype(str)
    width = FEATURES // CLIENTS
    for i, (name, url) in enumerate(urls.items()):
        write_store(
            url,
            name,
            feature_blocks(labels, i),
            ids,
            labels if i == 0 else None,
            feature_names=[f"x{column}" for column in range(i * width, (i + 1) * width)],
            chunk_rows=1 << 14,
            graph=graph,
        )
    return urls


def report(model: KCAGC, store: ClientStore, peaks: dict[str, int], total: float) -> str:
    """Return the page."""
    y = true_labels(store)
    found = model.labels_.values
    clients = max(size for name, size in peaks.items() if name != "server")
    wire = sum(row.wire_bytes for row in model.ledger_)
    rows = [
        ["nodes, edges", f"{store.n_samples:,}, {store.n_edges:,}"],
        ["seconds, of the fit", number(model.timing_["total_s"], 0)],
        *(
            [f"… {stage.removesuffix('_s')}", number(seconds, 0)]
            for stage, seconds in model.timing_.items()
            if stage != "total_s"
        ),
        ["seconds, start of the workers included", number(total, 0)],
        ["largest peak of a client, MB", number(clients / 1e6, 0)],
        ["peak of the server, MB", number(peaks["server"] / 1e6, 0)],
        ["messages, MB on the wire", f"{len(model.ledger_):,}, {wire / 1e6:,.0f}"],
        ["virtual nodes", f"{model.n_virtual_nodes_:,}"],
        ["accuracy, NMI", f"{accuracy(y, found):.4f}, {nmi(y, found):.4f}"],
    ]
    intro = (
        "# kCAGC on a million nodes\n\n"
        "Written by `python -m pipelines.papers.kcagc.large_graph`: a generated graph of "
        f"{GROUPS} groups, {FEATURES} features, {CLIENTS} participants, ψ = {ORDER}, "
        "every process limited to 2 GB, on two cores.\n"
    )
    return f"{intro}\n{markdown_table(['', ''], rows)}"


def main() -> None:
    """Build, fit, write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, help="where the stores are kept")
    parser.add_argument("--out", type=Path, default=Path("docs/results/kcagc-large-graph.md"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="large-graph-") as scratch:
        urls = build(args.folder or Path(scratch), args.nodes, args.edges)
        started = time.perf_counter()
        cluster = {"cluster": "local", "worker": {"memory_limit": "2GB"}}
        with Federation.local(urls, cluster=cluster) as federation:
            model = KCAGC(GROUPS, filter_order=ORDER).fit(federation)
            total = time.perf_counter() - started
            peaks = federation.peak_memory()
        body = report(model, ClientStore.open(urls["client-1"]), peaks, total)
    write_page(args.out, body)


if __name__ == "__main__":
    main()
