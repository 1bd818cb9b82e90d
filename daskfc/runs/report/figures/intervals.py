"""Where the values of each cluster lie: a dot at the mean, and a line of its deviation."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from daskfc.runs.report.figures.chart import WIDTH, chart, colour, words

_HEAD, _STEP, _GAP = 20, 15, 10  # height of a feature's name, of a cluster's line, and below them
_LEFT, _RIGHT = 34, 116  # room for clusters' numbers, and for what stands in words


class Spread(NamedTuple):
    """A feature: its name, and of each cluster mean, deviation and both in words; NaN for none."""

    name: str
    means: Sequence[float]
    deviations: Sequence[float]
    texts: Sequence[str]
    overall: float


def intervals(features: Sequence[Spread], clusters: Sequence[int]) -> str:
    """Return a scale for each feature, with a line per cluster and a rule at the overall mean."""
    if not features or not clusters:
        return ""
    svg, y = [], 0.0
    for one in features:
        svg.append(words(0, y + 14, one.name, style="name", most=60))
        svg += _lines(one, clusters, y + _HEAD)
        y += _HEAD + _STEP * len(clusters) + _GAP
    label = (
        f"Mean and standard deviation of {len(features)} features in {len(clusters)} clusters: "
        f"{', '.join(one.name for one in features)}"
    )
    return chart(label, y - _GAP + 4, svg)


def _lines(one: Spread, clusters: Sequence[int], top: float) -> list[str]:
    pairs = list(zip(one.means, one.deviations, strict=True))
    ends = [mean + side * std for mean, std in pairs for side in (-1, 1) if math.isfinite(mean)]
    low, high = min(ends, default=0.0), max(ends, default=1.0)

    def across(value: float) -> float:
        share = (value - low) / (high - low) if high > low else 0.5
        return _LEFT + 6 + share * (WIDTH - _LEFT - _RIGHT - 12)

    bottom = top + _STEP * len(clusters)
    svg = []
    if math.isfinite(one.overall):
        x = across(one.overall)
        svg.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}" class="rule"/>')
    for row, (cluster, (mean, std), text) in enumerate(
        zip(clusters, pairs, one.texts, strict=True)
    ):
        y = top + _STEP * (row + 0.5)
        svg.append(words(_LEFT - 6, y + 4.5, str(cluster), anchor="end", most=5))
        svg.append(words(WIDTH, y + 4.5, text, anchor="end", most=18))
        if math.isfinite(mean):
            svg.append(
                f'<g class="{colour(cluster)}"><line x1="{across(mean - std):.1f}" '
                f'x2="{across(mean + std):.1f}" y1="{y}" y2="{y}" class="line"/>'
                f'<circle cx="{across(mean):.1f}" cy="{y}" r="4" class="fill"/></g>'
            )
    return svg
