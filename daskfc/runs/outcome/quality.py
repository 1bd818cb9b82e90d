"""Describe clusters without true labels: sizes, sites, stability, warnings."""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_mutual_info_score

from daskfc.metrics import ari
from daskfc.runs.outcome.fits import Fit

_FEW = 0.005  # ours: a smaller share of the samples is a small cluster
# Ours: mutual information with the sites at which clusters are nearly sites. It is 0.55 where three
# quarters of each site's samples are in one cluster of its own, and 1 where a site is one cluster.
_OF_SITES = 0.75
_ALONE, _OTHERS = 0.9, 0.5  # ours: shares of variance between clusters, of one column and of others


def quality_of(
    fits: Sequence[Fit],
    params: Mapping[str, Any],
    of_data: Sequence[str] = (),
    *,
    by_rows: bool = True,
) -> dict[str, Any]:
    """Describe the clusters of the first seed's fit; ``stability`` compares pairs of seeds."""
    first = fits[0].labels
    labels = first.to_numpy()
    clients = first["client"].to_numpy().astype(str)
    found = np.unique(labels[labels >= 0])
    sizes = {str(c): int((labels == c).sum()) for c in found}
    by_client = {
        str(name): {str(c): int((labels[clients == name] == c).sum()) for c in found}
        for name in dict.fromkeys(clients.tolist())
    }
    owners = clients if by_rows else np.zeros(len(labels))
    pairs = [ari(a.labels.to_numpy(), b.labels.to_numpy()) for a, b in combinations(fits, 2)]
    return {
        "sizes": sizes,
        "by_client": by_client,
        "noise": float((labels < 0).mean()) if labels.size else 0.0,
        "stability": float(np.mean(pairs)) if pairs else None,
        "silhouette": fits[0].facts.get("silhouette"),
        "modularity": fits[0].facts.get("modularity"),
        "silhouettes": {str(c): own for c, own in fits[0].facts.get("silhouettes", {}).items()},
        "sites": _sites(labels, owners, "arithmetic"),
        "warnings": [
            *of_data,
            *fits[0].facts.get("notices", ()),
            *_warnings(sizes, by_client, labels, params.get("n_clusters")),
            *_made_by_sites(labels, owners),
            *_drowned(fits[0].facts.get("noise") or {}),
        ],
    }


def _sites(labels: np.ndarray, clients: np.ndarray, over: str) -> float | None:
    """Return the adjusted mutual information of clusters and clients, normalised as `over` says."""
    if np.unique(clients).size < 2 or np.unique(labels).size < 2:
        return None
    return float(adjusted_mutual_info_score(clients, labels, average_method=over))


def _made_by_sites(labels: np.ndarray, clients: np.ndarray) -> list[str]:
    """Return a warning if a sample's client nearly determines its cluster."""
    if labels.size < 2 * max(np.unique(clients).size, np.unique(labels).size):
        return []  # of groups of one sample, chance tells all that there is to tell
    told = _sites(labels, clients, "min")
    if told is None or told < _OF_SITES:
        return []
    return [
        f"clusters are nearly sites: of what clusters tell, {told:.0%} is which client has a "
        "sample. Sites may measure or write differently, or have other samples: look at the "
        "profiles, and at words that one site alone has; 'standardise: {within: site}' in "
        "'prepare' takes off what sites add, where their samples are alike."
    ]


def told_by_one_column(profiles: Mapping[str, Any]) -> list[str]:
    """Return a warning if one column alone separates the clusters of `ClusterProfiles.as_dict`."""
    told = [
        (share, name)
        for name, share in zip(
            profiles.get("columns", ()), profiles.get("separation", ()), strict=True
        )
        if share is not None
    ]
    if len(told) < 2 or len(profiles["clusters"]) < 2:
        return []
    (first, name), (second, _) = sorted(told, reverse=True)[:2]
    if first < _ALONE or second > _OTHERS:
        return []
    return [
        f"column {name!r} alone makes the clusters: {first:.0%} of its variance lies between them, "
        f"of every other column at most {second:.0%}. Leave it out, or ask for more clusters, if "
        "others are to count."
    ]


def _drowned(noise: Mapping[str, Any]) -> list[str]:
    """Return a warning if noise exceeds the clipping norm of the values that it protects."""
    clip = noise.get("clip")
    sigma = max((v for k, v in noise.items() if k.startswith("sigma") and v), default=0.0)
    if not clip or sigma <= clip:
        return []
    return [
        f"the noise has deviation {sigma:.4g} in each number, and what it covers a norm of at most "
        f"{clip:g}: labels are mostly chance. Raise epsilon."
    ]


def _warnings(
    sizes: Mapping[str, int],
    by_client: Mapping[str, Mapping[str, int]],
    labels: np.ndarray,
    asked: Any,
) -> list[str]:
    n, told = labels.size, []
    if isinstance(asked, int) and asked > len(sizes):
        told.append(
            f"{len(sizes)} of the {asked} clusters that were asked for have samples; many samples "
            "may be alike, or n_clusters too large."
        )
    if n > 1 and len(sizes) == n:
        told.append("every sample is a cluster of its own; lower n_clusters.")
    elif n > 1 and len(sizes) == 1 and asked != 1:
        told.append("all samples are in one cluster; look at the scales of the columns.")
    else:
        least = max(2, math.ceil(_FEW * n))
        small = [c for c, size in sizes.items() if size < least]
        if small:
            told.append(f"{_clusters(small)} less than {least} samples; these may be outliers.")
    if len(by_client) > 1:
        alone = [c for c in sizes if sum(bool(own[c]) for own in by_client.values()) == 1]
        if alone and len(sizes) < n:
            told.append(
                f"{_clusters(alone)} samples of one client only; sites may measure differently."
            )
    if n and (labels < 0).mean() > 0.5:
        told.append(f"{(labels < 0).mean():.0%} of the samples are noise, in no cluster.")
    return told


def _clusters(names: Sequence[str]) -> str:
    listed = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
    return f"cluster {listed} has" if len(names) == 1 else f"clusters {listed} have"
