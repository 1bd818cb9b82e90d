"""Line charts of a fit's values step by step."""

import math
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from daskfc.runs.report.figures.chart import WIDTH, chart, colour, words

_HEIGHT = 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 8, 10, 26
_WIDE_RANGE = 30.0  # ours: from this ratio of values on the scale is logarithmic
_DASHES = ("", "7 3", "2 3", "9 3 2 3")  # so that lines differ without their colours
_NUMBERED = 12  # ours: steps that each have a number on the axis
_NAMED = 12  # ours: lines with a place in the legend


def thinned(values: Sequence[float], most: int = 400) -> list[float]:
    """Return at most so many of the values, evenly spread, the first and the last among them."""
    n = len(values)
    if n <= most:
        return [float(value) for value in values]
    return [float(values[i * (n - 1) // (most - 1)]) for i in range(most)]


def _ticks(low: float, high: float, logarithmic: bool) -> list[float]:
    if logarithmic:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        step = max(1, (last - first) // 4)
        return [10.0**power for power in range(first, last + 1, step)]
    return [low, (low + high) / 2, high]


def _stroke(number: int) -> str:
    dash = _DASHES[number % len(_DASHES)]
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'class="line {colour(number, "g")}"{dashed}'


def drawing(
    lines: Mapping[str, Sequence[float | None]],
    steps: str = "step",
    *,
    first: int = 1,
    marked: int | None = None,
) -> str:
    """Return named lines over steps from `first` on, with gaps where values are None or not finite.

    A dot marks the values of the step `marked`.
    """
    known = {name: np.array(line, dtype=float).tolist() for name, line in lines.items()}
    every = [value for line in known.values() for value in line if math.isfinite(value)]
    longest = max((len(line) for line in known.values()), default=0)
    if longest < 2 or not every:
        return ""
    low, high = min(every), max(every)
    logarithmic = low > 0 and high / low > _WIDE_RANGE
    marks = _ticks(low, high, logarithmic)
    low, high = min(low, marks[0]), max(high, marks[-1])

    def height(value: float) -> float:
        a, b, v = (math.log(x) for x in (low, high, value)) if logarithmic else (low, high, value)
        share = (v - a) / (b - a) if b > a else 0.5
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _BOTTOM - _TOP)

    def across(step: int) -> float:
        return _LEFT + step / (longest - 1) * (WIDTH - _LEFT - _RIGHT)

    parts = []
    for mark in dict.fromkeys(marks):
        y = height(mark)
        parts.append(
            f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="rule"/>'
        )
        parts.append(words(_LEFT - 6, y + 4, f"{mark:.3g}", anchor="end"))
    for number, (name, line) in enumerate(known.items()):
        points = [(across(i), height(v)) for i, v in enumerate(line) if math.isfinite(v)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(
            f'<polyline points="{path}" {_stroke(number)}><title>{escape(name)}</title></polyline>'
        )
        i = -1 if marked is None else marked - first
        if 0 <= i < len(line) and math.isfinite(line[i]):
            spot = f'cx="{across(i):.1f}" cy="{height(line[i]):.1f}"'
            parts.append(f'<circle {spot} r="5" class="fill g0"/>')
    if longest <= _NUMBERED:
        parts.append(words(0, _HEIGHT - 6, steps, style="faint"))
        parts += [
            words(across(i), _HEIGHT - 6, str(first + i), anchor="middle") for i in range(longest)
        ]
    else:
        told = f"{steps} {first} to {first + longest - 1}"
        parts.append(words(WIDTH - _RIGHT, _HEIGHT - 6, told, anchor="end"))
    named = list(lines)[:_NAMED]
    legend = [
        (
            '<svg viewBox="0 0 26 8" class="sample" aria-hidden="true">'
            f'<line x1="1" x2="25" y1="4" y2="4" {_stroke(number)}/></svg>',
            name,
        )
        for number, name in enumerate(named)
    ]
    more = len(lines) - len(named)
    if more:
        legend.append(("", f"and {more} more"))
    ends = f"from {every[0]:.3g} to {every[-1]:.3g}" if len(lines) == 1 else f"{len(lines)} lines"
    told = ", ".join(named) + (f" and {more} more" if more else "")
    over = f"{longest} {steps.removesuffix('s')}s"
    return chart(f"Curve of {told}: {ends} over {over}", _HEIGHT, parts, legend)
