"""Means over seeds beside a paper's, as cells of a table: mean ± standard deviation."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import Any, TypeAlias

from pipelines.papers.journal import Record
from pipelines.papers.results import difference

__all__ = ["Means", "Value", "listed", "of_kind", "reached", "spread"]

Value: TypeAlias = tuple[float, float]  # mean and standard deviation


def of_kind(records: Sequence[Record], kind: str, **wanted: Any) -> list[Record]:
    """Return the records of a kind with these values."""
    return [
        r
        for r in records
        if r["kind"] == kind and all(r.get(key) == value for key, value in wanted.items())
    ]


def spread(values: Sequence[float]) -> Value | None:
    """Return mean and standard deviation; None of nothing."""
    return (fmean(values), pstdev(values)) if values else None


def reached(here: Value | None, paper: Value, digits: int) -> bool:
    """Whether a mean is within the paper's ± or above, in the digits that the paper prints.

    Examples
    --------
    >>> reached((0.8969, 0.01), (0.9, 0.0031), 4), reached((0.8968, 0.01), (0.9, 0.0031), 4)
    (True, False)
    """
    return here is not None and round(here[0], digits) >= round(paper[0] - paper[1], digits)


def listed(words: Sequence[str]) -> str:
    """Return words with commas between them.

    Examples
    --------
    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


@dataclass(frozen=True)
class Means:
    """How the tables of a paper show means.

    Parameters
    ----------
    digits : int
        Behind the point.
    scale : float
        100 where they are in percent.
    """

    digits: int
    scale: float = 1.0

    def of(self, found: Sequence[Record], key: str = "acc") -> Value | None:
        """Return mean and standard deviation of what records have; None of no records."""
        return spread([self.scale * r[key] for r in found])

    def text(self, value: Value | None) -> str:
        """Return a mean with its deviation.

        Examples
        --------
        >>> Means(3).text((0.9, 0.0031)), Means(2).text(None)
        ('0.900 ± 0.003', '–')
        """
        if value is None:
            return "–"
        return f"{value[0]:.{self.digits}f} ± {value[1]:.{self.digits}f}"

    def compared(self, paper: Value | None, *here: Value | None) -> list[str]:
        """Return the paper's cell, then two for each of ours: the mean, and here minus paper.

        Examples
        --------
        >>> Means(2).compared((0.9, 0.01), (0.95, 0.0), None)
        ['0.90 ± 0.01', '0.95 ± 0.00', '+0.05', '–', '–']
        """
        cells = [self.text(paper)]
        for value in here:
            gap = difference(value and value[0], paper and paper[0], self.digits)
            cells += [self.text(value), gap]
        return cells
