"""A client's store with features prepared as they are read, by steps of ``fitted_steps``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from daskfc.errors import StoreError
from daskfc.linalg.graph_filter import GraphOperator
from daskfc.stores.store.client import ClientStore
from daskfc.stores.store.fitted_steps import SHIFTED, Change, Columns, FittedStep, applied

if TYPE_CHECKING:
    import xarray as xr


_TABLES, _EDGE = 4, 104  # measured: copies of all rows, and bytes of an edge, while it filters


class PreparedStore(ClientStore):
    """A store whose rows are prepared; made by `of`."""

    _steps: tuple[FittedStep, ...]
    _changes: tuple[Change, ...]
    _made_of: tuple[str, ...]
    _smoothed: Callable[[], np.ndarray] | None

    @classmethod
    def of(cls, store: ClientStore, steps: Sequence[FittedStep]) -> Self:
        """Return the store with steps of `fitted_steps` applied in their order."""
        made = cls.__new__(cls)
        made.__dict__.update(store.__dict__)
        made.dtype = np.dtype(np.float64)
        if not isinstance(store, PreparedStore):  # whose steps come first
            made._steps = made._changes = made._made_of = ()
            made._smoothed = None
        for step in steps:
            made._add(step)
        return made

    def leaves_few(self, least: int) -> bool:
        """Return whether a ``clip`` moves some numbers of a column and leaves below `least`.

        Such a column's sums would be those of few rows. Reads all rows once for each ``clip``.
        """
        store = ClientStore.open(self.url)
        for at, step in enumerate(self._steps):
            if step["step"] != "clip":
                continue
            before = PreparedStore.of(store, self._steps[:at])
            moved, left = np.zeros((2, before.n_features), dtype=np.int64)
            for _, rows in before.blocks():
                clipped = np.clip(rows, step.get("low"), step.get("high"))
                left += (clipped == rows).sum(axis=0)
                moved += ((clipped != rows) & ~np.isnan(rows)).sum(axis=0)
            if (before.columns.numbers & (moved > 0) & (left > 0) & (left < least)).any():
                return True
        return False

    def words_there(self) -> set[tuple[str, str]]:
        """Return the words that samples have, each with its column."""
        found = set[tuple[str, str]]()
        for _, rows in self.blocks():
            for name, column in zip(self.feature_names, rows.T, strict=True):
                if words := self.categories.get(name):
                    own = np.unique(column[~np.isnan(column)]).tolist()
                    found.update((name, words[int(number)]) for number in own)
        return found

    @property
    def columns(self) -> Columns:
        """The columns as the steps so far made them."""
        return Columns(self.feature_names, self.categories, self.missing, self.name, self._made_of)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_again, (self.url, self._steps))

    @property
    def steps(self) -> tuple[FittedStep, ...]:
        """The steps, with the values that this store gave them in place of ``own``."""
        return self._steps

    @property
    def digest(self) -> str:
        """SHA-256 of the store's content and of the steps."""
        told = json.dumps([super().digest, *self._steps], sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()

    def dataset(self, chunks: Any = None) -> xr.Dataset:
        """Return an xarray view of the prepared rows; see `ClientStore.dataset`."""
        from daskfc.stores.store.lazy_rows import lazy_dataset  # as there

        return lazy_dataset(self, chunks, prepared=True)

    @property
    def smoothing_bytes(self) -> int:
        """Bytes that filtering rows over the graph takes beside them: none if it is not asked."""
        table = 8 * self.n_samples * self.n_features
        return 0 if self._smoothed is None else _TABLES * table + _EDGE * self.n_edges

    def rows_of_any_size(self, start: int, stop: int) -> np.ndarray:
        """Read rows, and prepare them; see `ClientStore.rows`."""
        if self._smoothed is not None:
            return self._smoothed()[start:stop].copy()
        return self._before_smoothing(start, stop)

    def _before_smoothing(self, start: int, stop: int) -> np.ndarray:
        rows = super().rows_of_any_size(start, stop)
        for change in self._changes:
            rows = change(rows, start)
        return np.ascontiguousarray(rows, dtype=np.float64)

    def _smooth(self, step: FittedStep) -> None:
        """Have rows be those of all columns filtered over the graph, once they are read."""
        if not self.has_graph:
            raise StoreError(
                f"client {self.name!r}: the step 'smooth' averages features over a graph, and the "
                "store has none. Add a graph to the storage file, or leave the step out."
            )

        @cache
        def smoothed() -> np.ndarray:
            columns = self._before_smoothing(0, self.n_samples)
            graph = GraphOperator.of(self.graph_blocks, self.n_samples)
            graph.filter_columns(columns, order=step["order"], kind=step["filter"])
            return columns

        self._steps, self._smoothed = (*self._steps, step), smoothed

    def _add(self, step: FittedStep) -> None:
        if self._smoothed is not None:
            raise StoreError(
                f"client {self.name!r}: 'smooth' must be the last step of a preparation; "
                f"{step['step']!r} follows. Put it before."
            )
        if isinstance(step.get("low"), Mapping):
            step = _by_name(self, step, self._made_of)
        elif step.get("own") or (step["step"] == "jitter" and "scale" not in step):
            step = _own(self, step, self._made_of)
        if "lengths" in step and len(step["lengths"]) != self.n_samples:
            raise StoreError(
                f"client {self.name!r}: the step 'normalise' was fitted on {len(step['lengths'])} "
                f"samples, and the store has {self.n_samples}: a sample's length over the columns "
                "of all clients is known of the samples of the fit alone. Fit again with them."
            )
        if step["step"] == "smooth":
            self._smooth(step)
            return
        change, columns = applied(step, self.columns)
        self._steps, self._changes = (*self._steps, step), (*self._changes, change)
        self.feature_names, self.n_features = columns.names, len(columns.names)
        self.categories, self.missing = dict(columns.categories), columns.missing
        self._made_of = columns.made_of


def _again(url: str, steps: tuple[FittedStep, ...]) -> PreparedStore:
    return PreparedStore.of(ClientStore.open(url), steps)


def numbers_of(store: ClientStore, block: np.ndarray) -> np.ndarray:
    """Return rows of a store with 0 in place of the numbers of words."""
    if not store.categories:
        return block
    words = [name in store.categories for name in store.feature_names]
    return np.where(words, 0.0, block)


def _by_name(store: ClientStore, step: FittedStep, made_of: Sequence[str]) -> FittedStep:
    """Return a step with declared values, of columns of numbers by name, for a client's columns."""
    pairs = list(zip(store.feature_names, made_of or ("",) * store.n_features, strict=True))
    low = [0.0 if of else step["low"][name] for name, of in pairs]
    width = [1.0 if of else step["width"][name] for name, of in pairs]
    return {**step, "low": low, "width": width}


def _own(store: ClientStore, step: FittedStep, made_of: Sequence[str]) -> FittedStep:
    """Return a step with the values that a client's own samples give."""
    kind = step["step"]
    if kind == "jitter":
        scale = float(step["share"]) * _deviations(store)
        return {**step, "scale": scale.tolist(), "largest": _largest(store)}
    if kind == "tf-idf":
        there = sum(((block > 0.0).sum(axis=0) for _, block in store.blocks()))
        return {"step": kind, "idf": idf_of(there, store.n_samples, made_of).tolist()}
    if kind == "standardise":
        mean, scale = spread_of(store, made_of)
        if step.get("within"):
            mean, scale = but_for_words(made_of, mean, scale)
        return {"step": kind, "mean": mean.tolist(), "scale": scale.tolist()}
    rows = store.rows_of_any_size(0, store.n_samples)
    if kind == "impute":
        fill = [
            _filling(column, "most-frequent" if name in store.categories else step["strategy"])
            for name, column in zip(store.feature_names, rows.T, strict=True)
        ]
        if None in fill:
            empty = store.feature_names[fill.index(None)]
            raise StoreError(
                f"client {store.name!r}: column {empty!r} has no value to fill gaps by. Leave it "
                "out."
            )
        return {"step": kind, "fill": fill}
    rows = numbers_of(store, rows)
    levels = [0.0, 1.0] if kind == "min-max" else [0.25, 0.5, 0.75]
    found = np.nanquantile(rows, levels, axis=0)
    centre = found[0] if kind == "min-max" else found[1]
    values = but_for_words(made_of, centre, width_of(found[-1] - found[0]))
    return {"step": kind, **dict(zip(SHIFTED[kind], map(np.ndarray.tolist, values), strict=True))}


def _filling(column: np.ndarray, strategy: str) -> float | None:
    there = column[~np.isnan(column)]
    if not len(there):
        return None
    if strategy == "most-frequent":
        values, counts = np.unique(there, return_counts=True)
        return float(values[counts.argmax()])
    return float(there.mean() if strategy == "mean" else np.median(there))


def idf_of(counts: np.ndarray, n_samples: float, made_of: Sequence[str] = ()) -> np.ndarray:
    """Return the weights of words by how many samples have them, as scikit-learn's.

    Columns that ``one-hot`` made have the weight 1.
    """
    weights = np.log((1.0 + n_samples) / (1.0 + counts)) + 1.0
    return np.where([bool(name) for name in made_of] or False, 1.0, weights)


def width_of(width: np.ndarray) -> np.ndarray:
    """Return what columns are divided by: their width, or 1 where that is 0."""
    # scikit-learn's is 1 below 2e-15, whatever the unit
    return np.where(width < np.finfo(np.float64).tiny, 1.0, width)


def _largest(store: ClientStore) -> float:
    """Return the largest magnitude of a store's numbers."""
    return max(float(np.abs(numbers_of(store, block)).max()) for _, block in store.blocks())


def _deviations(store: ClientStore) -> np.ndarray:
    """Return the standard deviation of a store's columns, 0 for constant ones."""
    mean, scale = spread_of(store)
    differs = np.zeros(store.n_features, dtype=bool)
    for _, block in store.blocks():
        differs |= (
            np.abs(numbers_of(store, block) - mean) > 10.0 * np.finfo(np.float64).eps * np.abs(mean)
        ).any(0)
    return np.where(differs, scale, 0.0)


def spread_of(store: ClientStore, made_of: Sequence[str] = ()) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation, (n_features,) each, as scikit-learn's StandardScaler.

    Missing values are left out, columns of words count as 0, and a deviation of 0 becomes 1.
    """
    total, count, largest = np.zeros((3, store.n_features))
    for _, block in store.blocks():
        numbers = numbers_of(store, block)
        total += np.nansum(numbers, axis=0)
        count += (~np.isnan(block)).sum(axis=0)
        largest = np.fmax(largest, np.fmax.reduce(np.abs(numbers), axis=0))
    count = np.maximum(count, 1)
    mean = total / count
    unit, squares = np.ldexp(1.0, np.frexp(largest)[1]), np.zeros(store.n_features)
    for _, block in store.blocks():  # in units of a power of two: plain squares may underflow
        squares += np.nansum(np.square((numbers_of(store, block) - mean) / unit), axis=0)
    return mean, scale_of(unit * np.sqrt(squares / count), mean, made_of)


def scale_of(deviation: np.ndarray, mean: np.ndarray, made_of: Sequence[str] = ()) -> np.ndarray:
    """Return the divisors of columns: 1 for those that are constant but for rounding.

    `made_of` is the word column of each, "" for numbers; columns of one word column are divided by
    the root of their summed variances, so that together they weigh as one column of numbers.
    """
    least = 10.0 * np.finfo(np.float64).eps * np.abs(mean)
    known = np.where(deviation <= least, 0.0, deviation)
    if any(made_of):
        _, of = np.unique([name or f"\0{i}" for i, name in enumerate(made_of)], return_inverse=True)
        joined = np.sqrt(np.bincount(of, weights=np.square(known)))[of]
        known = np.where([bool(name) for name in made_of], joined, known)
    return np.where(known > 0.0, known, 1.0)


def but_for_words(
    made_of: Sequence[str], shift: np.ndarray, scale: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the shifts and divisors of columns, 0 and 1 for those made of words."""
    words = np.array([bool(name) for name in made_of] or False)
    return np.where(words, 0.0, shift), np.where(words, 1.0, scale)
