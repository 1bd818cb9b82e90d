"""The page docs/results/omnifc-public-data.md, which `battery.py` writes."""

from collections.abc import Iterator, Sequence

from pipelines.papers.journal import Record
from pipelines.papers.public_data import DATASETS
from pipelines.papers.results import markdown_table

__all__ = ["render"]

EXACT = ("ward", "single", "HDBSCAN", "DBSCAN")

INTRO = """\
# Public data sets

Written by `python -m pipelines.papers.omnifc.battery --data FOLDER`. OmniFC with its defaults over
five clients with label skew 0.75, six worker processes, beside scikit-learn on all samples in one
place. The samples are as published: in their own units, with their offsets, ties and duplicates;
of sets with more than 1,500 samples, 1,500 drawn with seed 0. Labels say how many clusters are
looked for, k, and which clients get a sample.

Ward's and single linkage are cut at k clusters. HDBSCAN's smallest cluster has 5 samples. DBSCAN
has 5 samples in a radius that makes nine of ten samples core, in a gap between distances. Spectral
clustering has 10 neighbours, the sample itself among them; it and k-means start 10 times.

Where distances are equal, the order of rows decides, and that of a table has no meaning. So
scikit-learn reads the rows in the order in which OmniFC clusters them, which follows from their
distances: `daskfc.clustering.views.order.order_of_points` of the samples.
"""


def _index(value: float) -> str:
    """Return an adjusted Rand index; 1 stands for the same partition and nothing less.

    Examples
    --------
    >>> _index(1.0), _index(0.99999)
    ('1', '0.999')
    """
    return "1" if value == 1.0 else f"{min(value, 0.999):.3f}"


def _by_data(records: Sequence[Record]) -> Iterator[tuple[str, dict[str, Record]]]:
    for data in DATASETS:
        own = {r["clusterer"]: r for r in records if r["kind"] == "battery" and r["data"] == data}
        if own:
            yield data, own


def _sizes(record: Record) -> list[str]:
    return [f"{record[key]:,}" for key in ("n", "d", "k")]


def _exact(records: Sequence[Record]) -> Iterator[str]:
    rows = []
    for data, own in _by_data(records):
        cells = [_index(own[name]["index"]) if name in own else "–" for name in EXACT]
        rows.append([data, DATASETS[data].words, *_sizes(next(iter(own.values()))), *cells])
    found = [r for r in records if r["kind"] == "battery" and r["clusterer"] in EXACT]
    same = sum(r["index"] == 1.0 for r in found)
    yield "## The same partition\n"
    yield (
        "Adjusted Rand index of the federated and the pooled partition; noise is one cluster more. "
        f"**{same} of {len(found)}** are the same.\n"
    )
    yield markdown_table(["data", "columns", "n", "d", "k", *EXACT], rows, left=2) + "\n"


def _others(records: Sequence[Record]) -> Iterator[str]:
    rows = []
    for data, own in _by_data(records):
        for name in (*EXACT, "spectral"):
            record = own.get(name, {"index": 1.0})
            if "rows" in record:
                cells = [_index(record[key]) for key in ("index", "rows", "columns")]
                rows.append([data, name, *cells])
    yield "## Where partitions differ\n"
    if not rows:
        yield "Nowhere.\n"
        return
    yield (
        "Of equally near samples scikit-learn joins others first than OmniFC, in one order of rows "
        "too, and OmniFC gives equal samples one label; sums that are rounded in another order "
        "decide where distances are nearly equal. Beside the index stands the least of "
        "scikit-learn to itself, with rows in other orders, and with columns in others: four, or "
        "one for large sets. HDBSCAN has ties in all data: pairs are as far apart as one of the "
        "two is from its fifth neighbour.\n"
    )
    head = ["data", "clusterer", "OmniFC", "scikit-learn, rows", "scikit-learn, columns"]
    yield markdown_table(head, rows, left=2) + "\n"


def _seeded(records: Sequence[Record]) -> Iterator[str]:
    rows = []
    for data, own in _by_data(records):
        if {"k-means", "spectral"} <= set(own):
            means, spectral = own["k-means"], own["spectral"]
            cells = [_index(means["index"]), _index(means["seed"]), f"{means['inertia']:.4f}"]
            rows.append([data, *cells, _index(spectral["index"]), _index(spectral["seed"])])
    yield "## Clusterers that draw starts\n"
    yield (
        "Index of OmniFC's partition to scikit-learn's, and of scikit-learn's to that of another "
        "seed; the inertia of OmniFC's k-means, divided by that of scikit-learn's: below 1 is "
        "better.\n"
    )
    head = ["data", "k-means", "another seed", "inertia", "spectral", "another seed"]
    yield markdown_table(head, rows) + "\n"


def render(records: Sequence[Record]) -> str:
    """Return the page, from the records of `battery.py`."""
    parts = [INTRO]
    if any(record["kind"] == "battery" for record in records):
        for part in (_exact, _others, _seeded):
            parts += part(records)
    return "\n".join(parts)
