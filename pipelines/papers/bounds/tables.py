"""The page docs/results/bounds.md from records."""

import math
from collections.abc import Sequence

from pipelines.papers.journal import Record
from pipelines.papers.means import listed, of_kind
from pipelines.papers.results import markdown_table

__all__ = ["render"]

ASKED = 100.0  # c that kCAGC's proof asks for
HEADER = """\
# Bounds of the theorems

Written by `python -m pipelines.papers.bounds.reproduce --data FOLDER`: theorems of the papers whose
right side can be evaluated, on data, beside their left side. Constants that a theorem takes as
given (largest norms, differences, eigenvalues) are measured on the same run, the smallest for which
its assumptions hold there, so that no bound is larger than it must be; Lipschitz constants are
upper bounds. A theorem *says
something* where its bound is smaller than what needs no theorem: what it bounds for an estimate of
zero (FK 1), for random labels (FK 3), or at most (ESFMC); for FedSC there is no such number.

Theorems speak of iterates that no federation shows to anybody. They are computed here in one
process, by the package's functions where it has them, and compared with a real federation's where
it tells something of them; labels are real federations'.
"""


def figure(value: float | None) -> str:
    """Return a number in three digits.

    Examples
    --------
    >>> figure(0.12345), figure(1234567.0), figure(None), figure(12.345), figure(0.0)
    ('0.123', '1.23e+06', '–', '12.3', '0')
    """
    if value is None:
        return "–"
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if not -4 <= size < 5:
        return f"{value:.2e}"
    return f"{value:,.{max(2 - size, 0)}f}"


def _compared(value: float, bound: float | None, without: float | None) -> list[str]:
    """Return value, bound, their ratio, whether it holds, and whether it says something."""
    if bound is None:
        return [figure(value), "none", "–", "–", figure(without), "no"]
    says = "–" if without is None else "yes" if bound < without else "no"
    holds = "yes" if value <= bound else "no"
    cells = [figure(value), figure(bound), figure(bound / value if value > 0 else None), holds]
    return [*cells, figure(without), says]


def _summary(records: Sequence[Record]) -> str:
    rows = []
    for r in of_kind(records, "fedsc"):
        what = f"{r['data']}, S = {r['S']}, Q = {r['Q']}"
        bound = sum(r["bound"]) if r["bound"] else None
        cells = _compared(r["value"], bound, None)
        rows.append(["FedSC 2.3", "mean squared change of C and Z", what, *cells])
    last = max((r["T"] for r in of_kind(records, "fk 1")), default=0)
    for r in of_kind(records, "fk 1", T=last, rate="2/t"):
        cells = _compared(r["value"], r["bound"], r["start"])
        rows.append(["FK 1", "squared error of Z", f"{r['data']}, T = {last}", *cells])
    for r in of_kind(records, "fk 3"):
        cells = _compared(r["value"], r["bound"], r["random"])
        what = f"{r['data']}, T = {r['T']}"
        rows.append(["FK 3", "loss over the least, bound with γ = 1, ε = 0", what, *cells])
    graphs = dict.fromkeys(r["graph"] for r in of_kind(records, "kcagc"))
    for graph in graphs:
        best = max(r["least"] for r in of_kind(records, "kcagc", graph=graph))
        cells = [figure(best), f"> {ASKED:.0f} asked", "–", "no", "–", "no"]
        rows.append(["kCAGC 1", "centre separation c, in the best row below", graph, *cells])
    for r in of_kind(records, "esfmc"):
        cells = _compared(r["value"], r["bound"], r["C"])
        what = f"{r['data']}, {r['recipe']} recipe"
        rows.append(["ESFMC 4.1", "loss of new samples less that of old", what, *cells])
    header = ["theorem", "what it bounds", "on", "value", "bound", "bound / value", "holds",
              "without it", "says something"]  # fmt: skip
    return markdown_table(header, rows, left=3)


