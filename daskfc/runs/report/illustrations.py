"""Draw the figures of a report from a run's summary and ledger."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd
from rich.filesize import decimal

from daskfc.federation.messages.declaration import CALLER, role_of
from daskfc.privacy import Accountant
from daskfc.runs.outcome.communication import releases_of
from daskfc.runs.report.figures import bars, drawing, heat_table, intervals, stacked_bars, time_line
from daskfc.runs.report.profile_rows import profile_heat_map, spreads

_BARS = 40  # ours: clusters, and clients, that are drawn
_FIT = 12  # columns of a table that fit into half of a wide screen
_LINES = 24  # ours: lines of all features in the figure of means
_EACH = 6  # ours: clients that are drawn one by one in pictures of messages


class Figure(NamedTuple):
    """A drawing in HTML with title and caption; "wide" is full width, "tall" two figures high."""

    title: str
    drawing: str
    caption: str = ""
    shape: str = ""


def _drawn(*figures: Figure) -> list[Figure]:
    return [figure for figure in figures if figure.drawing]


# -- clusters -------------------------------------------------------------------------------------


def _largest(quality: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Return each client's numbers of samples in the largest clusters."""
    sizes, clients = quality.get("sizes", {}), quality.get("by_client", {})
    shown = sorted(sizes, key=lambda c: -sizes[c])[:_BARS]
    return {name: {c: own[c] for c in sizes if c in shown} for name, own in clients.items()}


def _confusion(confusion: Mapping[str, Any]) -> str:
    if not confusion:
        return ""
    counts = confusion["counts"]
    return heat_table(
        confusion["classes"],
        confusion["clusters"],
        counts,
        [[f"{count:,}" if count else "·" for count in row] for row in counts],
        caption="Samples of each true class in each cluster",
        corner="class",
        by_row=True,
    )


def of_clusters(summary: Mapping[str, Any]) -> list[Figure]:
    """Return the figure of the clusters' sizes by site."""
    sizes = stacked_bars(_largest(summary.get("quality") or {}))
    return _drawn(Figure("Sizes, and what each site has", sizes))


def of_classes(summary: Mapping[str, Any]) -> list[Figure]:
    """Return the table of true classes and clusters."""
    confusion = summary.get("confusion") or {}
    return _drawn(
        Figure(
            "True classes and clusters",
            _confusion(confusion),
            "Samples of each true class (rows) in each cluster (columns), shaded by their share of "
            "the class.",
            shape="wide" if len(confusion.get("clusters", ())) > _FIT else "",
        )
    )


def of_profiles(profiles: Mapping[str, Any]) -> list[Figure]:
    """Return two figures of what sets clusters apart: means with deviations, and a heat map."""
    clusters = [int(c) for c in profiles.get("clusters", ())][:_LINES]
    features = max(2, _LINES // max(1, len(clusters)))
    return [
        Figure(
            "Where each cluster lies",
            intervals(spreads(profiles, len(clusters))[:features], clusters),
            "A dot is the mean, or the share of a word, of a cluster; its line is one standard "
            "deviation to either side, in the units of the stores; the rule is the mean of all. "
            "Nobody is told single values, so these are no histograms.",
            shape="tall",
        ),
        Figure(
            "Off the mean of all samples",
            profile_heat_map(profiles),
            "Mean of each column, or share of each word (rows), in each cluster (columns), in "
            "standard deviations from that of all samples; what tells clusters apart most comes "
            "first.",
            shape="wide" if len(profiles.get("clusters", ())) > _FIT else "",
        ),
    ]


# -- how the fit went -----------------------------------------------------------------------------


def of_histories(summary: Mapping[str, Any]) -> list[Figure]:
    """Return one figure per title of a fit's histories."""
    found = summary.get("histories", {})
    return _drawn(*(Figure(title, drawing(lines)) for title, lines in found.items()))


# -- messages -------------------------------------------------------------------------------------


def _is_client(name: str) -> bool:
    return name != CALLER and role_of(name) == "client"


def _last(name: str) -> tuple[int, str]:
    """Sort clients before the server and its workers, and these before the caller."""
    number = "".join(filter(str.isdigit, name)).zfill(9)  # client-2 before client-10
    return (0 if _is_client(name) else 1 + (name == CALLER), number + name)


def of_traffic(rows: pd.DataFrame) -> list[Figure]:
    """Return the table of a fit's bytes from each party to each other; many clients are one."""
    if not len(rows):
        return []
    parties = sorted({*rows["sender"], *rows["receiver"]}, key=_last)
    clients = [name for name in parties if _is_client(name)]
    names = {name: name for name in parties}
    if len(clients) > _EACH:
        names.update(dict.fromkeys(clients, f"{len(clients)} clients"))
    ends = [rows[end].map(names) for end in ("sender", "receiver")]
    sums = rows["payload_bytes"].groupby(ends).sum()
    order = dict.fromkeys(names.values())
    senders, receivers = ([name for name in order if name in {*own}] for own in ends)
    values = [[int(sums.get((a, b), 0)) for b in receivers] for a in senders]
    links = heat_table(
        senders,
        receivers,
        values,
        [[decimal(size) if size else "·" for size in row] for row in values],
        caption="Bytes of content on each link",
        corner="from",
    )
    return _drawn(
        Figure("Bytes by link", links, "From senders (rows) to receivers (columns).", "wide")
    )


def of_privacy(rows: pd.DataFrame, noise: Mapping[str, Any] | None) -> list[Figure]:
    """Return figures of privacy loss by the summary's ``privacy.noise``, if it has a guarantee."""
    if not noise or noise.get("delta") is None or not len(rows):
        return []
    delta = noise["delta"]
    spent = releases_of(rows)
    if not spent:
        return []
    total = {name: Accountant(spent[name]).epsilon(delta) for name in sorted(spent, key=_last)}
    most = max(total, key=lambda name: total[name])
    so_far = [Accountant(spent[most][:n]).epsilon(delta) for n in range(1, len(spent[most]) + 1)]
    caption = f"ε at δ = {delta:g}, by the messages of this fit."
    if noise.get("epsilon") and noise["epsilon"] > max(total.values()) * (1 + 1e-9):
        caption += f" With earlier starts of it, {noise['epsilon']:.4g}."
    return _drawn(
        Figure(
            "What the releases of each client cost",
            bars(total, lambda epsilon: f"ε = {epsilon:.3g}", "Privacy spent"),
            caption,
        ),
        Figure(
            f"How ε of {most} grew",
            drawing({most: so_far}, "release"),
            "The client whose releases cost most.",
        ),
    )


# -- time and memory ------------------------------------------------------------------------------


def of_resources(summary: Mapping[str, Any], rows: pd.DataFrame) -> list[Figure]:
    """Return the figures of a fit's stages by party, and of each party's memory."""
    stages = [(str(name), float(a), float(b)) for name, a, b in summary.get("stages") or ()]
    sent: dict[str, list[float]] = {}
    if len(rows):
        for party, own in rows.groupby("sender", sort=False)["time"]:
            sent[str(party)] = own.tolist()
    known = [*summary.get("peak_memory_bytes", {}), *sent]  # in the order of the clients
    order = sorted(dict.fromkeys(known), key=_is_client)
    memory = {party: float(peak) for party, peak in summary.get("peak_memory_bytes", {}).items()}
    return _drawn(
        Figure(
            "Time line",
            time_line(stages, {party: sent.get(party, []) for party in order}),
            "Stages by the clock of the caller; a tick is a message that the party sent, by its "
            "own clock.",
        ),
        Figure("Peak memory", bars(memory, lambda size: decimal(int(size)), "Peak memory")),
    )
