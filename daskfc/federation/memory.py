"""Memory of a party's process: the most it used, what it takes at once, what it gives back."""

import ctypes
import resource
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import scipy.linalg.blas

__all__ = ["give_back", "peak_memory_bytes", "take_buffers"]

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
    """Have the BLAS of numpy and that of scipy take their buffers, which they keep.

    Where the system gives a process no more memory (``ulimit -v``), OpenBLAS 0.3.30 asks for them
    for ever: a step never ends, and looks from outside as if it computed.
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
    """Give freed memory back to the system, where the process holds much of its limit.

    Arrays of a few MB leave gaps between those that stay, which count as used: a million samples'
    columns came to 500 MB of them, and the next step was killed for as much.

    Parameters
    ----------
    limit : int or None
        Of the process, in bytes; with None nothing is given back.

    Returns
    -------
    bool
        Whether the system was asked to take it.
    """
    if not limit or psutil.Process().memory_info().rss < _FULL * limit:
        return False
    trim = _malloc_trim()
    if trim is not None:
        trim(0)
    return trim is not None