def _fedsc(records: Sequence[Record]) -> str:
    found = of_kind(records, "fedsc")
    rows = []
    for r in found:
        first, drift = r["bound"] or (None, None)
        rows.append(
            [r["data"], str(r["P"]), str(r["S"]), str(r["Q"]), str(r["atoms"]), figure(r["value"]),
             figure(first), figure(drift), figure(r["first"]), figure(r["zeta"]),
             f"{figure(r['lowest'])} to {figure(r['highest'])}", figure(r["gamma"]),
             figure(r["needed"]), figure(r["ours"])]
        )  # fmt: skip
    header = ["data", "P", "S", "Q", "atoms", "value", "bound, first term", "second term", "F", "ζ",
              "L", "γ min", "ψ needs P >", "value, our steps"]  # fmt: skip
    bound = [r for r in found if r["bound"]]
    beyond = sum(r["ours"] > sum(r["bound"]) for r in bound)
    jumps = [r["jump"] for r in found]
    apart = max(r["apart"] for r in found if "apart" in r)
    return (
        "## FedSC, Theorem 2.3\n\n"
        "Over T = S (1 + Q) changes, the mean of ‖C_s - C_(s-1)‖², weighted over clients, and "
        "‖Z_t - Z_(t-1)‖² is at most D F(Z_1, C_0) / T + 16 ζ² ψ D / (P L), with "
        "D = 2 / (γ + λ) + 4 / L: (72) and (74) of Appendix E, L its lower bound, F ≥ 0.\n\n"
        + markdown_table(header, rows)
        + "\n\n"
        "Samples are dealt evenly; kernel width, number of atoms and first dictionary are a "
        "federation's, λ = 10⁻³, and C_0 = 0 (a random one makes F larger). Steps on Z are the "
        "paper's gradient steps, Eq. (16), of length 1 / L: L is the same for all clients, as the "
        "proof has it, and follows from C (no second derivative of the kernel exceeds 1 / r²), an "
        "upper bound for every Z. *Our steps* are the package's, in closed form, of which the "
        "theorem does not speak; the last dictionary of theirs differs from a federation's by at "
        f"most {apart:.0e}.\n\n"
        f"- The bound holds where it exists. {100 * min(jumps):.0f} to {100 * max(jumps):.0f} % of "
        "what it bounds is the first change of C, from 0.\n"
        "- Its first term falls with T; the second does not, and grows as L falls during a run. "
        "With one step a round (Q = 1) and even clients Algorithm 1 is gradient descent on F, "
        "whose changes vanish, whatever ζ is.\n"
        f"- Our steps move further: their value is above the bound of the paper's in {beyond} of "
        f"{len(bound)} rows that have one.\n"
        "- For Q ≥ 2 the proof needs P > 4 (Q - 1)² (1 + (L̄ / L)²), at least 8 (Q - 1)²: ψ is "
        "negative otherwise, and there is no bound.\n"
        "- The second term has 1 / P because the proof bounds the mean of P terms, squared, by the "
        "sum of their squares over P². That is P times too little in general: with all weight on "
        "one client, and gradients of the others alike, it fails for P > 8. With even clients and "
        "Q = 1 the difference that it bounds is 0.\n"
    )


