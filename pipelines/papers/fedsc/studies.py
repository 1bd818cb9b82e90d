"""The rest of FedSC's page: attacks, Fig. 3, errors of the similarity, bounds, run times."""

from collections.abc import Iterator, Sequence
from statistics import fmean

from pipelines.papers.fedsc.text import DIGITS, MEANS, ROUNDS_FIGURE, SETTINGS
from pipelines.papers.fedsc.values import ATTACK
from pipelines.papers.journal import Record
from pipelines.papers.means import listed, of_kind
from pipelines.papers.results import figure_link, markdown_table, number

__all__ = ["attack", "bounds", "figure", "reconstruction", "rounds", "seconds"]


def attack(records: Sequence[Record]) -> Iterator[str]:
    """Table 6."""
    found = of_kind(records, "attack")
    if not found:
        return
    rows, above, below = [], [], []
    for data in dict.fromkeys(r["data"] for r in found):
        samples = MEANS.of(of_kind(records, "cell", data=data, noise=0.0, method="k-means"))
        for setting in SETTINGS:
            own = [r for r in found if r["data"] == data and r["setting"] == setting]
            if not own:
                continue
            paper = ATTACK.get(data, (None, None))
            model, attacked = MEANS.of(own), MEANS.of(own, "attack")
            row = [data, setting, *MEANS.compared(paper[0], model)]
            rows.append([*row, *MEANS.compared(paper[1], attacked), MEANS.text(samples)])
            if samples and attacked:
                (above if attacked[0] > samples[0] else below).append(f"{data} ({setting})")
    head = ["data", "setting", "FedSC, paper", "here", "diff", "attack, paper", "here", "diff"]
    yield "## k-means on the coefficients that the server has (Table 6)\n"
    yield markdown_table([*head, "k-means on samples"], rows, left=2) + "\n"
    told = [
        f"{word} k-means on the samples for {listed(names)}"
        for word, names in (("above", above), ("below", below))
        if names
    ]
    yield "Accuracy. The paper has iris only." + (
        f" The attack's mean is {', and '.join(told)}; the paper holds that it is below.\n"
        if told
        else "\n"
    )


def figure(records: Sequence[Record]) -> Iterator[str]:
    """Fig. 3."""
    found = of_kind(records, "figure")
    if not found:
        return
    one, tables = "published for this figure", "published for the tables"
    names = ("SC", f"{one}, its graph", one, tables, "defaults")
    rows, means = [], {}
    for name in names:
        own = [r for r in found if r.get("setting", r["method"]) == name]
        row = [name if name == "SC" else f"FedSC, {name}"]
        row.append(listed(sorted({str(r["atoms"]) for r in own if "atoms" in r})) or "–")
        for noisy in (False, True):
            means[name, noisy] = MEANS.of([r for r in own if r["noisy"] == noisy])
            row.append(MEANS.text(means[name, noisy]))
        rows.append(row)
    yield "## The published circles, clean and noisy (Fig. 3)\n"
    yield markdown_table(["method", "d", "clean", "noisy"], rows, left=2) + "\n"
    noisy = [means[name, True] for name in names[:4]]
    atoms = {r["atoms"] for r in found if r.get("setting") == one}
    if all(noisy) and atoms == {1}:
        sc, artefact, own, more = (f"{value[0]:.{DIGITS}f}" for value in noisy if value)
        yield (
            "Accuracy; the paper draws the figure without numbers. The published code takes 0.1 of "
            "the eigenvalues and λ = 1e-4 for this figure alone, which is d = 1: a similarity is "
            "then a product of two functions of the distance from one point, by which the circles "
            "differ. It also keeps the k largest similarities of a row whether the sample itself "
            f"is among them or not (*its graph*). With noise this gives {artefact}; the same "
            f"similarities in FedSC's graph, where a sample is its own neighbour, give {own}, the "
            f"documented 0.99 of the eigenvalues gives {more}, and SC {sc}.\n"
        )


