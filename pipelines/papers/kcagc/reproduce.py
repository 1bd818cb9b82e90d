"""Reproduce the kCAGC paper's tables through real federations and write docs/results/kcagc.md.

    python -m pipelines.papers.kcagc.reproduce --data FOLDER

FOLDER holds cora.npz and pubmed.npz. `cell.yaml` beside this program, or the pipeline that is named
first, gives the seeds, this program the cells. With `--records FILE` every finished part is kept
there, and a second start goes on with what is missing. Parts: central, cora, pubmed, filter,
orders, split, counts, leakage, times, latency.
"""

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from daskfc.baselines import AGC, GCC
from daskfc.baselines.maths.agc import cluster_agc
from daskfc.federation import Federation
from daskfc.federation.methods.estimator import FederatedClusterer
from daskfc.linalg import singular_coordinates
from daskfc.metrics import accuracy, macro_f1, nmi
from daskfc.privacy.leakage import privacy_leakage, privacy_level
from daskfc.protocols import KCAGC
from daskfc.runs import load_pipeline
from daskfc.stores import ClientStore
from pipelines.papers import federations
from pipelines.papers.journal import Journal, Record, carry_out, command_line
from pipelines.papers.kcagc.tables import BASES, render
from pipelines.papers.kcagc.values import LEAKAGE, LOCAL, PARTICIPANTS
from pipelines.papers.results import write_page

SHARES = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # of the graph, Fig. 4
LATENCY = 0.1  # seconds, Table X


@dataclass(frozen=True)
class Graph:
    """A graph of the paper, with the orders of Fig. 5."""

    n_clusters: int
    filter_order: int
    gcc: Mapping[str, Any]
    orders: tuple[int, ...]
    dtype: str


GRAPHS = {
    "Cora": Graph(7, 9, {"filter_order": 12, "tf_idf": True}, (1, 3, 5, 7, 9, 11, 13, 15), "uint8"),
    "Pubmed": Graph(3, 60, {"filter_order": 150}, (10, 20, 30, 40, 50, 60, 70, 80), "float32"),
}


@contextmanager
def opened(
    data: Path, name: str, clients: int, latency: float = 0.0, **partition: Any
) -> Iterator[tuple[Federation, dict[str, ClientStore]]]:
    """Open a federation of worker processes on the columns of a graph."""
    with tempfile.TemporaryDirectory(prefix="paper-kcagc-") as folder:
        storage = {
            "source": {"path": str(data / f"{name.lower()}.npz")},
            "partition": {"scheme": "vertical", "clients": clients, **partition},
            "layout": {"dtype": GRAPHS[name].dtype},
            "root": folder,
        }
        with federations.opened(storage, latency=latency, deadline="600s") as parties:
            yield parties


def truth(stores: Mapping[str, ClientStore]) -> np.ndarray:
    """Return the labels for evaluation, in the order in which results come."""
    return federations.true_labels(next(iter(stores.values())))


def scores(model: FederatedClusterer, y: np.ndarray) -> Record:
    """Return what a fit is judged by."""
    found = model.labels_.values
    return {"acc": accuracy(y, found), "nmi": nmi(y, found), "f1": macro_f1(y, found)}


def fitted(graph: str, federation: Federation, y: np.ndarray, **params: Any) -> Record:
    """Fit kCAGC and return the cell's record."""
    spec = GRAPHS[graph]
    params = {"filter_order": spec.filter_order, **params}
    model = KCAGC(spec.n_clusters, **params).fit(federation)
    masked = [row for row in model.ledger_ if row.message == "MaskedPart"]
    return {
        "graph": graph,
        "L": len(federation.clients),
        "m": (params.get("n_local_clusters") or spec.n_clusters) // spec.n_clusters,
        "basis": model.basis,
        "variant": model.variant,
        "order": model.filter_order,
        "seed": model.random_state,
        "nodes": model.n_virtual_nodes_,
        "rounds": model.n_rounds_,
        "sums": model.n_secure_sums_,
        "scalars": model.n_secure_scalars_,
        "bound": model.secure_scalars_a_round_,
        "masked_bytes": sum(row.payload_bytes for row in masked),
        "seconds": model.timing_["total_s"],
        "stages": model.timing_,
        **scores(model, y),
    }


