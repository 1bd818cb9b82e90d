"""The page docs/results/esfmc.md: the paper's tables beside those of `reproduce.py`."""

from collections.abc import Iterator, Sequence
from statistics import fmean

from pipelines.papers.esfmc.studies import ablation, alpha, clients, losses, times, variants
from pipelines.papers.esfmc.text import MEANS, OVERLAP_FIGURE, command, names
from pipelines.papers.esfmc.values import METRICS, TABLE_1, TABLE_2, TABLE_4, TABLE_5, Goal
from pipelines.papers.journal import Record
from pipelines.papers.means import of_kind
from pipelines.papers.results import difference, figure_link, markdown_table, number

__all__ = ["render"]

INTRO = """\
# ESFMC

Written by `python -m pipelines.papers.esfmc.reproduce --data FOLDER`. Every number of a federated
method is from a run through a real federation on one machine: a worker process for each view and
one for the server. The paper: X. Chen et al., *An Effective and Secure Federated Multi-View
Clustering Method with Information-Theoretic Perspective*, ICML 2025.

- **Data.** HW (2,000 samples, six views), Synthetic3d (600, three), BDGP (2,500, two). Caltech,
  MNIST-USPS and Scene are not at hand.
- **Recipes.** *robust* is our default, *paper* the paper's text; `daskfc.protocols.esfmc` says how
  they differ. The robust recipe's numbers were found on these data sets with labels in sight, on
  other seeds than those here; the server's rules for numbers of neighbours, for labels of later
  rounds and for samples that a view lacks were found on BDGP with these seeds, accuracy in sight.
  Scaling follows what is known of the columns.
- **Fit without labels.** What a fit chooses by itself it chooses by the modularity of clusters in a
  graph of neighbours, and by the agreement of two clusterings; the single view as well.
- **Accuracy**, normalised mutual information and adjusted Rand index in %, mean ± standard
  deviation over seeds. In samples that some view lacks, `local` and `align` are the two ways of
  Section 3.5.
"""


def first_look(records: Sequence[Record]) -> Iterator[str]:
    """Say so where records are no reproduction."""
    if most := max((r.get("samples", 0) for r in records), default=0):
        yield f"**A first look only:** parts of this page were made with at most {most} samples.\n"


def _accuracies(
    found: Sequence[Record], diverged: Sequence[Record], goals: dict[str, Goal], parts: str
) -> Iterator[str]:
    rows = []
    for data in names(found, "data"):
        goal = goals.get(data)
        for method in names(of_kind(found, "accuracy", data=data), "method"):
            own = of_kind(found, "accuracy", data=data, method=method)
            for mode in names(own, "mode"):
                runs = [r for r in own if r["mode"] == mode]
                acc = MEANS.of(runs, "acc")
                compared = goal if method.startswith("ESFMC") else None
                gap = difference(acc and acc[0], compared and compared.acc, 1)
                wild = of_kind(diverged, "diverged", data=data, method=method, mode=mode)
                seeds = f"{len(runs)} of {len(runs) + len(wild)}" if wild else str(len(runs))
                cells = [data, method, mode if runs[0]["overlap"] < 1 else "", seeds]
                cells += [number(compared.acc, 1) if compared else "–", MEANS.text(acc), gap]
                cells += [MEANS.text(MEANS.of(runs, name)) for name in METRICS[1:]]
                rows.append([*cells, number(fmean(r["seconds"] for r in runs), 0)])
    head = ["data", "method", "incomplete", "seeds", "paper, ACC", "ACC", "difference"]
    yield markdown_table([*head, "NMI", "ARI", "fit, s"], rows, left=3) + "\n"
    paper = ", ".join(f"{data} {TABLE_4[data]:.0f}" for data in names(found, "data"))
    wild = "Fits whose loss did not stay finite are left out, and counted. " if diverged else ""
    yield f"{wild}Seconds of the paper's (RTX 3090, Table 4): {paper}. {command(parts)}\n"


