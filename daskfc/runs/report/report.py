"""HTML pages of a run: self-contained, escaped, without scripts, links elsewhere or places."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import pandas as pd
import yaml
from jinja2 import Environment, FunctionLoader, StrictUndefined
from rich.filesize import decimal

from daskfc.errors import InvalidInput
from daskfc.runs.outcome.folder import RunFolder
from daskfc.runs.report.changes import HEAD, changes_in_words, changes_rows
from daskfc.runs.report.clusters_in_words import clusters_in_words, quality_in_words
from daskfc.runs.report.figures import drawing, sample_map
from daskfc.runs.report.illustrations import (
    of_classes,
    of_clusters,
    of_histories,
    of_privacy,
    of_profiles,
    of_resources,
    of_traffic,
)
from daskfc.runs.report.profile_rows import cells_in_words, profile_head, profile_rows
from daskfc.runs.report.table import (
    choice_in_words,
    message_rows,
    noise_in_words,
    score_rows,
    seconds_in_words,
    stage_rows,
)

_MOST = 40  # ours: clusters of profiles that have a column
_SITES = 6  # ours: sites that are named where a pointer is over the map
_SENTENCES = 12  # ours: clusters that have a sentence on the first page
_LONGEST = 200  # characters of a title or a purpose
_PLACE = re.compile(r"(?<![\w/.])(?:([A-Za-z][\w+.-]*):/{2,3}|~?/|[A-Za-z]:\\)([^\s'\",;)]+)")


class Table(NamedTuple):
    """A table of a page; its columns from a number on are numbers."""

    head: Sequence[str]
    rows: Sequence[Sequence[object]]
    numbers_from: int = 1


def _part(name: str) -> str:
    return files("daskfc.runs.report").joinpath(name).read_text(encoding="utf-8")


@cache
def _templates() -> Environment:
    return Environment(
        loader=FunctionLoader(_part),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def rendered(template: str, **values: Any) -> str:
    """Return a template of this room with its values, all of them escaped."""
    return _templates().get_template(template).render(style=_part("report.css"), **values)


def without_places(value: Any) -> Any:
    """Return a value whose absolute paths and addresses are cut down to their last part."""
    if isinstance(value, Mapping):
        return {key: without_places(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_places(item) for item in value]
    return _PLACE.sub(_last_part, value) if isinstance(value, str) else value


def _last_part(found: re.Match[str]) -> str:
    *before, last = re.split(r"[/\\]", found[2].partition("?")[0].rstrip("/\\."))
    is_host = found[1] not in (None, "file") and not before
    return "…" if is_host else f"…/{last}"


def _scores(summary: Mapping[str, Any]) -> Table | None:
    if not summary.get("metrics"):
        return None
    names, rows = score_rows(summary)
    return Table(["method", *names], rows)


def table_of_messages(found: Mapping[str, Any]) -> Table | None:
    """Return the kinds of messages of a `communication_of`, and the sum of all."""
    head = ["message", "route", "protection", "what it reveals", "count", "payload", "wire"]
    return Table(head, message_rows(found), 4) if found else None


def _profiles(summary: Mapping[str, Any]) -> Table | None:
    found = summary.get("profiles")
    if not found or not found["clusters"]:
        return None
    return Table(profile_head(found, _MOST), profile_rows(found, _MOST))


def _changes(summary: Mapping[str, Any]) -> dict[str, Any] | None:
    found = summary.get("changes")
    if not found:
        return None
    return {"words": changes_in_words(found), "table": Table(HEAD, changes_rows(found))}


def _choice(summary: Mapping[str, Any]) -> dict[str, str] | None:
    found = summary.get("n_clusters_choice")
    if not found:
        return None
    scores, first = list(found["scores"].values()), min(map(int, found["scores"]))
    parts = {name: list(part.values()) for name, part in found.get("parts", {}).items()}
    lines = drawing(
        {found["by"]: scores, **parts}, "clusters", first=first, marked=found["n_clusters"]
    )
    return {"words": choice_in_words(found), "lines": lines}


def _tiles(summary: Mapping[str, Any]) -> dict[str, str]:
    """Return the key figures at the top of the page."""
    if not summary.get("n_samples"):
        return {}
    sizes = (summary.get("quality") or {}).get("sizes")
    told = {
        "samples": f"{summary['n_samples']:,}",
        "sites": f"{summary['n_clients']:,}",
        "clusters": f"{len(sizes):,}" if sizes else "",
        "whole run": seconds_in_words(summary.get("timing", {}).get("total_s") or 0.0),
        "sent in one fit": decimal(summary.get("communication", {}).get("payload_bytes") or 0),
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
    """Return the page about a run; the summary is empty before it ends."""
    # Not the cluster's file, which is places and limits of machines; run.json has all.
    settings = {
        "pipeline": record.get("pipeline"),
        "files": {key: record.get(f"{key}_source") for key in ("pipeline", "storage", "cluster")},
        "seeds": record.get("seeds"),
    }
    privacy = summary.get("privacy", {})
    noise = privacy.get("noise")
    profiles = summary.get("profiles") or {}
    quality = summary.get("quality") or {}
    rows = own_rows(pd.DataFrame() if ledger is None else ledger, summary)
    plane = summary.get("map") or {}
    told = clusters_in_words(summary)
    features = of_profiles(profiles)
    return rendered(
        "report.html.jinja",
        name=record["run_id"],
        title=record.get("title") or record["run_id"],
        status=record["status"],
        summary=summary,
        created=str(record.get("created", "")).replace("T", " ").replace("+00:00", " UTC"),
        error=without_places(record.get("error")),
        scores=_scores(summary),
        seeds=len(summary.get("seeds", ())),
        unscored=summary.get("unscored") or "the run did not end.",
        quality=quality,
        words=quality_in_words(quality),
        told=told[:_SENTENCES],
        untold=len(told) - _SENTENCES,
        choice=_choice(summary),
        changes=_changes(summary),
        described=bool(profiles),
        profiles=_profiles(summary),
        messages=table_of_messages(summary.get("communication") or {}),
        withheld=profiles.get("withheld", {}),
        tiles=_tiles(summary),
        map=sample_map(plane["positions"], plane["labels"], _hovered(quality)) if plane else "",
        mapped=plane.get("told", ""),
        statement=privacy.get("statement", ""),
        choices=Table(["of", "what"], list(summary.get("choices", {}).items()), 2),
        timing=Table(["stage", "seconds"], stage_rows(summary.get("timing", {}))),
        noise=noise_in_words(noise) if noise else "",
        withheld_cells=cells_in_words(profiles),
        drawn=[one for one in [*features[:1], *of_clusters(summary)] if one.drawing],
        details=[one for one in [*features[1:], *of_classes(summary)] if one.drawing],
        spend=of_privacy(rows, noise),
        traffic=of_traffic(rows),
        curves=of_histories(summary),
        resources=of_resources(summary, rows),
        settings=yaml.safe_dump(without_places(settings), sort_keys=False, allow_unicode=True),
        versions=Table(["package", "version"], list(record.get("versions", {}).items())),
    )


def _hovered(quality: Mapping[str, Any]) -> dict[int, str]:
    """Return what a map tells of a cluster's dots: its samples, in all and at each site."""
    told = {}
    for name, size in quality.get("sizes", {}).items():
        sites = {site: own[name] for site, own in quality["by_client"].items() if own[name]}
        first = sorted(sites, key=lambda site: -sites[site])[:_SITES]
        parts = [f"{sites[site]:,} at {site}" for site in first]
        rest = size - sum(sites[site] for site in first)
        parts += [f"{rest:,} elsewhere"] if rest else []
        told[int(name)] = f"cluster {name}: {size:,} samples; {', '.join(parts)}"
    return told


def keep_words(folder: RunFolder, **given: str | None) -> None:
    """Keep a person's words, such as a title, in ``run.json``; raise if they are no short line."""
    said = {key: text.strip() for key, text in given.items() if text is not None}
    for key, text in said.items():
        if not 0 < len(text) <= _LONGEST or not text.isprintable():
            raise InvalidInput(
                f"the {key} of a run must be one line of 1 to {_LONGEST} characters; got "
                f"{len(text)}. Shorten it, or leave it out."
            )
    if said:
        with folder.claim():
            folder.update(**said)


def write_report(folder: RunFolder) -> str:
    """Write ``report.html`` from what the run's folder holds, and return its path."""
    page = report_html(folder.record, folder.summary, folder.read_ledger())
    folder.write_text("report.html", page)
    return str(folder.path / "report.html")
