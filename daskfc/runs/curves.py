"""Small drawings without scripts: lines of what a fit told step by step, and stacked bars."""

import math
from collections.abc import Mapping, Sequence
from html import escape

__all__ = ["drawing", "stacked_bars", "thinned"]

_WIDTH, _HEIGHT = 640, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 8, 10, 40
_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#999999")
_BAR, _GAP, _NAME, _NUMBER = 18, 8, 90, 80  # of a stacked bar, its name and its number
_WIDE_RANGE = 30.0  # ours: from this ratio of values on the scale is logarithmic


def thinned(values: Sequence[float], most: int = 400) -> list[float]:
    """Return at most so many of the values, evenly spread, the first and the last among them.

    Examples
    --------
    >>> from daskfc.runs.curves import thinned
    >>> thinned(range(100), 4)
    [0.0, 33.0, 66.0, 99.0]
    """
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


def drawing(lines: Mapping[str, Sequence[float]], steps: str = "step") -> str:
    """Return lines over their steps as inline SVG, escaped; empty where nothing can be drawn.

    Parameters
    ----------
    lines : mapping of str to sequence of float
        By name; values that are not finite are gaps.
    steps : str
        What the values are counted in.

    Examples
    --------
    >>> from daskfc.runs.curves import drawing
    >>> drawing({"a <loss>": [3.0, 1.0]}).count("a &lt;loss&gt;</text>")
    1
    """
    every = [value for line in lines.values() for value in line if math.isfinite(value)]
    longest = max((len(line) for line in lines.values()), default=0)
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
        return _LEFT + step / (longest - 1) * (_WIDTH - _LEFT - _RIGHT)

    label = ", ".join(lines)
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(label)}" '
        'font-size="11" fill="currentColor">'
    ]
    for mark in marks:
        y = height(mark)
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" '
            'stroke="currentColor" stroke-opacity="0.2"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{mark:.3g}</text>'
        )
    for number, (name, line) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        points = [(across(i), height(v)) for i, v in enumerate(line) if math.isfinite(v)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}"/>')
        x = _LEFT + number * (_WIDTH - _LEFT) / len(lines)
        parts.append(
            f'<text x="{x:.0f}" y="{_HEIGHT - 6}" style="fill: {colour}">{escape(name)}</text>'
        )
    parts.append(
        f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - _BOTTOM + 14}" text-anchor="end">'
        f"{escape(steps)} 1 to {longest}</text></svg>"
    )
    return "".join(parts)


def stacked_bars(parts: Mapping[str, Mapping[str, int]]) -> str:
    """Return a bar for each cluster, of what every client has of it, as inline SVG, escaped.

    Parameters
    ----------
    parts : mapping of str to mapping of str to int
        Samples of each cluster, by client; all clients have the same clusters.

    Examples
    --------
    >>> from daskfc.runs.curves import stacked_bars
    >>> stacked_bars({"a": {"0": 3, "1": 0}, "b": {"0": 1, "1": 2}}).count("<rect")
    5
    """
    clusters = list(next(iter(parts.values()), {}))
    totals = {c: sum(own[c] for own in parts.values()) for c in clusters}
    largest = max(totals.values(), default=0)
    if not largest:
        return ""
    height = len(clusters) * (_BAR + _GAP)
    room = _WIDTH - _NAME - _NUMBER
    each = _WIDTH // max(1, min(len(parts), 6))
    legend = [(i % 6 * each, height + 20 + i // 6 * 18, name) for i, name in enumerate(parts)]
    whole = legend[-1][1] + 8
    told = f"samples of {len(clusters)} clusters by client"
    svg = [
        f'<svg viewBox="0 0 {_WIDTH} {whole}" role="img" aria-label="{told}" font-size="11" '
        'fill="currentColor">'
    ]
    for row, cluster in enumerate(clusters):
        x, y = float(_NAME), row * (_BAR + _GAP)
        middle = f'y="{y + _BAR - 5}"'
        svg.append(f'<text x="{_NAME - 6}" {middle} text-anchor="end">{escape(cluster)}</text>')
        for number, (name, own) in enumerate(parts.items()):
            width = room * own[cluster] / largest
            if own[cluster]:
                svg.append(
                    f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_BAR}" '
                    f'fill="{_COLOURS[number % len(_COLOURS)]}"><title>{escape(name)}: '
                    f"{own[cluster]:,}</title></rect>"
                )
            x += width
        svg.append(f'<text x="{x + 6:.1f}" {middle}>{totals[cluster]:,}</text>')
    for number, (across, down, name) in enumerate(legend):
        colour = _COLOURS[number % len(_COLOURS)]
        svg.append(
            f'<rect x="{across}" y="{down - 9}" width="10" height="10" fill="{colour}"/>'
            f'<text x="{across + 14}" y="{down}">{escape(name)}</text>'
        )
    return "".join([*svg, "</svg>"])
