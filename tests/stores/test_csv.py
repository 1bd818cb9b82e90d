"""csv files as people have them: read right, or refused with the line, the column and a way out."""

import csv
import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskfc.errors import StoreError
from daskfc.stores import write_store
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.sources.readers import open_source

SECRET = "7391.25"  # a value, which no message may tell


def opened(folder, text, **keys):
    (folder / "t.csv").write_bytes(text.encode(keys.get("encoding", "utf-8")))
    return open_source(SourceConfig(path=str(folder / "t.csv"), **keys))


def read(samples):
    return np.concatenate(list(samples.blocks(2)))


@pytest.mark.parametrize(
    ("text", "keys", "rows"),
    [
        ("a;b\n1,5;2\n3;4,25\n", {"delimiter": ";", "decimal": ","}, [[1.5, 2], [3, 4.25]]),
        ('a,b\n"1,234",2\n"5,678,901",3\n', {"thousands": ","}, [[1234, 2], [5678901, 3]]),
        (
            "a;b\n1.234,5;2\n2;1\n",
            {"delimiter": ";", "decimal": ",", "thousands": "."},
            [[1234.5, 2], [2, 1]],
        ),
        ("a\tb\n1\t2\n", {"delimiter": "\t"}, [[1, 2]]),
        ("1,2\n3,4\n", {"header": False}, [[1, 2], [3, 4]]),
        ("2019,2020\n3,4\n", {}, [[3, 4]]),  # years are names
        ("0.5,1.5\n3,4\n", {"header": True}, [[3, 4]]),
        ("\n\na,b\n\n1,2\n\n3,4\n\n", {}, [[1, 2], [3, 4]]),
        ("\ufeffa,b\n1,2\n", {"columns": ["a"]}, [[1]]),
        ('\ufeff"a","b, c"\n1,2\n', {"columns": ["a", "b, c"]}, [[1, 2]]),
        ('\ufeff"a"\n1\n', {"columns": ["a"], "encoding": "UTF8"}, [[1]]),
        ("a,b\r\n1,2\r\n3,4", {}, [[1, 2], [3, 4]]),
        ('a,"b\nb"\n1,2\n', {"columns": ["b\nb"]}, [[2]]),
        ("a,b\nTrue,2\nFalse,3\n", {}, [[1, 2], [0, 3]]),
        (",b\n0,2\n1,3\n", {"columns": ["b"]}, [[2], [3]]),
        ("a,b\n1,2\n", {"dtype": "float32"}, [[1, 2]]),
        ("a,b\n1,2.5\n", {"dtype": {"a": "int8"}}, [[1, 2.5]]),
    ],
)
def test_what_is_read(tmp_path, text, keys, rows):
    assert read(opened(tmp_path, text, **keys)).tolist() == rows


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-8-sig"])
def test_encodings(tmp_path, encoding):
    samples = opened(tmp_path, "größe,ort\n1,Zürich\n", encoding=encoding, labels="ort")
    assert samples.feature_names == ("größe",)
    assert samples.classes == ("Zürich",)
    assert read(samples).tolist() == [[1.0]]


