"""``report.html``: one self-contained page about a run, without scripts or links elsewhere."""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import yaml
from jinja2 import Environment, StrictUndefined, Template
from rich.filesize import decimal

from daskfc.runs.curves import drawing, stacked_bars
from daskfc.runs.folder import RunFolder
from daskfc.runs.table import noise_in_words, seconds_in_words

__all__ = ["report_html", "write_report"]


_BARS = 40  # ours: clusters, and clients, that are drawn


class _Table(NamedTuple):
    head: Sequence[str]
    rows: Sequence[Sequence[object]]
    numbers_from: int = 1  # columns from here on are numbers


@cache
def _template() -> Template:
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    text = files("daskfc.runs").joinpath("report.html.jinja").read_text(encoding="utf-8")
    return environment.from_string(text)


def _scores(summary: Mapping[str, Any]) -> _Table | None:
    scores = summary.get("metrics")
    if not scores:
        return None
    names = list(dict.fromkeys(name for row in scores.values() for name in row))
    notes = summary.get("methods", {})
    rows = [
        [
            method,
            notes.get(method, {}).get("note", ""),
            *(f"{row[name]['mean']:.4f} ± {row[name]['std']:.4f}" for name in names),
        ]
        for method, row in scores.items()
    ]
    return _Table(["method", "", *names], rows, 2)


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


def _numbers(line: Sequence[float | None]) -> list[float]:
    """Return what was not finite when JSON was written as what it is."""
    return [math.nan if value is None else value for value in line]


def _largest(quality: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Return what clients have of the largest clusters, those clients and clusters being few."""
    sizes, clients = quality.get("sizes", {}), quality.get("by_client", {})
    shown = sorted(sizes, key=lambda c: -sizes[c])[:_BARS]
    return {
        name: {c: own[c] for c in sizes if c in shown}
        for name, own in list(clients.items())[:_BARS]
    }


def report_html(record: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    """Return the page about a run.

    Parameters
    ----------
    record : mapping
        What ``run.json`` holds.
    summary : mapping
        What ``summary.json`` holds; empty for a run that has not ended.

    Returns
    -------
    str
        HTML; every value of the run is escaped.

    Examples
    --------
    >>> from daskfc.runs.report import report_html
    >>> "&lt;b&gt;" in report_html({"run_id": "<b>", "status": "running"}, {})
    True
    """
    timing = [
        [key.removesuffix("_s").replace("_", " "), seconds_in_words(value)]
        for key, value in summary.get("timing", {}).items()
        if isinstance(value, int | float)
    ]
    memory = [
        [party, decimal(peak)] for party, peak in summary.get("peak_memory_bytes", {}).items()
    ]
    settings = {key: record.get(key) for key in ("pipeline", "storage", "cluster", "seeds")}
    lead = f"status: {record['status']}"
    if summary.get("n_samples"):
        size = f"{summary['n_samples']:,} samples of {summary['n_clients']} clients"
        lead = f"{summary['method']} on {size}; {lead}"
    privacy = summary.get("privacy", {})
    noise = privacy.get("noise")
    return _template().render(
        name=record["run_id"],
        lead=lead,
        created=record.get("created", ""),
        error=record.get("error"),
        scores=_scores(summary),
        unscored=summary.get("unscored") or "the run did not end.",
        quality=summary.get("quality"),
        bars=stacked_bars(_largest(summary.get("quality") or {})),
        statement=privacy.get("statement", ""),
        noise=noise_in_words(noise) if noise else "",
        messages=_messages(summary),
        histories={
            title: drawing({name: _numbers(line) for name, line in lines.items()})
            for title, lines in summary.get("histories", {}).items()
        },
        choices=_Table(["of", "what"], list(summary.get("choices", {}).items()), 2),
        timing=_Table(["stage", ""], timing),
        memory=_Table(["party", ""], memory),
        settings=yaml.safe_dump(settings, sort_keys=False, allow_unicode=True),
        versions=_Table(["package", ""], list(record.get("versions", {}).items())),
    )


def write_report(folder: RunFolder) -> str:
    """Write ``report.html`` from what the run's folder holds.

    Parameters
    ----------
    folder : RunFolder
        The run.

    Returns
    -------
    str
        Path of the page.
    """
    folder.write_text("report.html", report_html(folder.record, folder.summary))
    return str(folder.path / "report.html")
