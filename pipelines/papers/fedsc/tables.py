"""The page docs/results/fedsc.md: the FedSC paper's numbers beside those of `reproduce.py`."""

from collections.abc import Iterator, Sequence
from statistics import fmean

from pipelines.papers.fedsc.cells import DATASETS
from pipelines.papers.fedsc.studies import attack, bounds, figure, reconstruction, rounds, seconds
from pipelines.papers.fedsc.text import DIGITS, MEANS, NOISE_FIGURE, SETTINGS
from pipelines.papers.fedsc.values import (
    ACCURACY,
    ATOMS,
    CLIENTS,
    FACTORS,
    METHODS,
    NMI,
    NOISE,
    SVD_ATOMS,
)
from pipelines.papers.journal import Record
from pipelines.papers.means import Value, listed, of_kind, reached, spread
from pipelines.papers.results import figure_link, markdown_table, number

__all__ = ["render"]

INTRO = """\
# FedSC

Written by `python -m pipelines.papers.fedsc.reproduce --data FOLDER`. Every FedSC and DSC number is
from a run through a real federation on one machine: eight worker processes for the clients and one
for the server, masked sums as messages; k-means and spectral clustering (SC) see the pooled samples
in one process. The paper: D. Qiao et al., *Federated Spectral Clustering via Secure Similarity
Reconstruction*, NeurIPS 2023. Mean ± standard deviation over the seeds; `diff` is here minus paper.

- **Settings.** *defaults*: `FedSC(n_clusters)`. *published*: 20 rounds, uniform weights, a start
  that knows nothing of the data, coefficients of the dictionary before the last one, the number of
  atoms from the pooled clean kernel (0.99 of its eigenvalues) and the width from the pooled
  distances, as the authors' code has them. The last two are what no client knows; the defaults
  find them federated.
- **Noise** of β is N(0, (β σ)²) on every entry, σ the deviation of all entries, added before
  anybody has the data, so that all methods see the same samples. It is drawn from the seed.
- **Starts.** 50 of every k-means, of DSC 5. The paper does not tell the starts of its k-means on
  the samples.
- **DSC** is our `daskfc.baselines.DSC`, whose Departures say where it leaves the comparison that
  the paper's code runs: which vectors belong to a repeated eigenvalue, and V in place of |V| for
  the centres. Both raise its accuracy on iris.
- **NMI.** The paper's code leaves class 0 of iris and banknote out, so that its columns are no NMI.
  There *here* is computed in the same way, and the true NMI stands in a column of its own.
- **Data.** coil20 in the paper's 20 × 20 pixels; circles by Eq. 37, in Fig. 3 the published ones;
  mnist is a subset of 1,000 images, the paper does not tell its own. USPS, ORL and CIFAR10 are not
  at hand. Samples are dealt at random to eight clients, equally; *unequal*: at random cuts.
"""

_SPLITS = ("equal", "unequal")
_NOISE_CAPTION = (
    "Accuracy over the noise, for each data set: FedSC here and in its paper, and SC, k-means and "
    "DSC here; bands and bars are deviations over the seeds"
)


def _variants(records: Sequence[Record]) -> Iterator[tuple[str, str, list[Record]]]:
    """Yield the paper's name, ours and the records of every row of a data set and noise."""
    for method in METHODS[:3]:
        yield method, method, [r for r in records if r["method"] == method]
    for setting in SETTINGS:
        for split in _SPLITS:
            found = [r for r in records if r.get("setting") == setting and r["split"] == split]
            name = f"FedSC, {setting}" + (", unequal" if split == "unequal" else "")
            yield "FedSC", name, found


def tables(records: Sequence[Record]) -> Iterator[str]:
    """Tables 1, 3 and 8."""
    cells = of_kind(records, "cell")
    if cells:
        yield figure_link(NOISE_FIGURE, _NOISE_CAPTION)
    for data in dict.fromkeys(r["data"] for r in cells):
        own = [r for r in cells if r["data"] == data]
        yield f"## {data} ({'Table 8' if data == 'mnist' else 'Tables 1 and 3'})\n"
        yield _table(data, own)
        yield from _remarks(data, own)


