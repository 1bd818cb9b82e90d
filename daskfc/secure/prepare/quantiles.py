"""Quantiles over all clients by masked histograms, which hide each client's values.

Values map to whole numbers of 64 bits in the same order. Clients count theirs in 256 parts of a
range, at first of all numbers; the server gets the sums, finds the part in which the wanted rank
lies, and goes on within it: after eight rounds all 64 bits are known. In a run that reveals no sums
of few samples, the range becomes as many parts as have enough of them, and is not narrowed where
these are many: the quantile is then between its ends, which are known to a 256th of it at best.
Numbers are then in proportion to values; else they are a float64's own bits, and quantiles exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from daskfc.errors import PrivacyError
from daskfc.federation import Federation, Local
from daskfc.federation.messages.digests import content_digest
from daskfc.federation.party.site_rules import FREE, SiteRules
from daskfc.federation.steps.rules import takes
from daskfc.secure.prepare.before import no_weights
from daskfc.secure.prepare.messages import CommonMagnitudes, FittedQuantiles, NarrowedRanges
from daskfc.secure.prepare.moments import magnitudes
from daskfc.secure.sums import Aggregation, Total
from daskfc.secure.sums.few import (
    LARGEST_COUNT,
    Held,
    counts_and_holder,
    held_counts,
    mark_of,
    marked,
    unmarked,
)
from daskfc.site import Smallest
from daskfc.stores import ClientStore
from daskfc.stores.store.fitted_steps import FittedStep
from daskfc.stores.store.prepared import PreparedStore, numbers_of

_ROUNDS, _PARTS = 8, 256
_BLOCKS = (1, 4, 16, 64, 256)  # ours: parts side by side of which clients are counted together
_FEW = 16  # ours: parts at most that are narrowed to; a range's ends are then known to a 15th of it
_SIGN = np.uint64(1 << 63)
_LAST = np.uint64(2**64 - 1)
_ONE = 62  # ours: the bit of a column's magnitude


@dataclass(frozen=True)
class Keys:
    """The values of each column that are not missing, as sorted whole numbers, and of what."""

    columns: list[np.ndarray]
    of: str


@dataclass(frozen=True)
class _Search:
    """The server's state of the search for the samples at the wanted ranks, by column."""

    ranks: np.ndarray  # (d, r), among the samples within the ranges
    inside: np.ndarray  # (d, r), how many these are
    low: np.ndarray  # (d, r), the first key of a range
    high: np.ndarray  # (d, r), the last
    goes_on: np.ndarray  # (d, r)
    weights: np.ndarray  # (d, levels), of the upper of two neighbours
    counts: np.ndarray  # (d,), values
    powers: np.ndarray | None  # (d,), of two, that bound magnitudes
    mark: int  # of what is searched


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
    largest: Local | None = None
    told = None
    if federation.smallest != Smallest():
        largest, told, clients = magnitudes(federation, summing, so_far, clients)
    keys = federation.on_clients(sorted_keys, so_far, told, clients=clients)
    counted = federation.on_clients(histograms, keys, None, clients=clients)
    total = summing.sum(counted, max_abs=LARGEST_COUNT)
    search: Local = federation.on_server(begun, total, tuple(levels), largest)
    for _ in range(_ROUNDS - 1):
        ranges = federation.tell(narrowed, search, clients=clients)
        counted = federation.on_clients(histograms, keys, ranges, clients=clients)
        search = federation.on_server(
            continued, summing.sum(counted, max_abs=LARGEST_COUNT), search
        )
    return federation.publish(quantiles_of, search).values


@takes(so_far=no_weights)
def sorted_keys(
    data: ClientStore, so_far: Sequence[FittedStep], magnitudes: CommonMagnitudes | None
) -> Keys:
    """Return the values of each column that are not missing, as sorted whole numbers."""
    store = PreparedStore.of(data, so_far)
    columns = np.concatenate([numbers_of(store, block) for _, block in store.blocks()]).T
    powers = [None] * len(columns) if magnitudes is None else magnitudes.powers.astype(int)
    found = [
        np.sort(_keys(own[~np.isnan(own)], power))
        for own, power in zip(columns, powers, strict=True)
    ]
    told = "" if magnitudes is None else content_digest(magnitudes)
    return Keys(found, repr((so_far, told)))


