"""Heat maps are tables that anybody can read, and that shade what is large."""

import math
import xml.etree.ElementTree as ElementTree

from daskfc.runs.report.figures import heat_table


def table_of(values, **options):
    texts = [[f"{value:g}" for value in row] for row in values]
    rows, columns = [f"<r{i}>" for i in range(len(values))], ["x", "y"]
    html = heat_table(rows, columns, values, texts, caption="What & why", **options)
    return ElementTree.fromstring(html)


def shades(root):
    return [(c.get("class"), c.get("style")) for c in root.iter("td") if c.text is not None]


def test_cells_are_shaded_by_the_largest_of_all_or_of_their_row():
    values = [[10.0, 8.0], [2.0, 0.0]]
    assert shades(table_of(values)) == [
        ("warm", "--v:0.45"), ("warm", "--v:0.36"), ("warm", "--v:0.09"), (None, None),
    ]  # fmt: skip
    assert shades(table_of(values, by_row=True))[2] == ("warm", "--v:0.45")


def test_what_is_below_zero_has_another_colour():
    assert [kind for kind, _ in shades(table_of([[2.0, -2.0]]))] == ["warm", "cool"]


def test_what_is_not_finite_has_none():
    assert shades(table_of([[math.nan, 0.0], [math.inf, 3.0]])) == [
        (None, None), (None, None), (None, None), ("warm", "--v:0.45"),
    ]  # fmt: skip


def test_a_table_says_what_its_rows_and_columns_are():
    root = table_of([[1.0, 2.0]], corner="class")
    heads = [(head.get("scope"), head.text) for head in root.iter("th")]
    assert heads == [("col", "class"), ("col", "x"), ("col", "y"), ("row", "<r0>")]
    assert root.find(".//caption").text == root.get("aria-label") == "What & why"
    assert root.get("tabindex") == "0"  # it scrolls on a phone


def test_no_table_of_nothing():
    assert (
        heat_table([], ["x"], [], [], caption="")
        == heat_table(["r"], [], [[]], [[]], caption="")
        == ""
    )