def _table(data: str, own: Sequence[Record]) -> str:
    skips = DATASETS[data].skips_class
    head = ["β", "method", "ACC, paper", "here", "diff", "NMI, paper", "here", "diff"]
    rows = []
    for noise in NOISE:
        for paper, name, found in _variants([r for r in own if r["noise"] == noise]):
            if not found:
                continue
            acc, score = ACCURACY.get((data, noise, paper)), NMI.get((data, noise, paper))
            here = MEANS.of(found, "published_nmi" if skips else "nmi")
            row = [f"{noise:g}", name, *MEANS.compared(acc, MEANS.of(found))]
            row += MEANS.compared(score, here)
            rows.append([*row, MEANS.text(MEANS.of(found, "nmi"))] if skips else row)
    return markdown_table([*head, "true NMI"] if skips else head, rows, left=2) + "\n"


def _remarks(data: str, own: Sequence[Record]) -> Iterator[str]:
    noises = [noise for noise in NOISE if any(r["noise"] == noise for r in own)]
    groups = {
        noise: {
            name: found for _, name, found in _variants([r for r in own if r["noise"] == noise])
        }
        for noise in noises
    }
    for name in list(dict.fromkeys(n for group in groups.values() for n in group)):
        if not name.startswith("FedSC"):
            continue
        pairs = {
            f"β = {noise:g}": (MEANS.of(group[name]), ACCURACY.get((data, noise, "FedSC")))
            for noise, group in groups.items()
        }
        yield from _tally(name, {k: (a, b) for k, (a, b) in pairs.items() if a and b})
    apart = [
        (MEANS.of(group["FedSC, defaults"]), MEANS.of(group["SC"]), noise)
        for noise, group in groups.items()
    ]
    known = [(mine[0] - sc[0], noise) for mine, sc, noise in apart if mine and sc]
    if known:
        most, at = max(known, key=lambda one: abs(one[0]))
        yield (
            "With our defaults the accuracy differs most from that of SC on the same samples at "
            f"β = {at:g}, by {most:+.{DIGITS}f}.\n"
        )
    yield from _unequal(groups)
    yield from _loose(data, own)


def _tally(name: str, pairs: dict[str, tuple[Value, Value]]) -> Iterator[str]:
    """Say in how many cells the paper's accuracy is reached."""
    if pairs:
        missed = [key for key, (here, paper) in pairs.items() if not reached(here, paper, 4)]
        yield (
            f"{name}: within the paper's ± or above it in {len(pairs) - len(missed)} of "
            f"{len(pairs)} accuracies{f'; not at {listed(missed)}' if missed else ''}.\n"
        )


def _unequal(groups: dict[float, dict[str, list[Record]]]) -> Iterator[str]:
    costs = {
        setting: [
            (equal[0] - other[0], noise)
            for noise, group in groups.items()
            if (equal := MEANS.of(group[f"FedSC, {setting}"]))
            and (other := MEANS.of(group[f"FedSC, {setting}, unequal"]))
        ]
        for setting in SETTINGS
    }
    if all(costs.values()):
        told = [
            f"{setting} {' and '.join(f'{cost:+.{DIGITS}f} at β = {n:g}' for cost, n in ends)}"
            for setting, found in costs.items()
            for ends in [[found[0], found[-1]] if len(found) > 1 else found]
        ]
        yield (
            "The paper does not tell how large its clients were; its code cuts at random places "
            f"or equally. Equal minus unequal clients: {'; '.join(told)}.\n"
        )


def _loose(data: str, own: Sequence[Record]) -> Iterator[str]:
    """Say where the results of single seeds are far apart, and where SC is not determined."""
    found = [
        r["acc"]
        for r in own
        if r["noise"] == 0 and r["method"] == "FedSC" and r["split"] == "equal"
    ]
    if found and max(found) - min(found) > 0.2:
        yield (
            f"Without noise single seeds of FedSC reach from {number(min(found), DIGITS)} to "
            f"{number(max(found), DIGITS)}: a difference of means says little here.\n"
        )
    counts = [r["components"] for r in own if r["method"] == "SC" and r["noise"] == 0]
    k = DATASETS[data].n_clusters
    if counts and max(counts) > k:
        yield (
            f"Without noise the graph of SC has {max(counts)} components, more than the {k} "
            "clusters: the leading eigenvectors are not determined, and other software finds "
            "others.\n"
        )


