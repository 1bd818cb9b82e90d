"""A client's store as a method reads it: features go through prepared steps as they are read.

A step is a mapping of plain values, so that a run's folder and every party's settings can hold it:

``{"step": "standardise", "mean": [...], "scale": [...]}``  (x - mean) / scale, column by column
``{"step": "standardise", "own": true}``                    the same, by the client's own values
``{"step": "log"}``                                         log(1 + x)
``{"step": "clip", "low": a, "high": b}``                   x, but at least a and at most b
``{"step": "pca", "mean": [...], "components": [[...]]}``   (x - mean) componentsᵀ
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeAlias

import numpy as np

from daskfc.errors import StoreError
from daskfc.stores.client import ClientStore

__all__ = ["FittedStep", "PreparedStore", "spread_of"]

FittedStep: TypeAlias = Mapping[str, Any]


class PreparedStore(ClientStore):
    """A store whose rows are prepared; made by `of`.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.stores import ClientStore, write_store
    >>> from daskfc.stores.prepared import PreparedStore
    >>> url = "memory://doc/prepared.zarr"
    >>> write_store(url, "a", np.array([[1.0], [3.0]]), overwrite=True)
    >>> step = {"step": "standardise", "mean": [2.0], "scale": [1.0]}
    >>> PreparedStore.of(ClientStore.open(url), [step]).rows(0, 2).tolist()
    [[-1.0], [1.0]]
    """

    _steps: tuple[FittedStep, ...]

    @classmethod
    def of(cls, store: ClientStore, steps: Sequence[FittedStep]) -> Self:
        """Return the store with its rows prepared.

        Parameters
        ----------
        store : ClientStore
            As it was written.
        steps : sequence of mapping
            In their order; see the module.

        Raises
        ------
        StoreError
            For steps of other columns.
        """
        made = cls.__new__(cls)
        made.__dict__.update(store.__dict__)
        made.dtype = np.dtype(np.float64)
        made._steps = ()
        for step in steps:
            made._add(step)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return (_again, (self.url, self._steps))

    @property
    def digest(self) -> str:
        """SHA-256 of what was written and of the steps."""
        told = json.dumps([super().digest, *self._steps], sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Read rows, and prepare them; see `ClientStore.rows`."""
        rows = super().rows(start, stop)
        for step in self._steps:
            rows = self._prepared(rows, step)
        return np.ascontiguousarray(rows)

    def _add(self, step: FittedStep) -> None:
        if step["step"] == "standardise" and step.get("own"):
            mean, scale = spread_of(self)
            step = {"step": "standardise", "mean": mean.tolist(), "scale": scale.tolist()}
        width = len(step["mean"]) if "mean" in step else self.n_features
        if width != self.n_features:
            raise StoreError(
                f"client {self.name!r}: the step {step['step']!r} was fitted on {width} columns, "
                f"and the store has {self.n_features}. Fit the preparation again."
            )
        self._steps = (*self._steps, step)
        if step["step"] == "pca":
            self.n_features = len(step["components"])
            self.feature_names = tuple(f"pc{i}" for i in range(1, self.n_features + 1))

    def _prepared(self, rows: np.ndarray, step: FittedStep) -> np.ndarray:
        match step["step"]:
            case "standardise":
                found = (rows - np.asarray(step["mean"])) / np.asarray(step["scale"])
            case "log":
                if (rows <= -1.0).any():
                    raise StoreError(
                        f"client {self.name!r}: the step 'log' needs features above -1; "
                        f"{int((rows <= -1.0).any(axis=1).sum())} of {len(rows)} rows have others. "
                        "Leave the step out, or clip first."
                    )
                found = np.log1p(rows)
            case "clip":
                found = np.clip(rows, step.get("low"), step.get("high"))
            case "pca":
                found = (rows - np.asarray(step["mean"])) @ np.asarray(step["components"]).T
            case kind:
                raise StoreError(f"client {self.name!r}: no step is called {kind!r}.")
        return np.asarray(found, dtype=np.float64)


def _again(url: str, steps: tuple[FittedStep, ...]) -> PreparedStore:
    return PreparedStore.of(ClientStore.open(url), steps)


def spread_of(store: ClientStore) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of a store's columns, the latter 1 where it is 0.

    Parameters
    ----------
    store : ClientStore
        Read in blocks, twice.

    Returns
    -------
    mean, scale : ndarray of shape (n_features,)
        As `sklearn.preprocessing.StandardScaler` would have them.
    """
    total = np.zeros(store.n_features)
    for _, block in store.blocks():
        total += block.sum(axis=0)
    mean = total / store.n_samples
    squares = np.zeros(store.n_features)
    for _, block in store.blocks():
        squares += np.square(block - mean).sum(axis=0)
    return mean, scale_of(squares / store.n_samples, mean)


def scale_of(variance: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Return standard deviations; 1 for columns that are constant but for rounding."""
    least = (10.0 * np.finfo(np.float64).eps * np.abs(mean)) ** 2
    scale: np.ndarray = np.sqrt(variance)
    scale[variance <= least] = 1.0
    return scale