def complete(records: Sequence[Record]) -> Iterator[str]:
    """Table 1."""
    if found := of_kind(records, "accuracy", overlap=1.0):
        yield "## Complete views (Table 1)\n"
        wild = of_kind(records, "diverged", overlap=1.0)
        yield from _accuracies(found, wild, TABLE_1, "complete,printed")


def half(records: Sequence[Record]) -> Iterator[str]:
    """Table 2."""
    if found := of_kind(records, "accuracy", overlap=0.5):
        yield "## Half of the samples in all views (Table 2)\n"
        wild = of_kind(records, "diverged", overlap=0.5)
        yield from _accuracies(found, wild, TABLE_2, "half,printed")


def overlap(records: Sequence[Record]) -> Iterator[str]:
    """Fig. 2."""
    own = [r for r in of_kind(records, "accuracy", data="BDGP") if r["method"] == "ESFMC, robust"]
    rates = sorted({r["overlap"] for r in own})
    if len(rates) < 3:
        return
    rows = []
    for rate in rates:
        cells = [f"{rate:g}"]
        for mode in ("local", "align"):
            runs = [r for r in own if r["overlap"] == rate and r["mode"] == mode]
            cells += [str(len(runs)), MEANS.text(MEANS.of(runs, "acc"))]
        rows.append(cells)
    yield "## BDGP by the share of samples in all views (Fig. 2)\n"
    yield figure_link(OVERLAP_FIGURE, "Accuracy by the share of samples in all views")
    yield markdown_table(["φ", "seeds", "local, ACC", "seeds", "align, ACC"], rows) + "\n"
    yield f"The paper prints no numbers. {command('overlap')}\n"


def sharing(records: Sequence[Record]) -> Iterator[str]:
    """Table 5."""
    found = of_kind(records, "sharing")
    if not found:
        return
    rows = []
    for data in names(found, "data"):
        for share in names(found, "share"):
            runs = of_kind(found, "sharing", data=data, share=share)
            scores = [MEANS.text(MEANS.of(runs, name)) for name in METRICS]
            rows.append([data, share, str(len(runs)), number(TABLE_5[share].acc, 1), *scores])
    yield "## By what clients share (Table 5)\n"
    head = ["data", "share", "seeds", "paper, Caltech", "ACC", "NMI", "ARI"]
    yield markdown_table(head, rows, left=2) + "\n"
    yield f"Robust recipe; the paper has Caltech only, which is not at hand. {command('sharing')}\n"


_SHARED = {"labels": "labels only", "assignments": "Q", "z_c": "Z_c", "z_x": "Z_x", "z": "Z"}


def attack(records: Sequence[Record]) -> Iterator[str]:
    """Fig. 3(c)."""
    found = of_kind(records, "attack")
    if not found:
        return
    rows = []
    for data in names(found, "data"):
        for view in names(of_kind(found, "attack", data=data), "view"):
            cells = [data, view]
            for shared in _SHARED:
                runs = of_kind(found, "attack", data=data, view=view, shared=shared)
                cells.append(number(fmean(r["error"] for r in runs), 3) if runs else "–")
            rows.append(cells)
    yield "## Rows rebuilt from what is shared (Fig. 3(c))\n"
    yield markdown_table(["data", "client", *_SHARED.values()], rows, left=2) + "\n"
    yield (
        "Squared error of a client's rows, relative to that of their mean: 0 is everything, 1 "
        "nothing. The attacker has columns and features of half of the samples and learns the way "
        "back (`daskfc.protocols.esfmc.privacy.inversion_error`). The paper shows images, and "
        "holds that splitting protects. Networks of the robust recipe, trained on the labels of a "
        f"fit. {command('attack')}\n"
    )


def render(records: Sequence[Record]) -> str:
    """Return the page."""
    parts = [INTRO]
    for part in (
        first_look,
        complete,
        half,
        overlap,
        ablation,
        sharing,
        losses,
        alpha,
        attack,
        variants,
        clients,
        times,
    ):
        parts += part(records)
    return "\n".join(parts)
