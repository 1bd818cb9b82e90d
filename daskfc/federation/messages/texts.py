"""Words in a message: their UTF-8 bytes, one after the other, and where each ends."""

from collections.abc import Iterable

import numpy as np


def text_arrays(words: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return words as UTF-8 bytes, (bytes,) uint8, and where each ends in them, (words,) int64."""
    encoded = [str(word).encode() for word in words]
    content = np.frombuffer(b"".join(encoded), dtype=np.uint8)
    return content, np.cumsum([len(word) for word in encoded], dtype=np.int64)


def texts_in(content: np.ndarray, ends: np.ndarray) -> list[str]:
    """Return the words of two arrays; the inverse of `text_arrays`."""
    raw, stops = content.tobytes(), ends.tolist()
    return [raw[a:b].decode() for a, b in zip([0, *stops], stops, strict=False)]
