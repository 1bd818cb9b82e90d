"""The page docs/results/kcagc.md: the kCAGC paper's numbers beside those of `reproduce.py`."""

from collections.abc import Iterator, Sequence
from statistics import fmean

from pipelines.papers.journal import Record
from pipelines.papers.kcagc.values import (
    AGC_SECONDS,
    ALONE_F1,
    BASIC,
    CENTRAL,
    LEAKAGE,
    LOCAL,
    OPTIMISED,
    OTHER_FILTER,
    OTHER_FILTER_CENTRAL,
    PARTICIPANTS,
    SECONDS,
)
from pipelines.papers.means import Means, of_kind, reached
from pipelines.papers.results import difference, markdown_table, number

__all__ = ["BASES", "render"]

BASES = ("global-norm", "U", "row-normalised")

INTRO = """\
# kCAGC

Written by `python -m pipelines.papers.kcagc.reproduce --data FOLDER`. Every number is from a run
through a real federation on one machine: a worker process a participant and one for the server,
masked sums as messages. The paper: R. Zhang et al., *Attributed Graph Clustering in Collaborative
Settings*. Accuracy in percent, mean ± standard deviation over the seeds; `diff` is here minus
paper.

- **Data.** Cora (2,708 nodes, 1,433 features), Pubmed (19,717 nodes, 500 features); Citeseer and
  Wiki are not at hand. Columns are dealt in contiguous blocks.
- **Bases.** What a participant keeps of its filtered columns, see `KCAGC`: *global-norm* is the
  default, *U* the paper's text, *row-normalised* needs no norms. The paper does not name one;
  which fits best was found on these graphs' labels.
- **Starts.** 50; local k-means 10; the basic protocol 10; one round on all samples at the end of
  the optimised variant. The paper does not say.
"""


MEANS = Means(digits=2, scale=100)


def table_two(records: Sequence[Record]) -> Iterator[str]:
    """Accuracy of every cell and basis, and what is reached."""
    for graph in OPTIMISED:
        rows, open_cells, n_cells = [], [], 0
        for L in PARTICIPANTS:
            for m in (*LOCAL, 0):
                paper = OPTIMISED[graph][L, m] if m else BASIC[graph][L]
                variant = {"variant": "optimised", "m": m} if m else {"variant": "basic"}
                cells = of_kind(records, "cell", graph=graph, L=L, **variant)
                here = {
                    basis: MEANS.of([r for r in cells if r["basis"] == basis]) for basis in BASES
                }
                if not any(here.values()):
                    continue
                n_cells += 1
                if not any(reached(value, paper, MEANS.digits) for value in here.values()):
                    open_cells.append(f"L = {L}, {f'k̂ = {m}k' if m else 'basic'}")
                nodes = [r["nodes"] for r in cells if r["basis"] == BASES[0]]
                row = [str(L), f"{m}k" if m else "basic", *MEANS.compared(paper, *here.values())]
                rows.append([*row, f"{fmean(nodes):.0f}" if nodes else "–"])
        if not rows:
            continue
        head = [text for basis in BASES for text in (basis, "diff")]
        yield f"## {graph} (Table II)\n"
        yield markdown_table(["L", "k̂", "paper", *head, "nodes"], rows, left=2) + "\n"
        inside = n_cells - len(open_cells)
        yield (
            f"Some basis is within the paper's ± or above it in {inside} of {n_cells} cells"
            + (f"; not in {', '.join(open_cells)}.\n" if open_cells else ".\n")
        )


def central(records: Sequence[Record]) -> Iterator[str]:
    """AGC and GCC on pooled columns, AGC alone, and Table III."""
    methods = list(dict.fromkeys(r["method"] for r in of_kind(records, "central")))
    rows = []
    for graph in OPTIMISED:
        for method in methods:
            here = MEANS.of(of_kind(records, "central", graph=graph, method=method))
            paper = CENTRAL.get(method, {}).get(graph)
            rows.append([graph, method, *MEANS.compared(paper, here)])
    if methods:
        yield "## On pooled columns, and alone (Table II, last rows)\n"
        yield markdown_table(["graph", "method", "paper", "here", "diff"], rows, left=2) + "\n"
    rows = []
    for graph, f1 in ALONE_F1.items():
        cells = of_kind(records, "cell", graph=graph, L=2, m=1, variant="optimised")
        for basis in BASES:
            found = [r for r in cells if r["basis"] == basis]
            if found:
                acc = MEANS.compared(OPTIMISED[graph][2, 1], MEANS.of(found))
                rows.append([graph, basis, *acc, *MEANS.compared(f1, MEANS.of(found, "f1"))])
    if rows:
        yield "## Accuracy and macro F1 with L = 2, k̂ = k (Table III, rows of kCAGC)\n"
        head = ["graph", "basis", "acc, paper", "here", "diff", "F1, paper", "here", "diff"]
        yield markdown_table(head, rows, left=2) + "\n"


