"""``report.html``: one self-contained page about a run, without scripts or links elsewhere."""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import pandas as pd
import yaml
from jinja2 import Environment, StrictUndefined, Template
from rich.filesize import decimal

from daskfc.runs.outcome.folder import RunFolder
from daskfc.runs.report.changes import HEAD, changes_in_words, changes_rows
from daskfc.runs.report.figures import drawing
from daskfc.runs.report.illustrations import (
    of_clusters,
    of_histories,
    of_privacy,
    of_resources,
    of_traffic,
)
from daskfc.runs.report.profile_rows import (
    cells_in_words,
    profile_head,
    profile_heat_map,
    profile_rows,
)
from daskfc.runs.report.table import choice_in_words, noise_in_words, seconds_in_words

__all__ = ["own_rows", "report_html", "write_report"]

_MOST = 40  # ours: clusters of profiles that have a column


class _Table(NamedTuple):
    head: Sequence[str]
    rows: Sequence[Sequence[object]]
    numbers_from: int = 1  # columns from here on are numbers


def _part(name: str) -> str:
    return files("daskfc.runs.report").joinpath(name).read_text(encoding="utf-8")


@cache
def _template() -> Template:
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.from_string(_part("report.html.jinja"))


def _scores(summary: Mapping[str, Any]) -> _Table | None:
    scores = summary.get("metrics")
    if not scores:
        return None
    names = list(dict.fromkeys(name for row in scores.values() for name in row))
    notes = summary.get("methods", {})
    several = len(summary.get("seeds", ())) > 1
    rows = []
    for method, row in scores.items():
        note = notes.get(method, {}).get("note", "")
        spread = (f" ± {row[name]['std']:.4f}" if several else "" for name in names)
        means = (f"{row[name]['mean']:.4f}" for name in names)
        cells = (mean + more for mean, more in zip(means, spread, strict=True))
        rows.append([f"{method} ({note})" if note else method, *cells])
    return _Table(["method", *names], rows)


def _messages(summary: Mapping[str, Any]) -> _Table | None:
    found = summary.get("communication")
    if not found:
        return None
    rows = [
        [
            name, row["route"], row["protection"], row["reveals"], f"{row['messages']:,}",
            decimal(row["payload_bytes"]), decimal(row["wire_bytes"]),
        ]
        for name, row in found["by_message"].items()
    ]  # fmt: skip
    rows.append(
        [
            "all", "", "", "", f"{found['messages']:,}", decimal(found["payload_bytes"]),
            decimal(found["wire_bytes"]),
        ]
    )  # fmt: skip
    head = ["message", "route", "protection", "what it reveals", "count", "payload", "wire"]
    return _Table(head, rows, 4)


def _profiles(summary: Mapping[str, Any]) -> _Table | None:
    found = summary.get("profiles")
    if not found or not found["clusters"]:
        return None
    return _Table(profile_head(found, _MOST), profile_rows(found, _MOST))


def _changes(summary: Mapping[str, Any]) -> dict[str, Any] | None:
    found = summary.get("changes")
    if not found:
        return None
    return {"words": changes_in_words(found), "table": _Table(HEAD, changes_rows(found))}


def _choice(summary: Mapping[str, Any]) -> dict[str, str] | None:
    found = summary.get("n_clusters_choice")
    if not found:
        return None
    scores = [math.nan if one is None else one for one in found["scores"].values()]
    first = min(map(int, found["scores"]))
    lines = drawing({found["by"]: scores}, "clusters", first=first)
    return {"words": choice_in_words(found), "lines": lines}


def _tiles(summary: Mapping[str, Any]) -> dict[str, str]:
    """Return the key figures at the top of the page."""
    if not summary.get("n_samples"):
        return {}
    sizes = (summary.get("quality") or {}).get("sizes")
    own = summary.get("metrics", {}).get(summary.get("method"), {})
    told = {
        "samples": f"{summary['n_samples']:,}",
        "clients": f"{summary['n_clients']:,}",
        "clusters": f"{len(sizes):,}" if sizes else "",
        "whole run": seconds_in_words(summary.get("timing", {}).get("total_s") or 0.0),
        "sent in one fit": decimal(summary.get("communication", {}).get("payload_bytes") or 0),
        **{name: f"{value['mean']:.3f}" for name, value in list(own.items())[:3]},
    }
    return {name: value for name, value in told.items() if value}


def own_rows(ledger: pd.DataFrame, summary: Mapping[str, Any]) -> pd.DataFrame:
    """Return the messages of the run's own method with its first seed."""
    if not len(ledger) or not summary.get("seeds"):
        return ledger.iloc[:0]
    own = (ledger["method"] == summary.get("method")) & (ledger["seed"] == summary["seeds"][0])
    return pd.DataFrame(ledger[own])


def report_html(
    record: Mapping[str, Any], summary: Mapping[str, Any], ledger: pd.DataFrame | None = None
) -> str:
    """Return the page about a run, all values escaped; the summary is empty before it ends."""
    settings = {key: record.get(key) for key in ("pipeline", "storage", "cluster", "seeds")}
    lead = f"status: {record['status']}"
    if summary.get("n_samples"):
        size = f"{summary['n_samples']:,} samples of {summary['n_clients']} clients"
        lead = f"{summary['method']} on {size}; {lead}"
    privacy = summary.get("privacy", {})
    noise = privacy.get("noise")
    profiles = profile_heat_map(summary.get("profiles"))
    withheld = cells_in_words(summary.get("profiles") or {})
    rows = own_rows(pd.DataFrame() if ledger is None else ledger, summary)
    return _template().render(
        name=record["run_id"],
        lead=lead,
        created=str(record.get("created", "")).replace("T", " ").replace("+00:00", " UTC"),
        error=record.get("error"),
        scores=_scores(summary),
        seeds=len(summary.get("seeds", ())),
        unscored=summary.get("unscored") or "the run did not end.",
        quality=summary.get("quality"),
        choice=_choice(summary),
        changes=_changes(summary),
        profiles=_profiles(summary),
        messages=_messages(summary),
        withheld=(summary.get("profiles") or {}).get("withheld", {}),
        tiles=_tiles(summary),
        mapped=bool(summary.get("map")),
        statement=privacy.get("statement", ""),
        choices=_Table(["of", "what"], list(summary.get("choices", {}).items()), 2),
        timing=_Table(
            ["stage", "seconds"],
            [
                [key.removesuffix("_s").replace("_", " "), seconds_in_words(value)]
                for key, value in summary.get("timing", {}).items()
                if isinstance(value, int | float)
            ],
        ),
        noise=noise_in_words(noise) if noise else "",
        withheld_cells=withheld,
        clusters=of_clusters(summary, profiles),
        spend=of_privacy(rows, noise),
        traffic=of_traffic(rows),
        curves=of_histories(summary),
        resources=of_resources(summary, rows),
        style=_part("report.css"),
        settings=yaml.safe_dump(settings, sort_keys=False, allow_unicode=True),
        versions=_Table(["package", "version"], list(record.get("versions", {}).items())),
    )


def write_report(folder: RunFolder) -> str:
    """Write ``report.html`` from what the run's folder holds, and return its path."""
    page = report_html(folder.record, folder.summary, folder.read_ledger())
    folder.write_text("report.html", page)
    return str(folder.path / "report.html")