def rounds(records: Sequence[Record]) -> Iterator[str]:
    """Show the error of the similarity over rounds."""
    found = of_kind(records, "rounds")
    if not found:
        return
    counts = sorted({r["rounds"] for r in found})
    rows, told = [], []
    for data in dict.fromkeys(r["data"] for r in found):
        for setting in SETTINGS:
            own = [r for r in found if r["data"] == data and r["setting"] == setting]
            if not own:
                continue
            atoms = listed(sorted({str(r["atoms"]) for r in own}))
            for key in ("relative", "largest", "acc"):
                means = [
                    MEANS.of([r for r in own if r["rounds"] == count], key) for count in counts
                ]
                texts = [number(value and value[0], 4) for value in means]
                rows.append([data, setting, atoms, {"acc": "ACC"}.get(key, key), *texts])
                if key == "relative" and (first := means[0]):
                    best = min((v[0], count) for v, count in zip(means, counts, strict=True) if v)
                    told.append(
                        f"{data}, {setting}: {first[0]:.4f} at S = {counts[0]}, least "
                        f"{best[0]:.4f} at S = {best[1]}"
                    )
    head = ["data", "setting", "d", "S =", *map(str, counts)]
    yield "## Error of the similarity over rounds\n"
    yield figure_link(ROUNDS_FIGURE, "Relative error of the similarities over the rounds")
    yield markdown_table(head, rows, left=4) + "\n"
    yield (
        "Of CᵀK(Z, Z)C, as the server has it, against the kernel of the samples: *relative* in "
        "Frobenius norms, *largest* of an entry; means over the seeds. Relative error: "
        f"{'; '.join(told)}.\n"
    )


def bounds(records: Sequence[Record]) -> Iterator[str]:
    """Show Theorems 3.1 and 3.8."""
    found = of_kind(records, "bounds")
    if not found:
        return
    keys = list(dict.fromkeys((r["data"], r["theorem"], r["noise"]) for r in found))
    rows = []
    for data, theorem, noise in sorted(keys):
        own = of_kind(found, "bounds", data=data, theorem=theorem, noise=noise)
        error, bound = (fmean(r[key] for r in own) for key in ("error", "bound"))
        row = [data, theorem, f"{noise:g}", number(error, 4), number(bound, 4)]
        rows.append([*row, number(bound / error, 1)])
    held = sum(r["error"] <= r["bound"] for r in found)
    telling = sum(r["bound"] < 1 for r in found)
    yield "## The bounds of Theorems 3.1 and 3.8\n"
    head = ["data", "theorem", "noise", "largest error", "bound", "ratio"]
    yield markdown_table(head, rows, left=3) + "\n"
    yield (
        "3.1: noise on the samples, in deviations of all entries; 3.8: noise added by this program "
        "to the last Z and C that the server has, in deviations of each, as the theorem has it "
        "(a run perturbs Z before C is computed). Defaults; means over the seeds; each bound may "
        f"fail with probability 0.05. It held in {held} of {len(found)} runs; similarities are at "
        f"most 1, and {telling} of the bounds are below that.\n"
    )


def reconstruction(records: Sequence[Record]) -> Iterator[str]:
    """Show the attack on the samples."""
    found = of_kind(records, "reconstruction")
    if not found:
        return
    rows = []
    for r in found:
        row = [str(r[key]) for key in ("data", "seed", "atoms", "features", "rows")]
        rows.append([*row, f"{r['error']:.1e}", f"{r['projected']:.1e}", f"{r['kept']:.1%}"])
    head = ["data", "seed", "d", "m", "rows", "error", "in the plane", "share of it"]
    yield "## Samples reconstructed from Z and C\n"
    yield markdown_table(head, rows, left=2) + "\n"
    more = [r["error"] for r in found if r["atoms"] > r["features"]]
    fewer = [r["projected"] for r in found if r["atoms"] <= r["features"]]
    told = [
        f"With more atoms than features the largest relative error of a sample is {max(more):.1e}"
        if more
        else "",
        "with fewer, samples are found up to what leaves the plane through the atoms, to "
        f"{max(fewer):.1e} within it"
        if fewer
        else "",
    ]
    text = ", and ".join(t for t in told if t)
    yield (
        "By what the server has, without any noise, defaults. *error*: largest relative error of "
        "a row; *in the plane*: against the row's projection on the plane through the atoms; "
        "*share of it*: of the rows' squared distances from the mean atom, what lies in that "
        f"plane. {text[:1].upper()}{text[1:]}. The paper calls this attack very difficult.\n"
    )


def seconds(records: Sequence[Record]) -> Iterator[str]:
    """Say how long it took."""
    found = of_kind(records, "seconds")
    if found:
        parts = dict.fromkeys(r["of"] for r in found)
        sums = {part: sum(r["seconds"] for r in found if r["of"] == part) for part in parts}
        told = ", ".join(f"{part} {value:.0f}" for part, value in sums.items())
        yield "## Run time\n"
        yield f"{sum(sums.values()):.0f} s in all, with other work on the machine: {told}.\n"
