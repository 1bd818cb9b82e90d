"""Steps of clients and server for cluster profiles: scaled sums over the samples of a cluster."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from daskfc.errors import InvalidInput, PrivacyError
from daskfc.federation.identity.pseudonyms import Pseudonyms
from daskfc.federation.party.site_rules import FREE, SiteRules
from daskfc.federation.steps.rules import own_pseudonyms, takes
from daskfc.secure.prepare.messages import ColumnMagnitudes, CommonMagnitudes
from daskfc.secure.prepare.steps import powers_above
from daskfc.secure.profiles.groups import withheld_cells
from daskfc.secure.profiles.messages import (
    ClusterCounts,
    ClusterMeans,
    ClusterSpreads,
    WithheldCells,
)
from daskfc.secure.sums import Total
from daskfc.stores import ClientStore
from daskfc.stores.store.prepared import PreparedStore, numbers_of

Words: TypeAlias = Mapping[str, Sequence[str]]  # by column, as all clients agreed on them


def digest_of_ids(sample_ids: Sequence[str]) -> str:
    """Return a digest of the samples' ids and their order."""
    return hashlib.sha256(json.dumps([str(one) for one in sample_ids]).encode()).hexdigest()


@takes(names=own_pseudonyms)
def own_groups(
    data: ClientStore,
    groups: np.ndarray,
    ids: str,
    names: Pseudonyms | None,
    party: str,
    site: SiteRules = FREE,
) -> np.ndarray:
    """Keep each sample's group, (n_samples,), -1 for none; refuse groups unless `ids` agree."""
    own = data.sample_ids().tolist()
    if names is not None:
        own = names.of(own, names.key(party, data.id_key()))
    if len(groups) != data.n_samples or digest_of_ids(own) != ids:
        raise InvalidInput(
            f"the labels given for a profile must be of the samples of client {party!r}, in the "
            "order of its store; they are of others. Give the labels of a fit on these stores."
        )
    site.check_groups(groups)
    return groups


def cell_counts(
    data: ClientStore, groups: np.ndarray, *, n_groups: int, smallest: int, site: SiteRules = FREE
) -> np.ndarray:
    """Count the values of each column in each group, and last in none; at most `smallest` of each.

    Summed over all clients such counts reach twice `smallest` exactly where there are as many
    values and `smallest` of them remain without any one client. Full counts would reveal more than
    this needs. Values that are too few at this client count as missing.
    """
    found: np.ndarray = np.minimum(_counts(data, groups, n_groups, site), smallest)
    return found


def _counts(data: ClientStore, groups: np.ndarray, n_groups: int, site: SiteRules) -> np.ndarray:
    """Return the numbers of values of each column in sums over each group, and last over none."""
    place = np.where(groups < 0, n_groups, groups)
    found = np.zeros((n_groups + 1, data.n_features))
    for start, block in data.blocks():
        own = place[start : start + len(block)]
        found += _members(own, n_groups + 1).T @ ~np.isnan(block)
    found[found < site.smallest.samples] = 0.0
    return found


def cells_of(total: Total, needed: int, *, all_are_told: bool) -> WithheldCells:
    """Report the columns and groups with too few values."""
    counts = np.rint(total.values).astype(np.int64)
    return WithheldCells(withheld_cells(counts, needed, all_are_told=all_are_told))


