"""Matrix products of bytes through torch, where onnxruntime is not installed.

``torch._int_mm`` is a private name; the engine's self-test at first use guards it.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray


@lru_cache(maxsize=1)
def _torch() -> Any:
    import torch

    torch.set_num_threads(1)  # callers thread over tiles
    return torch


def available() -> str | None:
    """Return None when products of bytes can be computed, else the reason."""
    try:
        return None if hasattr(_torch(), "_int_mm") else "this torch has no product of bytes"
    except ImportError:
        return "neither onnxruntime (it comes with daskfc[fast]) nor torch is installed"


def multiply(a: NDArray[np.int8], b: NDArray[np.int8], out: NDArray[np.int32]) -> NDArray[np.int32]:
    """Write a (m, k) @ b.T, b of (n, k), into `out`, without the interpreter lock."""
    torch = _torch()
    torch._int_mm(torch.from_numpy(a), torch.from_numpy(b).t(), out=torch.from_numpy(out))
    return out
