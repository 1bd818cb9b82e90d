"""Bars are as long as what they stand for."""

import xml.etree.ElementTree as ElementTree

import pytest

from daskfc.runs.report.figures import bars, stacked_bars


def parts_of(html):
    root = ElementTree.fromstring(html)
    return [bar for bar in root.iter("rect") if bar.find("title") is not None], root


def test_stacked_bars_are_as_long_as_what_clients_have():
    drawn, root = parts_of(stacked_bars({"a": {"0": 30, "1": 5}, "<b>": {"0": 10, "1": 0}}))
    widths = [float(bar.get("width")) for bar in drawn]
    assert [bar.find("title").text for bar in drawn] == ["a: 30", "<b>: 10", "a: 5"]
    assert widths[0] == pytest.approx(3 * widths[1], abs=0.2)
    assert widths[2] == pytest.approx(widths[1] / 2, abs=0.2)
    assert float(drawn[1].get("x")) == pytest.approx(float(drawn[0].get("x")) + widths[0], abs=0.2)
    assert drawn[0].get("y") == drawn[1].get("y") != drawn[2].get("y")
    assert {text.text for text in root.iter("text")} == {"0", "1", "40", "5"}
    assert ["".join(item.itertext()) for item in root.iter("li")] == ["a", "<b>"]


def test_many_clients_share_the_tenth_colour():
    drawn, root = parts_of(stacked_bars({f"client-{i}": {"0": i + 1} for i in range(14)}))
    names = ["".join(item.itertext()) for item in root.iter("li")]
    assert names == [*(f"client-{i}" for i in range(5, 14)), "5 other sites"]
    assert drawn[-1].find("title").text == f"5 other sites: {sum(range(1, 6))}"
    assert len({bar.get("class") for bar in drawn}) == 10


@pytest.mark.parametrize("parts", [{}, {"a": {}}, {"a": {"0": 0}}])
def test_no_stacked_bars_of_nothing(parts):
    assert stacked_bars(parts) == ""


def test_bars_stand_in_their_order_and_say_their_value():
    html = bars({"a": 10.0, "b & c": 40.0}, "{:.0f} MB".format, "Memory")
    root = ElementTree.fromstring(html)
    filled = [rect for rect in root.iter("rect") if rect.get("class") != "track"]
    widths = [float(rect.get("width")) for rect in filled]
    assert widths[0] == pytest.approx(widths[1] / 4, abs=0.1)
    assert [text.text for text in root.iter("text")] == ["a", "10 MB", "b & c", "40 MB"]
    assert "at most 40 MB, of b &amp; c" in html
    assert bars({}, str, "") == bars({"a": 0.0}, str, "") == ""


def test_of_many_bars_the_largest_are_drawn():
    root = ElementTree.fromstring(bars({f"p{i}": i + 1.0 for i in range(30)}, str, "Memory"))
    shown = [text.text for text in root.iter("text")][::2]
    assert shown == [f"p{i}" for i in range(6, 30)]
    assert ["".join(item.itertext()) for item in root.iter("li")] == ["and 6 smaller ones"]
