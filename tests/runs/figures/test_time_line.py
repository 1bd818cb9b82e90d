"""Stages and messages stand where they happened."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from daskfc.runs.report.figures import time_line

STAGES = [("planning", 100.0, 101.0), ("rounds", 101.0, 109.0), ("labels", 109.0, 110.0)]


def ticks_of(root):
    return [
        [float(x) for x in re.findall(r"M([\d.]+) ", path.get("d"))] for path in root.iter("path")
    ]


def test_stages_are_as_long_as_they_took():
    root = ElementTree.fromstring(time_line(STAGES, {}))
    drawn = [rect for rect in root.iter("rect") if rect.find("title") is not None]
    assert [rect.find("title").text for rect in drawn] == [
        "planning: 1.0 s", "rounds: 8.0 s", "labels: 1.0 s",
    ]  # fmt: skip
    assert [float(rect.get("width")) for rect in drawn] == pytest.approx([44, 352, 44])
    assert [float(rect.get("x")) for rect in drawn] == pytest.approx([0, 44, 396])
    assert ["".join(item.itertext()) for item in root.iter("li")] == [
        "planning",
        "rounds",
        "labels",
    ]


def test_ticks_are_where_messages_were_sent_and_never_outside():
    sent = {"server": [105.0, 105.0, 105.001], "<a>": [90.0, 110.0, 200.0], "b": []}
    root = ElementTree.fromstring(time_line(STAGES, sent))
    assert ticks_of(root) == [[220.0], [0.5, 439.5], []]
    said = [text.text for text in root.iter("text")]
    for words in ("server", "<a>", "b", "3 messages", "0 messages", "10 s"):
        assert words in said


def test_a_stage_that_comes_again_has_its_colour_again():
    stages = [("a", 0.0, 1.0), ("b", 1.0, 2.0), ("a", 2.0, 3.0)]
    root = ElementTree.fromstring(time_line(stages, {}))
    colours = [rect.get("class") for rect in root.iter("rect")]
    assert colours[0] == colours[2] != colours[1]


def test_of_many_parties_some_are_drawn_and_the_rest_counted():
    html = time_line(STAGES, {f"p{i}": [100.0] for i in range(20)})
    assert html.count("<path") == 14
    assert "6 more parties are not shown" in html


@pytest.mark.parametrize("stages", [[], [("a", 1.0, 1.0)]])
def test_no_time_line_of_no_time(stages):
    assert time_line(stages, {"a": [1.0]}) == ""
