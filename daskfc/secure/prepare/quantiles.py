"""Quantiles over all clients by masked histograms: exact, and no client's values are told.

A float64 is put as a whole number of 64 bits whose order is that of the values. Clients count how
many of their values begin with each of 256 next bytes; the server has the sums, finds the byte in
which the wanted rank lies, and asks again within it: after eight rounds all 64 bits are known.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from daskfc.federation import Federation, Local
from daskfc.secure.prepare.messages import FittedQuantiles, NarrowedRanges
from daskfc.secure.sums import Aggregation, Total
from daskfc.stores import ClientStore
from daskfc.stores.prepared import FittedStep, PreparedStore, numbers_of

__all__ = ["quantiles"]

_BYTE = 8
_MOST = 2.0**40  # public bound on what is counted
_SIGN = np.uint64(1 << 63)


@dataclass(frozen=True)
class _Search:
    """What the server knows of the samples at the wanted ranks, column by column.

    ranks : (d, r) int64, of the samples among those that begin with `prefixes`;
    prefixes : (d, r) uint64; bits : how many of them are known; weights : (d, levels), of the
    upper of two neighbouring samples; counts : (d,), values that the column has.
    """

    ranks: np.ndarray
    prefixes: np.ndarray
    bits: int
    weights: np.ndarray
    counts: np.ndarray


def quantiles(
    federation: Federation,
    summing: Aggregation,
    so_far: Sequence[FittedStep],
    levels: Sequence[float],
    clients: tuple[str, ...],
) -> np.ndarray:
    """Return quantiles of each column over all values that clients have.

    Parameters
    ----------
    federation : Federation
        In a run.
    summing : Aggregation
        How the server learns counts over all clients.
    so_far : sequence of mapping
        Fitted steps that features go through before.
    levels : sequence of float
        In [0, 1].
    clients : tuple of str
        With the same columns.

    Returns
    -------
    ndarray of shape (n_features, levels)
        Those of `numpy.nanquantile`; NaN for a column that has no value.
    """
    keys = federation.on_clients(sorted_keys, so_far, clients=clients)
    counted = federation.on_clients(histograms, keys, None, clients=clients)
    total = summing.sum(counted, max_abs=_MOST)
    search: Local = federation.on_server(begun, total, tuple(levels))
    for _ in range(64 // _BYTE - 1):
        told = federation.tell(narrowed, search, clients=clients)
        counted = federation.on_clients(histograms, keys, told, clients=clients)
        search = federation.on_server(continued, summing.sum(counted, max_abs=_MOST), search)
    return federation.publish(quantiles_of, search).values


def sorted_keys(data: ClientStore, so_far: Sequence[FittedStep]) -> list[np.ndarray]:
    """Return the values of each column as sortable numbers, in order; without missing ones."""
    store = PreparedStore.of(data, so_far)
    rows = np.concatenate([numbers_of(store, block) for _, block in store.blocks()])
    return [np.sort(_keys(column[~np.isnan(column)])) for column in rows.T]


def _keys(values: np.ndarray) -> np.ndarray:
    """Return whole numbers in the order of values; 0.0 and -0.0 are one value."""
    bits = np.ascontiguousarray(values + 0.0, dtype=np.float64).view(np.uint64)
    found: np.ndarray = np.where(bits & _SIGN, ~bits, bits | _SIGN)
    return found


def _values(keys: np.ndarray) -> np.ndarray:
    bits: np.ndarray = np.where(keys & _SIGN, keys ^ _SIGN, ~keys)
    return bits.view(np.float64)


def histograms(keys: list[np.ndarray], ranges: NarrowedRanges | None) -> np.ndarray:
    """Count values by the byte that follows each range's first bits, (columns × ranges, 256)."""
    bits = 0 if ranges is None else ranges.bits
    prefixes = np.zeros((len(keys), 1), np.uint64) if ranges is None else ranges.prefixes
    shift = np.uint64(64 - bits - _BYTE)
    steps = np.arange(1 << _BYTE, dtype=np.uint64) << shift
    found = np.empty((*prefixes.shape, 1 << _BYTE))
    for column, own in enumerate(keys):
        for i, prefix in enumerate(prefixes[column]):
            last = prefix | np.uint64((1 << (64 - bits)) - 1)
            ends = np.append(
                np.searchsorted(own, prefix | steps, "left"), np.searchsorted(own, last, "right")
            )
            found[column, i] = np.diff(ends)
    return found.reshape(-1, 1 << _BYTE)


def begun(total: Total, levels: tuple[float, ...]) -> _Search:
    """Find the first byte of the samples at the wanted ranks."""
    counts = np.rint(total.values).astype(np.int64)
    n = counts.sum(axis=1)
    at = np.maximum(n - 1, 0)[:, None] * np.asarray(levels)
    lower = np.floor(at).astype(np.int64)
    upper = np.minimum(lower + 1, np.maximum(n - 1, 0)[:, None])
    ranks = np.stack([lower, upper], axis=2).reshape(len(n), -1)
    search = _Search(ranks, np.zeros(ranks.shape, np.uint64), 0, at - lower, n)
    return _narrower(search, np.repeat(counts[:, None, :], ranks.shape[1], axis=1))


def continued(total: Total, search: _Search) -> _Search:
    """Find the next byte of the samples at the wanted ranks."""
    counts = np.rint(total.values).astype(np.int64)
    return _narrower(search, counts.reshape(*search.ranks.shape, 1 << _BYTE))


def _narrower(search: _Search, counts: np.ndarray) -> _Search:
    below = counts.cumsum(axis=2)
    byte = (below > search.ranks[:, :, None]).argmax(axis=2)
    before = np.take_along_axis(below - counts, byte[:, :, None], axis=2)[:, :, 0]
    shift = np.uint64(64 - search.bits - _BYTE)
    return replace(
        search,
        ranks=search.ranks - before,
        prefixes=search.prefixes | (byte.astype(np.uint64) << shift),
        bits=search.bits + _BYTE,
    )


def narrowed(search: _Search) -> NarrowedRanges:
    """Tell the clients in which ranges to count."""
    return NarrowedRanges(search.prefixes, search.bits)


def quantiles_of(search: _Search) -> FittedQuantiles:
    """Tell the quantiles, between the samples at two neighbouring ranks."""
    values = _values(search.prefixes).reshape(len(search.counts), -1, 2)
    lower, upper = values[:, :, 0], values[:, :, 1]
    found = lower + (upper - lower) * search.weights
    found[search.counts == 0] = np.nan
    return FittedQuantiles(found)
