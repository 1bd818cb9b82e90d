"""The section of docs/results.md: the kCAGC paper's numbers beside those of `reproduce.py`."""

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean, pstdev
from typing import Any

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
    Value,
)
from pipelines.papers.results import difference, markdown_table, number

__all__ = ["render"]

BASES = ("global-norm", "U", "row-normalised")

INTRO = """\
## kCAGC

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


def _of(records: Sequence[Record], kind: str, **wanted: Any) -> list[Record]:
    """Return the records of a kind with these values."""
    return [
        r
        for r in records
        if r["kind"] == kind and all(r.get(key) == value for key, value in wanted.items())
    ]


def _mean(found: Sequence[Record], key: str = "acc") -> Value | None:
    """Return mean and standard deviation in percent."""
    values = [100 * r[key] for r in found]
    return (fmean(values), pstdev(values)) if values else None


def _text(value: Value | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value[0]:.{digits}f} ± {value[1]:.{digits}f}"


def _gap(here: Value | None, paper: Value) -> str:
    return "–" if here is None else difference(here[0], paper[0])


def _reached(here: Value | None, paper: Value) -> bool:
    """Whether a mean is within the paper's ± or above, in the two digits that it prints."""
    return here is not None and round(here[0], 2) >= round(paper[0] - paper[1], 2)


def table_two(records: Sequence[Record]) -> Iterator[str]:
    """Accuracy of every cell and basis, and what is reached."""
    for graph in OPTIMISED:
        rows, open_cells, n_cells = [], [], 0
        for L in PARTICIPANTS:
            for m in (*LOCAL, 0):
                paper = OPTIMISED[graph][L, m] if m else BASIC[graph][L]
                variant = {"variant": "optimised", "m": m} if m else {"variant": "basic"}
                cells = _of(records, "cell", graph=graph, L=L, **variant)
                here = {basis: _mean([r for r in cells if r["basis"] == basis]) for basis in BASES}
                if not any(here.values()):
                    continue
                n_cells += 1
                if not any(_reached(value, paper) for value in here.values()):
                    open_cells.append(f"L = {L}, {f'k̂ = {m}k' if m else 'basic'}")
                shown = [
                    text for value in here.values() for text in (_text(value), _gap(value, paper))
                ]
                nodes = [r["nodes"] for r in cells if r["basis"] == BASES[0]]
                rows.append(
                    [
                        str(L),
                        f"{m}k" if m else "basic",
                        _text(paper),
                        *shown,
                        f"{fmean(nodes):.0f}" if nodes else "–",
                    ]
                )
        if not rows:
            continue
        head = [text for basis in BASES for text in (basis, "diff")]
        yield f"### {graph} (Table II)\n"
        yield markdown_table(["L", "k̂", "paper", *head, "nodes"], rows, left=2) + "\n"
        inside = n_cells - len(open_cells)
        yield (
            f"Some basis is within the paper's ± or above it in {inside} of {n_cells} cells"
            + (f"; not in {', '.join(open_cells)}.\n" if open_cells else ".\n")
        )


def central(records: Sequence[Record]) -> Iterator[str]:
    """AGC and GCC on pooled columns, AGC alone, and Table III."""
    methods = list(dict.fromkeys(r["method"] for r in _of(records, "central")))
    rows = []
    for graph in OPTIMISED:
        for method in methods:
            here = _mean(_of(records, "central", graph=graph, method=method))
            paper = CENTRAL.get(method, {}).get(graph)
            known = (
                [_text(paper), _text(here), _gap(here, paper)] if paper else ["–", _text(here), "–"]
            )
            rows.append([graph, method, *known])
    if methods:
        yield "### On pooled columns, and alone (Table II, last rows)\n"
        yield markdown_table(["graph", "method", "paper", "here", "diff"], rows, left=2) + "\n"
    rows = []
    for graph, f1 in ALONE_F1.items():
        cells = _of(records, "cell", graph=graph, L=2, m=1, variant="optimised")
        for basis in BASES:
            found = [r for r in cells if r["basis"] == basis]
            if found:
                acc, own = OPTIMISED[graph][2, 1], _mean(found, "f1")
                rows.append(
                    [
                        graph,
                        basis,
                        _text(acc),
                        _text(_mean(found)),
                        _gap(_mean(found), acc),
                        _text(f1),
                        _text(own),
                        _gap(own, f1),
                    ]
                )
    if rows:
        yield "### Accuracy and macro F1 with L = 2, k̂ = k (Table III, rows of kCAGC)\n"
        head = ["graph", "basis", "acc, paper", "here", "diff", "F1, paper", "here", "diff"]
        yield markdown_table(head, rows, left=2) + "\n"


