"""The page docs/results/omnifc.md: the OmniFC paper's numbers beside those of `reproduce.py`."""

from collections.abc import Iterator, Sequence

from pipelines.papers.journal import Record
from pipelines.papers.omnifc.values import BASELINES, CENTRAL, OMNIFC, ROWS, P
from pipelines.papers.results import difference, largest_gap, markdown_table, number, span

__all__ = ["EXACT", "Fits", "render"]

PAPER_NAMES = {"iris": "Iris", "iris-unit": "Iris", "coil20": "COIL-20", "mnist-1000": "MNIST"}
SHOWN = (*ROWS[:1], "SC, Gaussian", *ROWS[1:])
METHODS = ("k-FED", "k-FED, √k", "MUFC", "FFCM", "FFCM, 1.1", "FedMAvg")
EXACT = ("SC", "SC, Gaussian", "DBSCAN", "HC", "KMed")  # these must equal their twins
METRICS = (("kappa", "Kappa", "1 and 2"), ("nmi", "NMI", "5 and 6"))

INTRO = """\
# OmniFC

Written by `python -m pipelines.papers.omnifc.reproduce --data FOLDER`. Every number is from a run
through a real federation on one machine: a worker process a client and one for the server, shares
and answers as messages. Seed 0 throughout, one run a cell. The paper: J. Yan, X. Liu, Z.-Y. Zhang,
*OmniFC: Rethinking Federated Clustering via Lossless and Secure Distance Reconstruction*, Tables 1,
2, 5, 6, 7 and Fig. 5.

What the paper leaves open, and what was taken here:

- **Data.** iris (150 × 4, 3 clients), digits (1,797 × 64, integers 0 to 16, 10 clients; not in the
  paper), coil20 (1,440 × 1,024, grey levels in [0, 1], 20 clients), mnist-1000 (1,000 of 70,000 ×
  784, subset drawn with seed 0, pixels / 255, 10 clients). The paper names no scaling. Its iris
  values agree with rows scaled to unit length (`iris-unit`), not with raw iris: see their lines.
- **Partitions.** Label skew p as in Section 4.1, seed 0, as many clients as classes.
- **Clusterers.** SC: 10 nearest neighbours, the sample itself among them. `SC, Gaussian`: kernel
  of the median distance's width; the paper does not say which it used, so both stand beside its one
  value. HC: Ward's linkage, cut at the number of classes (the paper names scipy, no linkage). KMed:
  FasterPAM, best of 10. KM, FCM, NMF: on the rows of the matrix of squared distances, their central
  twins on the samples, so that the two differ, as they do in the paper. Other parameters are the
  defaults of `daskfc.clustering`.
- **DBSCAN.** min_samples = 5 (scikit-learn's default); eps is the one of 30 radii with the best
  kappa on the pooled data. That uses the true labels, once, and serves both sides.
- **Other federated methods.** Their defaults; see the top of each file in `daskfc/baselines`. Two
  have a second line beside the same value of the paper, which does not state their parameters:
  k-FED with ⌈√k⌉ local clusters instead of k, and FFCM with fuzziness 1.1 instead of 2.
- **Distances.** Of all pairs, with l = t = 2 from 7 clients on, l = t = 1 with 3, as the default
  was; columns and one segment give the same to the last bit. Tolerance 1e-6 for the tables of
  scores; digits and mnist lie on a grid and have no error at any tolerance.
- **Central** is the pooled algorithm with the same seed and order of samples.
- **FedSC**, with which the paper compares too, is not part of this comparison: no cell here was
  run with it. `FedSC` is a method of daskfc, with [the tables of its own paper](fedsc.md).
"""


class Fits:
    """The scores of the fits, by data set, method and p.

    Parameters
    ----------
    records : sequence of dict
        What the program recorded; other kinds are left aside.
    """

    def __init__(self, records: Sequence[Record]) -> None:
        self._found = {
            (r["dataset"], r["method"], r["p"]): r for r in records if r["kind"] == "fit"
        }
        self.datasets = list(dict.fromkeys(key[0] for key in self._found))

    def over_p(self, dataset: str, method: str) -> list[Record]:
        """Return the records of one method from p = 0 on."""
        return [self._found[key] for p in P if (key := (dataset, method, p)) in self._found]

    def value(self, dataset: str, method: str, p: float, metric: str) -> float | None:
        """Return one score, if it is there."""
        record = self._found.get((dataset, method, p))
        return None if record is None else float(record[metric])

    def first(self, dataset: str, method: str, metric: str) -> float | None:
        """Return the score at the smallest p there is."""
        found = self.over_p(dataset, method)
        return float(found[0][metric]) if found else None

    def pairs(self, dataset: str, one: str, other: str) -> list[tuple[Record, Record]]:
        """Return the records of two methods on the same partitions."""
        others = {r["p"]: r for r in self.over_p(dataset, other)}
        return [(r, others[r["p"]]) for r in self.over_p(dataset, one) if r["p"] in others]


