"""One table is one store, whatever format it comes in; expected values are written by hand."""

import contextlib
import datetime
import sqlite3
import unicodedata

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from daskfc.errors import StoreError
from daskfc.stores import add_store, append_store, write_store
from daskfc.stores.building.looking import look_at
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.sources.readers import open_source
from daskfc.stores.store.client import ClientStore


def read(path, **keys):
    samples = open_source(SourceConfig(path=str(path), **keys))
    return samples, np.concatenate(list(samples.blocks(2)))


def _csv(table, path):
    table.to_csv(path, index=False)


def _excel(table, path):
    pytest.importorskip("openpyxl", reason="writes the workbook")
    pytest.importorskip("python_calamine", reason="needs daskfc[excel]")
    table.to_excel(path, index=False)


def _json(table, path):
    table.to_json(path, orient="records", lines=True)


def _sqlite(table, path):
    with contextlib.closing(sqlite3.connect(path)) as database:
        table.to_sql("t", database, index=False)


def _duckdb(table, path):
    package = pytest.importorskip("duckdb", reason="needs daskfc[sql]")
    with contextlib.closing(package.connect(path)) as database:
        database.register("given", table)
        database.execute("create table t as select * from given")


QUERY = {"sql": "select * from t"}
FORMATS = {
    "csv": (_csv, {}),
    "xlsx": (_excel, {}),
    "jsonl": (_json, {}),
    "parquet": (pd.DataFrame.to_parquet, {}),
    "feather": (pd.DataFrame.to_feather, {}),
    "sqlite": (_sqlite, QUERY),
    "duckdb": (_duckdb, QUERY),
}


@pytest.fixture(params=FORMATS)
def written(request, tmp_path):
    def written(table):
        write, keys = FORMATS[request.param]
        write(table, tmp_path / f"t.{request.param}")
        return {"path": tmp_path / f"t.{request.param}", **keys}

    return written


def test_words_for_no_value_are_words_among_words_and_gaps_among_numbers(written):
    """`None` may be an answer: only an empty cell is empty, but in a column of numbers."""
    table = pd.DataFrame(
        {
            "id": ["NA", "null", "n/a", "4"],
            "drinks": ["None", "Moderate", "NA", None],
            "age": ["61", "NA", "None", "40.5"],
            "visit": ["2026-01-01", "1970-01-03", "NULL", "nan"],
            "group": ["N/A", "a", "nan", "a"],
        }
    )
    keys = {"ids": "id", "labels": "group", "categorical": ["drinks"], "dates": ["visit"]}
    file = written(table)
    samples, rows = read(**file, **keys, missing="keep")
    assert samples.sample_ids.tolist() == ["NA", "null", "n/a", "4"]
    assert samples.classes == ("N/A", "a", "nan")
    assert samples.categories == {"drinks": ("Moderate", "NA", "None")}
    gap = np.nan
    np.testing.assert_array_equal(
        rows, [[2, 61, 20454], [0, gap, 2], [1, gap, gap], [gap, 40.5, gap]]
    )
    with pytest.raises(StoreError, match="missing value"):
        read(**file, ids="id", columns=["age"])


@pytest.mark.parametrize("kind", ["csv", "parquet", "feather", "duckdb"])
def test_a_code_is_one_of_short_numbers_too(kind, tmp_path):
    table = pd.DataFrame({"id": ["a", "b", "c"], "x": np.float32([-9.9, 1.5, -9.875])})
    write, keys = FORMATS[kind]
    write(table, tmp_path / f"t.{kind}")
    keys = {**keys, "ids": "id", "missing": "keep", "na_values": [-9.9]}
    _, rows = read(tmp_path / f"t.{kind}", **keys)
    np.testing.assert_array_equal(rows, [[np.nan], [1.5], [-9.875]])


@pytest.mark.parametrize("kind", ["csv", "parquet", "feather"])
@pytest.mark.parametrize("more", [[], ["<3"]])
def test_a_code_is_one_of_short_numbers_that_were_widened(kind, more, tmp_path):
    x = np.float32([-9.9, -9.875, 1e20]).astype(float).tolist() + more
    write, keys = FORMATS[kind]
    write(
        pd.DataFrame({"id": list("abcd")[: len(x)], "x": list(map(str, x)) if more else x}),
        tmp_path / f"t.{kind}",
    )
    keys = {**keys, "ids": "id", "missing": "keep", "na_values": [-9.9], "censored": "limit"}
    _, rows = read(tmp_path / f"t.{kind}", **keys)
    np.testing.assert_array_equal(rows[:2], [[np.nan], [-9.875]])
    assert np.isfinite(rows[2:]).all()