def _told(
    data: ClientStore,
    groups: np.ndarray,
    words: Words,
    withheld: WithheldCells | None,
    site: SiteRules,
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield blocks of groups, of values, NaN if withheld, and of these with 0 for words."""
    if withheld is None and data.missing:  # a site that may lack values sums no cell of few
        raise PrivacyError(
            f"profiles of samples that may lack values, as those of client {data.name!r}, must be "
            "told which cells have too few; they were not. Nothing is sent; ask by "
            "daskfc.secure.profiles."
        )
    store = PreparedStore.of(data, [{"step": "categories", "words": words}])
    if withheld is not None:
        k = len(withheld.why)
        untold = (withheld.why > 0) | (_counts(data, groups, k, site)[:k] == 0)
    for start, block in store.blocks():
        own = groups[start : start + len(block)]
        block, own = block[own >= 0], own[own >= 0]
        if withheld is not None:
            block = np.where(untold[own], np.nan, block)
        yield own, block, numbers_of(store, block)


def cluster_magnitudes(
    data: ClientStore,
    groups: np.ndarray,
    words: Words,
    withheld: WithheldCells | None,
    means: ClusterMeans | None,
    site: SiteRules = FREE,
) -> ColumnMagnitudes:
    """Report the largest magnitude of each column in groups, or of its distance from their mean."""
    largest = np.zeros(data.n_features)
    for own, _, told in _told(data, groups, words, withheld, site):
        shifted = told if means is None else told - means.means[own]
        np.fmax(largest, np.fmax.reduce(np.abs(shifted), axis=0, initial=0.0), out=largest)
    return ColumnMagnitudes(powers_above(largest))


def cluster_sums(
    data: ClientStore,
    groups: np.ndarray,
    words: Words,
    withheld: WithheldCells | None,
    magnitudes: CommonMagnitudes,
    *,
    n_groups: int,
    site: SiteRules = FREE,
) -> np.ndarray:
    """Return sums and counts of each group, side by side.

    They are columns' sums in units of their magnitudes, numbers of values (where some may be
    missing), of samples with each word, and 1 where the client contributes to a column.
    """
    powers, numbers = magnitudes.powers.astype(int), [*map(data.feature_names.index, words)]
    listed = [np.arange(len(own)) for own in words.values()]
    parts: list[np.ndarray] = []
    for own, block, told in _told(data, groups, words, withheld, site):
        there = ~np.isnan(block)
        columns = [np.nan_to_num(np.ldexp(told, -powers))]
        if withheld is not None:
            columns.append(there)
        columns += [block[:, [i]] == each for i, each in zip(numbers, listed, strict=True)]
        parts.append(_members(own, n_groups).T @ np.hstack([*columns, there]))
    found: np.ndarray = np.sum(parts, axis=0)
    held = found[:, -data.n_features :]
    np.minimum(held, 1.0, out=held)
    return found


def _members(groups: np.ndarray, n_groups: int) -> np.ndarray:
    """Return 1 for each sample in its group, else 0, (sample, group)."""
    members: np.ndarray = np.eye(n_groups)[groups]
    return members


def counts_of(
    total: Total,
    magnitudes: CommonMagnitudes,
    sizes: np.ndarray,
    withheld: WithheldCells | None,
    site: SiteRules = FREE,
) -> ClusterCounts:
    """Report numbers of values and words by group; raise PrivacyError if of too few clients."""
    d, least = len(magnitudes.powers), site.smallest.clients
    counted = np.rint(total.values[:, d:-d]).astype(np.int64)
    held = np.rint(total.values[:, -d:])
    if ((held > 0) & (held < least)).any():
        raise PrivacyError(
            f"a cluster would be described from the samples of fewer than {least} clients, which "
            "this run was announced not to do. Nothing is told; ask by daskfc.secure.profiles."
        )
    if withheld is not None:
        return ClusterCounts(counted[:, :d].copy(), counted[:, d:].copy())
    return ClusterCounts(np.tile(sizes[:, None], d).astype(np.int64), counted)


def means_of(total: Total, magnitudes: CommonMagnitudes, counts: ClusterCounts) -> ClusterMeans:
    """Report the mean of each column in each group."""
    powers = magnitudes.powers.astype(int)
    return ClusterMeans(_each(np.ldexp(total.values[:, : len(powers)], powers), counts))


def _each(sums: np.ndarray, counts: ClusterCounts) -> np.ndarray:
    figures: np.ndarray = np.full(sums.shape, np.nan)
    np.divide(sums, counts.values, out=figures, where=counts.values > 0)
    return figures


def cluster_squares(
    data: ClientStore,
    groups: np.ndarray,
    words: Words,
    withheld: WithheldCells | None,
    means: ClusterMeans,
    magnitudes: CommonMagnitudes,
    site: SiteRules = FREE,
) -> np.ndarray:
    """Return (group, column) sums of squared distances from the mean, in squared magnitudes."""
    found = np.zeros_like(means.means)
    for own, _, told in _told(data, groups, words, withheld, site):
        apart = np.ldexp(told - means.means[own], -magnitudes.powers.astype(int))
        found += _members(own, len(found)).T @ np.square(np.nan_to_num(apart))
    return found


def spreads_of(
    total: Total, means: ClusterMeans, magnitudes: CommonMagnitudes, counts: ClusterCounts
) -> ClusterSpreads:
    """Report the standard deviation of each column in each group; 0 where it is rounding."""
    variance = _each(np.maximum(total.values, 0.0), counts)
    spreads = np.ldexp(np.sqrt(variance), magnitudes.powers.astype(int))
    spreads[spreads <= 10.0 * np.finfo(np.float64).eps * np.abs(means.means)] = 0.0
    return ClusterSpreads(spreads)