def other_filter(records: Sequence[Record]) -> Iterator[str]:
    """Table VIII."""
    found = [
        ([str(L), f"{m}k"], of_kind(records, "filter", L=L, m=m), paper)
        for (L, m), paper in sorted(OTHER_FILTER.items())
    ]
    found.append((["AGC", ""], of_kind(records, "filter, AGC"), OTHER_FILTER_CENTRAL))
    rows = []
    for row, cells, papers in found:
        if cells:
            for key, paper in zip(("acc", "nmi", "f1"), papers, strict=True):
                row += MEANS.compared(paper, MEANS.of(cells, key))
            rows.append(row)
    if rows:
        head = [t for key in ("ACC", "NMI", "F1") for t in (f"{key}, paper", "here", "diff")]
        yield "## Cora with the filter (1 - λ/‖L_s‖)⁵ (Table VIII)\n"
        yield markdown_table(["L", "k̂", *head], rows, left=2) + "\n"


def figures(records: Sequence[Record]) -> Iterator[str]:
    """Give the data of Figs. 4 and 5, which the paper draws without numbers."""
    split = of_kind(records, "split")
    if split:
        shares = list(dict.fromkeys(r["share"] for r in split))
        rows = []
        for method in dict.fromkeys(r["method"] for r in split):
            own = [[r for r in split if (r["method"], r["share"]) == (method, s)] for s in shares]
            rows.append([method, *(MEANS.text(MEANS.of(found)) for found in own)])
        yield "## Cora, two participants with parts of the graph (Fig. 4)\n"
        yield markdown_table(["each holds", *(f"{share:.0%}" for share in shares)], rows) + "\n"
    for graph in OPTIMISED:
        ours = of_kind(records, "order", graph=graph)
        agc = of_kind(records, "order, AGC", graph=graph)
        if ours:
            head = ["ψ", *(str(r["order"]) for r in ours)]
            rows = [
                ["kCAGC", *(number(100 * r["acc"]) for r in ours)],
                ["AGC", *(number(100 * r["acc"]) for r in agc)],
            ]
            yield f"## {graph}, order of the filter, L = 2, k̂ = k, seed 0 (Fig. 5)\n"
            yield markdown_table(head, rows) + "\n"


def counts(records: Sequence[Record]) -> Iterator[str]:
    """Section 3.4: scalars that are summed, and bytes."""
    rows = []
    for r in of_kind(records, "count"):
        if r["variant"] == "basic" and r["m"] != 1:
            continue
        [basic] = of_kind(records, "count", graph=r["graph"], L=r["L"], variant="basic", m=1)
        a_round = r["bound"][r["variant"]]
        local = "" if r["variant"] == "basic" else f"{r['m']}k"
        row = [r["graph"], str(r["L"]), r["variant"], local, f"{r['nodes']:,}", f"{a_round:,}"]
        row += [f"{a_round / basic['bound']['basic']:.2%}", f"{r['scalars']:,}", f"{r['sums']}"]
        rows.append([*row, f"{r['masked_bytes'] / 1e6:.1f}", number(100 * r["acc"])])
    if rows:
        yield "## Secure aggregations (Section 3.4)\n"
        yield (
            "One start, at most ten rounds, no refinement. *a round*: the paper's count, one "
            "number an aggregation, at most; *of basic*: its share of the basic protocol's (the "
            "paper: 1.8 % for Cora and 0.5 % for Pubmed with L = 2, k̂ = k, from k²/n). *numbers* "
            "and *sums*: what this run summed, and in how many vectorised sums; *MB*: masked "
            "payload of all participants. Where the tree's share is above 100 %, the basic "
            "protocol is the cheaper one.\n"
        )
        head = ["graph", "L", "variant", "k̂", "nodes", "a round"]
        head += ["of basic", "numbers", "sums", "MB", "acc"]
        yield markdown_table(head, rows, left=4) + "\n"


