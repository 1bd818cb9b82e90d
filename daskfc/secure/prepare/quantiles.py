"""Exact quantiles over all clients by masked histograms, which hide each client's values.

A float64 maps to a whole number of 64 bits in the same order. Clients count their values by the
next byte, of 256; the server gets the sums, finds the byte in which the wanted rank lies, and goes
on within it: after eight rounds all 64 bits are known. In a run that reveals no sums of few
samples, the search ends before a range has too few: the quantile is then between the ends of the
narrowest range of enough of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from daskfc.federation import Federation, Local
from daskfc.federation.party.site_rules import FREE, SiteRules
from daskfc.federation.steps.rules import takes
from daskfc.secure.prepare.before import no_weights
from daskfc.secure.prepare.messages import FittedQuantiles, NarrowedRanges
from daskfc.secure.sums import Aggregation, Total
from daskfc.secure.sums.few import LARGEST_COUNT, Held, counts_and_holder, held_counts
from daskfc.site import Smallest
from daskfc.stores import ClientStore
from daskfc.stores.store.fitted_steps import FittedStep
from daskfc.stores.store.prepared import PreparedStore, numbers_of

_BYTE = 8
_SIGN = np.uint64(1 << 63)
_NOWHERE = np.uint64(2**64 - 1)  # a prefix that no value has
_LEAST, _MOST = (np.finfo(np.float64).min, np.finfo(np.float64).max)


@dataclass(frozen=True)
class _Search:
    """The server's state of the search for the samples at the wanted ranks, by column."""

    ranks: np.ndarray  # (d, r), among the samples that begin with the prefixes
    prefixes: np.ndarray  # (d, r), of which the first `bits` are known
    bits: int
    weights: np.ndarray  # (d, levels), of the upper of two neighbours
    counts: np.ndarray  # (d,), values
    known: np.ndarray  # (d, r), quantiles where too few samples ended the search, else NaN


def quantiles(
    federation: Federation,
    summing: Aggregation,
    so_far: Sequence[FittedStep],
    levels: Sequence[float],
    clients: tuple[str, ...],
) -> np.ndarray:
    """Return quantiles, at levels in [0, 1], of each column over all clients, (column, level).

    They equal `numpy.nanquantile` where the run reveals sums of single samples; NaN for a column
    with no value, or fewer than the run requires.
    """
    keys = federation.on_clients(sorted_keys, so_far, clients=clients)
    counted = federation.on_clients(histograms, keys, None, clients=clients)
    total = summing.sum(counted, max_abs=LARGEST_COUNT)
    search: Local = federation.on_server(begun, total, tuple(levels))
    for _ in range(64 // _BYTE - 1):
        told = federation.tell(narrowed, search, clients=clients)
        counted = federation.on_clients(histograms, keys, told, clients=clients)
        search = federation.on_server(
            continued, summing.sum(counted, max_abs=LARGEST_COUNT), search
        )
    return federation.publish(quantiles_of, search).values


@takes(so_far=no_weights)
def sorted_keys(data: ClientStore, so_far: Sequence[FittedStep]) -> list[np.ndarray]:
    """Return the values of each column that are not missing, as sorted whole numbers."""
    store = PreparedStore.of(data, so_far)
    rows = np.concatenate([numbers_of(store, block) for _, block in store.blocks()])
    return [np.sort(_keys(column[~np.isnan(column)])) for column in rows.T]


def _keys(values: np.ndarray) -> np.ndarray:
    """Return whole numbers in the order of values; 0.0 and -0.0 give one number."""
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
    return counts_and_holder(found.reshape(-1, 1 << _BYTE))


def begun(total: Total, levels: tuple[float, ...], site: SiteRules = FREE) -> _Search:
    """Find the first byte of the samples at the wanted ranks."""
    held = held_counts(total)
    n = held.counts.sum(axis=1)
    at = np.maximum(n - 1, 0)[:, None] * np.asarray(levels)
    lower = np.floor(at).astype(np.int64)
    upper = np.minimum(lower + 1, np.maximum(n - 1, 0)[:, None])
    ranks = np.stack([lower, upper], axis=2).reshape(len(n), -1)
    # There are at least as many clients as have values of any one byte.
    told = Held(n, held.holders.max(axis=1)).enough(site.smallest)
    prefixes = np.where(told[:, None], np.zeros(ranks.shape, np.uint64), _NOWHERE)
    known = np.full(ranks.shape, np.nan)
    search = _Search(ranks, prefixes, 0, at - lower, np.where(told, n, 0), known)
    every = (np.repeat(one[:, None, :], ranks.shape[1], axis=1) for one in held)
    return _narrower(search, Held(*every), site.smallest)


def continued(total: Total, search: _Search, site: SiteRules = FREE) -> _Search:
    """Find the next byte of the samples at the wanted ranks."""
    shape = (*search.ranks.shape, 1 << _BYTE)
    found = Held(*(one.reshape(shape) for one in held_counts(total)))
    return _narrower(search, found, site.smallest)


def _narrower(search: _Search, held: Held, smallest: Smallest) -> _Search:
    counts = held.counts
    below = counts.cumsum(axis=2)
    byte = (below > search.ranks[:, :, None]).argmax(axis=2)
    before = np.take_along_axis(below - counts, byte[:, :, None], axis=2)[:, :, 0]
    shift = np.uint64(64 - search.bits - _BYTE)
    prefixes = search.prefixes | (byte.astype(np.uint64) << shift)
    enough = np.take_along_axis(held.enough(smallest), byte[:, :, None], axis=2)[:, :, 0]
    known = search.known.copy()
    for place in np.argwhere(~enough & (search.prefixes != _NOWHERE)):
        at = tuple(place)
        rank, start = int(search.ranks[at]), search.prefixes[at]
        known[at] = _between(counts[at], rank, start, shift, smallest.samples)
    return replace(
        search,
        ranks=search.ranks - before,
        prefixes=np.where(enough & (search.prefixes != _NOWHERE), prefixes, _NOWHERE),
        bits=search.bits + _BYTE,
        known=known,
    )


def _between(
    counts: np.ndarray, rank: int, prefix: np.uint64, shift: np.uint64, least: int
) -> float:
    """Return a value for a rank, interpolated in the range of `least` samples around it."""
    below = counts.cumsum()
    start = min(max(0, rank - least // 2), int(below[-1]) - least)
    first, last = (below > np.array([[start], [start + least - 1]])).argmax(axis=1)
    n = int(counts[first : last + 1].sum())
    share = (rank - (below[first] - counts[first])) / max(n - 1, 1)
    ends = prefix | (np.array([first, last], np.uint64) << shift)
    ends[1] |= (np.uint64(1) << shift) - np.uint64(1)
    low, high = _values(ends)
    low, high = np.nan_to_num(low, nan=_LEAST), np.nan_to_num(high, nan=_MOST)
    return float(low * (1.0 - share) + high * share)


def narrowed(search: _Search) -> NarrowedRanges:
    """Send the clients the ranges to count in."""
    return NarrowedRanges(search.prefixes, search.bits)


def quantiles_of(search: _Search) -> FittedQuantiles:
    """Report the quantiles, between the samples at two neighbouring ranks."""
    exact = search.prefixes != _NOWHERE
    values = np.where(exact, _values(search.prefixes), search.known)
    values = values.reshape(len(search.counts), -1, 2)
    lower, upper = values[:, :, 0], values[:, :, 1]
    found = lower + (upper - lower) * search.weights
    found[search.counts == 0] = np.nan
    return FittedQuantiles(found)