@dataclass(frozen=True)
class Study:
    """The parts, each of which yields records.

    Parameters
    ----------
    data : Path
        Folder with the graphs.
    seeds : tuple of int
        Of every cell of Tables II, III and VIII.
    """

    data: Path
    seeds: tuple[int, ...]

    def parts(self, name: str) -> Iterator[tuple[str, Iterator[Record]]]:
        """Yield the pieces of a part that are kept together."""
        if name in ("cora", "pubmed"):
            for L in PARTICIPANTS:
                yield f"{name}, L = {L}", self.table(name.capitalize(), L)
        elif name in ("filter", "times"):
            for L in PARTICIPANTS:
                yield f"{name}, L = {L}", getattr(self, name)(L)
        elif name == "leakage":
            for L in LEAKAGE:
                yield f"leakage, L = {L}", self.leakage(L)
        else:
            yield name, getattr(self, name)()

    def central(self) -> Iterator[Record]:
        """AGC and GCC on pooled columns: Table II, last rows; and alone: Section 4.1."""
        for graph, spec in GRAPHS.items():
            with opened(self.data, graph, 2) as (federation, stores):
                y = truth(stores)
                for seed in self.seeds:
                    k, order = spec.n_clusters, spec.filter_order
                    one = {"filter_order": order, "n_init": 50, "random_state": seed}
                    models: dict[str, FederatedClusterer] = {
                        "AGC": AGC(k, **one),
                        "GCC": GCC(k, **spec.gcc, random_state=seed),
                        "AGC, first half of the columns": AGC(k, **one, participant="client-1"),
                        "AGC, second half of the columns": AGC(k, **one, participant="client-2"),
                    }
                    for method, model in models.items():
                        model.fit(federation)
                        record = {"kind": "central", "graph": graph, "method": method}
                        yield {**record, "seed": seed, **scores(model, y)}

    def table(self, graph: str, L: int) -> Iterator[Record]:
        """Table II: every k̂ and basis, and the basic protocol."""
        k = GRAPHS[graph].n_clusters
        with opened(self.data, graph, L) as (federation, stores):
            y = truth(stores)
            for seed in self.seeds:
                for basis in BASES:
                    base: dict[str, Any] = {"basis": basis, "random_state": seed}
                    for m in LOCAL:
                        params = {**base, "n_local_clusters": m * k}
                        yield {"kind": "cell", **fitted(graph, federation, y, **params)}
                    params = {**base, "variant": "basic", "n_init": 10}
                    yield {"kind": "cell", **fitted(graph, federation, y, **params)}

    def filter(self, L: int) -> Iterator[Record]:
        """Table VIII: another filter on Cora."""
        other: dict[str, Any] = {"graph_filter": "laplacian", "filter_order": 5}
        with opened(self.data, "Cora", L) as (federation, stores):
            y = truth(stores)
            for seed in self.seeds:
                for m in LOCAL[:2]:
                    params = {**other, "random_state": seed, "n_local_clusters": m * 7}
                    yield {"kind": "filter", **fitted("Cora", federation, y, **params)}
                if L == PARTICIPANTS[0]:
                    model = AGC(7, **other, random_state=seed).fit(federation)
                    yield {"kind": "filter, AGC", "seed": seed, **scores(model, y)}

    def orders(self) -> Iterator[Record]:
        """Fig. 5: the order of the filter."""
        for graph, spec in GRAPHS.items():
            with opened(self.data, graph, 2) as (federation, stores):
                y = truth(stores)
                for order in spec.orders:
                    yield {"kind": "order", **fitted(graph, federation, y, filter_order=order)}
                    model = AGC(spec.n_clusters, filter_order=order).fit(federation)
                    record = {"kind": "order, AGC", "graph": graph, "order": order}
                    yield {**record, **scores(model, y)}

    def split(self) -> Iterator[Record]:
        """Fig. 4: participants that hold parts of the graph."""
        for share in SHARES:
            for seed in self.seeds:
                partition = {"graph": "split", "graph_share": share, "seed": seed}
                with opened(self.data, "Cora", 2, **partition) as (federation, stores):
                    y = truth(stores)
                    record = {"kind": "split", "share": share, "seed": seed}
                    for variant in ("optimised", "basic"):
                        cell = fitted("Cora", federation, y, variant=variant, random_state=seed)
                        yield {**record, "method": f"kCAGC, {variant}", "acc": cell["acc"]}
                    for client in federation.clients:
                        model = AGC(7, participant=client, random_state=seed).fit(federation)
                        yield {**record, "method": f"AGC of {client}", **scores(model, y)}

    def counts(self) -> Iterator[Record]:
        """Section 3.4: secure aggregations of the three variants, one start, ten rounds."""
        for graph, spec in GRAPHS.items():
            for L in PARTICIPANTS:
                with opened(self.data, graph, L) as (federation, stores):
                    y = truth(stores)
                    for variant in ("basic", "optimised", "tree"):
                        for m in (1, 2):
                            params: dict[str, Any] = {"variant": variant, "n_refine": 0}
                            params |= {"distances": "centres"}  # as the paper counts
                            params |= {"n_local_clusters": m * spec.n_clusters}
                            yield {
                                "kind": "count",
                                **fitted(graph, federation, y, n_init=1, max_iter=10, **params),
                            }

    def leakage(self, L: int) -> Iterator[Record]:
        """Table VII: what the server's last sums tell about the first participant."""
        with opened(self.data, "Cora", L) as (federation, stores):
            model = KCAGC(7, random_state=0).fit(federation)
            seen = model.server_view(federation)
            first = next(iter(stores.values()))
            X = singular_coordinates(first.rows(0, first.n_samples), 7)
        kept = np.unique(seen, axis=0, return_index=True)[1]  # a density needs different samples
        X, seen = X[kept] * np.sqrt(len(kept)), seen[kept] / seen.std()
        yield {
            "kind": "leakage",
            "L": L,
            "n": len(kept),
            "level": privacy_level(seen, X),
            "leakage": privacy_leakage(seen, X),
            "shuffled": privacy_leakage(seen, np.random.default_rng(0).permutation(X)),
        }

    def times(self, L: int) -> Iterator[Record]:
        """Tables IV and V: seconds of fits in warm processes; AGC in one process and federated."""
        for graph, spec in GRAPHS.items():
            k, order = spec.n_clusters, spec.filter_order
            with opened(self.data, graph, L) as (federation, stores):
                y = truth(stores)
                X = np.hstack([store.rows(0, store.n_samples) for store in stores.values()])
                A = next(iter(stores.values())).graph()
                pooled = []
                for _ in range(3):
                    started = time.perf_counter()
                    cluster_agc(X, A, k, filter_order=order, seed=0)
                    pooled.append(time.perf_counter() - started)
                agc = [AGC(k, filter_order=order).fit(federation) for _ in range(2)][1]
                record = {"kind": "time, AGC", "graph": graph, "L": L}
                yield {**record, "pooled": sorted(pooled)[1], "seconds": agc.timing_["total_s"]}
                for m in LOCAL:
                    params = {"n_local_clusters": m * k}
                    fitted(graph, federation, y, filter_order=1, **params)  # other rows are kept
                    cell = fitted(graph, federation, y, **params)
                    yield {**cell, "kind": "time", "pooled": sorted(pooled)[1]}

    def latency(self) -> Iterator[Record]:
        """Table X: every message held back."""
        for graph in GRAPHS:
            for L in PARTICIPANTS[:2]:
                for delay in (0.0, LATENCY):
                    with opened(self.data, graph, L, delay) as (federation, stores):
                        cell = fitted(graph, federation, truth(stores))
                        yield {"kind": "latency", "delay": delay, **cell}


PARTS = (
    "central cora pubmed filter orders split counts leakage times latency".split()
)  # as written on the page


SHOWN = "graph method L m basis variant share order seed acc seconds level".split()


def main() -> None:
    """Read the command line, run what is missing, and write the page after every part."""
    args, chosen = command_line(__doc__, "kcagc", PARTS, Path(__file__).with_name("cell.yaml"))
    study = Study(args.data, tuple(load_pipeline(args.pipeline).seeds))
    journal = Journal(args.records)
    pieces = [piece for name in chosen for piece in study.parts(name)]
    carry_out(
        pieces,
        journal,
        write=lambda: write_page(args.out, render(journal.records)),
        shown=SHOWN,
    )


if __name__ == "__main__":
    main()
