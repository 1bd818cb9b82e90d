"""Columns that are told before a run: of one value, and of unlike ranges."""

import numpy as np
import pandas as pd
import pytest
import zarr

from daskfc.errors import StoreError
from daskfc.stores import ClientStore, write_store
from daskfc.stores.store import ranges
from daskfc.stores.store.ranges import column_warnings


@pytest.fixture
def stores(tmp_path):
    def written(**tables):
        for name, (table, more) in tables.items():
            write_store(str(tmp_path / name), name, pd.DataFrame(table), dtype="float64", **more)
        return {name: ClientStore.open(str(tmp_path / name)) for name in tables}

    return written


def test_a_column_is_constant_only_if_it_is_so_over_all_clients(stores):
    found = stores(
        a=({"x": [1.0, 1.0], "y": [0.0, 0.5]}, {}), b=({"x": [2.0, 2.0], "y": [0.5, 0.5]}, {})
    )
    assert column_warnings(found) == []
    assert column_warnings({"b": found["b"]}) == [
        "2 columns ('x', 'y') have one value in all samples."
    ]


@pytest.mark.parametrize(("span", "told"), [(1000.0, False), (1001.0, True)])
def test_ranges_are_compared_over_all_clients(stores, span, told):
    found = stores(
        a=({"x": [0.0, 0.5], "y": [0.0, 1.0]}, {}), b=({"x": [0.9, 1.0], "y": [5.0, span]}, {})
    )
    warnings = column_warnings(found)
    assert [("'y' is over 1,000 times that of column 'x'" in one) for one in warnings] == (
        [True] if told else []
    )
    assert column_warnings(found, scaled=True) == []


def test_no_value_is_told(stores):
    (told,) = column_warnings(stores(a=({"x": [0.0, 77777.25], "y": [0.125, 0.375]}, {})))
    assert "77777" not in told
    assert "0.125" not in told


def test_clients_with_columns_of_their_own_are_looked_at_one_by_one(stores):
    found = stores(a=({"x": [0.0, 1e9]}, {}), b=({"y": [0.0, 1.0]}, {}))
    assert column_warnings(found) == []


def test_columns_of_one_value_are_one_sentence(stores):
    found = stores(a=({"x": [1.0, 1.0]}, {}), b=({"y": [2.0, 2.0], "z": [0.0, 1.0]}, {}))
    assert column_warnings(found) == ["2 columns ('x', 'y') have one value in all samples."]


def test_words_have_no_range_and_gaps_no_value(stores):
    table = {"sex": ["f", "m", "f"], "all": ["f", "f", "f"], "age": [np.nan, 4.0, 4.0]}
    more = {"categorical": ["sex", "all"], "missing": "keep"}
    assert column_warnings(stores(a=(table, more))) == [
        "column 'age' has one value in all samples."
    ]


def test_of_a_part_of_the_rows_nothing_is_called_constant(stores, monkeypatch):
    found = stores(a=({"x": [1.0] * 3000, "y": [0.0, 1e4] * 1500}, {}))
    monkeypatch.setattr(ranges, "_ENTRIES", 2048)
    assert column_warnings(found) == []


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_others_wrote_into_a_store_is_noticed_where_it_is_read(stores, tmp_path, value):
    found = stores(a=({"x": [1.0, 2.0, 3.0], "y": [1e140, 1e140, 1e140]}, {}))
    assert found["a"].rows(0, 3)[1, 0] == 2.0
    zarr.open_group(str(tmp_path / "a"), mode="r+")["features"][1, 0] = value
    spoilt = ClientStore.open(str(tmp_path / "a"))
    with pytest.raises(StoreError, match=r"client 'a' must be finite; 1 of .* first is row 1\."):
        column_warnings({"a": spoilt})
    np.testing.assert_array_equal(spoilt.rows(2, 3), [[3.0, 1e140]])


def test_gaps_are_read_and_infinity_is_not(stores, tmp_path):
    found = stores(a=({"x": [1.0, np.nan]}, {"missing": "keep"}))
    assert np.isnan(found["a"].rows(0, 2)[1, 0])
    zarr.open_group(str(tmp_path / "a"), mode="r+")["features"][0, 0] = np.inf
    with pytest.raises(StoreError, match="first is row 0"):
        ClientStore.open(str(tmp_path / "a")).rows(0, 2)
