"""Dots stand at means, lines are as long as two deviations, and one scale is one feature's."""

import math
import xml.etree.ElementTree as ElementTree

import pytest

from daskfc.runs.report.figures import Spread, intervals

AGE = Spread("<age>", [40.0, 60.0], [5.0, 10.0], ["40 ± 5", "60 ± 10"], 50.0)


def drawn(*features, clusters=(0, 1)):
    root = ElementTree.fromstring(intervals(features, clusters))
    dots = [float(dot.get("cx")) for dot in root.iter("circle")]
    lines = [
        (float(line.get("x1")), float(line.get("x2")))
        for line in root.iter("line")
        if line.get("class") == "line"
    ]
    rules = [float(line.get("x1")) for line in root.iter("line") if line.get("class") == "rule"]
    return root, dots, lines, rules


def test_dots_and_lines_are_means_and_deviations_on_one_scale():
    root, (first, second), lines, (rule,) = drawn(AGE)
    a_year = (second - first) / 20
    assert rule == pytest.approx((first + second) / 2, abs=0.2)
    for (low, high), mean, std in zip(lines, (first, second), (5, 10), strict=True):
        assert (low, high) == pytest.approx((mean - std * a_year, mean + std * a_year), abs=0.2)
    said = [text.text for text in root.iter("text")]
    assert said == ["<age>", "0", "40 ± 5", "1", "60 ± 10"]
    assert [group.get("class") for group in root.iter("g")] == ["c0", "c1"]


def test_what_is_withheld_has_no_dot():
    hidden = AGE._replace(means=[math.nan, 60.0], deviations=[math.nan, 10.0], texts=["–", "60"])
    root, dots, lines, _ = drawn(hidden)
    assert len(dots) == len(lines) == 1
    assert "–" in [text.text for text in root.iter("text")]
    nothing = AGE._replace(means=[math.nan] * 2, overall=math.nan, texts=["–"] * 2)
    assert drawn(nothing)[1:] == ([], [], [])


def test_a_constant_is_drawn_and_nothing_of_nothing():
    _, dots, _, _ = drawn(AGE._replace(means=[3.0, 3.0], deviations=[0.0, 0.0], overall=3.0))
    assert dots[0] == dots[1]
    assert intervals([], [0]) == intervals([AGE], []) == ""
