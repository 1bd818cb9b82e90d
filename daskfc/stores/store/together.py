"""Check that clients fit together: by the same columns, columns of the same samples, or views."""

from collections.abc import Mapping, Sequence
from itertools import combinations, zip_longest
from typing import Literal

import numpy as np

from daskfc.errors import InvalidInput, StoreError
from daskfc.stores.layout.layout import positions_of_repeats
from daskfc.stores.store.client import ClientStore

Split = Literal["samples", "columns", "views", "grid"]
"""Each client holds samples with the same columns; columns of the same samples; or samples of one
view, where clients of different views have no column in common and some of their samples."""

SPLITS: tuple[Split, ...] = ("samples", "columns", "views", "grid")


def check_owner(owner: str, client: str, store: str) -> None:
    """Raise StoreError for a store that was written for another client; it names both."""
    if owner != client:
        raise StoreError(
            f"client {client!r} must bring a store of its own; {store} was written for client "
            f"{owner!r}. Correct the URL, or call the client {owner!r}."
        )


def check_columns(columns: Mapping[str, Sequence[str]], split: Split, method: str) -> None:
    """Raise unless the clients' ordered columns fit together as a method needs.

    samples: the same in the same order; columns: none in common; views, grid: one of the two for
    every two clients. The InvalidInput names the first difference, or shared column, and both.
    """
    if split == "columns":
        if (shared := _first_shared(columns)) is not None:
            raise InvalidInput(
                f"{method} joins columns of the same samples, each of one client; {shared}. Give "
                "every client columns of its own (partition scheme 'vertical', or other names), or "
                "choose a method for clients that hold different samples."
            )
    elif split == "samples":
        if (unlike := _first_unlike(columns)) is not None:
            names = {frozenset(own) for own in columns.values()}
            again = "in the order" if len(names) == 1 else "with the columns"
            raise InvalidInput(
                f"{method} needs clients with the same columns in the same order; {unlike}. Write "
                f"one of the stores again {again} of the other."
            )
    elif (mixed := _first_mixed(columns)) is not None:
        raise InvalidInput(
            f"{method} needs views, so that every two clients have the same columns in the same "
            f"order or no column in common; {mixed}. Write one of the stores again."
        )
    elif split == "views" and len({tuple(own) for own in columns.values()}) < 2:
        raise InvalidInput(
            f"{method} needs at least two views, clients without a column in common; all have the "
            f"same columns, {len(next(iter(columns.values())))} of them. Give clients of another "
            "view columns of other names (partition scheme 'views'), or choose a method for "
            "clients that hold different samples."
        )


def first_difference(wanted: Sequence[str], got: Sequence[str]) -> tuple[int, str, str] | None:
    """Return the first place (from 1) where names differ, and what each has there, in words."""
    pairs = zip_longest(wanted, got)
    for at, pair in enumerate(pairs, start=1):
        if pair[0] != pair[1]:
            here, there = ("missing" if name is None else repr(name) for name in pair)
            return at, here, there
    return None


def _first_unlike(columns: Mapping[str, Sequence[str]]) -> str | None:
    """Return where a client's columns first differ from the first client's, as a clause."""
    first = next(iter(columns))
    for client, got in columns.items():
        if (found := first_difference(columns[first], got)) is not None:
            at, here, there = found
            return f"column {at} of client {first!r} is {here}, of client {client!r} {there}"
    return None


def _first_shared(columns: Mapping[str, Sequence[str]]) -> str | None:
    """Return the first column that two clients have, as a clause."""
    owners: dict[str, str] = {}
    for client, names in columns.items():
        for name in names:
            owner = owners.setdefault(name, client)
            if owner != client:
                return f"clients {owner!r} and {client!r} both have a column {name!r}"
    return None


def _first_mixed(columns: Mapping[str, Sequence[str]]) -> str | None:
    """Return which two clients share some columns and are not alike, as a clause."""
    alike: dict[tuple[str, ...], str] = {}
    for client, names in columns.items():
        alike.setdefault(tuple(names), client)
    for (own, one), (others, other) in combinations(alike.items(), 2):
        if not set(own).isdisjoint(others):
            pair = {one: own, other: others}
            return f"{_first_shared(pair)}, and {_first_unlike(pair)}"
    return None


def check_samples(stores: Mapping[str, ClientStore], split: Split) -> None:
    """Raise unless the stores' samples fit together, after `check_columns` passed.

    columns: the same samples in order; views: clients of one view differ in samples, which link all
    views; samples: nothing is read. Errors name clients and counts, never ids.
    """
    if split == "columns":
        _check_same_samples({name: store.sample_ids() for name, store in stores.items()})
    elif split == "views":
        _check_linked_views(stores, {name: store.sample_ids() for name, store in stores.items()})


