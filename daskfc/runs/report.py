"""``report.html``: one self-contained page about a run, without scripts or links elsewhere."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import yaml

from daskfc.runs.folder import RunFolder
from daskfc.runs.table import bytes_in_words, noise_in_words, seconds_in_words

__all__ = ["report_html", "write_report"]

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
       color: #1a1a1a; background: #fff; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .3rem .7rem .3rem 0; border-bottom: 1px solid #ddd;
         vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
pre { background: #f5f5f5; padding: .8rem; overflow-x: auto; }
.failed { color: #a00; }
@media (prefers-color-scheme: dark) {
  body { color: #e6e6e6; background: #16181c; } th, td { border-color: #3a3d44; }
  pre { background: #22252b; } .failed { color: #f77; }
}
"""


def _rows(rows: Iterable[Sequence[object]], head: Sequence[str], numbers_from: int) -> str:
    def line(cells: Sequence[object], tag: str) -> str:
        done = "".join(
            f"<{tag}{' class=n' if i >= numbers_from else ''}>{escape(str(cell))}</{tag}>"
            for i, cell in enumerate(cells)
        )
        return f"<tr>{done}</tr>"

    body = "\n".join(line(row, "td") for row in rows)
    return f"<table><thead>{line(head, 'th')}</thead>\n<tbody>{body}</tbody></table>"


def _scores(summary: Mapping[str, Any]) -> str:
    scores = summary.get("metrics") or {}
    if not scores:
        why = summary.get("unscored") or "the run did not end."
        return f"<p>No scores: {escape(why)}</p>"
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
    return _rows(rows, ["method", "", *names], 2)


def _messages(summary: Mapping[str, Any]) -> str:
    found = summary.get("communication")
    if not found:
        return "<p>The run did not get as far.</p>"
    rows = [
        [
            name, row["route"], row["protection"], row["reveals"], f"{row['messages']:,}",
            bytes_in_words(row["payload_bytes"]), bytes_in_words(row["wire_bytes"]),
        ]
        for name, row in found["by_message"].items()
    ]  # fmt: skip
    rows.append(
        [
            "all", "", "", "", f"{found['messages']:,}", bytes_in_words(found["payload_bytes"]),
            bytes_in_words(found["wire_bytes"]),
        ]
    )  # fmt: skip
    head = ["message", "route", "protection", "what it reveals", "count", "payload", "wire"]
    return _rows(rows, head, 4)


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
    name, status = str(record["run_id"]), str(record["status"])
    timing = [
        [key.removesuffix("_s").replace("_", " "), seconds_in_words(value)]
        for key, value in summary.get("timing", {}).items()
        if isinstance(value, int | float)
    ]
    memory = [
        [party, bytes_in_words(peak)]
        for party, peak in summary.get("peak_memory_bytes", {}).items()
    ]
    settings = {key: record.get(key) for key in ("pipeline", "storage", "cluster", "seeds")}
    versions = [[key, value] for key, value in record.get("versions", {}).items()]
    lead = f"status: {status}"
    if summary.get("n_samples"):
        size = f"{summary['n_samples']:,} samples of {summary['n_clients']} clients"
        lead = f"{summary['method']} on {size}; {lead}"
    error = record.get("error")
    statement = summary.get("privacy", {}).get("statement", "")
    noise = summary.get("privacy", {}).get("noise")
    parts = [
        f"<h1>{escape(name)}</h1>",
        f"<p>{escape(lead)}; begun {escape(str(record.get('created', '')))}</p>",
        f'<p class="failed">{escape(str(error))}</p>' if error else "",
        "<h2>Agreement with the true labels (mean ± standard deviation over seeds)</h2>",
        _scores(summary),
        "<h2>What left a party in one fit, and what it reveals</h2>",
        f"<p>{escape(statement)}</p>" if statement else "",
        f"<p>Noise: {escape(noise_in_words(noise))}</p>" if noise else "",
        _messages(summary),
        "<h2>Time</h2>",
        _rows(timing, ["stage", ""], 1),
        "<h2>Peak memory</h2>",
        _rows(memory, ["party", ""], 1),
        "<h2>Settings</h2>",
        f"<pre>{escape(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True))}</pre>",
        "<h2>Versions</h2>",
        _rows(versions, ["package", ""], 1),
    ]
    body = "\n".join(part for part in parts if part)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(name)}</title><style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
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
