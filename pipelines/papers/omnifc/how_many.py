"""How many clusters, and which clusterer, chosen without labels on public data sets.

    python -m pipelines.papers.omnifc.how_many --data FOLDER [--only iris,wine]

It writes docs/results/how-many-clusters.md, and takes half an hour. FOLDER holds the files that
`public_data` names; seven sets come with scikit-learn. With `--records FILE` every finished set is
kept there, and a second start goes on with what is missing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from daskfc import Federation, OmniFC
from daskfc.runs.execution.choice import choose_n_clusters
from daskfc.stores.dealing.partitions import label_skew
from pipelines.papers.federations import holding
from pipelines.papers.journal import Journal, Record, carry_out, command_line
from pipelines.papers.omnifc.battery import CLIENTS, SKEW
from pipelines.papers.omnifc.how_many_tables import CLUSTERERS, render
from pipelines.papers.public_data import DATASETS, MOST, Samples
from pipelines.papers.results import write_page

CANDIDATES = range(2, 13)  # as of `n_clusters: auto`


@dataclass(frozen=True)
class Part:
    """Samples of the first classes of a data set."""

    data: str
    classes: int

    def samples(self, folder: Path) -> Samples:
        """Return the samples of the classes, from all samples that the set has."""
        X, y = DATASETS[self.data].read(folder)
        kept = np.flatnonzero(np.isin(y, np.unique(y)[: self.classes]))[:MOST]
        return Samples(np.asarray(X[kept], dtype=np.float64), np.asarray(y)[kept])


# Chosen once the rule stood, and tried once.
PARTS = {
    f"{data}-of-{classes}": Part(data, classes)
    for data, classes in [
        ("mnist", 3), ("mnist", 5), ("mnist", 7), ("coil20", 4), ("coil20", 8), ("coil20", 12),
        ("digits", 4), ("digits", 7),
    ]
}  # fmt: skip
KNOWN = {name: one for name, one in DATASETS.items() if not name.startswith("coil20")}
SETS: dict[str, Any] = {**KNOWN, **PARTS}


def fitted(federation: Federation, clusterer: str, k: int, y: np.ndarray) -> dict[str, Any]:
    """Return index and modularity of a fit."""
    model = OmniFC(k, clusterer=clusterer, random_state=0).fit(federation)
    rows = model.labels_["sample_id"].to_numpy().astype(int)
    index = adjusted_rand_score(y[rows], model.labels_.to_numpy())
    return {"index": float(index), "modularity": model.modularity_}


def on_dataset(name: str, folder: Path) -> Iterator[Record]:
    """Choose the number of clusters of one data set by every criterion, and fit each choice."""
    data: Samples = SETS[name].samples(folder)
    k = data.n_clusters
    numbers = [one for one in CANDIDATES if one < len(data.X)]
    parts = label_skew(data.y, CLIENTS, skew=SKEW, seed=0)
    with holding(data.X, data.y, parts) as federation:
        for clusterer, criteria in CLUSTERERS.items():
            model = OmniFC(2, clusterer=clusterer, random_state=0)
            chosen: dict[str, int] = {}
            for by in criteria:
                found = choose_n_clusters(federation, model, numbers, by=by)
                chosen[by] = found.n_clusters
                for part, scores in found.parts.items():
                    told = {one: score for one, score in scores.items() if score is not None}
                    chosen[part] = max(told, key=lambda one: (told[one], -one))
            fits = {
                str(one): fitted(federation, clusterer, one, data.y)
                for one in sorted({k, *chosen.values()})
            }
            about = {"kind": "how many", "data": name, "n": len(data.X), "k": k}
            yield {**about, "clusterer": clusterer, "chosen": chosen, "fits": fits}


def main() -> None:
    """Read the command line, run what is missing, and write the page after every data set."""
    args, chosen = command_line(__doc__ or "", "how-many-clusters", tuple(SETS))
    journal = Journal(args.records)
    carry_out(
        [(name, on_dataset(name, args.data)) for name in chosen],
        journal,
        write=lambda: write_page(args.out, render(journal.records, list(KNOWN), list(PARTS))),
        shown="data clusterer k chosen".split(),
    )


if __name__ == "__main__":
    main()