def leakage(records: Sequence[Record]) -> Iterator[str]:
    """Table VII."""
    found = of_kind(records, "leakage")
    if found:
        yield "## Privacy level and leakage on Cora (Table VII)\n"
        yield (
            "Of the sums of squared distances (n × k) that the server learned last, as published "
            "by the run, against the first participant's features (their seven largest principal "
            "coordinates); nearest-neighbour estimates, samples with equal sums left out. The "
            "level carries the unit of the sums (here: their standard deviation) to the power k, "
            "so that the paper's levels cannot be compared; the paper names no estimator. "
            "*shuffled* is the leakage with the features of other samples, which is that of "
            "chance.\n"
        )
        rows = []
        for r in found:
            level, paper = LEAKAGE[r["L"]]
            row = [str(r["L"]), number(level), f"{paper:.5f}", f"{r['level']:.3g}"]
            row += [f"{r['leakage']:.3f}", difference(r["leakage"], paper, 3)]
            rows.append([*row, f"{r['shuffled']:.3f}"])
        head = ["L", "level, paper", "leakage, paper", "level, here"]
        head += ["leakage, here", "diff", "shuffled"]
        yield markdown_table(head, rows) + "\n"


def times(records: Sequence[Record]) -> Iterator[str]:
    """Tables IV, V and X."""
    for graph in SECONDS:
        rows = []
        for r in of_kind(records, "time", graph=graph):
            paper = SECONDS[graph][r["m"]][PARTICIPANTS.index(r["L"])]
            [agc] = of_kind(records, "time, AGC", graph=graph, L=r["L"])
            ratio = number(r["seconds"] / r["pooled"], 1)
            row = [str(r["L"]), f"{r['m']}k", number(paper), f"{paper / AGC_SECONDS[graph]:.0f}"]
            row += [number(r["seconds"]), number(r["pooled"]), ratio, number(agc["seconds"])]
            rows.append([*row, number(r["seconds"] / agc["seconds"], 1), str(r["sums"])])
        if rows:
            ratios = [float(row[6]) for row in rows]
            yield f"## {graph}, seconds (Tables IV and V)\n"
            yield (
                "Fits in warm processes, none of which has the filtered columns yet, all on two "
                "cores; *AGC* in one process on pooled columns (median of three), "
                "*AGC, fed.* through the same federation. The largest ratio to pooled AGC is "
                f"{max(ratios):.1f} (goal: at most 10).\n"
            )
            head = ["L", "k̂", "paper, s", "paper, × AGC", "here, s", "AGC, s"]
            head += ["× AGC", "AGC, fed., s", "× fed.", "sums"]
            yield markdown_table(head, rows, left=2) + "\n"
    late = of_kind(records, "latency", delay=0.1)
    if late:
        yield "## With 100 ms of latency a message (Table X)\n"
        yield (
            "k̂ = k. A sum is two messages one after the other, centres out and distances back; no "
            "report to the caller stands between. *explained* is 0.1 s times the messages in "
            "sequence: 2 a sum, 2 that are under way when all starts are at rest, and 12 for "
            "linking, norms, local clusters and labels.\n"
        )
        rows = []
        for r in late:
            [near] = of_kind(records, "latency", delay=0.0, graph=r["graph"], L=r["L"])
            sequence = 2 * r["sums"] + 14
            row = [r["graph"], str(r["L"]), str(r["sums"]), str(sequence)]
            late_by = (0.1 * sequence, near["seconds"], r["seconds"])
            rows.append([*row, *(number(seconds, 1) for seconds in late_by)])
        head = ["graph", "L", "sums", "in sequence", "explained, s", "no latency, s", "with, s"]
        yield markdown_table(head, rows) + "\n"


def render(records: Sequence[Record]) -> str:
    """Return the page of all that was found so far."""
    parts = (table_two, central, other_filter, figures, counts, leakage, times)
    return "\n".join([INTRO, *(text for part in parts for text in part(records))])