def _fk_1(records: Sequence[Record]) -> str:
    rows = [
        [r["data"], r["rate"], str(r["T"]), figure(r["value"]),
         figure(r["bound"]) if r["rate"] == "2/t" else "–",
         figure(r["mean"]) if r["rate"] == "1/t" else "–",
         figure(r["start"]), figure(r["C2"]), figure(r["threshold"] * r["gamma"]), figure(r["G"]),
         figure(r["H"])]
        for r in of_kind(records, "fk 1")
    ]  # fmt: skip
    header = [
        "data",
        "η",
        "T",
        "value",
        "bound",
        "bound of the mean",
        "value of Z = 0",
        "C²",
        "λ γ",
        "G",
        "H",
    ]
    apart = max(r["apart"] for r in of_kind(records, "fk run"))
    says: dict[str, int] = {}
    for r in of_kind(records, "fk 1", rate="2/t"):
        if r["bound"] < r["start"]:
            says.setdefault(r["data"], r["T"])
    first = listed([f"{T} ({name})" for name, T in says.items()])
    sizes = {r["data"]: (r["n"], r["D"]) for r in of_kind(records, "fk 1")}
    told = " and ".join(f"{n:,} samples of {name}, D = {D}" for name, (n, D) in sizes.items())
    return (
        "## Federated kernel k-means, Theorem 1\n\n"
        "‖Z_(T+1) - Z∗‖² is at most 4 / T (C² + λ γ + 2 G² τ + 2/3 G H τ + G H) with probability "
        "1 - δ, τ = log(⌈2 log₂ T⌉ / δ), δ = 0.01: (14) of Appendix C. The text of Section 5.1 has "
        "no square; the proof has it.\n\n"
        + markdown_table(header, rows, left=2)
        + f"\n\n{told}. Z∗ is the kernel matrix, decomposed whole, with eigenvalues lowered by λ, "
        "the (k + 2)-th of the first random features. Random features are those that a federation "
        "draws; its eigenvalues in the last iteration of a fit with η = 1/t differ from those here "
        f"by at most {apart:.0e} of the largest.\n\n"
        f"- The bound holds. It is below what Z = 0 has from T = {first} on. C is that of the "
        "first iteration, as Z_1 = 0, and the theorem never forgets it.\n"
        "- η = 2/t makes 1 - η negative for t = 1, which is harmless as Z_1 = 0, and 0 for t = 2, "
        "which forgets the first iteration; H is the larger for it.\n"
        "- Algorithm 1, and the package, have η = 1/t, of which the theorem does not speak. By "
        "(13), Z_t keeps a share 1 - 2 η of its error: with 2/t half of 2 η pays for the weights "
        "t (t - 1), and Lemma 3 needs the other half against the random part of the gradients; "
        "with 1/t nothing is left for it. What remains of the proof is a bound of the mean over "
        "random features, (C² + 2 λ γ) / T, and it is smaller.\n"
    )


def _fk_3(records: Sequence[Record]) -> str:
    found = of_kind(records, "fk 3")
    rows = [
        [r["data"], str(r["T"]), str(r["k"]), str(r["s"]), f"{r['value']:.4f}",
         f"{r['bound']:.2f} γ (1 + ε)", f"{r['random']:.4f}", f"{r['one']:.4f}"]
        for r in found
    ]  # fmt: skip
    header = ["data", "T", "k", "s", "value", "bound", "random labels", "one cluster"]
    return (
        "## Federated kernel k-means, Theorem 3\n\n"
        "f_K of a federation's labels over the least f_K is at most γ (1 + ε + k / s), where ε is "
        "O(√(s / T)) and γ the factor by which k-means on the rows of H misses its best.\n\n"
        + markdown_table(header, rows)
        + "\n\nThe least f_K is that of the best of 100 starts of exact kernel k-means, or of a "
        "federation where that is lower: an upper bound, so that values may be a little larger.\n\n"
        "The bound has no number: neither ε's constant is given, nor what γ is of Lloyd's "
        "iterations, of which only starts by k-means++ have one, 8 (log k + 2) in the mean. "
        "With the least that they can be, γ = 1 and ε = 0, it is 1 + k / s, 2 with the paper's s: "
        "random labels, and all samples in one cluster, have that too. It says something for s far "
        "above k only, where the paper has s ≈ k.\n"
    )