def _keys(values: np.ndarray, power: int | None = None) -> np.ndarray:
    """Return whole numbers in the order of values, in proportion to them within 2**power.

    Without a power every float64 has its own, but for 0.0 and -0.0, which have one.
    """
    if power is not None:
        parts = np.clip(np.ldexp(values, _ONE - power), -(2.0**_ONE), 2.0**_ONE)
        linear: np.ndarray = parts.astype(np.int64).view(np.uint64) ^ _SIGN
        return linear
    bits = np.ascontiguousarray(values + 0.0, dtype=np.float64).view(np.uint64)
    found: np.ndarray = np.where(bits & _SIGN, ~bits, bits | _SIGN)
    return found


def _values(keys: np.ndarray, powers: np.ndarray | None) -> np.ndarray:
    """Return the values of keys, (columns, any), at most as large as their column's magnitude."""
    if powers is not None:
        parts = np.ldexp((keys ^ _SIGN).view(np.int64).astype(np.float64), -_ONE)
        plain: np.ndarray = np.ldexp(np.clip(parts, -1.0, 1.0), powers[:, None])
        return plain
    bits: np.ndarray = np.where(keys & _SIGN, keys ^ _SIGN, ~keys)
    return bits.view(np.float64)


def histograms(keys: Keys, ranges: NarrowedRanges | None, site: SiteRules = FREE) -> np.ndarray:
    """Count values in the parts and blocks of each range, (columns × ranges, 341), `marked`."""
    mark, told, shape = mark_of(keys.of), "", (len(keys.columns), 1)
    low, high = np.zeros(shape, np.uint64), np.full(shape, _LAST)
    if ranges is not None:
        if ranges.mark != mark:
            raise _others()
        low, high, told = ranges.low, ranges.high, content_digest(ranges)
        mark = mark_of(told)
    # marks are short: whoever chooses steps could find two of one mark
    site.hold_one("counts with a mark", f"{mark}", f"{keys.of} {told}".encode())
    found = np.empty((*low.shape, _PARTS))
    for column, own in enumerate(keys.columns):
        for i, (first, last) in enumerate(zip(low[column], high[column], strict=True)):
            begins = first + np.arange(_PARTS, dtype=np.uint64) * np.uint64(_step(first, last))
            end = np.searchsorted(own, last, "right")
            at = np.minimum(np.searchsorted(own, begins, "left"), end)
            found[column, i] = np.diff(at, append=end)
    blocks = [found.reshape(low.size, -1, size).sum(axis=2) for size in _BLOCKS]
    return marked(counts_and_holder(np.concatenate(blocks, axis=1)), mark)


def _step(low: np.uint64, high: np.uint64) -> int:
    return (int(high) - int(low)) // _PARTS + 1


def _others() -> PrivacyError:
    return PrivacyError(
        "a search for quantiles goes on by the counts of its own ranges, columns and preparation, "
        "and got those of others. Nothing was sent; start the run again."
    )


def begun(
    total: Total,
    levels: tuple[float, ...],
    magnitudes: CommonMagnitudes | None,
    site: SiteRules = FREE,
) -> _Search:
    """Find the first range of the samples at the wanted ranks."""
    table, mark = unmarked(total)
    held = held_counts(table)
    n = held.counts[:, -1]
    at = np.maximum(n - 1, 0)[:, None] * np.asarray(levels)
    lower = np.floor(at).astype(np.int64)
    upper = np.minimum(lower + 1, np.maximum(n - 1, 0)[:, None])
    ranks = np.stack([lower, upper], axis=2).reshape(len(n), -1)
    told = held.enough(site.smallest)[:, -1]
    search = _Search(
        ranks,
        np.repeat(n[:, None], ranks.shape[1], axis=1),
        np.zeros(ranks.shape, np.uint64),
        np.full(ranks.shape, _LAST),
        np.repeat(told[:, None], ranks.shape[1], axis=1),
        at - lower,
        np.where(told, n, 0),
        None if magnitudes is None else magnitudes.powers.astype(int),
        mark,
    )
    every = (np.repeat(one[:, None, :], ranks.shape[1], axis=1) for one in held)
    return _narrower(search, Held(*every), site.smallest)


