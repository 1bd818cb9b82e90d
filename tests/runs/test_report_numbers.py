"""Numbers of the page and of the terminal are those of summary.json: each, and as it is there."""

import copy
import io
import json
import re

import pytest
from rich.console import Console
from rich.filesize import decimal

from daskfc.runs import print_summary, run
from daskfc.runs.report.report import report_html
from daskfc.runs.report.table import seconds_in_words
from tests.runs.fakes import PIPELINE

# settings, and what only 'daskfc compare' and programs read
NOT_SHOWN = {"seeds", "params", "uploaded_floats", "messages_by_protection", "methods"}
AS_A_SHARE = {"quality"}  # of all samples


def leaves(content, path=()):
    """Yield the path of every number."""
    if isinstance(content, dict | list):
        items = content.items() if isinstance(content, dict) else enumerate(content)
        for key, value in items:
            yield from leaves(value, (*path, key))
    elif isinstance(content, int | float) and not isinstance(content, bool):
        yield path


def changed(summary, path, value):
    other = copy.deepcopy(summary)
    *above, last = path
    place = other
    for key in above:
        place = place[key]
    place[last] = value
    return other


def told(record, summary):
    console = Console(file=io.StringIO(), width=200)
    print_summary(summary, "runs/a", console)
    return report_html(record, summary) + console.file.getvalue()


def written(value):
    """Return a number as a page or a table may have it."""
    forms = {f"{value:.4f}", f"{value:.3f}", decimal(value), seconds_in_words(value)}
    return forms | ({f"{value:,}", f"{value}"} if isinstance(value, int) else set())


NUMBER = re.compile(r"[0-9][0-9,]*(?:\.[0-9]+)?")


@pytest.fixture
def done(fake, storage, tmp_path):
    """Return what ``run.json`` and ``summary.json`` of a run hold."""
    folder = run(PIPELINE, storage=storage, runs_dir=tmp_path / "runs", name="a").folder
    return [json.loads((folder / name).read_text()) for name in ("run.json", "summary.json")]


def test_key_figures_are_at_the_top(done):
    record, summary = done
    summary["timing"]["total_s"] = 75.0
    page = re.sub(r"<[^>]+>", " ", report_html(record, summary).partition("<body>")[2])
    told = " ".join(page.split())
    for name, value in {
        "samples": f"{summary['n_samples']:,}",
        "sites": f"{summary['n_clients']:,}",
        "whole run": seconds_in_words(75.0),
        "sent in one fit": decimal(summary["communication"]["payload_bytes"]),
    }.items():
        assert re.search(rf"(?<!\w){name} {re.escape(value)}(?!\w)", told), name


def test_each_number_of_a_summary_is_shown_as_it_is(done):
    record, summary = done
    summary["timing"] = dict.fromkeys(summary["timing"], 41.7)  # such as no other number
    before = set(NUMBER.findall(told(record, summary)))
    for path in leaves(summary):
        was = summary
        for key in path:
            was = was[key]
        value = was * 3 + 4_321 if isinstance(was, int) else was + 0.4321
        text = told(record, changed(summary, path, value))
        assert NOT_SHOWN.intersection(path) or set(NUMBER.findall(text)) - before, path
        if not (NOT_SHOWN | AS_A_SHARE).intersection(path):
            assert any(form in text for form in written(value)), path
