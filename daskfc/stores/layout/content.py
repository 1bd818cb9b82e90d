"""Validate the content of a store: its rows, ids and the size of its values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from daskfc.errors import DaskfcError, StoreError
from daskfc.stores.layout.layout import ContentDigest, check_different

_LARGEST = 2.0**480  # ours: squares leave room for sums of 2**63


@contextmanager
def understood(url: str) -> Iterator[None]:
    """Turn any error from reading a damaged or foreign store into one StoreError."""
    try:
        yield
    except (DaskfcError, OSError):
        raise
    except Exception as error:
        raise StoreError(
            f"{url}: the store is damaged, or was not written by daskfc ({type(error).__name__}); "
            "build it again."
        ) from error


def check_rows(
    blocks: Iterable[tuple[np.ndarray, np.ndarray]],
    digest: ContentDigest,
    *,
    missing: bool,
    client: str,
    url: str,
) -> str:
    """Read a store's blocks of (stored features, ids) in order; return the digest of all rows.

    Raises StoreError for features that are not finite (NaN passes if `missing`) and for repeated
    ids; it names row numbers, never values.
    """
    n_rows, n_bad, first_bad = 0, 0, -1
    ids: list[np.ndarray] = []
    for features, own in blocks:
        ids.append(own)
        digest.add(features, own)
        odd = np.isinf(features) if missing else ~np.isfinite(features)
        bad = np.flatnonzero(odd.any(axis=1))
        if len(bad) and not n_bad:
            first_bad = n_rows + int(bad[0])
        n_rows, n_bad = n_rows + len(own), n_bad + len(bad)
    if n_bad:
        raise StoreError(
            f"client {client!r}: features must be finite; got "
            f"{'infinity' if missing else 'NaN or infinity'} in {n_bad} of {n_rows} rows, the "
            f"first is row {first_bad}. Clean the source of {url}."
        )
    check_different(np.concatenate(ids), f"client {client!r}", f"Clean the source of {url}.")
    return digest.hexdigest()


def of_size(rows: np.ndarray, names: Sequence[str], client: str) -> np.ndarray:
    """Return rows (n, d); raise, naming a column, for values above 2**480, too large to square."""
    if rows.max(initial=0) <= _LARGEST and rows.min(initial=0) >= -_LARGEST:
        return rows
    far = (np.abs(rows) > _LARGEST).any(axis=0)
    if far.any():
        raise StoreError(
            f"client {client!r}: column {names[int(far.argmax())]!r} has values above 2**480, "
            "whose squares no method can sum. Prepare it with clip or log, clean it, or leave it "
            "out."
        )
    return rows


def finite(rows: np.ndarray, start: int, client: str, *, missing: bool) -> np.ndarray:
    """Return rows (n, d); raise, naming row numbers, for infinity, or for NaN unless `missing`."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(rows.sum()):  # then all are
            return rows
    wrong = (np.isinf(rows) if missing else ~np.isfinite(rows)).any(axis=1)
    if wrong.any():
        raise StoreError(
            f"the features of client {client!r} must be finite; {int(wrong.sum())} of the rows "
            f"{start} to {start + len(rows)} hold NaN or infinity, the first is row "
            f"{start + int(wrong.argmax())}. Build the store again."
        )
    return rows
