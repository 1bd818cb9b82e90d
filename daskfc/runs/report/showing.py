"""Show a report below a notebook's cell, or in the browser of this machine."""

import webbrowser
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from daskfc.html_tables import html_table, notebook
from daskfc.runs.report.table import seconds_in_words

_HEIGHT = 800  # pixels of a report below a cell
_CLUSTERS = 40  # ours: clusters that a notebook lists


def shown_in_notebook(page: Path) -> bool:
    """Show a page below the cell that runs; return whether there is one."""
    display = notebook()
    if display is None:
        return False
    text = escape(page.read_text(encoding="utf-8"), quote=True)
    frame = (
        f'<div><iframe title="Report of the run" style="width: 100%; height: {_HEIGHT}px; '
        f'border: 0" sandbox="" srcdoc="{text}"></iframe></div>'  # IPython warns of a bare one
    )
    display.display(display.HTML(frame))
    return True


def shown_in_browser(page: Path) -> bool:
    """Open a page in the browser of this machine; return whether there is one."""
    return webbrowser.open(page.absolute().as_uri())


def run_in_html(name: str, summary: Mapping[str, Any], folder: str) -> str:
    """Return a run's scores, and the sizes of its clusters, as tables for a notebook."""
    title = f"Run {name}: {summary['status']}"
    if summary["status"] != "done":
        return html_table(title, [], [], f"{summary.get('error') or ''} In {folder}.".strip())
    size = f"{summary['n_samples']:,} samples of {summary['n_clients']} clients"
    took = seconds_in_words(summary["timing"]["total_s"])
    scores = summary.get("metrics") or {}
    names = list(dict.fromkeys(metric for row in scores.values() for metric in row))
    rows = [
        (method, *(f"{row[metric]['mean']:.4f}" if metric in row else "" for metric in names))
        for method, row in scores.items()
    ]
    sizes = (summary.get("quality") or {}).get("sizes", {})
    shown = list(sizes.items())[:_CLUSTERS]
    more = len(sizes) - len(shown)
    found = html_table(
        f"{len(sizes)} clusters",
        ["cluster", "samples"],
        shown,
        f"and {more} more clusters" if more else "",
    )
    head = f"{title}, {summary['method']} on {size}, in {took}"
    return html_table(head, ["method", *names], rows, f"In {folder}; see its show().") + found
