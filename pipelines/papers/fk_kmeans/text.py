"""What the tables and the figures of the page have in common."""

import math
from collections.abc import Sequence
from statistics import fmean, pstdev, stdev

from scipy.stats import t as students_t

from pipelines.papers.journal import Record
from pipelines.papers.means import Means, of_kind

__all__ = [
    "ATTACK_FIGURE",
    "COLORS",
    "CONVERGENCE_FIGURE",
    "MEANS",
    "NOISE_FIGURE",
    "QUALITY_FIGURE",
    "UPLOAD_FIGURE",
    "command",
    "error_curve",
    "interval",
    "names_of",
    "quality_points",
]

# In the folder "figures".
CONVERGENCE_FIGURE = "fk-kmeans-convergence.svg"
UPLOAD_FIGURE = "fk-kmeans-uploads.svg"
QUALITY_FIGURE = "fk-kmeans-quality.svg"
NOISE_FIGURE = "fk-kmeans-noise.svg"
ATTACK_FIGURE = "fk-kmeans-attack.svg"

MEANS = Means(3)

COLORS = {
    "CEM, one sum": "#0b5fa5",
    "CEM, Lanczos": "#d1731b",
    "without CEM": "#777777",
    "FK k-means, Lanczos": "#d1731b",
    "FK k-means, one sum": "#0b5fa5",
    "FK k-means, k-means on sums": "#17a2a2",
    "RFK k-means": "#3a8a3a",
    "CE PCA": "#8a4fa0",
    "CK k-means": "#333333",
    "SK k-means": "#999999",
}


def command(parts: str) -> str:
    """Return the sentence that names the command of a section.

    Examples
    --------
    >>> command("noise")
    'Made by `python -m pipelines.papers.fk_kmeans.reproduce --data FOLDER --only noise`.'
    """
    program = "python -m pipelines.papers.fk_kmeans.reproduce"
    return f"Made by `{program} --data FOLDER --only {parts}`."


def names_of(records: Sequence[Record], key: str = "data") -> list[str]:
    """Return what a key of the records has, in the order of first use."""
    return list(dict.fromkeys(str(r[key]) for r in records))


def interval(values: Sequence[float]) -> float:
    """Return half the width of the 95 % confidence interval of a mean; 0 of one value.

    Examples
    --------
    >>> round(interval([1.0, 2.0, 3.0]), 3), interval([1.0])
    (2.484, 0.0)
    """
    n = len(values)
    if n < 2:
        return 0.0
    return float(students_t.ppf(0.975, n - 1)) * stdev(values) / math.sqrt(n)


def error_curve(found: Sequence[Record]) -> list[tuple[float, float, float]]:
    """Return t, mean and deviation of the error over the seeds."""
    T = min(len(r["errors"]) for r in found)
    curve = []
    for t in range(1, T + 1):
        errors = [r["errors"][t - 1] for r in found]
        curve.append((float(t), fmean(errors), pstdev(errors)))
    return curve


def quality_points(records: Sequence[Record], data: str, method: str) -> list[Record]:
    """Return the points of a method in Fig. 3: means over the seeds, by T, or as they were run."""
    own = of_kind(records, "quality", data=data, method=method)
    points = []
    for setting in names_of(own, "setting"):
        found = [r for r in own if r["setting"] == setting]
        scores = [r["nmi"] for r in found]
        points.append({
            "setting": setting,
            "T": found[0].get("T"),
            "floats": fmean(r["floats"] for r in found),
            "nmi": fmean(scores),
            "off": interval(scores),
            "runs": len(found),
        })  # fmt: skip
    return sorted(points, key=lambda point: point["T"] or 0)
