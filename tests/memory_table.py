"""Memory that plans foresee, and that processes take: every clusterer and method, at three sizes.

    python -m tests.memory_table [WORD]

writes docs/memory.md, and goes on where a call that was cut off ended; with a word it measures the
cases that have it, and the others' lines stay. Half an hour.
"""

import itertools
import json
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from daskfc.federation import SERVER, Federation
from daskfc.federation.planning.rehearsal import Rehearsal
from daskfc.runs import make_estimator
from daskfc.runs.planning.plan import PROCESS_BYTES
from daskfc.runs.planning.rehearse import STAND_INS
from daskfc.stores import ClientStore, write_store
from daskfc.testing.federation import stores_of

PAGE = Path(__file__).parents[1] / "docs" / "memory.md"
ROWS = Path(".memory-rows.jsonl")
SIZES = (1200, 2400, 4800)
FEATURES, CLIENTS = 16, 3
MOST = 1.1  # of what is foreseen

CLUSTERERS: dict[str, Any] = {
    "spectral": "spectral",
    "spectral, Gaussian": {"spectral": {"affinity": "gaussian"}},
    "spectral, landmarks": "landmark-spectral",
    "DBSCAN": {"dbscan": {"eps": 4.0}},
    "hierarchical, Ward": "hierarchical",
    "hierarchical, average": {"hierarchical": {"linkage": "average"}},
    "hierarchical, complete": {"hierarchical": {"linkage": "complete"}},
    "hierarchical, single": {"hierarchical": {"linkage": "single"}},
    "k-medoids": "k-medoids",
    "k-means": "k-means",
    "fuzzy c-means": "fuzzy-c-means",
    "NMF": "nmf",
    "kernel k-means": "kernel-k-means",
    "Nyström k-means": "nystroem-k-means",
    "Gaussian mixture": "gaussian-mixture",
    "HDBSCAN": "hdbscan",
    "HDBSCAN, 30 neighbours": {"hdbscan": {"n_neighbors": 30}},
    "UMAP, k-means": {"umap": {"then": "k-means"}},
    "OPTICS": "optics",
    "affinity propagation": {"affinity-propagation": {"max_iter": 30}},
    "DBSCAN of scikit-learn": {
        "scikit-learn": {"estimator": "DBSCAN", "on": "distances", "options": {"eps": 4.0}}
    },
}
FIND_CLUSTERS = (
    "DBSCAN",
    "HDBSCAN",
    "HDBSCAN, 30 neighbours",
    "OPTICS",
    "affinity propagation",
    "DBSCAN of scikit-learn",
)
BY_BLOCKS = (
    "spectral, Gaussian",
    "hierarchical, average",
    "hierarchical, complete",
    "k-medoids",
    "affinity propagation",
)
METHODS: dict[str, dict[str, Any]] = {
    "FedSC": {"n_atoms": 20, "rounds": 3},
    "FedSC, coded": {"n_atoms": 20, "rounds": 3, "similarity": "coded"},
    "FederatedKernelKMeans": {"iterations": 3},
    "FederatedKernelKMeans, sums": {"iterations": 3, "clustering": "sums"},
    "FederatedKMeans": {},
    "kCAGC": {"filter_order": 0},
}


class Case(NamedTuple):
    """One fit."""

    name: str
    method: str
    params: dict[str, Any]
    limit: str = "8GB"


class Row(NamedTuple):
    """What one fit was to take of its busiest party, and took."""

    case: str
    n: int
    party: str
    foreseen: int
    measured: int


def cases() -> Iterator[Case]:
    """Yield every clusterer of OmniFC, in memory and by blocks, and every other method."""
    for name, spec in CLUSTERERS.items():
        k = None if name in FIND_CLUSTERS else 4
        yield Case(name, "OmniFC", {"n_clusters": k, "clusterer": spec})
        if name in BY_BLOCKS:  # at the last size memory does not hold two matrices
            yield Case(f"{name}, 0.75 GB", "OmniFC", {"n_clusters": k, "clusterer": spec}, "750MB")
    blocks = {"n_clusters": 4, "clusterer": "k-medoids", "distances": "blocks"}
    yield Case("k-medoids, all pairs, 0.75 GB", "OmniFC", blocks, "750MB")
    for name, params in METHODS.items():
        yield Case(name, name.split(",")[0], {"n_clusters": 4, **params})