def check_together(stores: Mapping[str, ClientStore]) -> Split:
    """Return what differs between clients: their samples, their columns alone, or their views.

    Equal columns are samples; no common column is columns (same samples in order) or else views;
    any others are views. Stores that fit none raise, see `check_columns` and `check_samples`.
    """
    columns = {client: store.feature_names for client, store in stores.items()}
    if len({frozenset(own) for own in columns.values()}) == 1:
        check_columns(columns, "samples", "a federation")
        return "samples"
    if (mixed := _first_mixed(columns)) is not None:
        raise InvalidInput(
            "every two clients have the same columns in the same order, or no column in common; "
            f"{mixed}. Write one of the stores again."
        )
    ids = {client: store.sample_ids() for client, store in stores.items()}
    if _first_shared(columns) is None:
        first, *others = ids.values()
        if all(np.array_equal(first, own) for own in others):
            return "columns"
    _check_linked_views(stores, ids)
    return "views"


def check_unique(stores: Mapping[str, ClientStore]) -> None:
    """Raise if clients share sample ids; the error names clients and counts, never ids."""
    if number_of_samples(stores) == sum(store.n_samples for store in stores.values()):
        return
    ids = {name: store.sample_ids() for name, store in stores.items()}
    for (one, own), (other, others) in combinations(ids.items(), 2):
        if shared := int(np.isin(others, own).sum()):
            raise StoreError(
                f"sample ids must be unique over all clients; clients {one!r} and {other!r} share "
                f"{shared}. Rename them or drop the copies."
            )


def number_of_samples(stores: Mapping[str, ClientStore]) -> int:
    """Return how many different samples clients hold together; a shared one counts once."""
    return len(np.unique(np.concatenate([store.sample_ids() for store in stores.values()])))


def _check_same_samples(ids: Mapping[str, np.ndarray]) -> None:
    first = next(iter(ids))
    wanted = ids[first]
    for name, got in ids.items():
        missing, foreign = len(np.setdiff1d(wanted, got)), len(np.setdiff1d(got, wanted))
        if missing or foreign:
            raise StoreError(
                f"client {name!r} has columns of its own and must have the samples of client "
                f"{first!r}; it lacks {missing} of {len(wanted)} and has {foreign} others. Link "
                "the records first."
            )
        moved = int((wanted != got).sum())
        if moved:
            raise StoreError(
                f"client {name!r} must have the samples of client {first!r} in the same order; "
                f"{moved} stand elsewhere. Sort both by id."
            )


def _check_linked_views(stores: Mapping[str, ClientStore], ids: Mapping[str, np.ndarray]) -> None:
    views: dict[tuple[str, ...], dict[str, np.ndarray]] = {}
    for client, store in stores.items():
        views.setdefault(store.feature_names, {})[client] = ids[client]
    for clients in views.values():
        _check_apart(clients)
    held = [np.concatenate(list(clients.values())) for clients in views.values()]
    linked, waiting = held[0], list(range(1, len(held)))
    while near := [view for view in waiting if np.isin(held[view], linked).any()]:
        linked = np.unique(np.concatenate([linked, *(held[view] for view in near)]))
        waiting = [view for view in waiting if view not in near]
    if waiting:
        one, other = (next(iter(list(views.values())[view])) for view in (0, waiting[0]))
        raise StoreError(
            f"clients of different views must have samples in common; nothing links the view of "
            f"client {other!r} to that of client {one!r}, directly or through another view. See "
            "that sample ids mean the same at both, and link the records first."
        )


def _check_apart(clients: Mapping[str, np.ndarray]) -> None:
    """Raise if clients of one view share samples."""
    if positions_of_repeats(np.concatenate(list(clients.values()))) is None:
        return
    for (one, own), (other, others) in combinations(clients.items(), 2):
        shared = int(np.isin(others, own).sum())
        if shared:
            raise StoreError(
                f"clients of one view must hold different samples; clients {one!r} and {other!r} "
                f"have the same columns and share {shared} of {len(others)} samples. Drop the "
                "copies, or give the columns of another view other names."
            )


def check_ids_apart(stores: Mapping[str, ClientStore], where: str) -> None:
    """Raise StoreError if two clients' samples have one id; `where` begins the sentence."""
    names = list(stores)
    ids = [store.sample_ids() for store in stores.values()]
    repeats = positions_of_repeats(np.concatenate(ids))
    if repeats is not None:
        ends = np.cumsum([len(part) for part in ids])
        first, second = (
            names[int(np.searchsorted(ends, row, side="right"))] for row in repeats[:2]
        )
        raise StoreError(
            f"{where}: sample ids must differ across clients; got {repeats[2]} repeated, clients "
            f"{first!r} and {second!r} share one. Correct their sources."
        )