def agreement(fits: Fits, metric: str) -> str:
    """Return the table of all clusterers: paper, here, difference, for both sides."""
    rows = []
    for data in fits.datasets:
        paper = PAPER_NAMES.get(data, "")
        for name in SHOWN:
            key = "SC" if name == "SC, Gaussian" else name
            cells = [data, name]
            for side, values in (("Central", CENTRAL), ("OmniFC", OMNIFC)):
                theirs = values[metric].get(paper, {}).get(key)
                ours = fits.over_p(data, f"{side} {name}")
                first = float(ours[0][metric]) if ours else None
                cells += [number(theirs), span(round(r[metric], 4) for r in ours)]
                cells += [difference(first, theirs)]
            rows.append(cells)
    header = ["data", "method", "central, paper", "here", "diff", "OmniFC, paper", "here", "diff"]
    return markdown_table(header, rows, left=2)


def equality(fits: Fits) -> str:
    """Return the table that compares OmniFC with its pooled twin at every p."""
    rows = []
    for data in fits.datasets:
        for name in SHOWN:
            pairs = fits.pairs(data, f"OmniFC {name}", f"Central {name}")
            at_default = fits.pairs(data, f"OmniFC default {name}", f"Central {name}")
            labels = {r["labels"] for r, _ in pairs}
            if not pairs or name not in EXACT:
                continue
            same = sum(a["labels"] == b["labels"] for a, b in pairs)
            rows.append(
                [
                    data,
                    name,
                    number(largest_gap((a["kappa"], b["kappa"]) for a, b in pairs), 4),
                    number(largest_gap((a["nmi"], b["nmi"]) for a, b in pairs), 4),
                    f"{same} of {len(pairs)}",
                    "yes" if len(labels) == 1 else f"no, {len(labels)}",
                    number(largest_gap((a["kappa"], b["kappa"]) for a, b in at_default), 4)
                    if at_default
                    else "as left",
                ]
            )
    header = ["data", "method", "largest Δκ", "largest ΔNMI", "labels identical, of p",
              "one partition for all p", "Δκ at default tolerance"]  # fmt: skip
    return markdown_table(header, rows, left=2)


def verdict(fits: Fits) -> str:
    """Say in a sentence whether the methods on distances equal their twins everywhere."""
    pairs = [
        pair
        for data in fits.datasets
        for name in EXACT
        for pair in fits.pairs(data, f"OmniFC {name}", f"Central {name}")
    ]
    gap = largest_gap((a[m], b[m]) for a, b in pairs for m in ("kappa", "nmi"))
    same = sum(a["labels"] == b["labels"] for a, b in pairs)
    return (
        f"Over {len(pairs)} pairs of fits (SC, DBSCAN, HC, KMed; every data set and p) the largest "
        f"difference of kappa or NMI\nbetween OmniFC and the pooled clusterer is {gap:g}; the "
        f"labels are identical, sample by sample, in {same} of {len(pairs)}."
    )


def baselines(fits: Fits, data: str) -> str:
    """Return the table of the other federated methods on one data set."""
    paper = PAPER_NAMES.get(data, "")
    rows = []
    for name in METHODS:
        for p in P:
            if fits.value(data, name, p, "kappa") is None:
                continue
            cells = [name, number(p)]
            for metric in ("kappa", "nmi"):
                theirs = BASELINES[metric].get(paper, {}).get(name.split(",")[0], {}).get(p)
                ours = fits.value(data, name, p, metric)
                cells += [number(theirs), number(ours), difference(ours, theirs)]
            rows.append(cells)
    header = ["method", "p", "κ, paper", "here", "diff", "NMI, paper", "here", "diff"]
    return markdown_table(header, rows, left=2)


