"""When parties sent messages, beside the stages of a fit."""

import math
from collections.abc import Mapping, Sequence
from html import escape

from daskfc.runs.report.figures.chart import WIDTH, chart, colour, swatch, words

_STEP, _TRACK = 32, 10  # from one party to the next; height of a track
_PARTIES = 14  # ours: parties with a line of their own
_NEAR = 0.5  # units: ticks that are nearer are one

Stage = tuple[str, float, float]


def time_line(stages: Sequence[Stage], sent: Mapping[str, Sequence[float]]) -> str:
    """Return bars of stages (name, begin, end), and ticks of messages by party, all in seconds."""
    if not stages:
        return ""
    begin, end = stages[0][1], max(stop for *_, stop in stages)
    if not end > begin:
        return ""

    def across(at: float) -> float:
        return min(max((at - begin) / (end - begin), 0.0), 1.0) * WIDTH

    names = list(dict.fromkeys(name for name, *_ in stages))
    number = {name: i for i, name in enumerate(names)}
    spans = [(name, across(a), max(across(b) - across(a), 1.0)) for name, a, b in stages]
    svg = [words(0, 13, "stages, as the caller saw them")]
    for (name, x, width), (_, a, b) in zip(spans, stages, strict=True):
        told = f"{name}: {b - a:.1f} s"
        svg.append(
            f'<rect x="{x:.1f}" y="18" width="{width:.1f}" height="{_TRACK}" '
            f'class="fill {colour(number[name], "g")}"><title>{escape(told)}</title></rect>'
        )
    shown = list(sent)[:_PARTIES]
    for row, party in enumerate(shown, start=1):
        y = row * _STEP
        svg.append(words(0, y + 13, party))
        count = len(sent[party])
        said = f"{count:,} message{'s' if count != 1 else ''}"
        svg.append(words(WIDTH, y + 13, said, anchor="end", style="faint"))
        for name, x, width in spans:
            svg.append(
                f'<rect x="{x:.1f}" y="{y + 18}" width="{width:.1f}" height="{_TRACK}" '
                f'class="pale {colour(number[name], "g")}"/>'
            )
        svg.append(f'<path class="ticks" d="{_ticks(map(across, sent[party]), y + 18)}"/>')
    bottom = (len(shown) + 1) * _STEP
    svg.append(words(0, bottom + 14, "0 s", style="faint"))
    svg.append(words(WIDTH, bottom + 14, f"{end - begin:.3g} s", anchor="end", style="faint"))
    legend = [(swatch(number[name], "g"), name) for name in names]
    if len(sent) > len(shown):
        legend.append(("", f"{len(sent) - len(shown)} more parties are not shown"))
    long = max(stages, key=lambda stage: stage[2] - stage[1])
    label = (
        f"{len(names)} stages in {end - begin:.3g} s, the longest {long[0]}, and when each of "
        f"{len(sent)} parties sent messages"
    )
    return chart(label, bottom + 20, svg, legend)


def _ticks(places: "map[float]", y: float) -> str:
    """Return a path of ticks; of many in one place one is drawn."""
    distinct = sorted({math.floor(x / _NEAR) * _NEAR for x in places})
    return "".join(f"M{min(max(x, 0.5), WIDTH - 0.5):g} {y}v{_TRACK}" for x in distinct)
