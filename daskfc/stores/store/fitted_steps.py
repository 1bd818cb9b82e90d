"""Apply the fitted steps of a preparation to rows, and to the columns that rows have.

A step is a mapping of plain values, so that a run's folder and every party's settings can hold it:

``{"step": "standardise", "mean": [...], "scale": [...]}``  (x - mean) / scale, column by column
``{"step": "min-max", "low": [...], "width": [...]}``       (x - low) / width
``{"step": "robust", "center": [...], "scale": [...]}``     (x - center) / scale
``{"step": "log"}``                                         log(1 + x)
``{"step": "clip", "low": a, "high": b}``                   x, but at least a and at most b
``{"step": "impute", "fill": [...]}``                       a column's value where one is missing
``{"step": "words", "words": {...}}``                       a site's own words in place of others
``{"step": "categories", "words": {...}}``                  words get the numbers of these lists
``{"step": "one-hot", "height": h}``                        a column of 0 and h for each word
``{"step": "normalise"}``                                   x / |x|, row by row; zeros stay zeros
``{"step": "normalise", "lengths": [...]}``                 x / its row's number; 0 divides none
``{"step": "tf-idf", "idf": [...]}``                        x idf, column by column
``{"step": "smooth", "order": p, "filter": kind}``          rows averaged over the store's graph
``{"step": "pca", "mean": [...], "components": [[...]]}``   (x - mean) componentsᵀ
``{"step": "jitter", "share": a, "seed": s}``               x plus noise of a times the client's
                                                            own deviation of the column, within
                                                            the client's largest magnitude

Steps leave columns of words alone, except ``impute`` before they are one-hot, and ``log`` and
``clip`` after. With ``"own": true`` in place of its values a step computes them from the client's
own samples; declared values of ``min-max`` may be mappings of the names of columns of numbers.
``smooth`` is the last step, as `PreparedStore` holds its result.

**Weight of a column of words.** With h = 1/√2 two samples with different words in a column are at
the squared distance 1 in it, and those with the same word at 0, however many words there are.
Gower's coefficient of similarity treats qualitative characters so, and divides a number's
distance by the range, as ``min-max`` does: J. C. Gower, "A general coefficient of similarity and
some of its properties", Biometrics 27 (1971) 857-871. ``standardise`` divides all columns of one
column of words by one number, the square root of the sum of their variances, so that two random
samples are at the mean squared distance 2 in it, as in a standardised column of numbers. A column
of two words thus weighs as much as the numbers 0 and 1 would.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from daskfc.errors import StoreError
from daskfc.seeds import generator
from daskfc.stores.layout.samples import unprepared
from daskfc.stores.layout.spelling import Spelling, renumbered

FittedStep: TypeAlias = Mapping[str, Any]
Change: TypeAlias = Callable[[np.ndarray, int], np.ndarray]  # rows, and which is the first

HEIGHT = 0.5**0.5
"""What stands for a word that is there: two different ones are at the squared distance 1"""

_BLOCK = 1024  # ours: rows whose noise is drawn together

SHIFTED = {
    "standardise": ("mean", "scale"),
    "min-max": ("low", "width"),
    "robust": ("center", "scale"),
}
"""Steps that subtract a number from each column and divide by another, and what these are called"""


@dataclass(frozen=True)
class Columns:
    """The columns of rows: names, words of categorical ones, whether NaN may occur.

    A categorical value is its word's number; an unlisted word has the number after the last.
    `made_of` is the column of words from which ``one-hot`` made each column, and "" for others.
    """

    names: tuple[str, ...]
    categories: Mapping[str, tuple[str, ...]]
    missing: bool
    client: str
    made_of: tuple[str, ...] = ()

    @property
    def numbers(self) -> np.ndarray:
        """Which of them hold numbers, (n_columns,) bool."""
        made_of = self.made_of or ("",) * len(self.names)
        return np.array(
            [
                name not in self.categories and not of
                for name, of in zip(self.names, made_of, strict=True)
            ]
        )

    def one_hot(self) -> Columns:
        """Return the columns that ``one-hot`` makes of them."""
        made = [
            (f"{name}={word}", name) if word is not None else (name, of)
            for name, of in zip(self.names, self.made_of or ("",) * len(self.names), strict=True)
            for word in self.categories.get(name, (None,))
        ]
        names, made_of = zip(*made, strict=True) if made else ((), ())
        return replace(self, names=names, made_of=made_of, categories={})


def applied(step: FittedStep, columns: Columns) -> tuple[Change, Columns]:
    """Return a step's change of rows, and the resulting columns; StoreError if it does not fit."""
    kind, width = step["step"], len(columns.names)
    for value in ("mean", "low", "center", "fill", "idf"):
        given = step.get(value)
        if isinstance(given, list | tuple) and len(given) != width:  # a tuple where it was sent
            raise StoreError(
                f"client {columns.client!r}: the step {kind!r} was fitted on {len(given)} columns, "
                f"and the store has {width}. Fit the preparation again."
            )
    match kind:
        case "standardise" | "min-max" | "robust":
            shift, scale = (np.asarray(step[value], dtype=np.float64) for value in SHIFTED[kind])
            return (lambda rows, _: (rows - shift) / scale), columns
        case "log":
            return (lambda rows, _: _log(rows, columns)), columns
        case "clip":
            low, high, numbers = step.get("low"), step.get("high"), columns.numbers
            return (lambda rows, _: np.where(numbers, np.clip(rows, low, high), rows)), columns
        case "impute":
            fill = np.asarray(step["fill"], dtype=np.float64)
            filled = replace(columns, missing=False)
            return (lambda rows, _: np.where(np.isnan(rows), fill, rows)), filled
        case "words":
            own = columns.categories
            spelling = Spelling(step["words"])
            spelt = {n: tuple(spelling.of(word, n) for word in words) for n, words in own.items()}
            once = {name: tuple(dict.fromkeys(words)) for name, words in spelt.items()}
            there = replace(columns, categories=once)
            return (lambda rows, _: renumbered(rows, columns.names, spelt, there.categories)), there
        case "categories":
            words = {name: tuple(listed) for name, listed in step["words"].items()}
            own = columns.categories
            there = replace(columns, categories={name: words[name] for name in own})
            return (lambda rows, _: renumbered(rows, columns.names, own, there.categories)), there
        case "jitter":
            name, seed = columns.client, int(step["seed"])
            by, most = np.asarray(step["scale"]), float(step["largest"])  # a bound may be declared

            def moved(rows: np.ndarray, at: int) -> np.ndarray:
                found = rows + by * _chance(name, seed, at, *rows.shape)
                return np.asarray(np.clip(found, -most, most))

            return moved, columns
        case "one-hot":
            return _one_hot(columns, float(step.get("height", 1.0)))  # 1 in earlier models
        case "tf-idf":
            idf = np.asarray(step["idf"], dtype=np.float64)
            return (lambda rows, _: _counts(rows, columns.client) * idf), columns
        case "normalise" if "lengths" in step:
            given = np.asarray(step["lengths"], dtype=np.float64)
            lengths = np.where(given > 0.0, given, 1.0)[:, None]
            return (lambda rows, at: rows / lengths[at : at + len(rows)]), columns
        case "normalise":
            return (lambda rows, _: _of_length_1(rows)), columns
        case "pca":
            return _projected(step, columns)
    raise StoreError(f"client {columns.client!r}: no step is called {kind!r}.")


