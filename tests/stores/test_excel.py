"""Workbooks as offices have them: read right, or refused with sheet and row."""

import datetime

import numpy as np
import pytest

from daskfc.errors import StoreError
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.sources.readers import open_source

openpyxl = pytest.importorskip("openpyxl", reason="writes the workbooks of these tests")
pytest.importorskip("python_calamine", reason="needs daskfc[excel]")

ROWS = [
    ["patient", "age", "crp", "visit", "smoker"],
    [1001, 61, 4.5, datetime.date(2026, 3, 31), True],
    [1002, 58, 12, datetime.datetime(2026, 4, 1, 12), False],
]
KEYS = {"ids": "patient", "dates": ["visit"]}


def saved(folder, **sheets):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(folder / "t.xlsx")
    return str(folder / "t.xlsx")


def read(path, **keys):
    samples = open_source(SourceConfig(path=path, **keys))
    return samples, np.concatenate(list(samples.blocks(1)))


def test_numbers_dates_and_truth_values(tmp_path):
    samples, rows = read(saved(tmp_path, data=ROWS), **KEYS)
    assert samples.feature_names == ("age", "crp", "visit", "smoker")
    assert samples.sample_ids.tolist() == ["1001", "1002"]  # Excel's numbers are all fractions
    assert rows.tolist() == [[61, 4.5, 20543, 1], [58, 12, 20544.5, 0]]


def test_empty_lines_and_columns_are_left_out_and_counted(tmp_path):
    wide = [[], *([None, *row] for row in ROWS[:2]), [], [None, 1003, "old", 1, None, True]]
    path = saved(tmp_path, notes=[], data=wide)
    with pytest.raises(StoreError, match=r"row 5 of sheet 'data', column 'age': .* got a word"):
        read(path, ids="patient", columns=["age", "crp"])
    assert read(path, ids="patient", columns=["crp"])[1].tolist() == [[4.5], [1]]


@pytest.mark.parametrize("other", [7, "A7"])
def test_ids_of_more_digits_than_a_workbook_holds_are_refused(tmp_path, other):
    """Whole numbers are fractions there, and 1234567890123456789 was read as ...7024."""
    path = saved(tmp_path, data=[["id", "x"], [1234567890123456789, 1], [other, 2]])
    with pytest.raises(StoreError, match="column 'id': words and ids must be text or whole"):
        read(path, ids="id")
    text = saved(tmp_path, data=[["id", "x"], ["1234567890123456789", 1], [other, 2]])
    assert read(text, ids="id")[0].sample_ids.tolist() == ["1234567890123456789", str(other)]


def test_the_sheet_is_named_where_there_are_several(tmp_path):
    path = saved(tmp_path, first=ROWS, second=[["a"], [7]], third=[])
    with pytest.raises(StoreError, match=r"cells are in first, second\. Name it by source.sheet"):
        read(path, **KEYS)
    assert read(path, sheet="second")[1].tolist() == [[7]]
    with pytest.raises(StoreError, match="must be one of first, second, third; got 'fourth'"):
        read(path, sheet="fourth")
    with pytest.raises(StoreError, match="cells are in none"):
        read(path, sheet="third")


@pytest.mark.parametrize(
    ("head", "match"),
    [
        (["a", "a"], "must have different names; 'a' comes twice"),
        (["a", None], "must have a name; column 2 of 2 has none"),
    ],
)
def test_names_of_columns(tmp_path, head, match):
    with pytest.raises(StoreError, match=match):
        read(saved(tmp_path, data=[head, [1, 2]]))


def test_cells_that_are_errors_or_empty(tmp_path):
    path = saved(tmp_path, data=[["a", "b"], [1, 2], [3, None], [5, 6]])
    with pytest.raises(StoreError, match=r"row 3 of sheet 'data', column 'b': .* missing"):
        read(path)
    np.testing.assert_array_equal(read(path, missing="keep")[1], [[1, 2], [3, np.nan], [5, 6]])


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "python_calamine", None)
    match = r"Excel is read by python-calamine, .* pip install 'daskfc\[excel\]'"
    with pytest.raises(StoreError, match=match):
        read(saved(tmp_path, data=ROWS), **KEYS)
