"""The page of benchmarks, from what pytest-benchmark writes."""

import json
import sys

import pytest

from tests.benchmarks import page as module
from tests.benchmarks.page import SCALE, draw, page, sections, tables

ROW = {"samples": 70_000, "clients": 10, "fit, s": 65.5, "scikit-learn, s": 50.0,
       "server, MB": 1531.6, "wire, GB": 2.2938}  # fmt: skip
TOLD = {
    "datetime": "2026-11-23T05:00:00",
    "machine_info": {"python_version": "3.11.7", "cpu": {"brand_raw": "A CPU", "count": 2}},
    "benchmarks": [
        {"name": "test_scale", "group": SCALE, "extra_info": {"rows": [ROW]}},
        {"name": "test_nearest_neighbours", "group": None,
         "extra_info": {"x scikit-learn": 0.31, "BLAS": ["openblas SkylakeX 2 threads"]}},
        {"name": "test_small", "group": None, "extra_info": {}},
    ],
}  # fmt: skip


def test_the_page_has_a_table_for_what_was_measured():
    text = page(TOLD, figure=False)
    assert "| 70,000  |      10 |   65.5 |            50.0 |      1,532 |     2.29 |" in text
    assert "| nearest neighbours |          0.310 |" in text
    assert "Measured 2026-11-23 on A CPU, 2 cores; Python 3.11.7" in text
    assert "openblas SkylakeX 2 threads" in " ".join(text.split())
    assert text.index("Neighbour graphs") < text.index(SCALE)
    assert "svg" not in text
    assert "![" in page(TOLD, figure=True)
    assert max(len(line) for line in text.splitlines() if not line.startswith("|")) <= 100


def test_a_benchmark_without_a_ratio_has_no_table():
    assert set(tables(TOLD["benchmarks"])) == {SCALE, "Neighbour graphs"}


def test_what_grows_is_drawn(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (daskfc[figures])")
    rows = [{**ROW, "samples": n, "clients": c} for n, c in ((1000, 10), (9000, 10), (1000, 2))]
    assert draw(rows, tmp_path / "a.svg")
    assert "wire, GB" in (tmp_path / "a.svg").read_text()


def test_parts_that_were_run_apart_are_one_page(tmp_path, monkeypatch):
    parts = [{**TOLD, "benchmarks": [one]} for one in TOLD["benchmarks"]]
    files = [tmp_path / f"{number}.json" for number in range(len(parts))]
    for file, part in zip(files, parts, strict=True):
        file.write_text(json.dumps(part))
    monkeypatch.setattr(module, "PAGE", tmp_path / "docs" / "benchmarks.md")
    monkeypatch.setattr(sys, "argv", ["page", *map(str, files)])
    module.PAGE.parent.mkdir()
    module.main()
    assert module.PAGE.read_text() == page(TOLD, figure=False)


def test_what_is_not_measured_anew_stays_on_the_page():
    before = page(TOLD, figure=True)
    nothing = {**TOLD, "benchmarks": []}
    assert page(nothing, figure=False, kept=sections(before)) == before
    row = {**ROW, "fit, s": 50.5}
    again = [{"name": "test_scale", "group": SCALE, "extra_info": {"rows": [row]}}]
    later = {**TOLD, "datetime": "2026-12-01T05:00:00", "benchmarks": again}
    text = page(later, figure=False, kept=sections(before))
    found = sections(text)
    assert found["Neighbour graphs"] == sections(before)["Neighbour graphs"]
    assert found[""] == sections(before)[""]
    assert "50.5" in found[SCALE]
    assert "65.5" not in text
    assert "Measured 2026-12-01" in found[SCALE]
