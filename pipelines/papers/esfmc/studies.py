"""Sections on parts of ESFMC: losses, α, several clients, and what may be shared instead."""

from collections.abc import Iterator, Sequence
from statistics import fmean

from pipelines.papers.esfmc.text import (
    ALPHA_FIGURE,
    CLIENTS_FIGURE,
    LOSSES_FIGURE,
    MEANS,
    VARIANTS_FIGURE,
    command,
    names,
)
from pipelines.papers.esfmc.values import METRICS, TABLE_3
from pipelines.papers.journal import Record
from pipelines.papers.means import of_kind
from pipelines.papers.results import difference, figure_link, markdown_table, number

__all__ = ["ablation", "alpha", "clients", "losses", "times", "variants"]

_TERMS = {
    "": "all terms",
    "reconstruction": "without L_1, reconstruction",
    "label": "without L_2, cross-entropy",
    "dependence": "without L_3, dependence",
    "alignment": "without L_a, alignment",
}


def ablation(records: Sequence[Record]) -> Iterator[str]:
    """Table 3."""
    found = of_kind(records, "ablation")
    if not found:
        return
    rows = []
    for data in names(found, "data"):
        for term in names(of_kind(found, "ablation", data=data), "without"):
            runs = of_kind(found, "ablation", data=data, without=term)
            goal = TABLE_3.get((data, term))
            acc = MEANS.of(runs, "acc")
            cells = [data, f"{runs[0]['overlap']:g}", _TERMS[term], str(len(runs))]
            cells += [number(goal and goal.acc, 1), MEANS.text(acc)]
            cells += [difference(acc and acc[0], goal and goal.acc, 1)]
            rows.append([*cells, *(MEANS.text(MEANS.of(runs, name)) for name in METRICS[1:])])
    yield "## Without a term of the loss (Table 3)\n"
    head = ["data", "φ", "loss", "seeds", "paper, ACC", "ACC", "difference", "NMI", "ARI"]
    yield markdown_table(head, rows, left=3) + "\n"
    yield (
        "Robust recipe; at φ = 0.5 with `align`. The paper's complete views are Caltech's, which "
        "is not at hand; HW stands in. The robust server clusters whatever the heads learn, and "
        "only the labels of samples that lack a view come from heads: without L_2 it loses less "
        "than the paper's. Before the first round networks reconstruct in all of them. "
        f"{command('ablation')}\n"
    )


def losses(records: Sequence[Record]) -> Iterator[str]:
    """Fig. 3(a)."""
    found = of_kind(records, "losses")
    if not found:
        return
    epochs = max(len(r["losses"]) for r in found)
    yield "## Losses by epoch (Fig. 3(a))\n"
    yield figure_link(LOSSES_FIGURE, "Losses of BDGP's two clients over all rounds")
    yield (
        f"BDGP, half of the samples in both views, `align`, robust recipe, {epochs} epochs over "
        "all rounds. Losses jump where a round brings other labels, and settle within it; the "
        "paper's figure shows the same without its scale. "
        f"{command('convergence')}\n"
    )


def alpha(records: Sequence[Record]) -> Iterator[str]:
    """Fig. 3(b)."""
    found = of_kind(records, "alpha")
    if not found:
        return
    rows = []
    for one in sorted(names(found, "alpha")):
        runs = of_kind(found, "alpha", alpha=one)
        keys = ("acc_in_all", "acc_others", "acc")
        cells = [MEANS.text(MEANS.of([r for r in runs if key in r], key)) for key in keys]
        rows.append([f"{one:g}", str(len(runs)), *cells])
    yield "## By α (Fig. 3(b))\n"
    yield figure_link(ALPHA_FIGURE, "Accuracy by α")
    head = ["α", "seeds", "in both views, ACC", "in one view, ACC", "all, ACC"]
    yield markdown_table(head, rows) + "\n"
    yield (
        "BDGP, nine tenths of the samples in both views, `local`. The paper prints no numbers: "
        "there accuracy falls sharply at 0.01, and samples in one view do best at 0.0001. "
        f"{command('alpha')}\n"
    )


def clients(records: Sequence[Record]) -> Iterator[str]:
    """Fig. 4."""
    found = of_kind(records, "clients")
    if not found:
        return
    rows = []
    for data in names(found, "data"):
        for each in sorted(names(of_kind(found, "clients", data=data), "each")):
            runs = of_kind(found, "clients", data=data, each=each)
            scores = [MEANS.text(MEANS.of(runs, name)) for name in METRICS]
            seconds = number(fmean(r["seconds"] for r in runs), 0)
            rows.append([data, str(each), str(len(runs)), *scores, seconds])
    yield "## Several clients a view (Fig. 4)\n"
    yield figure_link(CLIENTS_FIGURE, "Accuracy by the number of clients a view")
    head = ["data", "clients a view", "seeds", "ACC", "NMI", "ARI", "fit, s"]
    yield markdown_table(head, rows) + "\n"
    yield (
        "Complete views, robust recipe. The samples of a view are divided among its clients, which "
        "share no networks; the server adds up their graphs of neighbours. The paper prints no "
        f"numbers. {command('clients')}\n"
    )


def times(records: Sequence[Record]) -> Iterator[str]:
    """Return the section on where the seconds of a fit go."""
    found = of_kind(records, "time")
    if not found:
        return
    keys = ("seconds", "again", "first_round", "other_rounds", "server")
    rows = [[r["data"], str(r["rounds"]), *(number(r[key], 1) for key in keys)] for r in found]
    yield "## Where the time goes\n"
    head = ["data", "rounds", "first fit, s", "second", "first round", "other rounds", "server"]
    yield markdown_table(head, rows) + "\n"
    yield (
        "Robust recipe, complete views. The second fit in the same processes compiles nothing: the "
        "first one does, for each client's number of columns. Of the second: until the last client "
        "has shared its features of the first round (its own labels, from graphs of up to 25 "
        "neighbours, then training to reconstruct, then the round's), until the same in the other "
        f"rounds, and what the server takes between features and its report. {command('time')}\n"
    )


def variants(records: Sequence[Record]) -> Iterator[str]:
    """Return the section on what may be shared in place of Z_c."""
    found = of_kind(records, "variant")
    if not found:
        return
    rows = []
    for data in names(found, "data"):
        for words in names(of_kind(found, "variant", data=data), "variant"):
            runs = of_kind(found, "variant", data=data, variant=words)
            scores = [MEANS.text(MEANS.of(runs, name)) for name in METRICS]
            errors = [f"{fmean(r[key] for r in runs):.3f}" for key in ("error", "labels_error")]
            rows.append([data, words, str(len(runs)), *scores, *errors])
    yield "## What may be shared in place of Z_c\n"
    yield figure_link(VARIANTS_FIGURE, "Accuracy beside the error of rebuilt rows")
    head = ["data", "shared", "seeds", "ACC", "NMI", "ARI", "error", "of labels alone"]
    yield markdown_table(head, rows, left=2) + "\n"
    yield (
        "*Error*: of rows rebuilt from what is shared, mean over clients, as in Fig. 3(c): higher "
        "tells less. No variant can be above the error of labels alone by much, which every fit "
        f"tells. {command('variants')}\n"
    )
