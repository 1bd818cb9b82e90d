"""Memory of a party's process: its peak, buffers to take early, freed memory to give back."""

import ctypes
import resource
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import scipy.linalg.blas

_SIDE = 256  # ours: of matrices that BLAS multiplies with all its threads, in a millisecond
_FULL = 0.4  # ours: of a limit, above which freed memory is given back; that takes a few ms


def peak_memory_bytes() -> int:
    """Return the most memory (bytes, resident) that this process has used so far."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def take_buffers() -> None:
    """Have numpy's and scipy's BLAS allocate the buffers that they keep.

    OpenBLAS 0.3.30 asks for ever where a process gets no more memory (``ulimit -v``).
    """
    square = np.ones((_SIDE, _SIDE))
    np.matmul(square, square)
    scipy.linalg.blas.dgemm(1.0, square, square)


def _malloc_trim() -> Callable[[int], int] | None:
    """Return the function of glibc that gives freed memory back; None elsewhere."""
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return trim


def give_back(limit: int | None) -> bool:
    """Give freed memory back to the system once near `limit`, in bytes; return whether it was.

    Gaps of freed arrays count as used: a million samples' columns left 500 MB, which ended a step.
    """
    if not limit or psutil.Process().memory_info().rss < _FULL * limit:
        return False
    trim = _malloc_trim()
    if trim is not None:
        trim(0)
    return trim is not None
