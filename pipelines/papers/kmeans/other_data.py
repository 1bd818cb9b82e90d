"""Measure federated k-means beside scikit-learn's on sets that were named before any was tried.

    python -m pipelines.papers.kmeans.other_data --data FOLDER

It writes docs/results/k-means-other-data.md. Sets are all of the tables of OmniFC's public data
with a thousand samples or more that docs/results/k-means.md has not, as published; of more than ten
thousand samples so many are drawn. With `--records FILE` every finished piece is kept there, and a
second start goes on with what is missing.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from daskfc.seeds import generator
from pipelines.papers.journal import Journal, Record, carry_out, command_line
from pipelines.papers.kmeans.data import Rows
from pipelines.papers.kmeans.reproduce import fits
from pipelines.papers.kmeans.tables import inertia_table
from pipelines.papers.means import of_kind
from pipelines.papers.public_data import DATASETS
from pipelines.papers.results import write_page

__all__ = ["SETS", "render"]

SETS = (
    "banknote", "mushrooms", "coil20", "coil20-20x20", "circles", "circles-noisy", "mnist", "cora",
    "pubmed", "mfeat-fourier", "mfeat-profiles", "mfeat-karhunen", "mfeat-pixels", "mfeat-zernike",
    "mfeat-shape", "bdgp-visual", "bdgp-text",
)  # fmt: skip
MOST = 10_000  # samples
GOAL = 1.001


def read(name: str, folder: Path) -> Rows:
    """Return the rows of a set, and as many clusters as it has classes."""
    X, y = DATASETS[name].read(folder)
    X = np.asarray(X, dtype=np.float64)
    if len(X) > MOST:
        X = X[np.sort(generator(0, "samples", name).choice(len(X), MOST, replace=False))]
    return Rows(X, len(np.unique(y)))


def piece(name: str, folder: Path) -> Iterator[Record]:
    """Yield the records of one set."""
    for record in fits(read(name, folder), [None]):
        yield {"kind": "inertia", "data": name, **record}


def render(records: Sequence[Record]) -> str:
    """Return the page."""
    fitted = of_kind(records, "inertia")
    means = [
        float(np.mean([one["ratio"] for one in fitted if one["data"] == name]))
        for name in dict.fromkeys(one["data"] for one in fitted)
    ]
    within = sum(mean <= GOAL for mean in means)
    return (
        "# Federated k-means on public data\n\n"
        "Written by `python -m pipelines.papers.kmeans.other_data --data FOLDER`; do not edit. As "
        "[without noise](k-means.md#without-noise), on sets that were named before any of them was "
        "tried: all of [these](omnifc-public-data.md) with a thousand samples or more that the "
        f"table there has not. Nothing is scaled; of more than {MOST:,} samples so many are drawn. "
        "As many clusters as there are classes.\n\n"
        f"{inertia_table(fitted)}\n\n"
        f"Goal: at most {GOAL}, which {within} of {len(means)} reach in the mean of their seeds.\n"
    )


def main() -> None:
    """Read the command line, run what is missing, and write the page after every piece."""
    args, chosen = command_line(__doc__ or "", "k-means-other-data", SETS)
    journal = Journal(args.records)
    carry_out(
        [(name, piece(name, args.data)) for name in chosen],
        journal,
        write=lambda: write_page(args.out, render(journal.records)),
        shown="data n d k seed ratio rounds".split(),
    )


if __name__ == "__main__":
    main()