def data(method: str, n: int) -> dict[str, np.ndarray]:
    """Return rows of each client, or columns of each where samples are shared."""
    random = np.random.default_rng(0)
    centres = 4.0 * random.normal(size=(4, FEATURES))
    rows = centres[random.integers(0, 4, n)] + random.normal(size=(n, FEATURES))
    parts = np.array_split(rows, CLIENTS, axis=1 if method == "kCAGC" else 0)
    return {f"client-{number}": part for number, part in enumerate(parts, 1)}


def measure(case: Case, n: int) -> list[Row]:
    """Fit, and return a row for each party."""
    with tempfile.TemporaryDirectory() as folder:
        urls = stores_of(folder, data(case.method, n), chunk_rows=512)
        if case.method == "kCAGC":
            urls = _same_ids(folder, n)
        model = make_estimator(case.method, case.params, seed=0)
        cluster = {"cluster": "local", "worker": {"memory_limit": case.limit}}
        with warnings.catch_warnings(), Federation.local(urls, cluster=cluster) as federation:
            warnings.simplefilter("ignore")
            limits = federation.limits()
            stores = {name: ClientStore.open(url) for name, url in urls.items()}
            rehearsal = Rehearsal(stores, STAND_INS, limits=limits, process_bytes=PROCESS_BYTES)
            model.rehearse(rehearsal)
            model.fit(federation)
            taken = federation.peak_memory()
    foreseen = {party: needed for party, (needed, _) in rehearsal.memory.items()}
    return [Row(case.name, n, party, foreseen[party], taken[party]) for party in taken]


def _same_ids(folder: str, n: int) -> dict[str, str]:
    urls = {}
    for name, part in data("kCAGC", n).items():
        urls[name] = str(Path(folder) / f"{name}-same.zarr")
        columns = [f"{name}.{i}" for i in range(part.shape[1])]
        ids = [f"s{i}" for i in range(n)]
        write_store(urls[name], name, part, ids, feature_names=columns, chunk_rows=512)
    return urls


def page(rows: list[Row]) -> str:
    """Return the page: of each fit what the server was to take and took, and the worst party."""
    lines = [
        "# Memory, foreseen and measured",
        "",
        f"Fits of {CLIENTS} clients with {FEATURES} features, one process and one thread a party, "
        "8 GB of memory",
        "each where nothing else is said. *Worst*: of all parties, measured to foreseen. Made by",
        "`make memory`.",
        "",
        "| clusterer or method | samples | server, MB foreseen | measured | ratio | worst |",
        "|---------------------|--------:|--------------------:|---------:|------:|------:|",
    ]
    for case, n in dict.fromkeys((row.case, row.n) for row in rows):
        fit = [row for row in rows if (row.case, row.n) == (case, n)]
        server = next(row for row in fit if row.party == SERVER)
        worst = max(row.measured / row.foreseen for row in fit)
        lines.append(
            f"| {case} | {n:,} | {server.foreseen / 1e6:.0f} | {server.measured / 1e6:.0f} | "
            f"{server.measured / server.foreseen:.2f} | {worst:.2f} |"
        )
    return "\n".join(lines) + "\n"


def merged(old: str, new: str) -> str:
    """Return the new page with lines of the old one for cases that it lacks."""
    found: dict[tuple[str, ...], str] = {}
    for text in (old, new):
        found |= {_case_of(line): line for line in text.splitlines() if line.startswith("| ")}
    head = [line for line in new.splitlines() if not line.startswith("| ")]
    asked = [("clusterer or method", "samples")]
    asked += [(case.name, f"{n:,}") for case, n in itertools.product(cases(), SIZES)]
    lines = [found[one] for one in asked if one in found]
    return "\n".join([*head[:-1], lines[0], head[-1], *lines[1:]]) + "\n"


def _case_of(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.split("|")[1:3])


def main(word: str = "") -> int:
    """Measure what no earlier call did, print, and write the page where all was asked for."""
    known = [json.loads(line) for line in ROWS.read_text().splitlines()] if ROWS.exists() else []
    rows = [Row(*one) for one in known]
    done = {(row.case, row.n) for row in rows}
    asked = [case for case in cases() if word in case.name]
    for case, n in itertools.product(asked, SIZES):
        if (case.name, n) in done:
            continue
        found = measure(case, n)
        rows += found
        with ROWS.open("a") as file:
            file.writelines(f"{json.dumps(row)}\n" for row in found)
        busiest = max(found, key=lambda row: row.measured / row.foreseen)
        print(*busiest, f"{busiest.measured / busiest.foreseen:.2f}", flush=True)
    PAGE.write_text(merged(PAGE.read_text(), page(rows)) if word else page(rows))
    ROWS.unlink()
    return int(any(row.measured > MOST * row.foreseen for row in rows))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