def ahead(fits: Fits) -> str:
    """Say where FFCM is ahead of all clusterers on exact distances, and why."""
    told = []
    for data in fits.datasets:
        found = [fits.value(data, "FFCM", p, "kappa") for p in P]
        exact = [r["kappa"] for name in SHOWN for r in fits.over_p(data, f"OmniFC {name}")]
        if None in found or not exact:
            continue
        even, *skewed = (float(one) for one in found if one is not None)
        if even < max(exact) < max(skewed):
            told.append(
                f"on {data} κ is {number(min(skewed))} to {number(max(skewed))} for p of "
                f"{number(P[1])} and more, {number(even)} for p = 0, and {number(max(exact))} with "
                "the best clusterer on distances"
            )
    if not told:
        return ""
    return (
        f"FFCM is ahead where clients hold mostly one class: {'; '.join(told)}. Each of its "
        "clients sends centres of its own samples, so that who a client is tells what its samples "
        "are; where clients are alike, that is worth nothing. Exact distances give the clusters of "
        "the pooled samples, whoever holds them, and cannot use it.\n"
    )


def radii(records: Sequence[Record]) -> str:
    """Return the table of DBSCAN's parameters on the pooled data."""
    rows = [
        [r["dataset"], str(r["min_samples"]), f"{r['eps']:.5g}", number(r["kappa"]),
         number(r["nmi"]), str(r["n_found"]), str(r["n_noise"])]
        for r in records if r["kind"] == "eps"
    ]  # fmt: skip
    return markdown_table(["data", "min_samples", "eps", "κ", "NMI", "clusters", "noise"], rows)


def radius_grids(records: Sequence[Record]) -> str:
    """Return the radii that were tried, with their kappa, for min_samples = 5."""
    lines = []
    for r in records:
        if r["kind"] == "eps" and r["min_samples"] == 5:
            tried = ", ".join(f"{eps:.4g}: {kappa:.2f}" for eps, kappa in r["grid"])
            lines.append(f"- {r['dataset']}: {tried}")
    return "\n".join(lines)


def sizes(records: Sequence[Record]) -> str:
    """Return Table 7: the error by number of samples."""
    by_n: dict[int, dict[str, Record]] = {}
    for r in records:
        if r["kind"] == "size":
            by_n.setdefault(r["n"], {})[r["data"]] = r
    rows = []
    for n, found in sorted(by_n.items()):
        cells = [f"{n:,}", "0.0002"]
        for data in ("pixels", "z-scored"):
            one = found.get(data)
            cells += [_scientific(one[key]) if one else "–" for key in ("rmse", "relative")]
        every = all(one["zero_diagonal"] for one in found.values())
        rows.append([*cells, "yes" if every else "no"])
    header = ["n", "paper", "pixels", "of the scale", "z-scored", "of the scale", "diagonal 0"]
    return markdown_table(header, rows)


def _scientific(value: float) -> str:
    return "0" if value == 0 else f"{value:.1e}"


def codes(records: Sequence[Record]) -> str:
    """Return Fig. 5 as a table: the error by clients, segments and colluding clients."""
    found: dict[tuple[int, int], dict[int, list[Record]]] = {}
    for r in records:
        if r["kind"] == "code" and r["n_spares"] == 0:
            by_m = found.setdefault((r["n_segments"], r["n_colluding"]), {})
            by_m.setdefault(r["m"], []).append(r)
    clients = sorted({m for by_m in found.values() for m in by_m})
    rows = []
    for (l, t), by_m in sorted(found.items()):  # noqa: E741
        cells = [str(l), str(t), str(2 * l + 2 * t - 1)]
        for m in clients:
            ours = by_m.get(m, [])
            if any("refused" in r for r in ours):
                cells.append("refused")
            else:
                cells.append(" / ".join(_scientific(r["relative"]) for r in ours) or "–")
        rows.append(cells)
    return markdown_table(["l", "t", "needs m", *(f"m = {m}" for m in clients)], rows, left=3)