def _log(rows: np.ndarray, columns: Columns) -> np.ndarray:
    numbers = columns.numbers
    if ((rows <= -1.0) & numbers).any():  # without a count: earlier steps moved the values
        raise StoreError(
            f"client {columns.client!r}: the step 'log' needs features above -1; some of "
            f"{len(rows)} rows have others. Leave the step out, or clip first."
        )
    found: np.ndarray = np.where(numbers, np.log1p(np.where(numbers, rows, 0.0)), rows)
    return found


def _counts(rows: np.ndarray, client: str) -> np.ndarray:
    if (rows < 0.0).any():
        raise StoreError(
            f"client {client!r}: the step 'tf-idf' needs counts of words, which are at least 0; "
            f"some of {len(rows)} rows have others. Leave the step out."
        )
    return rows


def _chance(name: str, seed: int, start: int, n: int, d: int) -> np.ndarray:
    """Return standard normal numbers for rows, the same in whatever blocks rows are read."""
    first, last = start // _BLOCK, (start + max(n, 1) - 1) // _BLOCK
    blocks = [
        generator(seed, "jitter", name, block).standard_normal((_BLOCK, d))
        for block in range(first, last + 1)
    ]
    return np.concatenate(blocks)[start - first * _BLOCK :][:n]


def _of_length_1(rows: np.ndarray) -> np.ndarray:
    largest = np.abs(rows).max(axis=1, keepdims=True)  # squares of what is huge or tiny stay finite
    scaled = np.divide(rows, largest, out=np.zeros_like(rows), where=largest > 0)
    length = np.linalg.norm(scaled, axis=1, keepdims=True)
    return np.asarray(scaled / np.where(length > 0, length, 1.0))


def _one_hot(columns: Columns, height: float) -> tuple[Change, Columns]:
    def encoded(rows: np.ndarray, _: int) -> np.ndarray:
        parts = []
        for name, column in zip(columns.names, rows.T, strict=True):
            words = columns.categories.get(name)
            if words is None:
                parts.append(column[:, None])
            else:  # neither a missing word nor an unlisted one has a column
                parts.append((column[:, None] == np.arange(len(words))) * height)
        return np.hstack(parts)

    return encoded, columns.one_hot()


def _projected(step: FittedStep, columns: Columns) -> tuple[Change, Columns]:
    if told := unprepared(columns.categories, columns.missing):
        raise StoreError(
            f"client {columns.client!r}: the step 'pca' needs numbers without gaps; {told}. Impute "
            "and one-hot first."
        )
    mean, components = (np.asarray(step[value]) for value in ("mean", "components"))
    if len(components) > len(columns.names):
        raise StoreError(
            f"client {columns.client!r}: the step 'pca' makes {len(components)} columns of "
            f"{len(columns.names)}; it makes no more than there are. Fit the preparation again."
        )
    names = tuple(f"pc{i}" for i in range(1, len(components) + 1))
    projected = replace(columns, names=names, made_of=())
    return (lambda rows, _: (rows - mean) @ components.T), projected
