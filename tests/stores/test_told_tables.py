"""Names, dates, limits, units and codes of one site told anew; tables with a row a measurement."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from daskfc.errors import StoreError
from daskfc.stores import ClientStore, add_store
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.sources.readers import open_source

SECRET = "7391"


def opened(folder, text, **keys):
    (folder / "t.csv").write_text(text, encoding="utf-8")
    return open_source(SourceConfig(path=str(folder / "t.csv"), **keys))


def read(samples, rows=2):
    return np.concatenate(list(samples.blocks(rows)))


# -- names -----------------------------------------------------------------------------------------


def test_columns_get_the_names_that_all_sites_use(tmp_path):
    text = "Pat;Alter;Geschlecht;Besuch\n7;61,5;w;03.02.2025\n8;58;m;4.2.2025\n"
    samples = opened(
        tmp_path,
        text,
        delimiter=";",
        decimal=",",
        rename={"Pat": "patient", "Alter": "age", "Geschlecht": "sex", "Besuch": "visit"},
        ids="patient",
        categorical=["sex"],
        words={"w": "f"},
        dates=["visit"],
        date_format="%d.%m.%Y",
    )
    assert samples.feature_names == ("age", "sex", "visit")
    assert samples.categories == {"sex": ("f", "m")}
    assert samples.sample_ids.tolist() == ["7", "8"]
    np.testing.assert_array_equal(read(samples), [[61.5, 0, 20122], [58, 1, 20123]])


@pytest.mark.parametrize("kind", ["parquet", "feather"])
def test_all_tables_are_told_anew(kind, tmp_path):
    table = pd.DataFrame({"Alter": [61, 999], "Krea": [1.0, 2.0]})
    getattr(table, f"to_{kind}")(tmp_path / f"t.{kind}")
    source = SourceConfig(
        path=str(tmp_path / f"t.{kind}"),
        rename={"Alter": "age"},
        na_values={"age": [999]},
        multiply={"Krea": 88.42},
        missing="keep",
    )
    samples = open_source(source)
    assert samples.feature_names == ("age", "Krea")
    np.testing.assert_array_equal(read(samples), [[61, 88.42], [np.nan, 176.84]])


@pytest.mark.parametrize(
    ("keys", "match"),
    [
        ({"rename": {"c": "d"}}, r"source.rename must name columns that are there; 'c' is not"),
        ({"rename": {"a": "b"}}, r"with source.rename 'b' comes twice"),
        ({"na_values": {"c": 9}}, r"column 'c' named by the source is not there"),
        ({"multiply": {"c": 2}}, r"column 'c' named by the source is not there"),
        ({"censored": {"c": "half"}}, r"column 'c' named by the source is not there"),
        ({"rename": {"a": "x"}, "columns": ["a"]}, r"column 'a' named by .*are x, b"),
    ],
)
def test_names_that_are_not_there(tmp_path, keys, match):
    with pytest.raises(StoreError, match=match):
        opened(tmp_path, "a,b\n1,2\n", **keys)


@pytest.mark.parametrize(
    ("keys", "match"),
    [
        ({"date_format": "%d.%m.%Y"}, "'date_format' means something to columns that 'dates'"),
        ({"date_format": {"a": "%Y"}, "dates": ["b"]}, "'date_format' has 'a', which 'dates'"),
        ({"censored": "double"}, "limit"),
        ({"multiply": {"a": 2}, "categorical": ["a"]}, "'multiply' has 'a', which is no column"),
        ({"multiply": {"a": 2}, "labels": "a"}, "'multiply' has 'a', which is no column"),
        ({"multiply": {"a": float("inf")}}, "finite"),
        ({"pivot": {"rows": "a", "names": "b", "values": "c"}, "dates": ["b"]}, "leave out"),
        ({"pivot": {"rows": "a", "names": "b"}}, "required"),
    ],
)
def test_keys_that_cannot_be(keys, match):
    with pytest.raises(ValidationError, match=match):
        SourceConfig(path="t.csv", **keys)


# -- limits and codes ------------------------------------------------------------------------------

LIMITS = "crp,egfr\n<30,90\n12.5,>120\n≤ 4,61\n"


@pytest.mark.parametrize(
    ("rule", "rows"),
    [
        ("limit", [[30, 90], [12.5, 120], [4, 61]]),
        ("half", [[15, 90], [12.5, 120], [2, 61]]),
        ("missing", [[np.nan, 90], [12.5, np.nan], [np.nan, 61]]),
        ({"crp": "half", "egfr": "limit"}, [[15, 90], [12.5, 120], [2, 61]]),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 9])
def test_limits_of_detection(tmp_path, rule, rows, size):
    samples = opened(tmp_path, LIMITS, censored=rule, missing="keep")
    np.testing.assert_array_equal(read(samples, size), rows)


def test_half_of_a_limit_below_0_is_not_above_it(tmp_path):
    """As of base excess, or logarithms: half of -4 is no value below it."""
    assert read(opened(tmp_path, "x,y\n<-4,1\n<4,2\n", censored="half"), 9).tolist() == [
        [-4, 1],
        [2, 2],
    ]


def test_limits_are_refused_where_no_rule_is_given(tmp_path):
    text = LIMITS.replace("30", SECRET)
    match = r"line 2, column 'crp': .* got a limit in place of a number\. Set source.censored"
    for keys in ({}, {"censored": {"egfr": "limit"}}):
        with pytest.raises(StoreError, match=match) as caught:
            read(opened(tmp_path, text, **keys))
        assert SECRET not in str(caught.value)


def test_limits_with_decimal_commas_and_units(tmp_path):
    text = "a;b\n<1.000,5;1\n2,5;110\n"
    keys = {"delimiter": ";", "decimal": ",", "thousands": ".", "multiply": {"a": 2}}
    samples = opened(tmp_path, text, censored="limit", **keys)
    assert read(samples).tolist() == [[2001, 1], [5, 110]]


def test_a_point_among_decimal_commas_is_told(tmp_path):
    match = r"line 3, column 'a': .* got a decimal point where source.decimal is another mark"
    with pytest.raises(StoreError, match=match):
        read(opened(tmp_path, "a;b\n61,5;1\n110.0;2\n", delimiter=";", decimal=","))


@pytest.mark.parametrize("codes", [[-9, "?"], {"a": ["?", "-9.0"]}])
def test_codes_that_stand_for_no_value(tmp_path, codes):
    samples = opened(tmp_path, "a,b\n-9,-8\n?,2\n3,4\n", na_values=codes, missing="keep")
    np.testing.assert_array_equal(read(samples), [[np.nan, -8], [np.nan, 2], [3, 4]])


def test_a_code_of_one_column_is_a_value_of_another(tmp_path):
    samples = opened(tmp_path, "a,b\n999,999\n2,3\n", na_values={"a": 999}, missing="keep")
    np.testing.assert_array_equal(read(samples), [[np.nan, 999], [2, 3]])


def test_codes_of_words_and_ids(tmp_path):
    text = "id,sex\np1,unknown\np2,f\n"
    keys = {"ids": "id", "categorical": ["sex"], "na_values": "unknown", "missing": "keep"}
    samples = opened(tmp_path, text, **keys)
    assert samples.categories == {"sex": ("f",)}
    with pytest.raises(StoreError, match="1 samples have no id in column 'id'"):
        opened(tmp_path, text.replace("p1", "unknown"), **keys)


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=9), st.integers(0, 8))
def test_words_among_numbers_change_no_other_number(tmp_path_factory, values, at):
    """A column with one limit is read as text, and its numbers are right but for rounding."""
    cells = [repr(value) for value in values]
    cells.insert(at % (len(cells) + 1), "<1")
    text = "\n".join(["a,b", *(f"{cell},1" for cell in cells)])
    samples = opened(tmp_path_factory.mktemp("t"), text, censored="missing", missing="keep")
    found = read(samples, 100)[:, 0]
    np.testing.assert_allclose(found[~np.isnan(found)], values, rtol=1e-15)


# -- a row a measurement ---------------------------------------------------------------------------

LONG = "patient,test,result\np2,egfr,90\np1,crp,<8\np1,egfr,61\np1,note,\np2,crp,12\np3,crp,3\n"
PIVOT = {"rows": "patient", "names": "test", "values": "result"}


def test_a_long_table_becomes_a_row_a_sample(tmp_path):
    samples = opened(
        tmp_path, LONG, pivot=PIVOT, censored="half", multiply={"egfr": 2}, missing="keep"
    )
    assert samples.feature_names == ("crp", "egfr")  # in alphabetical order, as at other sites
    assert samples.sample_ids.tolist() == ["p2", "p1", "p3"]  # as they are first seen
    np.testing.assert_array_equal(read(samples), [[12, 180], [4, 122], [3, np.nan]])


def test_a_long_table_is_the_wide_one(tmp_path):
    rng = np.random.default_rng(0)
    wide = pd.DataFrame(rng.normal(size=(20, 4)), columns=list("dbca"))
    wide.insert(0, "key", [f"s{i}" for i in range(20)])
    long = wide.melt("key").sample(frac=1, random_state=0)
    long.to_parquet(tmp_path / "t.parquet")
    pivot = {"rows": "key", "names": "variable", "values": "value"}
    samples = open_source(SourceConfig(path=str(tmp_path / "t.parquet"), pivot=pivot))
    assert samples.feature_names == ("a", "b", "c", "d")
    found = pd.DataFrame(read(samples), samples.sample_ids, samples.feature_names)
    expected = wide.set_index("key").loc[found.index, list("abcd")]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("several", "value"),
    [("mean", 4.0), ("median", 3.0), ("first", 7.0), ("last", 2.0), ("min", 2.0), ("max", 7.0)],
)
def test_several_values_of_one_measurement(tmp_path, several, value):
    text = "patient,test,result\np1,crp,7\np1,crp,3\np1,crp,2\n"
    samples = opened(tmp_path, text, pivot={**PIVOT, "several": several})
    assert read(samples).tolist() == [[value]]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (LONG + "p3,crp,4\n", r"needs one row for each .*; 1 of 6 rows are further ones"),
        (LONG + ",crp,4\n", r"must say whose measurement .*; 1 of 7 lack it"),
        (LONG + f"p4,crp,n{SECRET}\n", r"line 8, column 'result': .* got a word"),
        (LONG.replace("result", "value"), r"column 'result' named by the source is not there"),
    ],
)
def test_long_tables_that_do_not_go(tmp_path, text, match):
    (tmp_path / "t.csv").write_text(text)
    keys = {"pivot": PIVOT, "censored": "limit", "missing": "keep"}
    with pytest.raises(StoreError, match=match) as caught:
        add_store("a", [str(tmp_path / "t.csv")], str(tmp_path / "a.zarr"), source=keys)
    assert SECRET not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]  # nothing half written


def test_a_store_of_a_long_table(tmp_path):
    (tmp_path / "t.csv").write_text(LONG)
    keys = {"pivot": PIVOT, "censored": "limit", "missing": "keep"}
    url = str(tmp_path / "a.zarr")
    add_store("a", [str(tmp_path / "t.csv")], url, source=keys)
    store = ClientStore.open(url, verify=True)
    np.testing.assert_array_equal(store.rows(0, 3), [[12, 90], [8, 61], [3, np.nan]])
