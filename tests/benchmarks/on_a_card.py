"""The search for near pairs on a graphics card, beside the processor's, and whole fits with both.

For a machine that has a card and torch; where Dask is missing, fits are left out. Each graph is
compared with the processor's, to the last bit, or some of its rows with all distances. In about
six minutes, in this order, so that whoever has less time gets the first rows:

    python -m tests.benchmarks.on_a_card [--data FOLDER] [--page docs/benchmarks-card.md]
"""

import argparse
import importlib.util
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from daskfc import cards
from daskfc.cards import Card
from daskfc.clustering.views import half_distances
from daskfc.clustering.views.nearest import nearest_of_points, within_radius_of_points

NEIGHBOURS = 9
SIZES = [(20_000, 784), (70_000, 784), (200_000, 64), (1_000_000, 64)]
COMPARED = 70_000  # samples, up to which the processor makes the whole graph as well
CHOSEN = 200  # rows of larger ones that are compared with all distances


def samples(n: int, d: int, data: str | None) -> np.ndarray:
    """Return whole numbers below 256: MNIST's pixels, or groups like them."""
    if data is not None and (n, d) == (70_000, 784):
        return np.load(Path(data) / "mnist.npz")["X"].astype(np.float64)
    random = np.random.default_rng(n)
    centres = random.uniform(0, 255, (10, d))
    found = np.empty((n, d))
    for first in range(0, n, 10_000):
        last = min(first + 10_000, n)
        noise = random.normal(0.0, 40.0, (last - first, d))
        found[first:last] = np.clip(np.rint(centres[random.integers(0, 10, last - first)] + noise),
                                    0, 255)  # fmt: skip
    return found


def timed(work: Callable[..., Any], *given: Any) -> tuple[float, Any]:
    """Return seconds, and the result."""
    start = time.perf_counter()
    found = work(*given)
    return time.perf_counter() - start, found


def search_on(card: Card | None) -> None:
    """Have all graphs made with a card, or by the processor."""
    half_distances.card_for = lambda n, width: card


def graph_rows(card: Card, data: str | None, small: bool) -> Iterator[list[str]]:
    """Yield searches of one process, with the card and by the processor."""
    for n, d in [(2_000, 30)] if small else SIZES:
        X = samples(n, d, data)
        search_on(card)
        nearest_of_points(X[:2_000], NEIGHBOURS)  # what a first call loads
        ours, graph = timed(nearest_of_points, X, NEIGHBOURS)
        search_on(None)
        if n <= COMPARED:
            theirs, plain = timed(nearest_of_points, X, NEIGHBOURS)
            same = np.array_equal(graph.indices, plain.indices)
            same = same and np.array_equal(graph.distances, plain.distances)
            yield [f"{n:,} × {d}, nearest", f"{ours:.2f}", f"{theirs:.2f}", "all" if same else "NO"]
            radius2 = float(np.median(plain.distances[:, -1]))
            search_on(card)
            ours, edges = timed(edges_of, X, radius2)
            search_on(None)
            theirs, plain_edges = timed(edges_of, X, radius2)
            same = np.array_equal(edges, plain_edges)
            yield [f"{n:,} × {d}, radius", f"{ours:.2f}", f"{theirs:.2f}", "all" if same else "NO"]
        else:
            some = np.random.default_rng(0).choice(n, CHOSEN, replace=False)
            same = all(_is_right(X, graph, row) for row in some)
            told = f"{CHOSEN} rows" if same else "NO"
            yield [f"{n:,} × {d}, nearest", f"{ours:.2f}", "", told]


def edges_of(X: np.ndarray, radius2: float) -> np.ndarray:
    """Return the pairs as numbers in order."""
    listed = [rows * len(X) + cols for rows, cols in within_radius_of_points(X, radius2)]
    return np.sort(np.concatenate(listed))


def _is_right(X: np.ndarray, graph: object, row: int) -> bool:
    apart = ((X - X[row]) ** 2).sum(axis=1)
    apart[row] = np.inf
    nearest = np.sort(np.partition(apart, NEIGHBOURS)[:NEIGHBOURS])
    own = graph.distances[row]
    return np.array_equal(own, nearest) and np.array_equal(apart[graph.indices[row]], own)


def fit_rows(data: str | None, small: bool) -> Iterator[list[str]]:
    """Yield whole fits of OmniFC by ten clients, from stores to labels, without and with a card."""
    from daskfc import Federation, OmniFC
    from daskfc.testing.federation import stores_of

    cores = str(os.cpu_count())
    for n, d, clusterer in [(400, 8, "spectral")] if small else [
        (70_000, 784, "spectral"), (70_000, 784, {"dbscan": {"eps": 1500.0}}),
        (1_000_000, 64, "spectral"),
    ]:  # fmt: skip
        X = samples(n, d, data)
        took, labels = {}, {}
        with tempfile.TemporaryDirectory() as folder:
            parts = np.array_split(np.random.default_rng(1).permutation(n), 10)
            stores = stores_of(
                folder, {f"client-{i}": X[part] for i, part in enumerate(parts)}, chunk_rows=4096
            )
            for device in ["auto"] if n > COMPARED else ["auto", "cpu"]:
                cluster = {
                    "cluster": "local",
                    "deadline": "600s",
                    "parties": {"server": {"device": device, "memory_limit": "16GB"}},
                }
                with Federation.local(stores, cluster=cluster) as federation:
                    k = 10 if isinstance(clusterer, str) else None
                    model = OmniFC(k, clusterer=clusterer)
                    took[device], _ = timed(model.fit, federation)
                    labels[device] = model.labels_.values
        same = "" if len(labels) < 2 else np.array_equal(labels["auto"], labels["cpu"])
        name = clusterer if isinstance(clusterer, str) else "dbscan"
        other = f"{took['cpu']:.1f}" if "cpu" in took else ""
        told = {"": "", True: "all", False: "NO"}[same]
        yield [f"fit, {name}, {n:,} × {d}, {cores} cores", f"{took['auto']:.1f}", other, told]


def main() -> None:
    """Print the table, and write it where a page is named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", help="folder with mnist.npz")
    parser.add_argument("--page", help="file that the table is written to")
    parser.add_argument(
        "--small", action="store_true", help="try it without a card, on torch's processor"
    )
    asked = parser.parse_args()
    import torch

    card, name = cards._found(), "torch's processor"
    if card is not None:
        name = torch.cuda.get_device_name(card.device)
    elif asked.small:
        card = Card(torch, torch.device("cpu"))
        card.room = lambda: 1 << 30
    else:
        raise SystemExit("torch finds no card here; give --small to try the script without one.")
    exact = {width: card.is_exact(width) for width in (2, 66, 786, 4_000)}
    lines = [
        f"{name}, torch {torch.__version__}, {os.cpu_count()} cores, {date.today()}. Products are "
        f"those of float32: {exact}.",
        "",
        "| what | with the card, s | processor, s | equal |",
        "|:--|--:|--:|:--|",
    ]
    print("\n".join(lines), flush=True)
    rows = [graph_rows]
    if importlib.util.find_spec("distributed") is not None:
        rows.append(lambda card, *how: fit_rows(*how))
    own = half_distances.card_for
    for some in rows:
        for row in some(card, asked.data, asked.small):
            lines.append("| " + " | ".join(row) + " |")
            print(lines[-1], flush=True)
            if asked.page:
                Path(asked.page).write_text("# On a graphics card\n\n" + "\n".join(lines) + "\n")
        half_distances.card_for = own


if __name__ == "__main__":
    main()
