"""Data sets that scikit-learn carries, and its digits as three views."""

import numpy as np

from daskfc.errors import StoreError
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.layout.samples import Samples, View, blocks_of, encode_labels
from daskfc.stores.sources.source import Source

BUNDLED = ("breast_cancer", "digits", "digits-views", "iris", "wine")

_DIGIT_VIEWS = ("pixels", "profiles", "fourier")
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


class Bundled(Source):
    """A data set of scikit-learn, or three views of its digits; all have labels."""

    has_views = True

    def open(self, source: SourceConfig) -> Samples:
        """Open the set that `source.dataset` names."""
        if source.dataset not in BUNDLED:
            raise StoreError(
                f"source.dataset must be one of {', '.join(BUNDLED)}; got {source.dataset!r}. "
                f"For a file use 'path'."
            )
        # here, and not at the top: time and memory that a worker reading its store does not need
        from sklearn import datasets

        name = source.dataset.removesuffix("-views")
        bunch = getattr(datasets, f"load_{name}")()
        labels, _ = encode_labels(bunch.target, source.dataset)
        names = tuple(str(name) for name in bunch.feature_names)
        classes = tuple(str(name) for name in bunch.target_names)
        if source.dataset == "digits-views":
            return _digit_views(bunch.data, labels, classes)
        return Samples(len(bunch.data), names, blocks_of(bunch.data), labels, classes)

    def views(self, source: SourceConfig) -> tuple[str, ...]:
        """Return the names of the views of a bundled data set; none for most."""
        return _DIGIT_VIEWS if source.dataset == "digits-views" else ()


def _digit_views(pixels: np.ndarray, labels: np.ndarray, classes: tuple[str, ...]) -> Samples:
    """Make three views of pixels (n, 64), 8 x 8 by row: 64 pixels, 8 + 8 sums, 34 magnitudes."""
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

    return Samples(
        len(table),
        tuple(f"{view}.{name}" for view, own in names.items() for name in own),
        blocks_of(table),
        labels,
        classes,
        views=tuple(
            View(name, start, stop, _MADE[name])
            for name, start, stop in zip(tables, edges[:-1], edges[1:], strict=True)
        ),
    )
