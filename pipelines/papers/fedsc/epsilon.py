"""Measure FedSC with differential privacy, and write docs/results/fedsc-epsilon.md.

    python -m pipelines.papers.fedsc.epsilon

The paper adds noise without a guarantee, and has no such table. Sets are scikit-learn's; clients
are processes. With `--records FILE` every finished piece is kept there, and a second start goes on
with what is missing.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, load_iris, make_blobs, make_circles

from daskfc.metrics import accuracy
from daskfc.protocols import FedSC
from daskfc.protocols.fedsc.maths.dictionary_start import count_atoms, mean_distance
from daskfc.seeds import generator
from pipelines.papers.federations import holding
from pipelines.papers.journal import Journal, Record, carry_out, command_line
from pipelines.papers.means import Means, of_kind
from pipelines.papers.results import markdown_table, write_page

__all__ = ["SETS", "render"]

Rows = tuple[np.ndarray, np.ndarray]

EPSILONS = (200.0, 100.0, 50.0, 20.0, 10.0, 5.0, 2.0)
DELTA = 1e-5
KINDS = {"data": "on every row, shortened to `clip`", "factors": "on dictionaries and coefficients"}
SEEDS = (0, 1, 2)
CLIENTS = 4
SETS: dict[str, Callable[[], Rows]] = {
    "iris": lambda: load_iris(return_X_y=True),
    "digits": lambda: load_digits(return_X_y=True),
    "two circles": lambda: make_circles(600, noise=0.05, factor=0.4, random_state=0),
    "three clouds": lambda: make_blobs(600, 2, centers=3, cluster_std=0.5, random_state=0)[:2],
}


def settings(X: np.ndarray) -> dict[str, dict[str, Any]]:
    """Return FedSC's parameters for each kind of noise, without its ε."""
    clip = float(np.quantile(np.linalg.norm(X, axis=1), 0.95))
    width = mean_distance(X)
    atoms = count_atoms(X, width, mass=0.99, max_samples=len(X))
    return {
        "data": {"noise": {"kind": "data", "clip": clip}},
        "factors": {
            "noise": {"kind": "factors", "clip": 1.0},
            "kernel_width": width,
            "n_atoms": atoms,
            "start": "normal",
        },
    }


def piece(data: str) -> Iterator[Record]:
    """Yield the accuracies of one set."""
    X, y = SETS[data]()
    X, k = X - X.mean(axis=0), len(np.unique(y))
    given = settings(X)
    order = generator(0, "clients").permutation(len(X))
    cases: list[tuple[str, float | None]] = [("none", None)]
    cases += [(kind, epsilon) for kind in KINDS for epsilon in EPSILONS]
    about = {"kind": "epsilon", "data": data, "n": len(X), "d": X.shape[1]}
    about["largest"] = float(np.unique(y, return_counts=True)[1].max() / len(y))
    with holding(X, y, np.array_split(order, CLIENTS)) as federation:
        for kind, epsilon in cases:
            params: dict[str, Any] = {}
            if epsilon is not None:
                noise = {**given[kind]["noise"], "epsilon": epsilon, "delta": DELTA}
                params = {**given[kind], "noise": noise}
            for seed in SEEDS:
                model = FedSC(k, random_state=seed, **params).fit(federation)
                rows = model.labels_["sample_id"].to_numpy().astype(int)
                score = accuracy(y[rows], model.labels_.to_numpy())
                yield {**about, "noise": kind, "epsilon": epsilon, "seed": seed, "acc": score}


def render(records: Sequence[Record]) -> str:
    """Return the page."""
    means, rows, gain = Means(3), [], 0.0
    for data in SETS:
        own = of_kind(records, "epsilon", data=data)
        if not own:
            continue
        exact = means.text(means.of(of_kind(own, "epsilon", noise="none")))
        for kind in KINDS:
            values = [
                means.of(of_kind(own, "epsilon", noise=kind, epsilon=epsilon))
                for epsilon in EPSILONS
            ]
            if values[-1] is not None:
                gain = max(gain, values[-1][0] - own[0]["largest"])
            head = [data, f"{own[0]['n']:,}", str(own[0]["d"]), f"{own[0]['largest']:.3f}", exact]
            rows.append([*head, kind, *map(means.text, values)])
    columns = ["data", "n", "features", "largest class", "no noise", "noise"]
    told = "; ".join(f"*{kind}*: {words}" for kind, words in KINDS.items())
    return (
        "# FedSC with differential privacy\n\n"
        "Written by `python -m pipelines.papers.fedsc.epsilon`. Accuracy over "
        f"{len(SEEDS)} seeds, mean ± standard deviation, through a real federation of {CLIENTS} "
        f"clients, by the ε of everything that leaves a client, with δ = {DELTA:g}. Noise {told}. "
        "The paper's Table 5 has noise without a guarantee; it prints no ε. *Largest class*: the "
        "accuracy of one cluster. The mean of the samples, `clip` (the norm that 95 % of the rows "
        "do not exceed), the kernel's width and the number of atoms are those of the pooled "
        "samples, as if they had been declared: found privately they would ask a part of ε. The "
        "noise is the operating system's, so that another run finds other numbers.\n\n"
        f"{markdown_table([*columns, *(f'ε = {one:g}' for one in EPSILONS)], rows)}\n\n"
        "Noise on a row hides that row, so that it has to be as large as the rows are, however "
        f"many there are. At ε = {EPSILONS[-1]:g}, a budget that promises something, accuracy is "
        f"at most {gain:.3f} above that of one cluster. Where a sample must be deniable take "
        "[FederatedKMeans](k-means.md), whose noise is on sums.\n"
    )


def main() -> None:
    """Read the command line, run what is missing, and write the page after every piece."""
    names = {name.replace(" ", "-"): name for name in SETS}
    args, chosen = command_line(__doc__ or "", "fedsc-epsilon", tuple(names), needs_data=False)
    journal = Journal(args.records)
    carry_out(
        [(names[one], piece(names[one])) for one in chosen],
        journal,
        write=lambda: write_page(args.out, render(journal.records)),
        shown="data noise epsilon seed acc".split(),
    )


if __name__ == "__main__":
    main()
