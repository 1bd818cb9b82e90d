"""Profiles of clusters: figures of every feature, sorted by how well it separates the clusters."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from daskfc.federation import Ledger


@dataclass(frozen=True)
class ClusterProfiles:
    """Figures of the samples of each cluster, in the units of the clients' stores.

    Attributes
    ----------
    columns : tuple of str
        Features, those that separate the clusters best first.
    clusters : tuple of int
        Numbers of the described clusters; all figures below are of their samples only.
    sizes : ndarray of shape (cluster,), int64
        Samples of each.
    counts : ndarray of shape (cluster, column), int64
        Samples that have a value; 0 where the figures of a column are withheld.
    means, stds : ndarray of shape (cluster, column)
        Mean and standard deviation (divided by n) of the values that are not missing; NaN for
        columns of words, and where withheld. The mean of a column of 0 and 1 is a share.
    withheld : mapping of int to str
        Clusters that are not described, and why.
    ledger : Ledger
        Every message of the run that found them.
    categories : mapping of str to tuple of str
        Words of each column of words, as the clients agreed on them in the preparation.
    shares : mapping of str to ndarray of shape (cluster, word + 1)
        For each column of words, each word's share of the values that are not missing; the last is
        that of all other words. NaN where withheld.
    withheld_cells : mapping of (int, str) to str
        Clusters and columns that have too few values to be described, and why.
    left_out : mapping of int to int
        Samples of each described cluster that enter no figure, nor `sizes`: those of clients that
        have fewer of them than the run's `Federation.smallest` requires.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.federation import Ledger
    >>> from daskfc.secure.profiles import ClusterProfiles
    >>> means, stds = np.array([[0.0], [2.0]]), np.array([[1.0], [1.0]])
    >>> sizes, counts = np.array([5, 6]), np.array([[5], [5]])
    >>> found = ClusterProfiles(("age",), (0, 1), sizes, counts, means, stds, {}, Ledger([]))
    >>> found.separation.tolist(), found.overall_mean.tolist()
    ([0.5], [1.0])
    """

    columns: tuple[str, ...]
    clusters: tuple[int, ...]
    sizes: np.ndarray
    counts: np.ndarray
    means: np.ndarray
    stds: np.ndarray
    withheld: Mapping[int, str]
    ledger: Ledger = field(repr=False)
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    shares: Mapping[str, np.ndarray] = field(default_factory=dict)
    withheld_cells: Mapping[tuple[int, str], str] = field(default_factory=dict)
    left_out: Mapping[int, int] = field(default_factory=dict)

    @cached_property
    def missing(self) -> np.ndarray:
        """Share of each cluster's samples that lack a value, (cluster, column); NaN if withheld."""
        share = 1.0 - self.counts / self.sizes[:, None]
        return np.where(self.counts > 0, share, np.nan)

    @cached_property
    def overall_mean(self) -> np.ndarray:
        """Mean of each column over all described cells, ``(column,)``."""
        return _overall(self.means, self.counts)

    @cached_property
    def overall_std(self) -> np.ndarray:
        """Standard deviation of each column over all described cells."""
        between, within = self._variances()
        return np.where(np.isnan(self.overall_mean), np.nan, np.sqrt(between + within))

    @cached_property
    def overall_shares(self) -> dict[str, np.ndarray]:
        """Each word's share over all described cells, by column of words."""
        return {name: _overall(own, self._counts_of(name)) for name, own in self.shares.items()}

    @cached_property
    def separation(self) -> np.ndarray:
        """Share of each column's variance that is between clusters (η²), in [0, 1].

        For a column of words, variances of the words' columns of 0 and 1 are added up (Goodman and
        Kruskal's τ). NaN where all cells of a column are withheld.
        """
        between, within = self._variances()
        for name, own in self.shares.items():
            i, counts = self.columns.index(name), self._counts_of(name)
            between[i] = _between(own, counts).sum()
            within[i] = _mean(own * (1.0 - own), counts).sum()
        whole = between + within
        share: np.ndarray = np.divide(between, whole, out=np.zeros_like(whole), where=whole > 0)
        return np.where(self.counts.any(axis=0), share, np.nan)

    @cached_property
    def standardised(self) -> np.ndarray:
        """Clusters' means minus the overall mean, in overall deviations, (cluster, column).

        0 for constant columns, NaN where there is no mean.
        """
        return _off(self.means, self.overall_mean, self.overall_std)

    @cached_property
    def standardised_shares(self) -> dict[str, np.ndarray]:
        """`standardised` for the shares of words, which are means of columns of 0 and 1."""
        overall = self.overall_shares
        return {
            name: _off(own, overall[name], np.sqrt(overall[name] * (1.0 - overall[name])))
            for name, own in self.shares.items()
        }

    def _counts_of(self, name: str) -> np.ndarray:
        return self.counts[:, [self.columns.index(name)]]

    def _variances(self) -> tuple[np.ndarray, np.ndarray]:
        between = _between(self.means, self.counts)
        # A column whose clusters' means differ by rounding only does not separate them.
        largest = np.nan_to_num(np.abs(self.means)).max(axis=0, initial=0.0)
        between[between <= (10.0 * np.finfo(np.float64).eps * largest) ** 2] = 0.0
        return between, _mean(np.square(self.stds), self.counts)

    def as_dict(self) -> dict[str, Any]:
        """Return all figures as plain values, for JSON.

        Returns
        -------
        dict
            ``columns``, ``clusters``, ``sizes``, ``counts``, ``missing``, ``means``, ``stds``,
            ``overall_mean``, ``overall_std``, ``standardised``, ``separation``, ``shares``,
            ``withheld``, ``withheld_cells``, ``left_out``; tables are lists of one list a cluster,
            with None for NaN. For each column of words, ``shares`` has its ``words``, the tables
            ``shares`` and ``standardised``, and a list ``overall``, each with the share of all
            other words last.
        """
        return {
            "columns": list(self.columns),
            "clusters": list(self.clusters),
            "sizes": self.sizes.tolist(),
            "counts": self.counts.tolist(),
            "missing": _plain(self.missing),
            "means": _plain(self.means),
            "stds": _plain(self.stds),
            "overall_mean": _plain(self.overall_mean),
            "overall_std": _plain(self.overall_std),
            "standardised": _plain(self.standardised),
            "separation": _plain(self.separation),
            "shares": {
                name: {
                    "words": list(self.categories[name]),
                    "shares": _plain(own),
                    "overall": _plain(self.overall_shares[name]),
                    "standardised": _plain(self.standardised_shares[name]),
                }
                for name, own in self.shares.items()
            },
            "withheld": {str(cluster): why for cluster, why in self.withheld.items()},
            "withheld_cells": [
                {"cluster": cluster, "column": column, "why": why}
                for (cluster, column), why in self.withheld_cells.items()
            ],
            "left_out": {str(cluster): n for cluster, n in self.left_out.items()},
        }

    def ranked(self) -> "ClusterProfiles":
        """Return the same profiles with the columns that separate clusters best first."""
        order = np.argsort(-self.separation, kind="stable")  # NaN last
        columns = tuple(self.columns[i] for i in order)
        return replace(
            self,
            columns=columns,
            counts=self.counts[:, order],
            means=self.means[:, order],
            stds=self.stds[:, order],
            categories={name: self.categories[name] for name in columns if name in self.shares},
            shares={name: self.shares[name] for name in columns if name in self.shares},
        )


def _mean(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the mean of figures over clusters, weighted by their counts of values."""
    weights = counts / np.maximum(counts.sum(axis=0), 1)
    mean: np.ndarray = (weights * np.nan_to_num(values)).sum(axis=0)
    return mean


def _overall(means: np.ndarray, counts: np.ndarray) -> np.ndarray:
    told = (np.isfinite(means) & (counts > 0)).any(axis=0)
    return np.where(told, _mean(means, counts), np.nan)


def _between(means: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the variance of clusters' means."""
    return _mean(np.square(means - _overall(means, counts)), counts)


def _off(means: np.ndarray, overall: np.ndarray, std: np.ndarray) -> np.ndarray:
    off = means - overall
    spread = np.broadcast_to(std, off.shape)
    scaled = np.divide(off, spread, out=np.zeros_like(off), where=spread > 0)
    return np.where(np.isnan(off), np.nan, scaled)


def _plain(figures: np.ndarray) -> Any:
    found = figures.astype(object)
    found[np.isnan(figures)] = None
    return found.tolist()
