"""Small drawings of what a fit told step by step."""

import math
import xml.etree.ElementTree as ElementTree

import pytest

from daskfc.runs.curves import drawing, stacked_bars, thinned
from daskfc.runs.report import report_html


def points_of(svg):
    root = ElementTree.fromstring(svg)
    return [
        [tuple(map(float, pair.split(","))) for pair in line.get("points").split()]
        for line in root.iter("polyline")
    ]


def test_thinned_values_keep_both_ends():
    assert thinned([1, 2, 3], 5) == [1.0, 2.0, 3.0]
    found = thinned(range(1001), 11)
    assert found == [float(v) for v in range(0, 1001, 100)]


def test_lines_go_down_as_their_values_do():
    (line,) = points_of(drawing({"loss": [3.0, 2.0, 1.0]}))
    (x0, y0), (x1, y1), (x2, y2) = line
    assert x0 < x1 < x2
    assert y1 - y0 == pytest.approx(y2 - y1)  # evenly, and downwards on a page
    assert y0 < y2


def test_a_wide_range_is_drawn_by_powers_of_ten():
    (line,) = points_of(drawing({"change": [1.0, 0.1, 0.01]}))
    heights = [y for _, y in line]
    assert heights[1] - heights[0] == pytest.approx(heights[2] - heights[1], abs=0.2)


def test_what_is_not_finite_is_left_out():
    first, second = points_of(drawing({"a": [1.0, math.nan, 2.0], "b": [math.inf, 1.5]}))
    assert len(first) == 2
    assert len(second) == 1
    assert drawing({"a": [math.nan, math.nan]}) == drawing({"a": [1.0]}) == drawing({}) == ""


def test_constant_lines_are_drawn():
    (line,) = points_of(drawing({"a": [2.0, 2.0]}))
    assert line[0][1] == line[1][1]


def test_the_report_draws_histories_and_escapes_names():
    record = {"run_id": "r", "status": "done"}
    page = report_html(record, {"histories": {"Loss <x>": {"client-<1>": [2.0, None, 1.0]}}})
    assert "Loss &lt;x&gt;" in page
    assert "client-&lt;1&gt;" in page
    assert page.count("<svg") == 1
    assert "<svg" not in report_html(record, {"histories": {"Loss": {"a": [1.0]}}})


def test_bars_are_as_long_as_what_clients_have():
    root = ElementTree.fromstring(stacked_bars({"a": {"0": 30, "1": 5}, "<b>": {"0": 10, "1": 0}}))
    bars = [r for r in root.iter("rect") if r.find("title") is not None]
    widths = [float(bar.get("width")) for bar in bars]
    assert [bar.find("title").text for bar in bars] == ["a: 30", "<b>: 10", "a: 5"]
    assert widths[0] == pytest.approx(3 * widths[1], abs=0.2)
    assert widths[2] == pytest.approx(widths[1] / 2, abs=0.2)
    assert float(bars[1].get("x")) == pytest.approx(float(bars[0].get("x")) + widths[0], abs=0.2)
    assert bars[0].get("y") == bars[1].get("y") != bars[2].get("y")
    assert {text.text for text in root.iter("text")} == {"0", "1", "40", "5", "a", "<b>"}


@pytest.mark.parametrize("parts", [{}, {"a": {}}, {"a": {"0": 0}}])
def test_no_bars_of_nothing(parts):
    assert stacked_bars(parts) == ""


def test_the_report_shows_clusters_and_warnings():
    quality = {
        "sizes": {"0": 3, "1": 1},
        "by_client": {"a": {"0": 3, "1": 0}, "b": {"0": 0, "1": 1}},
        "noise": 0.2,
        "stability": 0.91234,
        "silhouette": 0.4321,
        "warnings": ["look & see"],
    }
    page = report_html({"run_id": "r", "status": "done"}, {"quality": quality})
    for words in (
        "Clusters: samples in all",
        "20.0 % of the",
        "index 0.912",
        "0.432, of",
        "look &amp; see",
    ):
        assert words in page
    assert page.count("<svg") == 1
    assert "Clusters" not in report_html({"run_id": "r", "status": "failed"}, {})