@pytest.mark.parametrize(
    ("form", "cells"),
    [
        (None, ["1900-01-01 00:00:00", "1970-01-02T12:00"]),
        ("%d.%m.%Y %H:%M", ["01.01.1900 00:00", "02.01.1970 12:00"]),
    ],
)
def test_a_code_that_is_a_day_in_a_csv(form, cells, tmp_path):
    (tmp_path / "t.csv").write_text("id,day\n" + "".join(f"{c},{c}\n" for c in cells))
    keys = {"ids": "id", "dates": ["day"], "missing": "keep", "date_format": form}
    samples, rows = read(tmp_path / "t.csv", **keys, na_values=["1900-01-01"])
    np.testing.assert_array_equal(rows, [[np.nan], [1.5]])
    assert list(samples.ids()) == cells  # words stay


@pytest.mark.parametrize("kind", ["parquet", "feather", "duckdb", "xlsx"])
def test_a_code_that_is_a_day_beside_times_of_day(kind, tmp_path):
    days = [datetime.datetime(1900, 1, 1), datetime.datetime(1970, 1, 2, 12)]
    write, keys = FORMATS[kind]
    write(pd.DataFrame({"id": ["a", "b"], "day": days}), tmp_path / f"t.{kind}")
    keys = {**keys, "ids": "id", "dates": ["day"], "missing": "keep"}
    _, rows = read(tmp_path / f"t.{kind}", **keys, na_values={"day": "1900-01-01"})
    np.testing.assert_array_equal(rows, [[np.nan], [1.5]])


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("day", [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)])
def test_dates_of_all_years(kind, day, tmp_path):
    """Days are those of Python's calendar, or refused, with pandas 2, whose dates end in 2262."""
    write, _ = FORMATS[kind]
    write(pd.DataFrame({"id": ["a", "b"], "d": [datetime.date(1970, 1, 1), day]}), tmp_path / "t")
    keys = {"ids": "id", "dates": ["d"], "format": kind}
    if pd.__version__ < "3":
        with pytest.raises(StoreError, match=r"(line 3|row 2), column 'd'"):
            read(tmp_path / "t", **keys)
    else:
        assert read(tmp_path / "t", **keys)[1][1] == (day - datetime.date(1970, 1, 1)).days


@pytest.mark.parametrize(
    "kind",
    [object, "datetime64[s]", "date32[pyarrow]", "date64[pyarrow]", "timestamp[ms][pyarrow]"],
)
def test_days_of_a_dataframe_whatever_they_are_kept_as(kind, tmp_path):
    days = [datetime.date(1970, 1, 3), datetime.date(2026, 11, 30)]
    table = pd.DataFrame({"x": [1.0, 2.0], "d": pd.Series(days).astype(kind)})
    write_store(str(tmp_path / "a.zarr"), "a", table, ["i", "j"], dates=["d"])
    found = ClientStore.open(str(tmp_path / "a.zarr")).rows(0, 2)[:, 1]
    assert found.tolist() == [(day - datetime.date(1970, 1, 1)).days for day in days]


@pytest.mark.parametrize("word", ["today", "now", "Now"])
@pytest.mark.parametrize("written_as", [None, "%d.%m.%Y"])
def test_a_day_that_is_another_tomorrow_is_no_date(word, written_as, tmp_path):
    day = "31.12.2025" if written_as else "2025-12-31"
    (tmp_path / "t.csv").write_text(f"d\n{day}\n{word}\n")
    with pytest.raises(StoreError, match=r"line 3, column 'd': dates must be written"):
        read(tmp_path / "t.csv", dates=["d"], date_format=written_as)


# -- codes in a csv --------------------------------------------------------------------------------

COMMAS = {"delimiter": ";", "decimal": ",", "missing": "keep", "censored": "limit"}


@pytest.mark.parametrize("codes", [[-9.9], ["-9,9"], ["-9,90"]])
@pytest.mark.parametrize("other", ["3", "<3"])
def test_codes_and_cells_have_one_decimal_mark(codes, other, tmp_path):
    """A limit makes text of the whole column, which is no number to a reader of points."""
    (tmp_path / "t.csv").write_text(f"id;x\n1;-9,9\n2;{other}\n")
    _, rows = read(tmp_path / "t.csv", ids="id", na_values=codes, **COMMAS)
    np.testing.assert_array_equal(rows, [[np.nan], [3]])