REFUSED = {
    "surplus fields": (
        f"a,b\n1,2\n3,{SECRET},5,6\n",
        {},
        r"line 3 must have 2 fields, as the first line has; got 4\. Mend the line",
    ),
    "surplus fields of one column": (
        f"a,b\n1,2\n3,{SECRET},5\n",
        {"columns": ["a"]},
        r"line 3 must have 2 fields, .* got 3",
    ),
    "a delimiter at the end of each line": (
        f"a,b\n1,{SECRET},\n",
        {},
        r"line 2 must have 2 fields, .* got 3",
    ),
    "a line too short": (f"a,b\n1,2\n\n{SECRET}\n", {}, r"line 4 must have 2 fields, .* got 1"),
    "thousands": (
        f'a,b\n{SECRET},2\n"1,234",3\n',
        {},
        r"line 3, column 'a': .* numeric; got a comma in a number\. Set source.thousands: ','",
    ),
    "other thousands": (
        "a;b\n1;2\n2;1'234'567\n",
        {"delimiter": ";"},
        r"line 3, column 'b': .* got grouped digits\. Set source.thousands: \"'\"",
    ),
    "decimal commas": (
        "a;b\n1;2\n2;12,5\n",
        {"delimiter": ";"},
        r"line 3, column 'b': .* got a comma in a number\. Set source.decimal: ','",
    ),
    "German numbers": (
        "a;b\n1;1.234,5\n",
        {"delimiter": ";"},
        r"got grouped digits\. Set source.thousands: '\.', and source.decimal: ','",
    ),
    "German thousands": (
        "a;b\n1,5;2\n1.234;3\n",
        {"delimiter": ";", "decimal": ","},
        r"line 3, column 'a': .* got grouped digits\. Set source.thousands: '\.'\.$",
    ),
    "semicolons": (
        "a;b;c\n1,5;2;3\n",
        {},
        r"has one field, which holds ';'\. If .* source.delimiter: ';', .* source.decimal: ','",
    ),
    "tabs": ("a\tb\n1\t2\n", {}, r"which holds a tab\. If that separates"),
    "a question mark among German numbers": (
        "a;b\n1;1.234,5\n2;?\n",
        {"delimiter": ";", "decimal": ",", "thousands": "."},
        r"line 3, column 'b': .* got '\?'\. Set source.na_values",
    ),
    "a question mark": (
        f"a,b\n1,2\n\n{SECRET},?\n",
        {},
        r"line 4, column 'b': .* got '\?'\. Set source.na_values if it stands for a missing value",
    ),
    "a missing value": (
        f"a,b\n1,2\n3,\n{SECRET},\n",
        {},
        r"line 3, column 'b': .* finite numbers; got a missing value or infinity\. Fill it in",
    ),
    "several missing values": (
        "a,b\n,2\n3,\n",
        {},
        r"line 2, column 'a': .* infinity \(and 1 more in the next 2 samples\)",
    ),
    "named as missing": (
        f"a,b\n{SECRET},x\n",
        {"na_values": "x"},
        r"line 2, column 'b': .* got a missing value",
    ),
    "infinity": ("a,b\n1,inf\n", {}, r"line 2, column 'b': .* got a missing value or infinity"),
    "a word": (
        "a,b\n1,2\n3,4\n5,6\n7,Meier\n",
        {},
        r"line 5, column 'b': .* got a word\. Name the column in source.categorical,",
    ),
    "a number of too many digits": (
        "a,b\n1,2\n123456789012345678901234567890,4\n",
        {},
        r"line 3, column 'a': .* got one of too many digits",
    ),
    "a date": (
        "a,b\n1,2024-05-06\n",
        {},
        r"line 2, column 'b': .* got a date\. Name the column in",
    ),
    "latin-1": (
        f"größe,b\n1,{SECRET}\n".encode("latin-1"),
        {},
        r"the file is no text in utf-8\. Set source.encoding, such as latin-1",
    ),
    "latin-1 far below": (
        b"a,b\n" + b"1,2\n" * 9000 + "1,é\n".encode("latin-1"),
        {"columns": ["a"]},
        r"the file is no text in utf-8",
    ),
    "nothing": ("", {}, r"the file is empty\. Correct source.path"),
    "empty lines": ("\n\n", {}, r"the file is empty"),
    "names alone": ("a,b\n", {}, r"at least one sample and one feature; got 0 x 2"),
    "a name twice": (
        f"a,b,a\n1,2,{SECRET}\n",
        {},
        r"columns must have different names; 'a' comes twice in the first line\. Rename",
    ),
    "no name": (f",b\n0,{SECRET}\n", {}, r"column 1 of 2 has none, as row numbers"),
    "no header": (
        f"0.5,1.5\n3,{SECRET}\n",
        {},
        r"the first line must name the columns; it holds numbers only.* source.header: false",
    ),
    "large ids beside fractions": (
        "key,b\n9007199254740993,0.5\n9007199254740992,0.25\n",
        {},
        r"line 2, column 'key': whole numbers above 2\*\*53 would be rounded .* source.ids",
    ),
    "large negative ones beside fractions": (
        "a,key\n1.5,1\n0.5,-9007199254740993\n",
        {},
        r"line 3, column 'key': whole numbers above 2\*\*53 would be rounded",
    ),
    "a type that does not hold it": (
        f"a,b\n1,2\n{SECRET},3\n",
        {"dtype": "int16"},
        r"line 3, column 'a': source.dtype says int16, which cannot hold",
    ),
    "a type too small": (
        "a,b\n1,2\n3,1e300\n",
        {"dtype": {"b": "float32"}},
        r"line 3, column 'b': source.dtype says float32, which cannot",
    ),
    "NUL": (b"a,b\n1,\x002\n", {}, r"t.csv: "),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_what_is_refused(tmp_path, fault):
    text, keys, match = REFUSED[fault]
    (tmp_path / "t.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(StoreError, match=match) as caught:
        read(open_source(SourceConfig(path=str(tmp_path / "t.csv"), **keys)))
    message = str(caught.value)
    assert "\n" not in message
    assert not any(word in message for word in (SECRET, "Meier", "1,234", "12,5", "2024"))


def test_lines_are_those_of_the_file(tmp_path):
    """Empty lines and quoted line ends count, and blocks before."""
    text = 'a,note\n1,"x\ny"\n\n2,z\n3,z\n4,z\nfour,z\n'
    with pytest.raises(StoreError, match="line 8, column 'a'"):
        read(opened(tmp_path, text, labels="note"))


@pytest.mark.parametrize(
    ("keys", "match"),
    [
        ({"encoding": "utf-9"}, "the name of an encoding"),
        ({"decimal": ",", "delimiter": ","}, "must be different characters"),
        ({"decimal": ",", "thousands": ","}, "must be different characters"),
        ({"dtype": "float31"}, "must be one of float32, float64"),
        ({"dtype": {"a": "object"}}, "must be one of float32, float64"),
        ({"thousands": ""}, "at least 1 character"),
    ],
)
def test_options_that_cannot_be(keys, match):
    with pytest.raises(ValueError, match=match):
        SourceConfig(path="t.csv", **keys)


def test_options_of_csv_mean_nothing_to_other_formats(tmp_path):
    with pytest.raises(StoreError, match=r"source.decimal means nothing to the format 'npz'"):
        open_source(SourceConfig(path="t.npz", decimal=","))


@given(
    values=st.lists(
        st.tuples(st.floats(-1e6, 1e6).map(lambda x: round(x, 3)), st.integers(-(2**40), 2**40)),
        min_size=1,
        max_size=9,
    ),
    delimiter=st.sampled_from([",", ";", "\t", "|"]),
    decimal=st.sampled_from([".", ","]),
    grouped=st.booleans(),
)
def test_a_table_comes_back(tmp_path_factory, values, delimiter, decimal, grouped):
    thousands = {".": ",", ",": "."}[decimal] if grouped else None
    file = io.StringIO()
    writer = csv.writer(file, delimiter=delimiter)
    writer.writerow(["key", "x", "y"])
    for number, (x, y) in enumerate(values):
        words = [f"{x:,.3f}", f"{y:,d}"] if grouped else [f"{x:.3f}", f"{y:d}"]
        swapped = str.maketrans(",.", ".,") if decimal == "," else {}
        writer.writerow([f"s{number}", *(word.translate(swapped) for word in words)])
    keys = {"delimiter": delimiter, "decimal": decimal, "thousands": thousands, "ids": "key"}
    if delimiter in (decimal, thousands):
        return  # refused, see above
    samples = opened(tmp_path_factory.mktemp("t"), file.getvalue(), **keys)
    np.testing.assert_allclose(read(samples), np.array(values, float), rtol=1e-12)
    assert samples.ids().tolist() == [f"s{i}" for i in range(len(values))]


@pytest.mark.parametrize("kind", ["parquet", "feather"])
def test_tables_name_rows(kind, tmp_path):
    table = pd.DataFrame({"a": [1.0, 2.0, np.nan], "b": [1, 2, 3], "c": ["u", "v", "w"]})
    getattr(table, f"to_{kind}")(tmp_path / f"t.{kind}")
    for columns, match in (
        ("a", "row 3, column 'a': .* missing"),
        ("c", "row 1, column 'c': .* a"),
    ):
        source = SourceConfig(path=str(tmp_path / f"t.{kind}"), columns=[columns, "b"])
        with pytest.raises(StoreError, match=match):
            read(open_source(source))


# -- whole numbers that a type would merge ---------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "dtype", "held"),
    [
        (np.array([[2**24 + 1], [2**24]]), "float32", False),
        (np.array([[2**24 + 1.0], [2.0**24]]), "float32", False),
        (np.array([[2**24 + 2], [-(2**30)]]), "float32", True),
        (np.array([[2**24 + 1.5], [0.1]]), "float32", True),  # no whole number
        (np.array([[2**60 + 1], [2**60]]), "float64", False),
        (np.array([[-(2**53) - 1]]), "float64", False),
        (np.array([[-(2**24) - 1.0], [1.5]]), "float32", False),
        (np.array([[-(2**60) - 1]]), "float64", False),
        (np.array([[2**63 - 1]]), "float64", False),
        (np.array([[2**64 - 1]], dtype=np.uint64), "float64", False),
        (np.array([[2**60], [2**53]]), "float64", True),
        (np.array([[2**60 + 2**10], [2**60]]), "int64", True),
        (np.array([[2**60 + 1], [2**60]]), "int64", False),  # fits read float64
        (np.array([[2**53 + 1]], dtype=np.uint64), "uint64", False),
        (np.array([[40000.0], [0.5]], dtype=np.float16), "float32", True),
    ],
)
def test_whole_numbers_are_not_merged(tmp_path, values, dtype, held):
    ids = [str(i) for i in range(len(values))]
    if held:
        write_store(str(tmp_path / "s.zarr"), "a", values, ids, dtype=dtype)
        return
    read = "float32" if dtype == "float32" else "float64"
    with pytest.raises(StoreError, match=f"{read} rounds whole numbers above .* column 'x0' of"):
        write_store(str(tmp_path / "s.zarr"), "a", values, ids, dtype=dtype)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("ids", "match"),
    [
        (["a", None, "c"], "must have an id; 1 of 3 have none"),
        (np.array(["a", np.nan, None], dtype=object), "2 of 3 have none"),
        ([1.0, 2.0, np.nan], "1 of 3 have none"),
        ([1.5, 2.0, 3.0], "must be words or integers; got type 'float64'"),
        ([["a"], ["b"], ["c"]], r"got shape \(3, 1\)"),
    ],
)
def test_ids_that_are_none(tmp_path, ids, match):
    with pytest.raises(StoreError, match=match):
        write_store(str(tmp_path / "s.zarr"), "a", np.eye(3), ids)


@pytest.mark.parametrize("labels", [[0.5, 1, 2], np.array([0.5, 1, 2], dtype=object)])
def test_labels_with_fractions_are_refused(tmp_path, labels):
    with pytest.raises(StoreError, match="labels must be integers or words"):
        write_store(str(tmp_path / "s.zarr"), "a", np.eye(3), ["a", "b", "c"], labels)