def atoms(records: Sequence[Record]) -> Iterator[str]:
    """Table 4."""
    found = of_kind(records, "atoms")
    if not found:
        return
    rows, means = [], {setting: [] for setting in SETTINGS}
    for d, trials in ATOMS.items():
        here = [MEANS.of(of_kind(found, "atoms", setting=s, atoms=d)) for s in SETTINGS]
        name = f"{d} (SVD)" if d == SVD_ATOMS else str(d)
        rows.append([name, *MEANS.compared(spread(trials), *here)])
        for setting, value in zip(SETTINGS, here, strict=True):
            means[setting] += [value[0]] if value else []
    head = ["d", "paper", *(text for s in SETTINGS for text in (s, "diff"))]
    yield "## Number of atoms on coil20 (Table 4)\n"
    yield markdown_table(head, rows) + "\n"
    paper = [fmean(trials) for trials in ATOMS.values()]
    own = {r["svd"] for r in found if r["svd"]}
    yield (
        "Accuracy, unequal clients as in Table 1. Means over d reach "
        + "; ".join(
            f"from {min(values):.{DIGITS}f} to {max(values):.{DIGITS}f} ({who})"
            for who, values in {"paper": paper, **means}.items()
            if values
        )
        + f". The pooled kernel's 0.99 gives d = {listed(sorted(map(str, own))) or '–'} here, "
        f"{SVD_ATOMS} in the paper.\n"
    )


def factors(records: Sequence[Record]) -> Iterator[str]:
    """Table 5."""
    found = of_kind(records, "factors")
    if not found:
        return
    here = {
        (s, z, c): MEANS.of(of_kind(found, "factors", setting=s, z=z, c=c))
        for s in SETTINGS
        for z, c in FACTORS
    }
    rows = [
        [f"{z:g}", f"{c:g}", *MEANS.compared(paper, *(here[s, z, c] for s in SETTINGS))]
        for (z, c), paper in FACTORS.items()
    ]
    head = ["α_z", "α_c", "paper", *(text for s in SETTINGS for text in (s, "diff"))]
    yield "## Noise on the factors, coil20 (Table 5)\n"
    yield markdown_table(head, rows, left=2) + "\n"
    told = []
    tables = {
        "paper": FACTORS,
        **{s: {(z, c): here[s, z, c] for z, c in FACTORS} for s in SETTINGS},
    }
    for who, table in tables.items():
        none, coefficients, both = (table[key] for key in ((0.0, 0.0), (0.0, 0.15), (0.15, 0.15)))
        if none and coefficients and both:
            told.append(
                f"{coefficients[0] - none[0]:+.{DIGITS}f}, and with α_z = 0.15 "
                f"{both[0] - coefficients[0]:+.{DIGITS}f} on top ({who})"
            )
    yield (
        "Accuracy, equal clients; the noise is the shares α_z and α_c of the factors' own "
        "deviations, from the operating system, and carries no (ε, δ). α_c = 0.15 alone changes "
        f"it by {'; '.join(told)}.\n"
    )


def clients(records: Sequence[Record]) -> Iterator[str]:
    """Table 7."""
    found = of_kind(records, "single")
    eight = [
        r
        for r in of_kind(records, "cell", noise=0.0, split="equal")
        if r["method"] == "FedSC" and any(r["data"] == data for data, _ in CLIENTS)
    ]
    if not found:
        return
    rows = []
    for (data, count), paper in CLIENTS.items():
        own = [r for r in (found if count == 1 else eight) if r["data"] == data]
        here = [MEANS.of([r for r in own if r["setting"] == setting]) for setting in SETTINGS]
        rows.append([data, str(count), *MEANS.compared(paper, *here)])
    head = ["data", "P", "paper", *(text for s in SETTINGS for text in (s, "diff"))]
    yield "## One client against eight (Table 7)\n"
    yield markdown_table(head, rows, left=2) + "\n"
    yield "Accuracy; equal clients, those of the tables above; a single client averages alone.\n"


def render(records: Sequence[Record]) -> str:
    """Return the page of all that was found so far."""
    own = (tables, atoms, factors, attack, clients)
    parts = (*own, figure, rounds, bounds, reconstruction, seconds)
    return "\n".join([INTRO, *(text for part in parts for text in part(records))])
