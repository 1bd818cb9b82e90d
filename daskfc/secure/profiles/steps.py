"""What clients and server do for cluster profiles: sums over the samples of a cluster, scaled."""

import hashlib
import json
from collections.abc import Sequence

import numpy as np

from daskfc.errors import InvalidInput
from daskfc.federation.pseudonyms import Pseudonyms
from daskfc.secure.prepare.messages import ColumnMagnitudes, CommonMagnitudes
from daskfc.secure.prepare.steps import powers_above
from daskfc.secure.profiles.messages import ClusterMeans, ClusterSpreads
from daskfc.secure.sums import Total
from daskfc.stores import ClientStore

__all__ = [
    "cluster_magnitudes",
    "cluster_squares",
    "cluster_sums",
    "digest_of_ids",
    "means_of",
    "own_groups",
    "spreads_of",
]


def digest_of_ids(sample_ids: Sequence[str]) -> str:
    """Return what tells samples, and their order, from others.

    Examples
    --------
    >>> from daskfc.secure.profiles.steps import digest_of_ids
    >>> digest_of_ids(["a", "b"]) == digest_of_ids(["b", "a"])
    False
    """
    return hashlib.sha256(json.dumps([str(one) for one in sample_ids]).encode()).hexdigest()


def own_groups(
    data: ClientStore, groups: np.ndarray, ids: str, names: Pseudonyms | None, party: str
) -> np.ndarray:
    """Keep which group each of a client's samples is in; -1 is none.

    Parameters
    ----------
    data : ClientStore
        The client's.
    groups : ndarray of shape (n_samples,), int64
        As the labels say.
    ids : str
        Digest of the names that samples have there.
    names : Pseudonyms, optional
        Of the run, where these are no clear ids.
    party : str
        The client.

    Raises
    ------
    InvalidInput
        When these are groups of other samples.
    """
    own = data.sample_ids().tolist()
    if names is not None:
        own = names.of(own, names.key(party, data.id_key()))
    if len(groups) != data.n_samples or digest_of_ids(own) != ids:
        raise InvalidInput(
            f"the labels given for a profile must be of the samples of client {party!r}, in the "
            "order of its store; they are of others. Give the labels of a fit on these stores."
        )
    return groups


def cluster_magnitudes(
    data: ClientStore, groups: np.ndarray, means: ClusterMeans | None
) -> ColumnMagnitudes:
    """Tell the largest magnitude of each column, or of its distance from the cluster's mean.

    Samples in no group do not count.
    """
    largest = np.zeros(data.n_features)
    for start, block in data.blocks():
        own = groups[start : start + len(block)]
        told = block[own >= 0]
        if means is not None:
            told = told - means.means[own[own >= 0]]
        np.maximum(largest, np.abs(told).max(axis=0, initial=0.0), out=largest)
    return ColumnMagnitudes(powers_above(largest))


def cluster_sums(
    data: ClientStore, groups: np.ndarray, magnitudes: CommonMagnitudes, *, n_groups: int
) -> np.ndarray:
    """Return the sum of each column in each group, in units of its magnitude, (group, column)."""
    found = np.zeros((n_groups, data.n_features))
    for start, block in data.blocks():
        own = groups[start : start + len(block)]
        scaled = np.ldexp(block[own >= 0], -magnitudes.powers.astype(int))
        found += _members(own, n_groups).T @ scaled
    return found


def _members(groups: np.ndarray, n_groups: int) -> np.ndarray:
    """Return of the samples that are in a group which it is, (sample, group)."""
    members: np.ndarray = np.eye(n_groups)[groups[groups >= 0]]
    return members


def means_of(total: Total, magnitudes: CommonMagnitudes, sizes: np.ndarray) -> ClusterMeans:
    """Tell the mean of each column in each group."""
    plain = np.ldexp(total.values, magnitudes.powers.astype(int))
    return ClusterMeans(plain / sizes[:, None])


def cluster_squares(
    data: ClientStore, groups: np.ndarray, means: ClusterMeans, magnitudes: CommonMagnitudes
) -> np.ndarray:
    """Return sums of squared distances from the group's mean, in units of the magnitudes' squares.

    Shape (group, column).
    """
    found = np.zeros_like(means.means)
    for start, block in data.blocks():
        own = groups[start : start + len(block)]
        apart = block[own >= 0] - means.means[own[own >= 0]]
        squares = np.square(np.ldexp(apart, -magnitudes.powers.astype(int)))
        found += _members(own, len(found)).T @ squares
    return found


def spreads_of(
    total: Total, means: ClusterMeans, magnitudes: CommonMagnitudes, sizes: np.ndarray
) -> ClusterSpreads:
    """Tell the standard deviation of each column in each group; 0 where it is but rounding."""
    variance = np.maximum(total.values, 0.0) / sizes[:, None]
    spreads = np.ldexp(np.sqrt(variance), magnitudes.powers.astype(int))
    spreads[spreads <= 10.0 * np.finfo(np.float64).eps * np.abs(means.means)] = 0.0
    return ClusterSpreads(spreads)
