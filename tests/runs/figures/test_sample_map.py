"""A map keeps distances and tells clusters apart."""

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from daskfc.runs.report.figures import sample_map


def dots_of(html):
    root = ElementTree.fromstring(html)
    return {
        path.get("class"): np.array(
            [[float(v) for v in m] for m in re.findall(r"M([-\d.]+) ([-\d.]+)h0", path.get("d"))]
        )
        for path in root.iter("path")
    }, root


def test_distances_are_kept_and_up_is_up():
    X = np.array([(0, 0), (200, 0), (200, 100), (0, 100)])
    dots, _ = dots_of(sample_map(X, [0, 0, 0, 0], {}))
    (found,) = dots.values()
    across = found[1, 0] - found[0, 0]
    assert across > 400
    assert found[2, 1] - found[1, 1] == pytest.approx(-across / 2, abs=0.2)
    assert found.min() > 0


def test_each_cluster_has_a_colour_and_its_name_amid_its_samples():
    X = [(0, 0), (10, 0), (20, 0), (200, 90), (210, 90), (220, 90), (100, 50)]
    dots, root = dots_of(sample_map(X, [0, 0, 0, 12, 12, 12, -1], {12: "3 <of> b"}))
    assert {style: len(found) for style, found in dots.items()} == {
        "dots faint": 1, "dots c0": 3, "dots c2": 3,
    }  # fmt: skip
    said = [path.find("title").text for path in root.iter("path")]
    assert said == ["noise", "cluster 0", "3 <of> b"]
    for text in root.iter("text"):
        own = dots["dots c0" if text.text == "0" else "dots c2"]
        assert float(text.get("x")) == pytest.approx(np.median(own[:, 0]), abs=0.2)
    assert ["".join(item.itertext()) for item in root.iter("li")] == [
        "noise", "cluster 0", "cluster 12",
    ]  # fmt: skip


@pytest.mark.parametrize("X", [[], [(1, 1)], [(3, 4), (3, 4)]])
def test_no_map_of_one_place(X):
    assert sample_map(X, [0] * len(X), {}) == ""
