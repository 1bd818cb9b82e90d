"""Evaluate the papers' theorems on data and write docs/results/bounds.md, bound beside value.

    python -m pipelines.papers.bounds.reproduce --data FOLDER

FOLDER holds iris.npz, digits.npz, mushrooms.npz, cora.npz, pubmed.npz, synthetic3d.npz and
hw_mfeat.npz. With `--records FILE` every finished part is kept there, and a second start goes on
with what is missing. Parts: fedsc, fk, kcagc, esfmc.
"""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfc.seeds import generator
from pipelines.papers import federations
from pipelines.papers.bounds import esfmc, fedsc, fk_kmeans, kcagc
from pipelines.papers.bounds.tables import render
from pipelines.papers.journal import Journal, Record, carry_out, command_line
from pipelines.papers.results import write_page

CLIENTS = 5
CLASSES = {"iris": 3, "digits": 10, "mushrooms": 2}
CELLS = ((20, 1), (20, 2), (200, 1))  # S and Q
KERNEL = {
    "digits": {"n_clusters": 10, "n_features": 200, "n_eigenvectors": 10},
    "mushrooms": {"n_clusters": 2, "n_features": 15, "n_eigenvectors": 2},  # the paper's
}
SHOWN, FITS = (5, 10, 20, 50, 100), (5, 50)
SAMPLES = 2000  # of which a dense eigendecomposition takes seconds
PARTICIPANTS = (2, 4)
RECIPES = {"Synthetic3d": ("robust", "paper"), "HW": ("robust",)}

Parts = list[NDArray[np.int64]]


def dealt(folder: Path, name: str, most: int) -> tuple[NDArray[Any], NDArray[np.int64], Parts]:
    """Return samples, as many for every client, classes, and each client's rows at random."""
    with np.load(folder / f"{name}.npz") as file:
        X, y = file["X"].astype(np.float64), file["y"].astype(np.int64)
    n = min(most, len(X)) // CLIENTS * CLIENTS
    order = generator(0, "bounds", name).permutation(len(X))[:n]
    parts = [np.sort(part) for part in np.array_split(np.arange(n), CLIENTS)]
    return X[order], y[order], parts


def of_fedsc(folder: Path, name: str) -> Iterator[Record]:
    """Evaluate Theorem 2.3 of FedSC."""
    X, y, parts = dealt(folder, name, SAMPLES)
    with federations.holding(X, y, parts) as federation:
        rows = [X[part] for part in parts]
        yield from fedsc.measured(federation, rows, CLASSES[name], CELLS, data=name)


def of_kernel(folder: Path, name: str) -> Iterator[Record]:
    """Evaluate Theorems 1 and 3 of federated kernel k-means."""
    X, y, parts = dealt(folder, name, SAMPLES)
    with federations.holding(X, y, parts) as federation:
        yield from fk_kmeans.measured(federation, X, KERNEL[name], SHOWN, FITS, data=name)


def of_graph(folder: Path, name: str) -> Iterator[Record]:
    """Look at the conditions of Theorem 1 of kCAGC."""
    return kcagc.measured(folder, name, PARTICIPANTS)


def of_views(folder: Path, name: str) -> Iterator[Record]:
    """Evaluate Theorem 4.1 of ESFMC."""
    file, k = esfmc.DATASETS[name]
    with tempfile.TemporaryDirectory(prefix="paper-") as place:
        storage = {
            "source": {"path": str(folder / file), "scaling": "min-max"},
            "partition": {"scheme": "views", "overlap": 1.0, "seed": 0},
            "root": place,
        }
        with federations.opened(storage) as (federation, stores):
            yield from esfmc.measured(federation, stores, k, RECIPES[name], data=name)


PARTS: dict[str, tuple[Callable[[Path, str], Iterator[Record]], tuple[str, ...]]] = {
    "fedsc": (of_fedsc, ("iris", "digits")),
    "fk": (of_kernel, ("digits", "mushrooms")),
    "kcagc": (of_graph, ("Cora", "Pubmed")),
    "esfmc": (of_views, tuple(RECIPES)),
}


def main() -> None:
    """Run the parts that are missing and write the page."""
    args, chosen = command_line(__doc__ or "", "bounds", list(PARTS))
    journal = Journal(args.records)
    pieces = [
        (f"{part}, {name}", make(args.data, name))
        for part, (make, names) in PARTS.items()
        if part in chosen
        for name in names
    ]
    shown = ("data", "graph", "rows", "of", "S", "Q", "T", "rate", "recipe", "value", "bound")
    carry_out(pieces, journal, lambda: write_page(args.out, render(journal.records)), shown)


if __name__ == "__main__":
    main()
