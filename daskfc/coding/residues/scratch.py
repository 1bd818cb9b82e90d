"""Work memory kept per thread: fresh pages cost more than the sums that are written to them."""

import math
import threading
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["scratch"]


class _Buffers(threading.local):
    def __init__(self) -> None:
        self.arrays: dict[tuple[str, np.dtype[Any]], NDArray[Any]] = {}


_local = _Buffers()


def scratch(purpose: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Return a contiguous array of unknown content, valid until the thread asks for it again.

    It is a view of the calling thread's buffer for this purpose; different purposes do not overlap.
    """
    buffers = _local.arrays
    key = (purpose, np.dtype(dtype))
    size = math.prod(shape)
    if key not in buffers or buffers[key].size < size:
        buffers[key] = np.empty(size, dtype=dtype)
    return buffers[key][:size].reshape(shape)
