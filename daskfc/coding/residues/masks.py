"""Pairwise masks that cancel in a sum: one party of each pair adds, the other subtracts."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from daskfc.coding.residues.scratch import scratch
from daskfc.coding.residues.streams import SecretKey

_CHUNK = 1 << 15  # ours: words; a chunk of mask and one of the array stay in a 1 MiB L2 cache


def add_mask(values: NDArray[np.uint64], key: SecretKey, sign: int = 1) -> None:
    """Add the mask of a key to an array, or subtract it (sign -1), modulo 2**64 and in place.

    A key must mask one array only: two arrays with one mask reveal their difference.
    """
    stream, flat = key.stream(), values.reshape(-1)
    update = np.add if sign > 0 else np.subtract
    for start in range(0, flat.size, _CHUNK):
        part = flat[start : start + _CHUNK]
        mask = scratch("mask", part.shape, np.uint64)
        stream.fill(mask)
        update(part, mask, out=part)


def add_pair_masks(values: NDArray[np.uint64], party: str, keys: Mapping[str, SecretKey]) -> None:
    """Add one party's pair masks in place: plus for parties with a later name, else minus."""
    for other in sorted(keys):
        add_mask(values, keys[other], 1 if party < other else -1)
