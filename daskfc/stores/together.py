"""Which clients go together: the same columns, or columns of the same samples."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Literal

import numpy as np

from daskfc.errors import InvalidInput, StoreError
from daskfc.stores.client import ClientStore

__all__ = [
    "SPLITS",
    "Split",
    "check_columns",
    "check_owner",
    "check_together",
    "first_difference",
]

Split = Literal["samples", "columns"]
"""Each client holds samples with the same columns, or columns of the same samples."""

SPLITS: tuple[Split, ...] = ("samples", "columns")


def check_owner(owner: str, client: str, store: str) -> None:
    """Refuse a store that belongs to another client.

    Parameters
    ----------
    owner : str
        Whom the store was written for.
    client : str
        Who brings it.
    store : str
        Which store, for the sentence.

    Raises
    ------
    StoreError
        Names both.

    Examples
    --------
    >>> from daskfc.stores.together import check_owner
    >>> check_owner("clinic-a", "clinic-b", "/srv/a.zarr")
    Traceback (most recent call last):
    ...
    daskfc.errors.StoreError: client 'clinic-b' must bring a store of its own; /srv/a.zarr was \
written for client 'clinic-a'. Correct the URL, or call the client 'clinic-a'.
    """
    if owner != client:
        raise StoreError(
            f"client {client!r} must bring a store of its own; {store} was written for client "
            f"{owner!r}. Correct the URL, or call the client {owner!r}."
        )


def check_columns(columns: Mapping[str, Sequence[str]], split: Split, method: str) -> None:
    """Refuse clients whose columns do not go together in the way that a method needs.

    Parameters
    ----------
    columns : mapping of str to sequence of str
        The names of every client's columns, in their order.
    split : {"samples", "columns"}
        Whether all clients must have the same columns in the same order, or every client columns
        that no other has.
    method : str
        Who needs it, for the sentence.

    Raises
    ------
    InvalidInput
        Names the first difference, or the first column that two clients have, and both clients.

    Examples
    --------
    >>> from daskfc.stores.together import check_columns
    >>> check_columns({"a": ["age", "weight"], "b": ["weight", "age"]}, "samples", "FedSC")
    Traceback (most recent call last):
    ...
    daskfc.errors.InvalidInput: FedSC needs clients with the same columns in the same order; \
column 1 of client 'a' is 'age', of client 'b' 'weight'. Write one of the stores again in the \
order of the other.
    """
    if split == "columns":
        _check_own_columns(columns, method)
        return
    if (unlike := _first_unlike(columns)) is not None:
        names = {frozenset(own) for own in columns.values()}
        again = "in the order" if len(names) == 1 else "with the columns"
        raise InvalidInput(
            f"{method} needs clients with the same columns in the same order; {unlike}. Write one "
            f"of the stores again {again} of the other."
        )


def first_difference(wanted: Sequence[str], got: Sequence[str]) -> tuple[int, str, str] | None:
    """Return the first place (from 1) where names differ, and what each has there, in words.

    Examples
    --------
    >>> from daskfc.stores.together import first_difference
    >>> first_difference(["age", "weight"], ["age"])
    (2, "'weight'", 'missing')
    """
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


def _check_own_columns(columns: Mapping[str, Sequence[str]], method: str) -> None:
    if (shared := _first_shared(columns)) is not None:
        raise InvalidInput(
            f"{method} joins columns of the same samples, each of one client; {shared}. Give every "
            "client columns of its own (partition scheme 'vertical', or other names), or choose a "
            "method for clients that hold different samples."
        )


def check_together(stores: Mapping[str, ClientStore]) -> Split:
    """Refuse stores that go together neither by samples nor by columns.

    Clients without a column in common hold columns of the same samples; any others hold samples
    with the same columns.

    Returns
    -------
    {"samples", "columns"}
        What differs between the clients.

    Raises
    ------
    InvalidInput
        See `check_columns`; a StoreError for columns of other samples.
    """
    columns = {client: store.feature_names for client, store in stores.items()}
    shared = _first_shared(columns)
    if len(stores) > 1 and shared is None:
        _check_same_samples(stores)
        return "columns"
    if len({frozenset(own) for own in columns.values()}) > 1:
        raise InvalidInput(
            "clients have the same columns in the same order, or each has columns of its own; "
            f"{shared}, and {_first_unlike(columns)}. Write one of the stores again."
        )
    check_columns(columns, "samples", "a federation")
    return "samples"


def _check_same_samples(stores: Mapping[str, ClientStore]) -> None:
    first = next(iter(stores))
    wanted = stores[first].sample_ids()
    for name, store in stores.items():
        got = store.sample_ids()
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
