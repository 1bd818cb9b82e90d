"""What every source returns: samples that are read in blocks, with labels and ids."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from daskfc.errors import DaskfcError, StoreError
from daskfc.seeds import generator
from daskfc.stores.layout.chunk_sizes import MOST_OF_A_WORD
from daskfc.stores.layout.locations import reaching
from daskfc.stores.layout.spelling import WordMap, renumbered


@dataclass(frozen=True)
class View:
    """Adjacent columns [start, stop) of a source that are one view of its samples.

    `made` says what daskfc made it from, where no file has it.
    """

    name: str
    start: int
    stop: int
    made: str = ""


@dataclass(frozen=True)
class Samples:
    """A source that is opened but not read; only the first three must be given.

    Attributes
    ----------
    n_samples, feature_names : int, tuple of str
        The number of rows, and a name for each column.
    blocks : callable
        ``blocks(rows)`` yields arrays of at most so many rows, in order, afresh at each call.
    labels, classes : ndarray of int64 of shape (n_samples,), tuple of str, optional
        True classes, which only scores read, and their names where they were words.
    sample_ids : ndarray of str of shape (n_samples,), optional
        Ids, all different.
    graph : csr_array of shape (n_samples, n_samples), optional
        Symmetric adjacency.
    views, present : tuple of View, ndarray of bool of shape (n_samples, n_views), optional
        No views for a table; `present` is False where blocks hold NaN, None if nothing is missing.
    categories, words, cells, missing, scaling : mappings, and missing a bool
        The words that numbers in columns stand for, and the replacements that led to them; the keys
        of a source that its cells were read by; whether blocks may hold NaN; the scaling of
        columns, by view, or under "".
    """

    n_samples: int
    feature_names: tuple[str, ...]
    blocks: Callable[[int], Iterator[np.ndarray]]
    labels: np.ndarray | None = None
    classes: tuple[str, ...] | None = None
    sample_ids: np.ndarray | None = None
    graph: sparse.csr_array | None = None
    views: tuple[View, ...] = ()
    present: np.ndarray | None = None
    scaling: Mapping[str, str] = field(default_factory=dict)
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    missing: bool = False
    words: WordMap = field(default_factory=dict)
    cells: Mapping[str, Any] = field(default_factory=dict)

    @property
    def unprepared(self) -> str:
        """What to prepare before features are numbers, in words; empty if nothing."""
        return unprepared(self.categories, self.missing)

    def ids(self) -> np.ndarray:
        """Return the ids, or the row numbers in the source where it has none."""
        if self.sample_ids is not None:
            return self.sample_ids
        return np.arange(self.n_samples).astype(str)

    def steps(self, view: str | None = None) -> list[dict[str, str]]:
        """Return what daskfc did to the columns of one view, or of all, for stores to record.

        Keys are step, kind and, if there are views, view; never a number computed from the samples.
        """
        wanted = [own.name for own in self.views if view in (None, own.name)] or [""]
        made = {own.name: own.made for own in self.views if own.made}
        return [
            {"step": step, "kind": kinds[name], **({"view": name} if name else {})}
            for step, kinds in {"making": made, "scaling": self.scaling}.items()
            for name in wanted
            if name in kinds
        ]

    def scaled(self, scale: float) -> Samples:
        """Return the samples with every feature multiplied by a number."""

        def blocks(rows: int) -> Iterator[np.ndarray]:
            for block in self.blocks(rows):
                yield block.astype(np.float64) * scale

        return replace(self, blocks=blocks)

    def subsample(self, n: int, seed: int) -> Samples:
        """Return a uniform subsample without replacement, in the order of the source."""
        if n > self.n_samples:
            raise StoreError(
                f"subsample.n must be at most the number of samples of the source; got {n} of "
                f"{self.n_samples}. Ask for fewer."
            )
        chosen = np.sort(generator(seed, "subsample").choice(self.n_samples, n, replace=False))
        present = None if self.present is None else self.present[chosen]

        def blocks(rows: int) -> Iterator[np.ndarray]:
            start = 0
            for block in self.blocks(rows):
                low, high = np.searchsorted(chosen, [start, start + len(block)])
                if high > low:
                    yield block[chosen[low:high] - start]
                start += len(block)

        return replace(
            self,
            n_samples=n,
            blocks=blocks,
            labels=None if self.labels is None else self.labels[chosen],
            sample_ids=self.ids()[chosen],
            graph=None if self.graph is None else self.graph[chosen][:, chosen],
            present=None if present is None or present.all() else present,
        )


def blocks_of(table: Any) -> Callable[[int], Iterator[np.ndarray]]:
    """Return the `blocks` of an array or sparse matrix in memory; sparse rows become dense."""
    is_sparse = bool(sparse.issparse(table))

    def blocks(rows: int) -> Iterator[np.ndarray]:
        for start in range(0, table.shape[0], rows):
            block = table[start : start + rows]
            yield block.toarray() if is_sparse else block

    return blocks


def unprepared(categories: Collection[str], missing: bool) -> str:
    """Return what to prepare before features are numbers without gaps, in words; or empty."""
    words = [f"column {next(iter(categories))!r} holds words"] if categories else []
    return ", and ".join([*words, *(["cells may be empty"] if missing else [])])


def unmasked(values: Any) -> np.ndarray:
    """Return an array in which NaN, or None among words, is where NumPy masks an entry."""
    if not np.ma.is_masked(values):
        return np.asarray(values)
    numbers = values.dtype.kind in "biuf"
    kind = values.dtype if values.dtype.kind == "f" else np.float64 if numbers else object
    found = np.array(np.ma.getdata(values), dtype=kind)
    found[np.ma.getmaskarray(values)] = np.nan if numbers else None
    return found


def encode_labels(values: Any, where: str) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Return labels as int64, and sorted class words or None; raise for missing or fractions."""
    array = unmasked(values)
    if array.ndim == 2 and 1 in array.shape:
        array = array.ravel()
    if array.ndim != 1:
        raise StoreError(f"{where}: labels must be one number or word a sample; got {array.shape}.")
    if missing := _missing(array):
        raise StoreError(
            f"{where}: every sample must have a label; got none for {missing} of {len(array)}. "
            f"Fill them in, or leave the key 'labels' out."
        )
    if array.dtype.kind == "O" and all(isinstance(value, Real) for value in array):
        array = np.array(array.tolist())
    if array.dtype.kind in "iub":
        return array.astype(np.int64), None
    if array.dtype.kind == "f":
        whole = array.astype(np.int64)
        if (whole != array).any():
            raise StoreError(f"{where}: labels must be integers or words; got other numbers.")
        return whole, None
    names, codes = np.unique(array.astype(str), return_inverse=True)
    return codes.astype(np.int64), tuple(str(name) for name in names)