@pytest.mark.parametrize("codes", [[9999], ["9.999"], {"x": ["9.999,0"]}])
def test_codes_of_grouped_digits(codes, tmp_path):
    (tmp_path / "t.csv").write_text("id;x\n1;9.999\n2;1.009.999\n3;9,999\n")
    _, rows = read(tmp_path / "t.csv", ids="id", na_values=codes, thousands=".", **COMMAS)
    np.testing.assert_array_equal(rows, [[np.nan], [1009999], [9.999]])


def test_codes_are_found_in_every_block(tmp_path):
    """As one reading by pandas, of all cells as text, finds them."""
    cells = [f"{i % 7},5" for i in range(1600)]
    for i in (7, 507, 1007, 1507):
        cells[i] = "-9,9"
    cells[1550] = "<3"
    (tmp_path / "t.csv").write_text("id;x\n" + "".join(f"{i};{c}\n" for i, c in enumerate(cells)))
    url = str(tmp_path / "a.zarr")
    source = {"ids": "id", "na_values": [-9.9], **COMMAS}
    add_store("a", [str(tmp_path / "t.csv")], url, source=source)
    text = pd.read_csv(tmp_path / "t.csv", sep=";", dtype=str)["x"]
    expected = text.replace({"-9,9": "nan", "<3": "3"}).str.replace(",", ".").astype(float)
    np.testing.assert_array_equal(ClientStore.open(url).rows(0, 1600)[:, 0], expected)


# -- names, ids and samples ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["parquet", "feather"])
def test_an_index_without_a_name_is_no_feature(kind, tmp_path):
    path = tmp_path / f"t.{kind}"
    table = pd.DataFrame({"id": ["a", "b"], "x": [1.5, 2]}, index=[7, 3])
    if kind == "parquet":
        table.to_parquet(path)
    else:
        import pyarrow as pa
        from pyarrow import feather

        feather.write_feather(pa.Table.from_pandas(table), path)
    with pytest.raises(StoreError, match=r"column 3 of 3 has none, as row numbers"):
        read(path, ids="id")
    assert read(path, ids="id", columns=["x"])[1].tolist() == [[1.5], [2]]
    assert read(path, ids="id", rename={"__index_level_0__": "n"})[0].feature_names == ("x", "n")
    assert read(path, ids="__index_level_0__", columns=["x"])[0].sample_ids.tolist() == ["7", "3"]


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_a_column_that_a_query_has_twice(kind, tmp_path):
    write, _ = FORMATS[kind]
    write(pd.DataFrame({"pid": [1, 2], "x": [3, 4]}), tmp_path / f"t.{kind}")
    query = "select * from t join t as u on t.pid = u.pid order by t.pid"
    with pytest.raises(StoreError, match="'pid' comes twice"):
        read(tmp_path / f"t.{kind}", sql=query, ids="pid")


def test_ids_are_alike_without_blanks_and_marks_apart(tmp_path):
    ids = [" p1", "p2 ", "e\u0301 3"]
    (tmp_path / "t.csv").write_text("id,x\n" + "".join(f"{own},1\n" for own in ids), "utf-8")
    found = read(tmp_path / "t.csv", ids="id")[0].sample_ids.tolist()
    assert found == [unicodedata.normalize("NFC", own.strip()) for own in ids]
    (tmp_path / "t.csv").write_text("id,x\n p1,1\np1,2\n")
    with pytest.raises(StoreError, match="sample ids must differ; got 1 repeated"):
        add_store("a", [str(tmp_path / "t.csv")], f"{tmp_path}/a.zarr", source={"ids": "id"})
    (tmp_path / "t.csv").write_text("id,x\n  ,1\np1,2\n")
    with pytest.raises(StoreError, match="1 samples have no id"):
        read(tmp_path / "t.csv", ids="id")


def test_blanks_do_not_make_a_sample_new_to_an_old_store(tmp_path):
    url = str(tmp_path / "a.zarr")
    write_store(url, "a", pd.DataFrame({"x": [1, 2]}), [" p1", "p2"])  # as stores had them
    (tmp_path / "t.csv").write_text("id,x\n p1,1\n")
    with pytest.raises(StoreError, match="1 of 1 ids are there already"):
        append_store(url, [str(tmp_path / "t.csv")], source={"ids": "id"})


