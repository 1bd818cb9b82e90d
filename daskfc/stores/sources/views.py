"""Join several views of the same samples into one source: side by side, or by ids."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate, pairwise

import numpy as np

from daskfc.errors import StoreError
from daskfc.stores.layout.layout import check_different
from daskfc.stores.layout.samples import Samples, View, encode_labels

Blocks = Callable[[int], Iterator[np.ndarray]]


def numbered_views(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names view0, view1, ... of arrays, else X1, X2, ... if at least two, or none."""
    there = list(names)
    for family, fewest in (("view", 1), ("X", 2)):
        matches = [re.fullmatch(rf"{family}(0|[1-9][0-9]*)", name) for name in there]
        found = sorted((int(match[1]), match[0]) for match in matches if match)
        if len(found) >= fewest:
            return tuple(name for _, name in found)
    return ()


def beside(parts: Mapping[str, Samples], where: str) -> Samples:
    """Put views of the same ordered samples side by side; raise for unequal numbers of rows."""
    rows = {name: part.n_samples for name, part in parts.items()}
    if len(set(rows.values())) > 1:
        got = ", ".join(f"{name} {count}" for name, count in list(rows.items())[:12])
        raise StoreError(
            f"{where}: views must have a row for every sample; got rows {got}. Join views of "
            "different samples by their ids: source.views names a file for each."
        )

    def blocks(size: int) -> Iterator[np.ndarray]:
        for own in zip(*(part.blocks(size) for part in parts.values()), strict=True):
            yield np.concatenate(own, axis=1)

    names, views = _columns(parts)
    return Samples(next(iter(rows.values())), names, blocks, views=views)


def _columns(parts: Mapping[str, Samples]) -> tuple[tuple[str, ...], tuple[View, ...]]:
    """Return the columns' names, each with its view's before it, and the views."""
    names = tuple(f"{view}.{name}" for view, part in parts.items() for name in part.feature_names)
    edges = accumulate((len(part.feature_names) for part in parts.values()), initial=0)
    return names, tuple(
        View(name, *ends) for name, ends in zip(parts, pairwise(edges), strict=True)
    )


def join_views(parts: Mapping[str, Samples]) -> Samples:
    """Join views of different files by sample ids, in the order in which ids are first seen.

    Labels come from the views that have some. Missing or repeated ids, contradictory or partial
    labels raise StoreError. A view in another order than those before it is held in memory.
    """
    ids = [_ids_of(name, part) for name, part in parts.items()]
    _, first, inverse = np.unique(np.concatenate(ids), return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    ends = np.cumsum([len(own) for own in ids])[:-1]
    places = dict(zip(parts, np.split(rank[inverse.ravel()], ends), strict=True))
    n = len(first)
    present = np.zeros((n, len(parts)), dtype=bool)
    for column, at in enumerate(places.values()):
        present[at, column] = True
    placed = [_placed(name, part, places[name], n) for name, part in parts.items()]

    def blocks(size: int) -> Iterator[np.ndarray]:
        for own in zip(*(view(size) for view in placed), strict=True):
            yield np.concatenate(own, axis=1)

    names, views = _columns(parts)
    labels, classes = _joined_labels(parts, places, n)
    union = np.concatenate(ids)[np.sort(first)]
    complete = bool(present.all())
    return Samples(
        n, names, blocks, labels, classes, union, views=views, present=None if complete else present
    )


def _ids_of(name: str, part: Samples) -> np.ndarray:
    if part.sample_ids is None:
        raise StoreError(
            f"view {name!r}: views are joined by the ids of their samples, and this one has none; "
            f"name them by source.views.{name}.ids."
        )
    check_different(part.sample_ids, f"view {name!r}", "Keep one row a sample.", places="samples")
    return part.sample_ids


def _placed(name: str, part: Samples, places: np.ndarray, n: int) -> Blocks:
    """Return blocks of all samples, with a view's rows at their places and NaN elsewhere."""
    width = len(part.feature_names)
    rising = bool((np.diff(places) > 0).all())
    wanted = np.sort(places)

    def blocks(size: int) -> Iterator[np.ndarray]:
        rows = part.blocks(size)
        if not rising:
            rows = iter([np.concatenate(list(rows))[np.argsort(places)]])
        waiting = np.empty((0, width))
        for start in range(0, n, size):
            stop = min(start + size, n)
            low, high = np.searchsorted(wanted, [start, stop])
            while len(waiting) < high - low:
                more = next(rows, None)
                if more is None:
                    raise StoreError(
                        f"view {name!r}: its file has fewer samples than when it was opened; "
                        "leave it as it is while stores are built."
                    )
                waiting = np.concatenate([waiting, more])
            block = np.full((stop - start, width), np.nan)
            block[wanted[low:high] - start] = waiting[: high - low]
            waiting = waiting[high - low :]
            yield block

    return blocks


def _joined_labels(
    parts: Mapping[str, Samples], places: Mapping[str, np.ndarray], n: int
) -> tuple[np.ndarray | None, tuple[str, ...] | None]:
    """Return every sample's label, matched by words where there are words."""
    known, labelled = np.full(n, "", dtype=object), np.zeros(n, dtype=bool)
    told: list[str] = []
    numbers = True
    for name, part in parts.items():
        if part.labels is None:
            continue
        at = places[name]
        words = part.labels if part.classes is None else np.array(part.classes)[part.labels]
        own = words.astype(str).astype(object)
        unlike = int((labelled[at] & (known[at] != own)).sum())
        if unlike:
            raise StoreError(
                f"view {name!r}: its labels must be those of view {' or '.join(map(repr, told))}; "
                f"{unlike} of {len(own)} samples have another one there. Correct them, or name "
                "labels in one view only."
            )
        known[at], labelled[at] = own, True
        numbers &= part.classes is None
        told.append(name)
    if not told:
        return None, None
    missing = int((~labelled).sum())
    if missing:
        raise StoreError(
            f"views {', '.join(told)}: every sample must have a label; got none for {missing} of "
            f"{n}, which only other views have. Name labels there too, or leave them out."
        )
    if numbers:
        return known.astype(np.int64), None
    return encode_labels(known, "source.views")