def other_filter(records: Sequence[Record]) -> Iterator[str]:
    """Table VIII."""
    rows = []
    for (L, m), paper in sorted(OTHER_FILTER.items()):
        cells = _of(records, "filter", L=L, m=m)
        if cells:
            pairs = list(zip(("acc", "nmi", "f1"), paper, strict=True))
            here = [(_mean(cells, key), value) for key, value in pairs]
            shown = [
                t for mine, value in here for t in (_text(value), _text(mine), _gap(mine, value))
            ]
            rows.append([str(L), f"{m}k", *shown])
    pooled = _of(records, "filter, AGC")
    if pooled:
        here = [
            (_mean(pooled, key), v)
            for key, v in zip(("acc", "nmi", "f1"), OTHER_FILTER_CENTRAL, strict=True)
        ]
        rows.append(
            ["AGC", ""] + [t for mine, v in here for t in (_text(v), _text(mine), _gap(mine, v))]
        )
    if rows:
        head = [t for key in ("ACC", "NMI", "F1") for t in (f"{key}, paper", "here", "diff")]
        yield "### Cora with the filter (1 - λ/‖L_s‖)⁵ (Table VIII)\n"
        yield markdown_table(["L", "k̂", *head], rows, left=2) + "\n"


def figures(records: Sequence[Record]) -> Iterator[str]:
    """Give the data of Figs. 4 and 5, which the paper draws without numbers."""
    split = _of(records, "split")
    if split:
        shares = list(dict.fromkeys(r["share"] for r in split))
        rows = [
            [method]
            + [
                _text(_mean([r for r in split if r["share"] == share and r["method"] == method]))
                for share in shares
            ]
            for method in dict.fromkeys(r["method"] for r in split)
        ]
        yield "### Cora, two participants with parts of the graph (Fig. 4)\n"
        yield markdown_table(["each holds", *(f"{share:.0%}" for share in shares)], rows) + "\n"
    for graph in OPTIMISED:
        ours, agc = _of(records, "order", graph=graph), _of(records, "order, AGC", graph=graph)
        if ours:
            head = ["ψ", *(str(r["order"]) for r in ours)]
            rows = [
                ["kCAGC", *(number(100 * r["acc"]) for r in ours)],
                ["AGC", *(number(100 * r["acc"]) for r in agc)],
            ]
            yield f"### {graph}, order of the filter, L = 2, k̂ = k, seed 0 (Fig. 5)\n"
            yield markdown_table(head, rows) + "\n"


def counts(records: Sequence[Record]) -> Iterator[str]:
    """Section 3.4: scalars that are summed, and bytes."""
    rows = []
    for r in _of(records, "count"):
        if r["variant"] == "basic" and r["m"] != 1:
            continue
        [basic] = _of(records, "count", graph=r["graph"], L=r["L"], variant="basic", m=1)
        a_round = r["bound"][r["variant"]]
        rows.append(
            [
                r["graph"],
                str(r["L"]),
                r["variant"],
                "" if r["variant"] == "basic" else f"{r['m']}k",
                f"{r['nodes']:,}",
                f"{a_round:,}",
                f"{a_round / basic['bound']['basic']:.2%}",
                f"{r['scalars']:,}",
                f"{r['sums']}",
                f"{r['masked_bytes'] / 1000000.0:.1f}",
                number(100 * r["acc"]),
            ]
        )
    if rows:
        yield "### Secure aggregations (Section 3.4)\n"
        yield (
            "One start, at most ten rounds, no refinement. *a round*: the paper's count, one "
            "number an aggregation, at most; "
            "*of basic*: its share of the basic protocol's (the paper: 1.8 % for Cora and 0.5 "
            "% for Pubmed with L = 2, k̂ = k, "
            "from k²/n). *numbers* and *sums*: what this run summed, and in how many "
            "vectorised sums; *MB*: masked payload of all "
            "participants. Where the tree's share is above 100 %, the basic protocol is the "
            "cheaper one.\n"
        )
        head = [
            "graph",
            "L",
            "variant",
            "k̂",
            "nodes",
            "a round",
            "of basic",
            "numbers",
            "sums",
            "MB",
            "acc",
        ]
        yield markdown_table(head, rows, left=4) + "\n"