def _missing(array: np.ndarray) -> int:
    """Return how many entries are None or NaN."""
    return int(pd.isna(array).sum())


def ids_as_text(values: Any, where: str) -> np.ndarray:
    """Return ids as text; missing ids, floats and too long words raise StoreError."""
    array = unmasked(values)
    if array.ndim != 1:
        raise StoreError(
            f"{where}: sample ids must be one word or integer a sample; got shape "
            f"{array.shape}. Give a list of them."
        )
    if missing := _missing(array):
        raise StoreError(
            f"{where}: every sample must have an id; {missing} of {len(array)} have "
            f"none. Fill them in."
        )
    if array.size and array.dtype.kind not in "iuUSOT":
        raise StoreError(
            f"{where}: sample ids must be words or integers; got type "
            f"{array.dtype.name!r}. Convert them."
        )
    text = array.astype(str)
    if text.dtype.itemsize > 4 * MOST_OF_A_WORD:  # four bytes a character
        raise StoreError(
            f"{where}: a sample id must have at most {MOST_OF_A_WORD} characters; the longest has "
            f"{text.dtype.itemsize // 4}. Shorten it, or name another column."
        )
    return text


def stacked(parts: Sequence[Samples], names: Sequence[str]) -> Samples:
    """Return the samples of several files in turn; raise if columns, ids or labels do not match."""
    first = parts[0]
    if len(parts) == 1:
        return first
    for part, name in zip(parts, names, strict=True):
        if part.feature_names != first.feature_names:
            missing = [c for c in first.feature_names if c not in part.feature_names]
            others = [c for c in part.feature_names if c not in first.feature_names]
            got = f"lacks {missing[0]!r}" if missing else f"has {others[0]!r} as well" if others \
                else "has them in another order"  # fmt: skip
            raise StoreError(
                f"{name}: files of one client must have the same columns as the first, {names[0]}; "
                f"this one {got}. Mend it, or list the features in source.columns."
            )
        for what in ("labels", "sample_ids"):
            if (getattr(part, what) is None) != (getattr(first, what) is None):
                raise StoreError(
                    f"{name}: either all files of one client have {what.replace('_', ' ')} or none "
                    f"has; {names[0]} differs. Mend one of them."
                )
        if part.views or part.graph is not None:
            raise StoreError(
                f"{name}: files of one client must be tables; this one has a graph or several "
                "views. Give it alone."
            )
    labels, classes = _joined_labels(parts, names)
    ids = None if first.sample_ids is None else np.concatenate([p.sample_ids for p in parts])

    words = {
        name: tuple(sorted({word for part in parts for word in part.categories[name]}))
        for name in first.categories
    }

    def blocks(rows: int) -> Iterator[np.ndarray]:
        for part in parts:
            for block in part.blocks(rows):
                yield renumbered(block, part.feature_names, part.categories, words)

    return Samples(
        sum(part.n_samples for part in parts),
        first.feature_names,
        blocks,
        labels,
        classes,
        ids,
        categories=words,
        missing=any(part.missing for part in parts),
        words=parts[-1].words,
        cells=parts[-1].cells,
    )


def _joined_labels(
    parts: Sequence[Samples], names: Sequence[str]
) -> tuple[np.ndarray | None, tuple[str, ...] | None]:
    if parts[0].labels is None:
        return None, None
    if all(part.classes is None for part in parts):
        return np.concatenate([part.labels for part in parts]), None
    words: list[str] = []
    for part in parts:
        codes = np.asarray(part.labels).tolist()
        words += [str(code) if part.classes is None else part.classes[code] for code in codes]
    return encode_labels(words, ", ".join(names))


@contextmanager
def reading(path: str, format_name: str) -> Iterator[None]:
    """Turn what a library raises for a missing or foreign file into one StoreError."""
    try:
        with reaching(path):
            yield
    except (DaskfcError, MemoryError):  # not the file's fault
        raise
    except FileNotFoundError as error:
        raise StoreError(
            f"{path}: the source file is not there; correct source.path (relative paths start at "
            "the folder of the storage file, and in a command at the working directory)."
        ) from error
    except Exception as error:  # libraries raise anything for files that others made
        raise StoreError(
            f"{path}: the source cannot be read as {format_name} ({type(error).__name__}); see "
            f"that the file is whole and that source.format is right."
        ) from error
