"""Bars: of parties one below the other, and of clusters stacked by client."""

from collections.abc import Callable, Mapping
from html import escape

from daskfc.runs.report.figures.chart import WIDTH, chart, colour, swatch, words

_BAR, _GAP, _NAME, _NUMBER = 20, 8, 46, 64  # of a stacked bar, its name and its number
_STEP = 36  # from one bar with its name above it to the next
_CLIENTS = 9  # ours: clients with a colour of their own; the others share the tenth
_MOST = 24  # ours: bars of one drawing


def _joined(parts: Mapping[str, Mapping[str, int]]) -> Mapping[str, Mapping[str, int]]:
    """Keep the clients with most samples and join the others, as there are ten colours."""
    if len(parts) <= _CLIENTS + 1:
        return parts
    ranked = sorted(parts, key=lambda name: -sum(parts[name].values()))
    shown = set(ranked[:_CLIENTS])
    others = [own for name, own in parts.items() if name not in shown]
    rest = {cluster: sum(own[cluster] for own in others) for cluster in others[0]}
    kept = {name: own for name, own in parts.items() if name in shown}
    return {**kept, f"{len(others)} other sites": rest}


def stacked_bars(parts: Mapping[str, Mapping[str, int]]) -> str:
    """Return a bar per cluster of ``parts[client][cluster]``; many small clients are joined."""
    parts = _joined(parts)
    clusters = list(next(iter(parts.values()), {}))
    totals = {c: sum(own[c] for own in parts.values()) for c in clusters}
    largest = max(totals.values(), default=0)
    if not largest:
        return ""
    room = WIDTH - _NAME - _NUMBER
    svg = []
    for row, cluster in enumerate(clusters):
        x, y = float(_NAME), row * (_BAR + _GAP)
        middle = y + _BAR - 5
        dot = f'<circle cx="7" cy="{y + _BAR / 2}" r="5" class="fill {colour(int(cluster))}"/>'
        svg += [dot, words(_NAME - 8, middle, cluster, anchor="end", most=4)]
        for number, (name, own) in enumerate(parts.items()):
            width = room * own[cluster] / largest
            if own[cluster]:
                svg.append(
                    f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_BAR}" '
                    f'class="fill part {colour(number, "t")}"><title>{escape(name)}: '
                    f"{own[cluster]:,}</title></rect>"
                )
            x += width
        svg.append(words(x + 6, middle, f"{totals[cluster]:,}"))
    told = ", ".join(f"cluster {c}: {totals[c]:,}" for c in clusters[:10])
    label = f"Samples of {len(clusters)} clusters by site; {told}"
    legend = [(swatch(number, "t"), name) for number, name in enumerate(parts)]
    return chart(label, len(clusters) * (_BAR + _GAP), svg, legend)


def bars(values: Mapping[str, float], shown: Callable[[float], str], what: str) -> str:
    """Return a bar for each name, both name and value above it, escaped; at most the largest 24."""
    if not values or max(values.values()) <= 0:
        return ""
    names = sorted(values, key=lambda name: -values[name])[:_MOST]
    names = [name for name in values if name in names]
    largest = max(values.values())
    svg = []
    for row, name in enumerate(names):
        y = row * _STEP
        svg.append(words(0, y + 13, name))
        svg.append(words(WIDTH, y + 13, shown(values[name]), anchor="end"))
        svg.append(
            f'<rect x="0" y="{y + 18}" width="{WIDTH}" height="9" class="track"/>'
            f'<rect x="0" y="{y + 18}" width="{WIDTH * values[name] / largest:.1f}" height="9" '
            'class="fill g1"/>'
        )
    most = max(values, key=lambda name: values[name])
    label = f"{what} of {len(values)} parties, at most {shown(largest)}, of {most}"
    left_out = [("", f"and {len(values) - len(names)} smaller ones")] * (len(values) > len(names))
    return chart(label, len(names) * _STEP, svg, left_out)
