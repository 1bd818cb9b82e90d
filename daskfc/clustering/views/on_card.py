"""The search for near pairs on a graphics card: panels of rows with all others at once.

Scores and their bounds are those of `HalfDistances`, and the few pairs that can matter are computed
in float64 as ever, so that graphs are the same to the last bit.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from daskfc.arrays import Ints
from daskfc.cards import Card
from daskfc.clustering.views.screening import Rounded, Rows
from daskfc.errors import ResourceRefused

logger = logging.getLogger("daskfc.cards")

Found = TypeVar("Found")

_SCORES = 1 << 28  # ours: of a panel, at most: 1 GiB on the card
_COPIES = 24  # bytes of the card's memory a score, for it, a mask, and what lists them
_LISTED = 1 << 20  # pairs that are taken from the card at a time


def nearest(card: Card, rows: Rows, error: Rounded, k: int) -> tuple[Ints, Ints] | None:
    """Return pairs (rows, others) with each row's k nearest; None if too many can be these."""
    own, room = card.send(error), 4 * len(error) * (k + 1)

    def near(start: int, S: Any) -> tuple[Ints, Ints] | None:
        S.diagonal(start).fill_(-np.inf)  # none is its own neighbour
        reached = S.topk(k, dim=1, sorted=False).values.amin(dim=1)
        limit = reached - 2 * own[start : start + len(S)]
        mask = S >= limit[:, None]
        if int(mask.sum()) > room:
            return None
        found = mask.nonzero().cpu().numpy()
        return found[:, 0] + start, found[:, 1]

    pairs: list[tuple[Ints, Ints]] = []
    for found in _panels(card, rows, len(error), near):
        if found is None:
            return None
        room -= found[0].size
        pairs.append(found)
    first, others = (np.concatenate(each) for each in zip(*pairs, strict=True))
    return first, others


def within(
    card: Card, rows: Rows, error: Rounded, least: Rounded
) -> Iterator[tuple[Ints, Ints, Rounded]]:
    """Yield pairs (rows, others) whose score is at least `least` (n,) of the first, and scores.

    Each pair comes once, with the smaller number first.
    """
    limit = card.send(least)

    def near(start: int, S: Any) -> tuple[int, Any, Any, NDArray[np.int64]]:
        mask = (S >= limit[start : start + len(S), None]).triu_(start + 1)
        return start, S, mask, mask.sum(dim=1).cpu().numpy()

    for start, S, mask, counts in _panels(card, rows, len(error), near):
        ends = np.cumsum(counts)
        first = 0
        while first < len(counts):  # at least a row
            before = ends[first - 1] if first else 0
            last = max(first + 1, int(np.searchsorted(ends, before + _LISTED, side="right")))
            found = mask[first:last].nonzero()
            scores = S[first:last][found[:, 0], found[:, 1]].cpu().numpy()
            places = found.cpu().numpy()
            yield places[:, 0] + (start + first), places[:, 1], scores
            first = last


def _panels(card: Card, rows: Rows, n: int, work: Callable[[int, Any], Found]) -> Iterator[Found]:
    """Yield ``work(start, scores)`` of panels of rows with all, smaller ones if these have no room.

    Columns of `rows` are as in `HalfDistances`: half the squared norm and 1 are the last ones.
    """
    right = card.send_rows(rows, n)
    height = max(1, min(n, _SCORES // n, card.room() // (_COPIES * n)))
    start = 0
    while start < n:
        left = right[start : start + height].clone()
        left[:, -1] = -left[:, -2]
        left[:, -2] = -1.0
        try:
            found = work(start, left @ right.T)
        except card.torch.OutOfMemoryError:
            if height == 1:
                raise ResourceRefused(
                    "the graphics card has no room for the distances of one sample to all others. "
                    "Give the party device 'cpu', or free the card's memory."
                ) from None
            height = -(-height // 2)
            logger.info("the graphics card is short of memory; %d rows at a time", height)
            continue
        yield found
        start += len(left)
