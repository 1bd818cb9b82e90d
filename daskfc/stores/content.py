"""What a store holds, read once more and held against the rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from daskfc.errors import DaskfcError, StoreError
from daskfc.stores.layout import ContentDigest, positions_of_repeats

__all__ = ["check_rows", "finite", "of_size", "understood"]

_LARGEST = 2.0**480  # ours: squares leave room for sums of 2**63


@contextmanager
def understood(url: str) -> Iterator[None]:
    """Turn whatever a store raises that says of itself what no writer does into one sentence.

    Parameters
    ----------
    url : str
        Of the store that is read within.

    Raises
    ------
    StoreError
        In place of what Zarr, NumPy or a missing attribute raise.

    Examples
    --------
    >>> from daskfc.stores.content import understood
    >>> with understood("a.zarr"):
    ...     {}["content_digest"]
    Traceback (most recent call last):
        ...
    daskfc.errors.StoreError: a.zarr: the store is damaged, or was not written by daskfc \
(KeyError); build it again.
    """
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
    """Read all rows of a store, and refuse those that break a rule.

    Parameters
    ----------
    blocks : iterable of (ndarray of shape (rows, n_features), ndarray of shape (rows,))
        Features in their stored type, and ids, in order.
    digest : ContentDigest
        Of the store's columns; rows are added to it.
    missing : bool
        Whether features may be NaN.
    client, url : str
        Whose store, and where, for messages.

    Returns
    -------
    str
        The digest of all rows.

    Raises
    ------
    StoreError
        For features that are not finite, and repeated ids; names row numbers, never values.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.stores.content import check_rows
    >>> from daskfc.stores.layout import ContentDigest
    >>> digest = ContentDigest(np.dtype("f8"), ["age"])
    >>> rows = [(np.array([[61.0], [np.inf]]), np.array(["p7", "p9"]))]
    >>> check_rows(rows, digest, missing=True, client="a", url="a.zarr")
    Traceback (most recent call last):
        ...
    daskfc.errors.StoreError: client 'a': features must be finite; got infinity in 1 of 2 rows, ...
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
    repeats = positions_of_repeats(np.concatenate(ids))
    if repeats is not None:
        first, second, count = repeats
        raise StoreError(
            f"client {client!r}: sample ids must differ; got {count} repeated, rows {first} and "
            f"{second} are the first pair. Clean the source of {url}."
        )
    return digest.hexdigest()


def of_size(rows: np.ndarray, names: Sequence[str], client: str) -> np.ndarray:
    """Return rows, unless sums of their squares exceed float64, as with a code of its largest.

    Parameters
    ----------
    rows : ndarray of shape (n, d), float64
        Features; NaN where a value is missing.
    names : sequence of str
        Of the columns.
    client : str
        Whose they are.

    Raises
    ------
    StoreError
        For values above 2**480; names the first such column, and no values.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.stores.content import of_size
    >>> of_size(np.array([[1.0, 1e300]]), ["age", "dose"], "a")
    Traceback (most recent call last):
    ...
    daskfc.errors.StoreError: client 'a': column 'dose' has values above 2**480, whose squares no \
method can sum. Prepare it with clip or log, clean it, or leave it out.
    """
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
    """Return features that were read, unless they are no numbers: no store is written with such.

    Parameters
    ----------
    rows : ndarray of shape (n, d), float64
        Features.
    start : int
        Number of the first row.
    client : str
        Whose they are.
    missing : bool
        Whether NaN stands for a missing value.

    Raises
    ------
    StoreError
        For NaN and infinity; names rows, and no values.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.stores.content import finite
    >>> finite(np.array([[1.0], [np.nan]]), 10, "a", missing=False)
    Traceback (most recent call last):
    ...
    daskfc.errors.StoreError: the features of client 'a' must be finite; 1 of the rows 10 to 12 \
hold NaN or infinity, the first is row 11. Build the store again.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(rows.sum()):  # as it is only if all are
            return rows
    wrong = (np.isinf(rows) if missing else ~np.isfinite(rows)).any(axis=1)
    if wrong.any():
        raise StoreError(
            f"the features of client {client!r} must be finite; {int(wrong.sum())} of the rows "
            f"{start} to {start + len(rows)} hold NaN or infinity, the first is row "
            f"{start + int(wrong.argmax())}. Build the store again."
        )
    return rows
