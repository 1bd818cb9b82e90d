"""The page docs/results/how-many-clusters.md, which `how_many.py` writes."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from pipelines.papers.journal import Record
from pipelines.papers.results import markdown_table

__all__ = ["CLUSTERERS", "render"]

CLUSTERERS: Mapping[str, Sequence[str]] = {
    "k-means": ("silhouette-modularity",),
    "spectral": ("silhouette-modularity", "eigengap"),
}
"""The criteria of each clusterer, of which the first is the default and is made of two others."""

FIRST, AS_GOOD = ("spectral", "k-means"), 0.02  # as of `daskfc.runs.try_out`

INTRO = """\
# How many clusters

Written by `python -m pipelines.papers.omnifc.how_many --data FOLDER`. OmniFC over five clients with
label skew 0.75 chooses a number of clusters from 2 to 12, as `n_clusters: auto` does, by what its
server knows: no label is looked at. *Right* is the number of labels; *index* is the adjusted Rand
index of labels and clusters at the number that was chosen. Samples are as published, in their own
units; of sets with more than 1,500 samples, 1,500. Of the 25 sets some are parts of one: six views
of handwritten digits, three of a mixture, two each of BDGP, circles and Linnerud; the labels of
diabetes and Linnerud are made of a number.

Labels are no truth about clusters: where an index is near 0 even with the number of labels, no
criterion can find what the clusterer does not see.

- **silhouette-modularity**, the default, is the product of the next two.
- **silhouette**: how much nearer samples are to their own cluster than to the next one.
- **modularity**: how much more often nearest neighbours are in one cluster than by chance.
- **eigengap**: the gap after as many eigenvalues of the graph's Laplacian.
"""


def _names(clusterer: str) -> list[str]:
    both, *others = CLUSTERERS[clusterer]
    return [both, "silhouette", "modularity", *others]


def _index(record: Record, k: int) -> float:
    return float(record["fits"][str(k)]["index"])


def _summary(records: Sequence[Record], sets: Sequence[str]) -> str:
    rows = []
    for clusterer in CLUSTERERS:
        own = [r for r in records if r["clusterer"] == clusterer and r["data"] in sets]
        if not own:
            continue
        for name in _names(clusterer):
            off = [abs(r["chosen"][name] - r["k"]) for r in own]
            index = fmean(_index(r, r["chosen"][name]) for r in own)
            right = [f"{sum(d <= most for d in off)} of {len(own)}" for most in (0, 1)]
            rows.append([clusterer, name, *right, f"{index:.3f}"])
        best = fmean(_index(r, r["k"]) for r in own)
        rows.append([clusterer, "the number of labels", "", "", f"{best:.3f}"])
    head = ["clusterer", "chosen by", "right", "right or one off", "mean index"]
    return markdown_table(head, rows, left=2)


def _choices(records: Sequence[Record], sets: Sequence[str]) -> str:
    rows = []
    for data in sets:
        own = {r["clusterer"]: r for r in records if r["data"] == data}
        if set(own) != set(CLUSTERERS):
            continue
        cells = [own[c]["chosen"][name] for c in CLUSTERERS for name in _names(c)]
        first = next(iter(own.values()))
        rows.append([data, f"{first['n']:,}", str(first["k"]), *map(str, cells)])
    short = {"silhouette-modularity": "both"}
    head = [f"{c}: {short.get(n, n)}" for c in CLUSTERERS for n in _names(c)]
    return markdown_table(["data", "n", "k", *head], rows, left=1)


def _clusterers(records: Sequence[Record], sets: Sequence[str]) -> Iterator[str]:
    rows, means = [], []
    for data in sets:
        own = {r["clusterer"]: r for r in records if r["data"] == data}
        if set(own) != set(CLUSTERERS):
            continue
        fits = {c: r["fits"][str(r["chosen"][CLUSTERERS[c][0]])] for c, r in own.items()}
        most = max(fit["modularity"] for fit in fits.values())
        taken = next(c for c in FIRST if fits[c]["modularity"] >= most - AS_GOOD)
        index = [fits[c]["index"] for c in CLUSTERERS]
        means.append([*index, fits[taken]["index"], max(index)])
        cells = [f"{fits[c][key]:.3f}" for key in ("modularity", "index") for c in CLUSTERERS]
        rows.append([data, *cells, taken])
    if not rows:
        return
    all_of_them = [fmean(column) for column in zip(*means, strict=True)]
    yield (
        "As `daskfc suggest --try` compares, of two fits with own numbers of clusters the one "
        f"with the larger modularity, spectral clustering if they differ by {AS_GOOD} at most: "
        f"mean index **{all_of_them[2]:.3f}**. k-means for all sets has {all_of_them[0]:.3f}, "
        f"spectral clustering for all {all_of_them[1]:.3f}, the better one of each set "
        f"{all_of_them[3]:.3f}.\n"
    )
    head = [f"{key}, {c}" for key in ("modularity", "index") for c in CLUSTERERS]
    yield markdown_table(["data", *head, "taken"], rows, left=1) + "\n"


def render(records: Sequence[Record], known: Sequence[str], parts: Sequence[str]) -> str:
    """Return the page."""
    found = [r for r in records if r["kind"] == "how many"]
    seen = {r["data"] for r in found}
    pieces = [INTRO]
    for title, about, sets in (
        (
            "The sets on which the rule was found",
            "That the two are multiplied was found on these sets, pooled, with their labels: of "
            "nine criteria and nine ways to join two, the one with the largest mean index of "
            "spectral clustering.",
            known,
        ),
        (
            "Parts of sets that were tried once, afterwards",
            "Samples of the first classes of MNIST and digits, which are among the sets above, and "
            "of COIL-20, which is not.",
            parts,
        ),
    ):
        here = [name for name in sets if name in seen]
        if here:
            pieces += [f"## {title}\n", f"{about}\n", _summary(found, here) + "\n"]
            pieces += ["### By data set\n", _choices(found, here) + "\n"]
            pieces += ["### Which clusterer\n", *_clusterers(found, here)]
    return "\n".join(pieces)
