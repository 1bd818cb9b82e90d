"""Small drawings of what a fit told step by step."""

import math
import xml.etree.ElementTree as ElementTree

import pytest

from daskfc.runs.report.figures import drawing, thinned
from daskfc.runs.report.report import report_html


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


@pytest.mark.parametrize("values", [[3.0, 2.0, 1.0], [1.0, 1e-9], [0.0, 5.0] * 30])
def test_lines_fill_their_picture_and_stay_in_it(values):
    svg = drawing({"loss": values})
    _, _, width, height = map(
        float, ElementTree.fromstring(svg).find(".//svg").get("viewBox").split()
    )
    (line,) = points_of(svg)
    assert all(0 < x < width and 0 < y < height for x, y in line)
    assert line[-1][0] - line[0][0] > 0.8 * width


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
    assert page.count("<polyline") == 1
    assert "<svg" not in report_html(record, {"histories": {"Loss": {"a": [1.0]}}})


def test_the_legend_names_lines_and_counts_those_that_have_no_place():
    root = ElementTree.fromstring(drawing({f"line {i}": [1.0, float(i)] for i in range(15)}))
    names = ["".join(item.itertext()) for item in root.iter("li")]
    assert names == [*(f"line {i}" for i in range(12)), "and 3 more"]
    styles = {(line.get("class"), line.get("stroke-dasharray")) for line in root.iter("polyline")}
    assert len(styles) == 15  # colours come again after ten, with other dashes


def test_few_steps_are_numbered_and_the_chosen_one_has_a_dot():
    svg = drawing({"silhouette": [0.2, 0.5, 0.4]}, "clusters", first=2, marked=3)
    root = ElementTree.fromstring(svg)
    (dot,) = root.iter("circle")
    (line,) = points_of(svg)
    assert (float(dot.get("cx")), float(dot.get("cy"))) == pytest.approx(line[1], abs=0.1)
    said = [text.text for text in root.iter("text")]
    assert said[-4:] == ["clusters", "2", "3", "4"]
    assert "<circle" not in drawing({"a": [1.0, 2.0]}, marked=7)
    many = drawing({"a": [float(i) for i in range(40)]}, "round")
    assert "round 1 to 40" in many


def test_who_does_not_see_a_curve_is_told_where_it_begins_and_ends():
    root = ElementTree.fromstring(drawing({"loss": [3.0, 2.5, 1.25]}, "round"))
    (svg,) = [element for element in root if element.tag == "svg"]
    assert svg.get("aria-label") == "Curve of loss: from 3 to 1.25 over 3 rounds"
