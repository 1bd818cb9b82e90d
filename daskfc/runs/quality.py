"""What can be said of clusters without true labels: sizes, sites, stability, warnings."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from daskfc.metrics import ari
from daskfc.runs.fits import Fit

__all__ = ["quality_of"]

_FEW = 0.005  # ours: a smaller share of the samples is a small cluster


def quality_of(
    fits: Sequence[Fit], params: Mapping[str, Any], of_data: Sequence[str] = ()
) -> dict[str, Any]:
    """Describe the clusters that a method found.

    Parameters
    ----------
    fits : sequence of Fit
        Of one method, one a seed.
    params : mapping
        Its parameters, of which ``n_clusters`` counts.
    of_data : sequence of str
        Warnings that were given before the run.

    Returns
    -------
    dict
        Of the first seed: ``sizes``, a mapping of cluster to samples, ``by_client``, the same for
        every client, and ``noise``, the share of samples in no cluster. ``stability``, the mean
        adjusted Rand index of all pairs of seeds, None with one. ``silhouette``, in [-1, 1], where
        the method tells it. ``warnings``, sentences.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import xarray as xr
    >>> from daskfc.runs.fits import Fit
    >>> from daskfc.runs.quality import quality_of
    >>> labels = xr.DataArray(np.array([0, 0, 1]), dims="sample",
    ...                       coords={"client": ("sample", ["a", "b", "b"])})
    >>> found = quality_of([Fit("OmniFC", 0, labels, pd.DataFrame(), {})], {"n_clusters": 2})
    >>> found["sizes"], found["by_client"]
    ({'0': 2, '1': 1}, {'a': {'0': 1, '1': 0}, 'b': {'0': 1, '1': 1}})
    """
    first = fits[0].labels
    labels = first.to_numpy()
    clients = first["client"].to_numpy().astype(str)
    found = np.unique(labels[labels >= 0])
    sizes = {str(c): int((labels == c).sum()) for c in found}
    by_client = {
        str(name): {str(c): int((labels[clients == name] == c).sum()) for c in found}
        for name in dict.fromkeys(clients.tolist())
    }
    pairs = [ari(a.labels.to_numpy(), b.labels.to_numpy()) for a, b in combinations(fits, 2)]
    return {
        "sizes": sizes,
        "by_client": by_client,
        "noise": float((labels < 0).mean()) if labels.size else 0.0,
        "stability": float(np.mean(pairs)) if pairs else None,
        "silhouette": fits[0].facts.get("silhouette"),
        "warnings": [
            *of_data,
            *fits[0].facts.get("notices", ()),
            *_warnings(sizes, by_client, labels, params.get("n_clusters")),
            *_drowned(fits[0].facts.get("noise") or {}),
        ],
    }


def _drowned(noise: Mapping[str, Any]) -> list[str]:
    """Say so where noise is larger than all that it covers."""
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
        small = [c for c, size in sizes.items() if size < max(2, _FEW * n)]
        if small:
            told.append(
                f"{_clusters(small)} less than {max(2, round(_FEW * n))} samples; these may be "
                "outliers."
            )
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
