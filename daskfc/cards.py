"""The graphics card of a process, for products in float32, where torch finds one.

torch is asked where there is much to do, since its import takes seconds. A card whose products are
off by more than sums in float32 can be, as with TF32, is not used.
"""

import logging
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

logger = logging.getLogger("daskfc.cards")

_LEAST = 1e12  # ours: multiplications, seconds of a processor
_ROWS = 4096  # sent at a time
_U = 2.0**-24  # of float32
_BELOW_TF32 = 0.5 + 2.0**-12 - _U  # TF32 rounds it to 0.5

_allowed = ["auto"]  # in this process


def allow_device(name: str) -> None:
    """Let this process use a graphics card if there is one, "auto", or none, "cpu"."""
    _allowed[:] = [name]


class Card:
    """A device of torch, and whether its products of float32 can be trusted."""

    def __init__(self, torch: Any, device: Any) -> None:
        self.torch, self.device = torch, device
        self._checked: dict[int, bool] = {}

    def send(self, values: NDArray[Any]) -> Any:
        """Return a copy of an array on the card."""
        return self.torch.from_numpy(np.ascontiguousarray(values)).to(self.device)

    def send_rows(self, rows: Callable[[int, int], NDArray[Any]], n: int) -> Any:
        """Return all n rows on the card, of which ``rows(first, last)`` has some."""
        width = rows(0, 1).shape[1]
        found = self.torch.empty((n, width), dtype=self.torch.float32, device=self.device)
        for first in range(0, n, _ROWS):
            last = min(first + _ROWS, n)
            found[first:last] = self.send(rows(first, last))
        return found

    def room(self) -> int:
        """Return the bytes that are free on the card."""
        return int(self.torch.cuda.mem_get_info(self.device)[0])

    def is_exact(self, width: int) -> bool:
        """Return whether sums of `width` products are off by what float32 allows in any order."""
        if width not in self._checked:
            random = np.random.default_rng(width)
            A = random.uniform(-1.0, 1.0, (64, width)).astype(np.float32)
            A[:8], A[8:16] = _BELOW_TF32, 1.0 / 3.0
            real = A.astype(np.float64)
            most = (width + 2) * _U * (np.abs(real) @ np.abs(real).T)
            sent = self.send(A)
            found = (sent @ sent.T).cpu().numpy()
            self._checked[width] = bool((np.abs(found - real @ real.T) <= most).all())
            if not self._checked[width]:
                logger.warning(
                    "the graphics card is not used: its products are less exact than float32, as "
                    "with TF32. Turn that off."
                )
        return self._checked[width]


@cache
def _found() -> Card | None:
    """Return the card that torch finds, or None."""
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    device = torch.device("cuda")
    logger.info("large products are computed on %s", torch.cuda.get_device_name(device))
    return Card(torch, device)


def card_for(n: int, width: int) -> Card | None:
    """Return a card for products of all pairs of n rows, or None where there is little to do.

    Their (n, width) rows, and a copy of them, must have room there.
    """
    if _allowed[0] == "cpu" or float(n) ** 2 * width < _LEAST:
        return None
    card = _found()
    if card is None or not card.is_exact(width):
        return None
    if card.room() < 16 * n * width:
        logger.info("the graphics card has no room for %d rows of %d columns", n, width)
        return None
    return card