def _kcagc(records: Sequence[Record]) -> str:
    found = of_kind(records, "kcagc")
    rows = []
    for r in found:
        local = [figure(r.get("local least")), figure(r.get("local median"))]
        bad = f"{100 * r['local bad']:.1f} %" if "local bad" in r else "–"
        share = f"{100 * r['restricted']:.1f} %" if "restricted" in r else "–"
        rows.append(
            [r["graph"], r["rows"], r["of"], figure(r["least"]), figure(r["median"]),
             f"{100 * r['good']:.1f} %", *local, bad, share]
        )  # fmt: skip
    header = ["graph", "rows", "target clusters", "c, least", "c, median", "1-good",
              "local c, least", "local c, median", "local 1-bad, most", "(12) holds"]  # fmt: skip
    best = max(r["least"] for r in found)
    met = sum(r.get("restricted", 0.0) > 0 for r in found)
    return (
        "## kCAGC, Theorem 1\n\n"
        "If every two clusters' centres are apart by c (Δ_p + Δ_q), c > 100, locally (10) and over "
        "all (14), and all nodes have the restricted proximity condition, (11) or (12), then no "
        "more than (L ε + O(1) L c⁻⁴) n of n nodes are misclassified, ε being the share of nodes "
        "that are local 1-bad.\n\n"
        + markdown_table(header, rows, left=3)
        + "\n\nThese are properties of data: no run is needed. *Rows* are what k-means runs on: "
        "left singular vectors of filtered columns (AGC), GCC's features, or those of participants "
        "with as many columns each, in the default basis and in the paper's, U. Target clusters "
        "are the classes, or the best that k-means finds in these rows; local ones are those of "
        "k-means at each participant, k̂ = k. c is the largest for which a pair of clusters is "
        "apart enough.\n\n"
        "**The theorem says nothing on these graphs.** c is that of the worst pair, "
        f"{best:.2f} in the best row, where c⁻⁴ is {best**-4:.1f}: more nodes than there are. "
        "A pair with c < 1 / √k (0.38 for Cora, 0.58 for Pubmed) has no 1-good node at all, as its "
        "centres are nearer to each other than the margin that (15) asks of a node; so ε is 1 "
        "where every cluster is in such a pair. The restricted condition holds for some node in "
        f"{met} of {sum('restricted' in r for r in found)} rows of the table.\n"
    )


def _esfmc(records: Sequence[Record]) -> str:
    rows = []
    for r in of_kind(records, "esfmc"):
        sizes = sorted(set(r["weights"]))
        weights = f"{sizes[0]:,}" + (f" to {sizes[-1]:,}" if len(sizes) > 1 else "")
        rows.append(
            [r["data"], r["recipe"], str(r["M"]), str(r["N"]), weights, figure(r["value"]),
             figure(r["C"]), figure(r["by bits"]), figure(r["by noise"])]
        )  # fmt: skip
    header = ["data", "recipe", "M", "N_m", "weights", "value", "C", "bound, by bits",
              "bound, by noise"]  # fmt: skip
    return (
        "## ESFMC, Theorem 4.1\n\n"
        "The mean loss of new samples exceeds that of those trained on by at most "
        "C / M Σ √(I(w; X) / 2 N_m), C the largest loss of a sample, I(w; X) the mutual "
        "information of weights and samples.\n\n"
        + markdown_table(header, rows, left=2)
        + "\n\nEach client's networks are trained as in a fit, on half of the samples and with the "
        "labels that a federation found for all; the value is the loss of the other half (terms of "
        "Eq. 4 that are means over samples: reconstruction and cross-entropy) less that of the "
        "first. The networks' loss has no bound; C is the largest that was seen.\n\n"
        "I(w; X) is unknown. It is at most 32 log 2 for each weight, the bits of a float32; and, "
        "as every step adds the noise of Eq. (7), at most the sum over steps of "
        "p / 2 log(‖w' - w‖² / (p · 2 η α)) for p weights, the mean of ‖w' - w‖² being taken from "
        "the one run.\n\n"
        "**The bound is vacuous with either**: above C, which needs no theorem, as soon as I(w; X) "
        "is above 2 N_m, two nats for each sample; networks of thousands of weights on hundreds of "
        "samples need not tell as much, but neither of these two says that they do not.\n"
    )


def render(records: Sequence[Record]) -> str:
    """Return the page; a theorem without records has no part."""
    parts = {"fedsc": _fedsc, "fk 1": _fk_1, "fk 3": _fk_3, "kcagc": _kcagc, "esfmc": _esfmc}
    kinds = {r["kind"] for r in records}
    own = [part(records) for kind, part in parts.items() if kind in kinds]
    return "\n".join([HEADER, _summary(records) + "\n" if own else "", *own])