def continued(total: Total, search: _Search, site: SiteRules = FREE) -> _Search:
    """Find the next range of the samples at the wanted ranks."""
    table, mark = unmarked(total)
    if mark != mark_of(content_digest(narrowed(search))):
        raise _others()
    shape = (*search.ranks.shape, -1)
    return _narrower(search, Held(*(o.reshape(shape) for o in held_counts(table))), site.smallest)


def _narrower(search: _Search, held: Held, smallest: Smallest) -> _Search:
    ranks, inside, goes_on = search.ranks.copy(), search.inside.copy(), search.goes_on.copy()
    low, high = search.low.copy(), search.high.copy()
    for place in np.argwhere(goes_on & held.enough(smallest)[:, :, -1]):
        at = tuple(place)
        counts = held.counts[at][:_PARTS]
        first, last = _parts(counts, held.holders[at], int(ranks[at]), smallest)
        step, begin = _step(low[at], high[at]), int(low[at])
        low[at] = begin + step * first
        high[at] = min(begin + step * (last + 1) - 1, int(high[at]))
        ranks[at] -= counts[:first].sum()
        inside[at] = counts[first : last + 1].sum()
        goes_on[at] = last - first < _FEW
    goes_on &= held.enough(smallest)[:, :, -1]
    return replace(search, ranks=ranks, inside=inside, low=low, high=high, goes_on=goes_on)


def _parts(
    counts: np.ndarray, holders: np.ndarray, rank: int, smallest: Smallest
) -> tuple[int, int]:
    """Return the first and the last part of enough samples around a rank, or of all of a range."""
    below, wanted = counts.cumsum(), 1
    n = int(below[-1])
    while True:
        start = min(max(0, rank - wanted // 2), n - wanted)
        first, last = map(int, np.searchsorted(below, [start, start + wanted - 1], "right"))
        n_here = counts[first : last + 1].sum(keepdims=True)
        if wanted == n or Held(n_here, _clients(holders, first, last)).enough(smallest)[0]:
            return first, last
        wanted = min(max(smallest.samples, 2 * wanted), n)


def _clients(holders: np.ndarray, first: int, last: int) -> np.ndarray:
    """Return how many clients have values in some parts at least, as many as in a block, (1,)."""
    found, start = np.zeros(1, np.int64), 0
    for size in _BLOCKS:
        begin, end = -(-first // size), (last + 1) // size
        found = np.maximum(found, holders[start + begin : start + end].max(initial=0))
        start += _PARTS // size
    return found


def narrowed(search: _Search) -> NarrowedRanges:
    """Send the clients the ranges to count in."""
    low = np.where(search.goes_on, search.low, np.uint64(1))
    high = np.where(search.goes_on, search.high, np.uint64(0))
    return NarrowedRanges(low, high, search.mark)


def quantiles_of(search: _Search) -> FittedQuantiles:
    """Report the quantiles, between the samples at two neighbouring ranks."""
    share = search.ranks / np.maximum(search.inside - 1, 1)
    low, high = (_values(one, search.powers) for one in (search.low, search.high))
    values = np.where(low == high, low, low * (1.0 - share) + high * share)
    values = values.reshape(len(search.counts), -1, 2)
    lower, upper = values[:, :, 0], values[:, :, 1]
    found = lower + (upper - lower) * search.weights
    found[search.counts == 0] = np.nan
    return FittedQuantiles(found)