def leakage(records: Sequence[Record]) -> Iterator[str]:
    """Table VII."""
    found = _of(records, "leakage")
    if found:
        yield "### Privacy level and leakage on Cora (Table VII)\n"
        yield (
            "Of the sums of squared distances (n × k) that the server learned last, as "
            "published by the run, against the first "
            "participant's features (their seven largest principal coordinates); nearest- "
            "neighbour estimates, samples with equal "
            "sums left out. The level carries the unit of the sums (here: their standard "
            "deviation) to the power k, so that the "
            "paper's levels cannot be compared; the paper names no estimator. *shuffled* is "
            "the leakage with the features of "
            "other samples, which is that of chance.\n"
        )
        rows = [
            [
                str(r["L"]),
                number(LEAKAGE[r["L"]][0]),
                f"{LEAKAGE[r['L']][1]:.5f}",
                f"{r['level']:.3g}",
                f"{r['leakage']:.3f}",
                difference(r["leakage"], LEAKAGE[r["L"]][1], 3),
                f"{r['shuffled']:.3f}",
            ]
            for r in found
        ]
        head = [
            "L",
            "level, paper",
            "leakage, paper",
            "level, here",
            "leakage, here",
            "diff",
            "shuffled",
        ]
        yield markdown_table(head, rows) + "\n"


def times(records: Sequence[Record]) -> Iterator[str]:
    """Tables IV, V and X."""
    for graph in SECONDS:
        rows = []
        for r in _of(records, "time", graph=graph):
            paper = SECONDS[graph][r["m"]][PARTICIPANTS.index(r["L"])]
            [agc] = _of(records, "time, AGC", graph=graph, L=r["L"])
            rows.append(
                [
                    str(r["L"]),
                    f"{r['m']}k",
                    number(paper),
                    f"{paper / AGC_SECONDS[graph]:.0f}",
                    number(r["seconds"]),
                    number(r["pooled"]),
                    number(r["seconds"] / r["pooled"], 1),
                    number(agc["seconds"]),
                    number(r["seconds"] / agc["seconds"], 1),
                    str(r["sums"]),
                ]
            )
        if rows:
            ratios = [float(row[6]) for row in rows]
            yield f"### {graph}, seconds (Tables IV and V)\n"
            yield (
                "Fits in warm processes, none of which has the filtered columns yet, all on two "
                "cores; *AGC* in one process on pooled columns (median of three), "
                "*AGC, fed.* through the same federation. The largest ratio to pooled AGC is "
                f"{max(ratios):.1f} (goal: at most 10).\n"
            )
            head = [
                "L",
                "k̂",
                "paper, s",
                "paper, × AGC",
                "here, s",
                "AGC, s",
                "× AGC",
                "AGC, fed., s",
                "× fed.",
                "sums",
            ]
            yield markdown_table(head, rows, left=2) + "\n"
    late = _of(records, "latency", delay=0.1)
    if late:
        yield "### With 100 ms of latency a message (Table X)\n"
        yield (
            "k̂ = k. A sum is two messages one after the other, centres out and distances "
            "back; from the first round of Lloyd on "
            "a report to the caller stands between. *explained* is 0.1 s times the messages "
            "in sequence: 2 a sum, 1 a round, and "
            "12 for linking, norms, local clusters and labels.\n"
        )
        rows = []
        for r in late:
            [near] = _of(records, "latency", delay=0.0, graph=r["graph"], L=r["L"])
            sequence = 2 * r["sums"] + r["rounds"] + 12
            rows.append(
                [
                    r["graph"],
                    str(r["L"]),
                    str(r["sums"]),
                    str(sequence),
                    number(0.1 * sequence, 1),
                    number(near["seconds"], 1),
                    number(r["seconds"], 1),
                ]
            )
        head = ["graph", "L", "sums", "in sequence", "explained, s", "no latency, s", "with, s"]
        yield markdown_table(head, rows) + "\n"


_PARTS: tuple[Callable[[Sequence[Record]], Iterator[str]], ...] = (
    table_two,
    central,
    other_filter,
    figures,
    counts,
    leakage,
    times,
)


def render(records: Sequence[Record]) -> str:
    """Return the section of all that was found so far."""
    return "\n".join([INTRO, *(text for part in _PARTS for text in part(records))])
