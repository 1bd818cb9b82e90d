"""Streams are as wide as their bytes, and none is lost."""

import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest

from daskfc.runs.report.figures import flow


def drawn(streams):
    root = ElementTree.fromstring(flow(streams, "{} B".format))
    ribbons = {path.find("title").text: path.get("d") for path in root.iter("path")}
    return root, {told: float(re.search(r"v([\d.]+)C", d).group(1)) for told, d in ribbons.items()}


def test_streams_are_as_wide_as_their_bytes():
    _, wide = drawn([("a", "Rows", "server", 300), ("b", "Rows", "server", 100),
                     ("server", "Labels", "a", 200)])  # fmt: skip
    assert set(wide) == {
        "a → Rows: 300 B", "b → Rows: 100 B", "Rows → server: 400 B",
        "server → Labels: 200 B", "Labels → a: 200 B",
    }  # fmt: skip
    assert wide["a → Rows: 300 B"] == pytest.approx(3 * wide["b → Rows: 100 B"], abs=0.2)
    assert wide["Rows → server: 400 B"] == pytest.approx(2 * wide["Labels → a: 200 B"], abs=0.2)


def test_a_small_stream_can_still_be_seen():
    _, wide = drawn([("a", "Rows", "server", 10**9), ("a", "Note", "server", 1)])
    assert wide["a → Note: 1 B"] > 1


def test_equal_streams_are_one_and_empty_ones_none():
    _, wide = drawn([("a", "Rows", "b", 5), ("a", "Rows", "b", 5), ("a", "Void", "b", 0)])
    assert set(wide) == {"a → Rows: 10 B", "Rows → b: 10 B"}
    assert flow([("a", "Void", "b", 0)], str) == flow([], str) == ""


def test_of_many_kinds_the_smallest_are_one():
    root, wide = drawn([("a", f"Kind{i}", "b", 2**i) for i in range(14)])
    assert wide["5 other kinds → b: 31 B"] > 0
    nodes = {text.text.split(" ")[0] for text in root.iter("text")}
    assert {"Kind13", "Kind5", "a", "b"} <= nodes
    assert "Kind4" not in nodes


def test_names_do_not_cover_each_other():
    root, _ = drawn([(f"client-{i}", f"Kind{i}", "server", 10 ** (i % 4)) for i in range(8)])
    places = {}
    for text in root.iter("text"):
        places.setdefault(text.get("x"), []).append(float(text.get("y")))
    for heights in places.values():
        ordered = sorted(heights)
        assert all(b - a >= 14 for a, b in pairwise(ordered)), heights


def test_names_are_escaped():
    html = flow([("<a>", "Rows", "b & c", 5)], str)
    assert "<a>" not in html
    assert "b &amp; c" in html