def bits(records: Sequence[Record]) -> str:
    """Return the table of SHA-256 prefixes of D over partitions, codes, spares and engines."""
    rows = []
    stored = [r for r in records if r["kind"] == "bits"]
    for data, method in dict.fromkeys((r["dataset"], r["method"]) for r in stored):
        mine = [r for r in stored if (r["dataset"], r["method"]) == (data, method)]
        levels = ", ".join(number(r["p"]) for r in mine)
        tolerance = "1e-4" if "default" in method else "1e-6"
        rows.append([data, tolerance, f"p = {levels}", str(len(mine)), _hashes(mine), _worst(mine)])
    coded = [r for r in records if r["kind"] == "code" and "sha" in r]
    for data in dict.fromkeys(r["data"] for r in coded):
        for what, some in _groups([r for r in coded if r["data"] == data]):
            name = f"mnist-1000, {data}"
            rows.append([name, "1e-4", what, str(len(some)), _hashes(some), _worst(some)])
    header = ["data", "tolerance", "varied", "runs", "SHA-256 of D", "largest error"]
    return markdown_table(header, rows, left=3)


def _groups(records: Sequence[Record]) -> Iterator[tuple[str, list[Record]]]:
    plain = [r for r in records if r["n_spares"] == 0]
    clients = ", ".join(str(m) for m in dict.fromkeys(r["m"] for r in plain))
    yield f"m = {clients}; l, t = 1 to 4", plain
    spared = [r for r in records if r["n_spares"] and "engine" not in r and "without" not in r]
    yield f"spares = {', '.join(str(r['n_spares']) for r in spared)}", spared
    some = [r for r in records if "without" in r]
    left = ["+".join(str(j + 1) for j in r["without"]) for r in some]
    yield f"evaluators left out: {', '.join(left)} of 10", some
    engines = [r for r in records if "engine" in r]
    yield f"engine = {', '.join(r['engine'] for r in engines)}", engines


def _hashes(records: Sequence[Record]) -> str:
    return ", ".join(f"`{sha[:12]}`" for sha in dict.fromkeys(r["sha"] for r in records)) or "–"


def _worst(records: Sequence[Record]) -> str:
    return _scientific(max((r["relative"] for r in records), default=0.0))


def render(records: Sequence[Record]) -> str:
    """Return the page from all that was recorded.

    Parameters
    ----------
    records : sequence of dict
        Fits, choices of eps, errors and hashes; kinds that are missing are left out.
    """
    fits = Fits(records)
    kinds = {record["kind"] for record in records}
    parts = [INTRO]
    if fits.datasets:
        for metric, title, tables in METRICS:
            parts.append(f"## {title} of the clusterers (Tables {tables})\n")
            parts.append(
                "OmniFC's value is one number where it is the same at every p, else a range; "
                "`diff` is here minus paper.\n"
            )
            parts.append(agreement(fits, metric) + "\n")
        parts.append("## The same labels as the pooled clusterer, at every p\n")
        parts.append(verdict(fits) + "\n")
        parts.append(equality(fits) + "\n")
        parts.append(
            "The last column is for the default tolerance of 1e-4, at p = 0, where the data are on "
            "no grid: an error of 1e-4 of\nthe scale can turn over a tie between two neighbours.\n"
        )
        parts.append("## Other federated methods (Tables 1 and 5)\n")
        parts += filter(None, [ahead(fits)])
        for data in fits.datasets:
            parts.append(f"### {data}\n\n{baselines(fits, data)}\n")
    if "eps" in kinds:
        parts.append("## DBSCAN's radius, on pooled data\n")
        parts.append(radii(records) + "\n")
        parts.append(
            "The tables above are with min_samples = 5. Radii tried with it, and their kappa:\n\n"
            f"{radius_grids(records)}\n"
        )
    if "size" in kinds:
        parts.append("## Error of the distances by number of samples (Table 7)\n")
        parts.append(
            "RMSE of squared distances over all n² entries, label skew 0.75, 10 clients, default "
            "tolerance (1e-4); `of the scale`\nis relative to the mean squared distance. The paper "
            "does not state its scaling.\n"
        )
        parts.append(sizes(records) + "\n")
    if "code" in kinds:
        parts.append("## Error by clients, segments and colluding clients (Fig. 5)\n")
        parts.append(
            "mnist-1000, pixels / z-scored, relative to the scale; `refused` where "
            "m < 2l + 2t - 1, before anything runs.\n"
        )
        parts.append(codes(records) + "\n")
    if {"bits", "code"} & kinds:
        parts.append("## The same bits\n")
        parts.append(
            "SHA-256 (first 12 digits) of D as float64, row by row; one hash means that all "
            "runs of the line gave\nidentical bits. The error is relative to the mean squared "
            "distance. D is read from the server's folder, for evaluation\non this machine only.\n"
        )
        parts.append(bits(records) + "\n")
    return "\n".join(parts)
