"""Flow diagrams of bytes: from senders, by kind of message, to receivers."""

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import NamedTuple, TypeVar

from daskfc.runs.report.figures.chart import WIDTH, chart, colour, words

__all__ = ["flow"]

_SIDE = 84  # for the names of senders and receivers
_NODE = 8  # width of a party or a kind of message
_SLOT = 22  # least height of one with its name
_TALLEST = 170  # of all streams together
_THINNEST = 1.5
_KINDS = 9  # ours: kinds of messages with a stream of their own

Stream = tuple[str, str, str, int]
Key = TypeVar("Key")
Number = TypeVar("Number", int, float)


class _Node(NamedTuple):
    y: float
    height: float


def _sums(parts: Iterable[tuple[Key, Number]]) -> dict[Key, Number]:
    sums: dict[Key, Number] = {}
    for key, size in parts:
        sums[key] = sums[key] + size if key in sums else size
    return sums


def _fewer(streams: Sequence[Stream]) -> list[Stream]:
    """Add up equal streams, and those of the smallest kinds of message as one kind."""
    by_kind = _sums((kind, size) for _, kind, _, size in streams)
    ranked = sorted(by_kind, key=lambda kind: -by_kind[kind])
    shown = set(ranked if len(ranked) <= _KINDS + 1 else ranked[:_KINDS])
    rest = f"{len(ranked) - len(shown)} other kinds"
    sums = _sums(
        ((sender, kind if kind in shown else rest, receiver), size)
        for sender, kind, receiver, size in streams
    )
    return [(*key, size) for key, size in sums.items() if size]


def _column(sizes: Sequence[tuple[str, int]], scale: float) -> dict[str, _Node]:
    """Place one column's nodes from the top, those with most bytes first."""
    whole = _sums(sizes)
    thickness = _sums((name, max(size * scale, _THINNEST)) for name, size in sizes)
    nodes, y = {}, 2.0
    for name in sorted(whole, key=lambda name: -whole[name]):
        nodes[name] = _Node(y, thickness[name])
        y += max(thickness[name] + 6, _SLOT)
    return nodes


def _ribbon(x: float, end: float, y0: float, y1: float, thick: float) -> str:
    """Return the path of a stream from one height to another."""
    a, b, m = x, end, (x + end) / 2
    return (
        f"M{a:.0f} {y0:.1f}C{m:.0f} {y0:.1f} {m:.0f} {y1:.1f} {b:.0f} {y1:.1f}v{thick:.1f}"
        f"C{m:.0f} {y1 + thick:.1f} {m:.0f} {y0 + thick:.1f} {a:.0f} {y0 + thick:.1f}z"
    )


def flow(streams: Sequence[Stream], shown: Callable[[int], str]) -> str:
    """Return streams (sender, kind, receiver, bytes) as ribbons as wide as their bytes."""
    kept = _fewer(streams)
    total = sum(size for *_, size in kept)
    if not total:
        return ""
    scale = _TALLEST / total
    into = _sums(((sender, kind), size) for sender, kind, _, size in kept)
    out = _sums(((kind, receiver), size) for _, kind, receiver, size in kept)
    left = _column([(sender, size) for (sender, _), size in into.items()], scale)
    middle = _column([(kind, size) for (kind, _), size in out.items()], scale)
    right = _column([(receiver, size) for (_, receiver), size in out.items()], scale)
    # a node is as high as the thicker of its two sides
    for kind, node in _column([(kind, size) for (_, kind), size in into.items()], scale).items():
        middle[kind] = middle[kind]._replace(height=max(node.height, middle[kind].height))
    centre = (WIDTH - _NODE) / 2
    number = {kind: i for i, kind in enumerate(middle)}
    parts = []
    for sources, targets, x, end, edges in (
        (left, middle, _SIDE + _NODE, centre, into),
        (middle, right, centre + _NODE, WIDTH - _SIDE - _NODE, out),
    ):
        # each stream takes the next free part of its node on both sides
        leaves = {name: node.y for name, node in sources.items()}
        arrives = {name: node.y for name, node in targets.items()}
        order = sorted(edges, key=lambda edge: [sources[edge[0]].y, targets[edge[1]].y])
        for source, target in order:
            size = edges[source, target]
            thick = max(size * scale, _THINNEST)
            kind = source if sources is middle else target
            path = _ribbon(x, end, leaves[source], arrives[target], thick)
            told = escape(f"{source} → {target}: {shown(size)}")
            style = f"ribbon {colour(number[kind], 'g')}"
            parts.append(f'<path class="{style}" d="{path}"><title>{told}</title></path>')
            leaves[source] += thick
            arrives[target] += thick
    by_kind = _sums((kind, size) for _, kind, _, size in kept)
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
            text = f"{name} {shown(by_kind[name])}" if place == 1 else name
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
