"""Scale a source's columns, by statistics of a first pass over its blocks.

The statistics are those of all samples of the source. A minimum or a mean may be one sample's
private value, so that stores record the kind of scaling and no number: their attributes reveal
nothing of samples that other clients got.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from daskfc.errors import StoreError
from daskfc.stores.layout.samples import Samples

Scaling = Literal["min-max", "min-max-all", "standard", "none"]
"""Per column to [0, 1]; a whole view to [0, 1]; per column to mean 0 and variance 1; as it is."""

SCALINGS: tuple[str, ...] = get_args(Scaling)
_ROWS = 8192  # ours: of a block of the first pass


class _Statistics:
    """Statistics of the columns of one view, over the rows that it has."""

    def __init__(self, width: int, kind: str) -> None:
        self.kind = kind
        self.count = 0
        self.low, self.high = np.full(width, np.inf), np.full(width, -np.inf)
        self.mean, self.squares = np.zeros(width), np.zeros(width)  # squares of (x - mean), summed

    def add(self, rows: np.ndarray) -> None:
        n = len(rows)
        if self.kind == "none" or not n:
            return
        self.low = np.minimum(self.low, rows.min(axis=0))
        self.high = np.maximum(self.high, rows.max(axis=0))
        if self.kind == "standard":
            # merged by Chan, Golub and LeVeque's rule, which loses no digits to the mean
            mean = rows.mean(axis=0)
            away = mean - self.mean if self.count else np.zeros_like(mean)
            self.mean = self.mean + away * (n / (self.count + n)) if self.count else mean
            self.squares += ((rows - mean) ** 2).sum(axis=0)
            self.squares += away**2 * (self.count * n / (self.count + n))
        self.count += n

    def shift_and_divisor(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the number to subtract from every column, and its divisor, which is never 0."""
        if self.kind == "none" or not self.count:
            return np.zeros(len(self.low)), np.ones(len(self.low))
        if self.kind == "min-max-all":
            shift = np.full(len(self.low), self.low.min())
            divisor = self.high.max() - shift
        elif self.kind == "min-max":
            shift, divisor = self.low, self.high - self.low
        else:
            constant = self.low == self.high
            shift = np.where(constant, self.low, self.mean)  # and not the rounded mean
            divisor = np.where(constant, 0.0, np.sqrt(self.squares / self.count))
        return shift, np.where(divisor == 0, 1.0, divisor)


def rescaled(samples: Samples, scaling: str | Mapping[str, str], where: str) -> Samples:
    """Scale the columns of a source by statistics of its rows, which are read once here.

    `scaling` is one kind, or kinds by view. The result is float64, and 0 in constant columns.
    """
    ranges = {view.name: slice(view.start, view.stop) for view in samples.views}
    ranges = ranges or {"": slice(0, len(samples.feature_names))}
    kinds = _kinds(scaling, tuple(ranges), where)
    told = [
        _Statistics(columns.stop - columns.start, kind)
        for columns, kind in zip(ranges.values(), kinds.values(), strict=True)
    ]
    with np.errstate(over="ignore", invalid="ignore"):  # what does not fit is refused below
        if set(kinds.values()) != {"none"}:
            _read(samples, list(ranges.values()), told, where)
        pairs = [one.shift_and_divisor() for one in told]
    shift, divisor = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
    if not (np.isfinite(shift).all() and np.isfinite(divisor).all()):
        raise StoreError(
            f"{where}: features are too large to be scaled, their range or variance is above what "
            "a float64 holds; give them in another unit."
        )

    def blocks(size: int) -> Iterator[np.ndarray]:
        for block in samples.blocks(size):
            yield (block - shift) / divisor

    return replace(samples, blocks=blocks, scaling=kinds)


def _read(samples: Samples, ranges: list[slice], told: list[_Statistics], where: str) -> None:
    """Read all blocks once, and add every view's rows to its statistics."""
    start = 0
    for block in samples.blocks(_ROWS):
        held = _held(samples, start, len(block))
        for number, columns in enumerate(ranges):
            rows = np.asarray(block[held[:, number], columns], dtype=np.float64)
            _check_finite(rows, where)
            told[number].add(rows)
        start += len(block)


def _kinds(scaling: str | Mapping[str, str], views: tuple[str, ...], where: str) -> dict[str, str]:
    if isinstance(scaling, str):
        return dict.fromkeys(views, scaling)
    if views == ("",):
        raise StoreError(
            f"{where}: source.scaling names views and the source has none; give one of "
            f"{', '.join(SCALINGS)} for all its columns."
        )
    unknown = [name for name in scaling if name not in views]
    if unknown:
        raise StoreError(
            f"{where}: source.scaling must name views of the source, {', '.join(views[:12])}; got "
            f"{unknown[0]!r}. Correct the name."
        )
    return {name: scaling.get(name, "none") for name in views}


def _held(samples: Samples, start: int, rows: int) -> np.ndarray:
    """Return which views have which samples of a block."""
    if samples.present is None:
        return np.ones((rows, max(1, len(samples.views))), dtype=bool)
    held: np.ndarray = samples.present[start : start + rows]
    return held


def _check_finite(rows: np.ndarray, where: str) -> None:
    bad = int((~np.isfinite(rows).all(axis=1)).sum())
    if bad:
        raise StoreError(
            f"{where}: features must be finite to be scaled; got NaN or infinity in {bad} of "
            f"{len(rows)} rows of a block. Clean the source."
        )
