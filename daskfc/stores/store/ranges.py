"""Warn of columns before they are clustered: of constant ones, and of very unlike ranges."""

from collections.abc import Mapping, Sequence

import numpy as np

from daskfc.stores.store.client import ClientStore

_UNLIKE = 1000.0  # ours: from this ratio on the columns of small range do not count
_ENTRIES = 1 << 24  # ours: read of a client at most, 128 MiB; of larger stores the first rows
_NAMED = 3


def column_warnings(stores: Mapping[str, ClientStore], *, scaled: bool = False) -> list[str]:
    """Return sentences on columns that separate no clusters, or that dwarf others in distances.

    They name columns, and no values; they are for those who can read the stores: nothing is sent.
    Clients with the same columns are compared; columns of words, and ranges if `scaled`, are not.
    """
    told: list[str] = []
    constant: list[str] = []
    groups: dict[tuple[str, ...], list[ClientStore]] = {}
    for store in stores.values():
        groups.setdefault(store.feature_names, []).append(store)
    for columns, own in groups.items():
        spans, whole = _spans(own)
        numbers = [i for i, name in enumerate(columns) if name not in own[0].categories]
        if whole:
            constant += [columns[i] for i in numbers if spans[i] == 0.0]
        ranked = sorted((spans[i], columns[i]) for i in numbers if spans[i] > 0.0)
        if not scaled and ranked and ranked[-1][0] > _UNLIKE * ranked[0][0]:
            told.append(
                f"the range of column {ranked[-1][1]!r} is over {_UNLIKE:,.0f} times that of "
                f"column {ranked[0][1]!r}, and distances are those of large columns: add "
                "'prepare: [standardise]'."
            )
    return [f"{_listed(constant)} one value in all samples.", *told] if constant else told


def _spans(stores: Sequence[ClientStore]) -> tuple[np.ndarray, bool]:
    """Return each column's range over stores, 0 if it has no value, and whether all was read."""
    low = np.full(stores[0].n_features, np.inf)
    high = -low
    whole = True
    for store in stores:
        most = max(1, _ENTRIES // store.n_features)
        for start, block in store.blocks():
            if start >= most:
                whole = False
                break
            np.fmin(low, np.fmin.reduce(block, axis=0), out=low)  # NaN, a gap, does not count
            np.fmax(high, np.fmax.reduce(block, axis=0), out=high)
    return np.maximum(np.nan_to_num(high - low, nan=0.0, posinf=0.0, neginf=0.0), 0.0), whole


def _listed(names: Sequence[str]) -> str:
    listed = ", ".join(map(repr, names[:_NAMED])) + (", ..." if len(names) > _NAMED else "")
    return f"column {listed} has" if len(names) == 1 else f"{len(names)} columns ({listed}) have"
