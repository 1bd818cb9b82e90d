"""Work memory kept per thread, as fresh pages cost more than the computations on them."""

import math
import threading
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


class _Buffers(threading.local):
    def __init__(self) -> None:
        self.arrays: dict[tuple[str, np.dtype[Any]], NDArray[Any]] = {}


_local = _Buffers()


def scratch(purpose: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Return an uninitialised array, valid until the thread's next call with this purpose."""
    buffers = _local.arrays
    key = (purpose, np.dtype(dtype))
    size = math.prod(shape)
    if key not in buffers or buffers[key].size < size:
        buffers[key] = np.empty(size, dtype=dtype)
    return buffers[key][:size].reshape(shape)
