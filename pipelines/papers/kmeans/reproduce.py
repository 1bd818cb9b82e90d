"""Measure federated k-means beside scikit-learn's, and write docs/results/k-means.md.

    python -m pipelines.papers.kmeans.reproduce [--only inertia|noise|samples]

Ten minutes on two cores. Sets are scikit-learn's own or generated; clients are processes.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from sklearn.cluster import KMeans

from daskfc.linalg import squared_distances
from daskfc.protocols import FederatedKMeans
from daskfc.seeds import generator
from pipelines.papers.federations import holding
from pipelines.papers.journal import Journal, Record, carry_out, command_line
from pipelines.papers.kmeans.data import MANY, SETS, Rows
from pipelines.papers.kmeans.tables import render
from pipelines.papers.results import write_page

PARTS = ("inertia", "noise", "samples")
CLIENTS = 4
SEEDS = (0, 1, 2)
N = 50_000
EPSILONS = (2.0, 1.0, 0.5)
SIZES = (1_000, 3_000, 10_000, 30_000)
SIZED = ("unequal clouds, d = 8", "unequal clouds, d = 32")
DELTA = 1e-6
BLOCK = 4096


def inertia(X: np.ndarray, centers: np.ndarray) -> float:
    """Return the sum of squared distances to the nearest centre."""
    blocks = (X[i : i + BLOCK] for i in range(0, len(X), BLOCK))
    return sum(float(squared_distances(x, centers).min(axis=1).sum()) for x in blocks)


def fits(rows: Rows, noises: Sequence[dict[str, float] | None]) -> Iterator[Record]:
    """Yield inertias over scikit-learn's, of ten starts, for each noise and seed."""
    exact = KMeans(rows.k, n_init=10, random_state=0).fit(rows.X).inertia_
    order = generator(0, "clients").permutation(len(rows.X))
    with holding(
        rows.X, np.zeros(len(rows.X), dtype=np.int64), np.array_split(order, CLIENTS)
    ) as federation:
        for noise in noises:
            for seed in SEEDS:
                model = FederatedKMeans(rows.k, noise=noise, random_state=seed).fit(federation)
                yield {
                    "epsilon": None if noise is None else noise["epsilon"],
                    "seed": seed,
                    "n": len(rows.X),
                    "d": rows.X.shape[1],
                    "k": rows.k,
                    "ratio": inertia(rows.X, model.cluster_centers_) / exact,
                    "rounds": model.n_rounds_,
                    "uploaded": model.ledger_.payload_bytes / CLIENTS,
                }


def noises_of(rows: Rows) -> list[dict[str, float]]:
    """Return the noise of every ε."""
    known = {"delta": DELTA, "largest_norm": rows.largest_norm}
    return [{"epsilon": epsilon, **known} for epsilon in EPSILONS]


def pieces(part: str) -> Iterator[tuple[str, Iterator[Record]]]:
    """Yield the name and the records of each piece of a part; nothing runs before it is read."""
    cases = {
        "inertia": [(name, 0) for name in SETS],
        "noise": [(name, N) for name in MANY],
        "samples": [(name, n) for name in SIZED for n in SIZES],
    }
    for name, n in cases[part]:
        yield f"{part}, {name}, {n}", piece(part, name, n)


def piece(part: str, name: str, n: int) -> Iterator[Record]:
    """Yield the records of one set."""
    rows = MANY[name](n) if n else SETS[name]()
    for record in fits(rows, noises_of(rows) if n else [None]):
        yield {"kind": part, "data": name, **record}


def main() -> None:
    """Read the command line, run what is missing, and write the page after every piece."""
    args, chosen = command_line(__doc__, "k-means", PARTS, needs_data=False)
    journal = Journal(args.records)
    carry_out(
        [one for part in chosen for one in pieces(part)],
        journal,
        write=lambda: write_page(args.out, render(journal.records)),
        shown="data n d epsilon seed ratio rounds".split(),
    )


if __name__ == "__main__":
    main()