def test_a_sample_without_any_value_stays(tmp_path):
    (tmp_path / "t.csv").write_text("p,t,v\np3,a,\np1,a,1\np1,b,2\np2,b,?\np2,c,\n")
    pivot = {"rows": "p", "names": "t", "values": "v"}
    samples, rows = read(tmp_path / "t.csv", pivot=pivot, missing="keep", na_values="?")
    assert samples.sample_ids.tolist() == ["p3", "p1", "p2"]
    assert samples.feature_names == ("a", "b")
    gap = np.nan
    np.testing.assert_array_equal(rows, [[gap, gap], [1, 2], [gap, gap]])


@pytest.mark.parametrize("first", ["61,170,72", "5", "1,3", "2,1", "-1,0"])
def test_a_first_line_of_whole_numbers_is_a_sample(first, tmp_path):
    (tmp_path / "t.csv").write_text(f"{first}\n{first}\n")
    with pytest.raises(StoreError, match=r"holds numbers only, .* Set source.header: false"):
        read(tmp_path / "t.csv")
    assert len(read(tmp_path / "t.csv", header=False)[1]) == 2


@pytest.mark.parametrize("first", ["0,1,2", "1,2,3", "0", "1999,2000"])
def test_counted_columns_and_years_are_names(first, tmp_path):
    (tmp_path / "t.csv").write_text(f"{first}\n{first}\n")
    assert read(tmp_path / "t.csv")[0].feature_names == tuple(first.split(","))


def test_indices_from_0_and_from_1_do_not_meet(tmp_path):
    (tmp_path / "a.svm").write_text("1 0:5 1:7\n0 1:2\n")
    (tmp_path / "b.svm").write_text("1 1:9 2:8\n")
    samples, rows = read(tmp_path / "b.svm")
    assert (samples.feature_names, rows.tolist()) == (("x1", "x2"), [[9, 8]])
    assert read(tmp_path / "a.svm")[1].tolist() == [[5, 7], [0, 2]]
    with pytest.raises(StoreError, match="must have the same columns as the first"):
        read(tmp_path / "*.svm")


def test_a_gene_that_comes_twice_is_not_picked(tmp_path):
    anndata = pytest.importorskip("anndata", reason="needs daskfc[h5ad]")
    cells = pd.DataFrame(index=pd.Index(["c1", "c2"], dtype=object))
    genes = pd.DataFrame(index=pd.Index(["g1", "g1", "g2"], dtype=object))
    rows = sparse.csr_matrix([[1.0, 2, 0], [3, 4, 5]])
    with pytest.warns(UserWarning, match="not unique"):
        data = anndata.AnnData(rows, obs=cells, var=genes)
    data.write_h5ad(tmp_path / "t.h5ad")
    with pytest.raises(StoreError, match=r"'g1' of source\.columns comes twice"):
        read(tmp_path / "t.h5ad", columns=["g1"])
    assert read(tmp_path / "t.h5ad", columns=["g2"])[1].tolist() == [[0], [5]]


@pytest.mark.parametrize("name", ["parquet", "feather"])
def test_codes_that_a_file_keeps_as_categories_are_no_numbers(tmp_path, name):
    """As those of a table at hand, which are words."""
    table = pd.DataFrame({"ward": pd.Categorical([30, 1, 30]), "x": [1, 2, 3]})
    path = tmp_path / f"t.{name}"
    FORMATS[name][0](table, path)
    with pytest.raises(StoreError, match=r"row 1, column 'ward': .* got a category\."):
        read(path)
    samples, rows = read(path, categorical=["ward"])
    write_store("memory://wards", "a", table, overwrite=True)
    store = ClientStore.open("memory://wards")
    assert dict(samples.categories) == store.categories == {"ward": ("1", "30")}
    assert rows.tolist() == store.rows(0, 3).tolist()
    assert look_at(str(path)).keys["categorical"] == ["ward"]


# -- looking ---------------------------------------------------------------------------------------


def test_doubts_of_words_for_no_value_and_of_short_years(tmp_path):
    drinks = ["None", "low", "high", "NA", "low", "high", "low", "high"]
    ages = ["61", "NA", "58", "40", "55", "66", "71", "43"]
    days = [f"0{i}.02.45" for i in range(1, 9)]
    lines = [",".join(row) for row in zip(drinks, ages, days, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["drinks,age,day", *lines]))
    drinks, age, day = look_at(str(tmp_path / "t.csv")).columns
    assert (drinks.kind, drinks.codes) == ("words", ["NA", "None"])
    assert any("'NA', 'None' may be words" in doubt for doubt in drinks.doubts)
    assert (age.kind, age.gaps, age.codes, age.doubts) == ("number", 1, [], [])
    assert day.date_format == "%d.%m.%y"
    assert any("45 is 2045" in doubt for doubt in day.doubts)
