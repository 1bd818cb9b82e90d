"""Flow diagrams of bytes: from senders, by kind of message, to receivers."""

from collections.abc import Callable, Iterable
from html import escape
from typing import NamedTuple

from daskfc.runs.report.figures.chart import WIDTH, chart, colour, words

__all__ = ["flow"]

_SIDE = 84  # for the names of senders and receivers
_NODE = 8  # width of a party or a kind of message
_SLOT = 22  # least height of one with its name
_TALLEST = 170  # of all streams together
_THINNEST = 1.5
_KINDS = 9  # ours: kinds of messages with a stream of their own

Stream = tuple[str, str, str, int]


class _Node(NamedTuple):
    y: float
    height: float


def _fewer(streams: Iterable[Stream]) -> list[Stream]:
    """Add up equal streams, and those of the smallest kinds of message as one kind."""
    by_kind: dict[str, int] = {}
    streams = list(streams)
    for _, kind, _, size in streams:
        by_kind[kind] = by_kind.get(kind, 0) + size
    ranked = sorted(by_kind, key=lambda kind: -by_kind[kind])
    shown = set(ranked if len(ranked) <= _KINDS + 1 else ranked[:_KINDS])
    rest = f"{len(ranked) - len(shown)} other kinds"
    sums: dict[tuple[str, str, str], int] = {}
    for sender, kind, receiver, size in streams:
        key = (sender, kind if kind in shown else rest, receiver)
        sums[key] = sums.get(key, 0) + size
    return [(*key, size) for key, size in sums.items() if size]


def _column(names: Iterable[tuple[str, int]], scale: float) -> dict[str, _Node]:
    """Place one column's nodes from the top, those with most bytes first."""
    sizes: dict[str, int] = {}
    thickness: dict[str, float] = {}
    for name, size in names:
        sizes[name] = sizes.get(name, 0) + size
        thickness[name] = thickness.get(name, 0.0) + max(size * scale, _THINNEST)
    nodes, y = {}, 2.0
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        nodes[name] = _Node(y, thickness[name])
        y += max(thickness[name] + 6, _SLOT)
    return nodes


class _Ribbons:
    """Streams between two columns: each takes the next free part of its node on both sides."""

    def __init__(
        self, left: dict[str, _Node], right: dict[str, _Node], x: float, to: float
    ) -> None:
        self._from = {name: node.y for name, node in left.items()}
        self._to = {name: node.y for name, node in right.items()}
        self._x, self._end = x, to

    def draw(self, source: str, target: str, thick: float, style: str, told: str) -> str:
        y0, y1 = self._from[source], self._to[target]
        self._from[source] += thick
        self._to[target] += thick
        a, b, m = self._x, self._end, (self._x + self._end) / 2
        return (
            f'<path class="{style}" d="M{a:.0f} {y0:.1f}C{m:.0f} {y0:.1f} {m:.0f} {y1:.1f} '
            f"{b:.0f} {y1:.1f}v{thick:.1f}C{m:.0f} {y1 + thick:.1f} {m:.0f} {y0 + thick:.1f} "
            f'{a:.0f} {y0 + thick:.1f}z"><title>{escape(told)}</title></path>'
        )


def flow(streams: Iterable[Stream], shown: Callable[[int], str]) -> str:
    """Return streams (sender, kind, receiver, bytes) as ribbons as wide as their bytes."""
    kept = _fewer(streams)
    total = sum(size for *_, size in kept)
    if not total:
        return ""
    scale = _TALLEST / total
    into = _added((sender, kind, size) for sender, kind, _, size in kept)
    out = _added((kind, receiver, size) for _, kind, receiver, size in kept)
    left = _column(((sender, size) for (sender, _), size in into.items()), scale)
    middle = _column(((kind, size) for (kind, _), size in out.items()), scale)
    right = _column(((receiver, size) for (_, receiver), size in out.items()), scale)
    # a node is as high as the thicker of its two sides
    for kind, node in _column(((k, size) for (_, k), size in into.items()), scale).items():
        middle[kind] = middle[kind]._replace(height=max(node.height, middle[kind].height))
    centre = (WIDTH - _NODE) / 2
    number = {kind: i for i, kind in enumerate(middle)}
    parts = []
    for sides, ends, edges in (
        ((left, middle), (_SIDE + _NODE, centre), into),
        ((middle, right), (centre + _NODE, WIDTH - _SIDE - _NODE), out),
    ):
        ribbons = _Ribbons(*sides, *ends)
        order = sorted(edges, key=lambda edge: [sides[i][edge[i]].y for i in (0, 1)])
        for source, target in order:
            size = edges[source, target]
            kind = source if source in number and sides[0] is middle else target
            told = f"{source} → {target}: {shown(size)}"
            style = f"ribbon {colour(number[kind], 'g')}"
            parts.append(ribbons.draw(source, target, max(size * scale, _THINNEST), style, told))
    sizes: dict[int, dict[str, int]] = {0: {}, 1: {}, 2: {}}
    for sender, kind, receiver, size in kept:
        for place, name in enumerate((sender, kind, receiver)):
            sizes[place][name] = sizes[place].get(name, 0) + size
    columns = ((left, float(_SIDE)), (middle, centre), (right, float(WIDTH - _SIDE - _NODE)))
    for place, (nodes, x) in enumerate(columns):
        for name, node in nodes.items():
            style = f"fill {colour(number[name], 'g')}" if place == 1 else "node"
            parts.append(
                f'<rect x="{x:.1f}" y="{node.y:.1f}" width="{_NODE}" height="{node.height:.1f}" '
                f'class="{style}"/>'
            )
            at = (_SIDE - 5, WIDTH / 2, WIDTH - _SIDE + 5)[place]
            anchor = ("end", "middle", "start")[place]
            text = f"{name} {shown(sizes[place][name])}" if place == 1 else name
            # beside the node, in its middle; kinds of messages over theirs
            y = node.y + max(min(node.height, _SLOT) / 2 + 4.5, 11)
            most = 30 if place == 1 else 12
            parts.append(words(at, y, text, anchor=anchor, style="halo", most=most))
    bottom = max(
        node.y + max(node.height, _SLOT - 4) for nodes in (left, middle, right)
        for node in nodes.values()
    )  # fmt: skip
    largest = max(kept, key=lambda stream: stream[3])
    label = (
        f"{shown(total)} in all, from {len(left)} senders in {len(middle)} kinds of messages to "
        f"{len(right)} receivers; most of it {largest[1]} from {largest[0]} to {largest[2]}"
    )
    return chart(label, bottom + 4, parts)


def _added(edges: Iterable[tuple[str, str, int]]) -> dict[tuple[str, str], int]:
    sums: dict[tuple[str, str], int] = {}
    for source, target, size in edges:
        sums[source, target] = sums.get((source, target), 0) + size
    return sums
