"""Rows of the table of cluster profiles, for a terminal and for a report, and their heat map."""

import math
from collections.abc import Mapping
from typing import Any

from daskfc.runs.report.figures import Spread, heat_table

_NOT_TOLD = "–"  # in place of figures of a feature that are withheld in a cluster
_DRAWN = 40  # ours: lines of the heat map
_WORDS = 8  # ours: words of a feature that have a line


def profile_rows(
    profiles: Mapping[str, Any], clusters: int, features: int | None = None
) -> list[list[str]]:
    """Return rows for each feature: name, share between clusters, and each cluster's figures.

    Words and missing values have rows of their own. `features` limits the number of features.
    """
    rows = []
    tables = list(zip(profiles["means"], profiles["stds"], strict=True))[:clusters]
    for i, name in enumerate(profiles["columns"][:features]):
        separation = profiles["separation"][i]
        head = [name, _NOT_TOLD if separation is None else f"{separation:.3f}"]
        if own := profiles.get("shares", {}).get(name):
            rows.append([*head, *("" for _ in tables)])
            rows += _rows_of_words(name, own, clusters)
        else:
            rows.append([*head, *(_spread(means[i], stds[i]) for means, stds in tables)])
        lacking = [one[i] for one in profiles.get("missing", ())][:clusters]
        if any(lacking):
            rows.append([f"{name}: missing", "", *map(_share, lacking)])
    return rows


def _words_shown(own: Mapping[str, Any]) -> list[int]:
    """Return which words of a feature have a line: the most frequent, and all other words."""
    shares, n = own["overall"], len(own["words"])
    order = sorted(range(n), key=lambda i: (-(shares[i] or 0.0), i))[:_WORDS]
    return [*order, *([n] if shares[n] else [])]


def _word_name(column: str, own: Mapping[str, Any], i: int) -> str:
    """Return the label of a word's line; the index after the last word means other words."""
    words = own["words"]
    return f"{column} = {words[i]}" if i < len(words) else f"{column}: other words"


def _rows_of_words(name: str, own: Mapping[str, Any], clusters: int) -> list[list[str]]:
    shares = own["shares"][:clusters]
    rows = [
        [_word_name(name, own, i), "", *(_share(one[i]) for one in shares)]
        for i in _words_shown(own)
    ]
    if (left := len(own["words"]) - _WORDS) > 0:
        rows.append([f"{name}: {left} more, in summary.json", "", *("" for _ in shares)])
    return rows


def _spread(mean: float | None, std: float | None) -> str:
    if mean is None or std is None:
        return _NOT_TOLD
    return f"{figure(mean, 4)} ± {figure(std, 3)}"


def _share(share: float | None) -> str:
    return _NOT_TOLD if share is None else f"{share:.1%}"


def figure(value: float, digits: int) -> str:
    """Return a number with so many significant digits, or its integer part where that has more."""
    whole = 10**digits <= abs(value) < 1e9
    return f"{value:,.0f}" if whole else f"{value:.{digits}g}"


def profile_head(profiles: Mapping[str, Any], clusters: int) -> list[str]:
    """Return the head of `profile_rows`."""
    return ["feature", "separation", *(f"cluster {c}" for c in profiles["clusters"][:clusters])]


def cells_in_words(profiles: Mapping[str, Any]) -> str:
    """Return why some features are not described in some clusters; empty where all are."""
    reasons = dict.fromkeys(cell["why"] for cell in profiles.get("withheld_cells", ()))
    if not reasons:
        return ""
    why = "; or where ".join(reasons)
    return f"A feature is not described ({_NOT_TOLD}) in a cluster where {why}."


def spreads(profiles: Mapping[str, Any], clusters: int) -> list[Spread]:
    """Return the figures of each feature, or of its most frequent word, for a drawing."""
    found = []
    for i, name in enumerate(profiles.get("columns", ())):
        if own := profiles.get("shares", {}).get(name):
            w = _words_shown(own)[0]
            means, overall = [line[w] for line in own["shares"]], own["overall"][w]
            deviations, texts = [0.0] * len(means), [_share(share) for share in means]
            name = _word_name(name, own, w)
        else:
            means, deviations = ([row[i] for row in profiles[key]] for key in ("means", "stds"))
            overall = profiles["overall_mean"][i]
            texts = [_spread(*pair) for pair in zip(means, deviations, strict=True)]
        middles, sides = ([*map(_number, each[:clusters])] for each in (means, deviations))
        found.append(Spread(str(name), middles, sides, texts[:clusters], _number(overall)))
    return found


def _number(value: float | None) -> float:
    """Restore NaN, for which JSON has None."""
    return math.nan if value is None else float(value)


def standardised_rows(profiles: Mapping[str, Any]) -> list[tuple[str, list[float]]]:
    """Return columns and words with each cluster's deviation from all samples, NaN if withheld."""
    rows: list[tuple[str, list[float | None]]] = []
    for i, name in enumerate(profiles["columns"]):
        if own := profiles.get("shares", {}).get(name):
            rows += [
                (_word_name(name, own, word), [line[word] for line in own["standardised"]])
                for word in _words_shown(own)
            ]
        else:
            rows.append((str(name), [line[i] for line in profiles["standardised"]]))
    return [(name, [_number(v) for v in row]) for name, row in rows]


def profile_heat_map(profiles: Mapping[str, Any] | None) -> str:
    """Return a heat map of cluster means, in deviations from the overall means; or ""."""
    if not profiles or not profiles.get("standardised"):
        return ""
    shown = standardised_rows(profiles)[:_DRAWN]
    values = [row for _, row in shown]
    return heat_table(
        [name for name, _ in shown],
        [str(name) for name in profiles["clusters"]],
        values,
        [[f"{v:+.1f}" if math.isfinite(v) else "" for v in row] for row in values],
        caption="Profiles of the clusters, by column",
        corner="column",
    )
