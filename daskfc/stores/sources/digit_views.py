"""scikit-learn's digits as three views: pixels, sums of rows and columns, Fourier magnitudes."""

from collections.abc import Iterator

import numpy as np

from daskfc.stores.layout.samples import Samples, View

__all__ = ["DIGIT_VIEWS", "digit_views"]

DIGIT_VIEWS = ("pixels", "profiles", "fourier")
_MADE = {
    "pixels": "the pixels themselves",
    "profiles": "sums of rows and of columns of the image",
    "fourier": "magnitudes of the image's Fourier coefficients, each once",
}
_SIDE = 8  # pixels
# Coefficients (u, v) and (-u, -v) of a real image are conjugates, and their magnitudes the same.
_ONCE = tuple(
    (u, v)
    for u in range(_SIDE)
    for v in range(_SIDE // 2 + 1)
    if v not in (0, _SIDE // 2) or u <= _SIDE // 2
)


def digit_views(pixels: np.ndarray, labels: np.ndarray, classes: tuple[str, ...]) -> Samples:
    """Make three views of digits from pixels (n, 64), images of 8 x 8 row by row.

    They are 64 pixels, 8 + 8 sums ("profiles") and 34 magnitudes ("fourier"), side by side.
    """
    images = np.asarray(pixels, dtype=np.float64).reshape(-1, _SIDE, _SIDE)
    magnitudes = np.abs(np.fft.rfft2(images))
    tables = {
        "pixels": images.reshape(-1, _SIDE**2),
        "profiles": np.hstack([images.sum(axis=2), images.sum(axis=1)]),
        "fourier": np.stack([magnitudes[:, u, v] for u, v in _ONCE], axis=1),
    }
    both = [(u, v) for u in range(_SIDE) for v in range(_SIDE)]
    names = {
        "pixels": [f"{row}_{column}" for row, column in both],
        "profiles": [f"{kind}_{i}" for kind in ("row", "column") for i in range(_SIDE)],
        "fourier": [f"{u}_{v}" for u, v in _ONCE],
    }
    table = np.hstack(list(tables.values()))
    edges = np.cumsum([0, *(own.shape[1] for own in tables.values())]).tolist()

    def blocks(size: int) -> Iterator[np.ndarray]:
        for start in range(0, len(table), size):
            yield table[start : start + size]

    return Samples(
        len(table),
        tuple(f"{view}.{name}" for view, own in names.items() for name in own),
        blocks,
        labels,
        classes,
        views=tuple(
            View(name, start, stop, _MADE[name])
            for name, start, stop in zip(tables, edges[:-1], edges[1:], strict=True)
        ),
    )
