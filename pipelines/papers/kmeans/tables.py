"""The page of federated k-means, from records."""

from collections.abc import Iterable, Sequence

import numpy as np

from pipelines.papers.journal import Record
from pipelines.papers.results import markdown_table, number

__all__ = ["INTRO", "render"]

INTRO = """\
# Federated k-means

Written by `python -m pipelines.papers.kmeans.reproduce`; do not edit. FederatedKMeans on four
clients that hold random parts of the rows, beside scikit-learn's `KMeans` on all rows, with ten
starts each. Ratios are of inertias, of all rows to their nearest centre; over three seeds, the mean
and the largest. A ratio below 1 is a better optimum than scikit-learn's ten starts found.
"""
ABOUT = {
    "inertia": (
        "Without noise",
        "Goal: at most 1.001. Where there are few samples, too many of them are in parts of fewer "
        "than five, which count with others. *kB*: payload of a client, up and down.",
    ),
    "noise": (
        "With noise, 50,000 samples",
        "δ = 1e-06, a sample replaced; the largest norm is one that most rows do not exceed. Goal "
        "at ε = 1: at most 1.1. Noise is the operating system's, so that another run finds other "
        "numbers. In brackets the largest ratio.",
    ),
    "samples": (
        "With noise, by the number of samples",
        "As above: the noise of a sum is the same for any number of samples.",
    ),
}


def render(records: Sequence[Record]) -> str:
    """Return the parts of the page of which there are records."""
    parts = [INTRO]
    for part, (title, about) in ABOUT.items():
        own = [record for record in records if record["kind"] == part]
        if own:
            parts.append(f"## {title}\n\n{_table(part, own)}\n\n{about}\n")
    return "\n".join(parts)


def _table(part: str, records: Sequence[Record]) -> str:
    cases = dict.fromkeys((one["data"], one["n"], one["d"], one["k"]) for one in records)
    rows = []
    for case in cases:
        own = [one for one in records if (one["data"], one["n"], one["d"], one["k"]) == case]
        head = [case[0], *(f"{value:,}" for value in case[1:])]
        if part == "inertia":
            rounds, size = (np.mean([one[key] for one in own]) for key in ("rounds", "uploaded"))
            rows.append([*head, *_ratios(own, 4), number(rounds, 0), f"{size / 1e3:,.0f}"])
        else:
            levels = dict.fromkeys(one["epsilon"] for one in own)
            cells = [_ratios([one for one in own if one["epsilon"] == e], 3) for e in levels]
            rows.append([*head, *(f"{mean} ({most})" for mean, most in cells)])
    names = ["data", "n", "d", "k"]
    if part == "inertia":
        return markdown_table([*names, "ratio", "largest", "rounds", "kB"], rows)
    told = dict.fromkeys(one["epsilon"] for one in records)
    return markdown_table([*names, *(f"ε = {epsilon:g}" for epsilon in told)], rows)


def _ratios(records: Iterable[Record], digits: int) -> tuple[str, str]:
    found = [record["ratio"] for record in records]
    return number(float(np.mean(found)), digits), number(max(found), digits)
