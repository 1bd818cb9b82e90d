"""What sets each cluster apart and how good a clustering is, in words, from released figures."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from daskfc.runs.report.profile_rows import figure

_APART = 0.5  # ours: deviations from the mean of all samples from which a feature is named
_NAMED = 3  # ours: features of a cluster that are named
_RAREST = 1e-4  # ours: shares below it, "0%", would tell less than figures of very small values
_MOSTLY, _MORE = 0.6, 0.1  # ours: a site's share of a cluster, and how far it is above the usual

# The least value of each word. Kaufman and Rousseeuw (1990), Finding Groups in Data, table 4.
_SILHOUETTE = ((0.7, "strongly"), (0.5, "reasonably"), (0.25, "weakly"), (-1.0, "hardly"))
# Steinley (2004), Psychological Methods 9, 386-396.
_STABILITY = ((0.9, "excellent"), (0.8, "good"), (0.65, "moderate"), (-1.0, "poor"))
_SITES = (  # ours, but for the bound of the warning in `daskfc.runs.outcome.quality`
    (0.75, "are nearly sites"),
    (0.4, "follow sites for a good part"),
    (0.1, "follow sites a little"),
    (-1.0, "have next to nothing to do with sites"),
)


class ClusterInWords(NamedTuple):
    """A cluster's number, samples, share of all, silhouette if known, and a sentence or ""."""

    number: int
    size: int
    share: float
    silhouette: float | None
    sentence: str


def clusters_in_words(summary: Mapping[str, Any]) -> list[ClusterInWords]:
    """Return each cluster with what its released profile, and the sizes by site, say of it."""
    quality = summary.get("quality") or {}
    sizes: Mapping[str, int] = quality.get("sizes", {})
    n = summary.get("n_samples") or sum(sizes.values())
    told = _of_profiles(summary.get("profiles") or {})
    apart = quality.get("silhouettes", {})
    return [
        ClusterInWords(
            int(name), size, size / n, apart.get(name), _sentence(told.get(name), quality, name)
        )
        for name, size in sizes.items()
    ]


def quality_in_words(quality: Mapping[str, Any]) -> dict[str, str]:
    """Return a word for each of silhouette, stability and sites that is known."""
    words = {"silhouette": _SILHOUETTE, "stability": _STABILITY, "sites": _SITES}
    return {
        key: next(word for least, word in steps if quality[key] >= least)
        for key, steps in words.items()
        if quality.get(key) is not None
    }


def _sentence(phrases: Sequence[str] | None, quality: Mapping[str, Any], name: str) -> str:
    parts = [] if phrases is None else [", ".join(phrases)]
    text = "; ".join([*parts, *_mostly_at(quality, name)])
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _of_profiles(profiles: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return by cluster what is told of it: features that are far off, or why there are none."""
    found = {name: [f"not described: {why}"] for name, why in profiles.get("withheld", {}).items()}
    for row, cluster in enumerate(profiles.get("clusters", ())):
        if profiles.get("standardised"):
            apart = sorted(_apart(profiles, row), key=lambda one: -one[0])
            phrases = [phrase for _, phrase in apart[:_NAMED]]
            near = "near the mean of all samples in every feature that is described"
            found[str(cluster)] = phrases or [near]
    return found


def _apart(profiles: Mapping[str, Any], row: int) -> Iterator[tuple[float, str]]:
    """Yield how many deviations a cluster is off in a feature, and a phrase, where it is far."""
    for i, name in enumerate(profiles["columns"]):
        own = profiles.get("shares", {}).get(name)
        off = own["standardised"][row][:-1] if own else [profiles["standardised"][row][i]]
        sizes = [math.nan if one is None else abs(one) for one in off]
        far = [w for w, size in enumerate(sizes) if size >= _APART]
        if not far:
            continue
        w = max(far, key=lambda w: sizes[w])
        if own:
            what, own_share, share = own["words"][w], own["shares"][row][w], own["overall"][w]
        else:
            what, own_share, share = 1, profiles["means"][row][i], profiles["overall_mean"][i]
        if own or _is_zero_or_one(profiles, i):
            more = "more" if off[w] > 0 else "less"
            phrase = f"{more} often {name} = {what} ({own_share:.0%}, overall {share:.0%})"
        else:
            higher = "higher" if off[w] > 0 else "lower"
            phrase = f"{higher} {name} ({figure(own_share, 3)}, overall {figure(share, 3)})"
        yield sizes[w], phrase


def _is_zero_or_one(profiles: Mapping[str, Any], i: int) -> bool:
    """Whether a column holds 0 and 1 alone: of values in [0, 1] these have most variance."""
    rows = zip(profiles["means"], profiles["stds"], strict=True)
    pairs = [(means[i], stds[i]) for means, stds in rows if means[i] is not None]
    return any(mean > _RAREST for mean, _ in pairs) and all(
        0 <= mean <= 1 and math.isclose(std**2, mean * (1 - mean), rel_tol=1e-6, abs_tol=1e-9)
        for mean, std in pairs
    )


def _mostly_at(quality: Mapping[str, Any], cluster: str) -> Iterator[str]:
    """Yield the site that has most of a cluster, where it has more of it than of all samples."""
    if quality.get("sites") is None:  # one site, or all sites have the same samples
        return
    clients: Mapping[str, Mapping[str, int]] = quality["by_client"]
    name = max(clients, key=lambda one: clients[one].get(cluster, 0))
    here = clients[name].get(cluster, 0) / sum(own.get(cluster, 0) for own in clients.values())
    usual = sum(clients[name].values()) / sum(sum(own.values()) for own in clients.values())
    if here >= _MOSTLY and here - usual >= _MORE:
        yield f"mostly at {name} ({here:.0%}, of all samples {usual:.0%})"
