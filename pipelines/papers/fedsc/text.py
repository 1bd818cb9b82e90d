"""Numbers of FedSC's tables as text: means over seeds, differences, what is reached."""

from collections.abc import Sequence
from statistics import fmean, pstdev
from typing import Any

from pipelines.papers.fedsc.values import Value
from pipelines.papers.journal import Record
from pipelines.papers.results import difference

__all__ = [
    "DIGITS",
    "NOISE_FIGURE",
    "ROUNDS_FIGURE",
    "SETTINGS",
    "cell_text",
    "figure_link",
    "gap",
    "listed",
    "mean_of",
    "of_kind",
    "reached",
    "spread_text",
]

DIGITS = 3
SETTINGS = ("published", "defaults")
NOISE_FIGURE, ROUNDS_FIGURE = "fedsc-noise.svg", "fedsc-rounds.svg"  # in the folder "figures"


def of_kind(records: Sequence[Record], kind: str, **wanted: Any) -> list[Record]:
    """Return the records of a kind with these values."""
    return [
        r
        for r in records
        if r["kind"] == kind and all(r.get(key) == value for key, value in wanted.items())
    ]


def mean_of(found: Sequence[Record], key: str = "acc") -> Value | None:
    """Return mean and standard deviation; None of nothing."""
    values = [r[key] for r in found]
    return (fmean(values), pstdev(values)) if values else None


def cell_text(value: Value | None) -> str:
    """Return a mean with its deviation.

    Examples
    --------
    >>> cell_text((0.9, 0.0031)), cell_text(None)
    ('0.900 ± 0.003', '–')
    """
    return "–" if value is None else f"{value[0]:.{DIGITS}f} ± {value[1]:.{DIGITS}f}"


def figure_link(file: str, caption: str) -> str:
    """Return the Markdown that shows a figure.

    Examples
    --------
    >>> print(figure_link("fedsc-noise.svg", "Accuracy"), end="")
    ![Accuracy](figures/fedsc-noise.svg)
    """
    return f"![{caption}](figures/{file})\n"


def spread_text(values: Sequence[float]) -> str:
    """Return mean and deviation of trials."""
    return cell_text((fmean(values), pstdev(values)))


def gap(here: Value | None, paper: Value | None) -> str:
    """Return the difference of two means."""
    return difference(here and here[0], paper and paper[0], DIGITS)


def reached(here: Value, paper: Value) -> bool:
    """Whether a mean is within the paper's ± or above, in the four digits that it prints.

    Examples
    --------
    >>> reached((0.8969, 0.01), (0.9, 0.0031)), reached((0.8968, 0.01), (0.9, 0.0031))
    (True, False)
    """
    return round(here[0], 4) >= round(paper[0] - paper[1], 4)


def listed(words: Sequence[str]) -> str:
    """Return words with commas between them.

    Examples
    --------
    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)
