"""The page of federated k-means, from records."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from pipelines.papers.journal import Record
from pipelines.papers.results import markdown_table, number

__all__ = ["INTRO", "inertia_table", "render"]

HEAD = ("data", "n", "d", "k")

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
            table = inertia_table(own) if part == "inertia" else _by_noise(own)
            parts.append(f"## {title}\n\n{table}\n\n{about}\n")
    return "\n".join(parts)


def inertia_table(records: Sequence[Record]) -> str:
    """Return the table of fits without noise."""
    rows = []
    for head, own in _cases(records):
        rounds, size = (np.mean([one[key] for one in own]) for key in ("rounds", "uploaded"))
        rows.append([*head, *_ratios(own, 4), number(rounds, 0), f"{size / 1e3:,.0f}"])
    return markdown_table([*HEAD, "ratio", "largest", "rounds", "kB"], rows)


def _by_noise(records: Sequence[Record]) -> str:
    levels, rows = dict.fromkeys(one["epsilon"] for one in records), []
    for head, own in _cases(records):
        cells = [_ratios([one for one in own if one["epsilon"] == e], 3) for e in levels]
        rows.append([*head, *(f"{mean} ({most})" for mean, most in cells)])
    return markdown_table([*HEAD, *(f"ε = {epsilon:g}" for epsilon in levels)], rows)


def _cases(records: Sequence[Record]) -> Iterator[tuple[list[str], list[Record]]]:
    """Yield the first cells of each case, and its records."""
    cases = dict.fromkeys(tuple(one[key] for key in HEAD) for one in records)
    for case in cases:
        own = [one for one in records if tuple(one[key] for key in HEAD) == case]
        yield [case[0], *(f"{value:,}" for value in case[1:])], own


def _ratios(records: Iterable[Record], digits: int) -> tuple[str, str]:
    found = [record["ratio"] for record in records]
    return number(float(np.mean(found)), digits), number(max(found), digits)
