"""What `daskfc stores look` guesses of a file, against files whose truth is known."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskfc.stores.building.looking import look_at
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.sources.guessing import guessed_marks
from daskfc.stores.sources.readers import open_source

MESSY = """Patient;Age;CRP;Visit;Sex;Weight;Note
p1;61;<5;03.02.2025;w;1.070,5;was here
p2;999;12,5;28.12.2024;m;82,0;x
p3;58;?;01.01.2025;w;77,25;came late
p4;40;3;15.06.2025;m;90,5;
p5;35;4,5;16.06.2025;w;60,5;left
p6;70;6,5;17.06.2025;m;110.0;came back
p7;66;7,5;18.06.2025;m;81,5;died
"""


def written(folder, text, name="t.csv", encoding="utf-8"):
    (folder / name).write_text(text, encoding=encoding)
    return str(folder / name)


def kinds(found):
    return {own.name: own.kind for own in found.columns}


def test_a_messy_file(tmp_path):
    path = written(tmp_path, MESSY.replace("Note", "Größe"), encoding="cp1252")
    found = look_at(path)
    assert kinds(found) == {
        "Patient": "id",
        "Age": "number",
        "CRP": "number",
        "Visit": "date",
        "Sex": "words",
        "Weight": "number",
        "Größe": "text",
    }
    assert found.keys == {
        "path": path,
        "encoding": "cp1252",
        "delimiter": ";",
        "decimal": ",",
        "thousands": ".",
        "ids": "Patient",
        "columns": ["Age", "CRP", "Visit", "Sex", "Weight"],
        "categorical": ["Sex"],
        "dates": ["Visit"],
        "date_format": {"Visit": "%d.%m.%Y"},
        "na_values": {"Age": ["999"], "CRP": ["?"]},
        "censored": {"CRP": "limit"},
        "missing": "keep",
    }
    assert found.head.shape == (5, 7)
    (fault,) = found.faults  # the point is one among decimal commas
    assert (fault.column, found.place(fault.row), fault.cell) == ("Weight", "line 7", "110.0")


def test_the_source_that_it_writes_reads_the_file(tmp_path):
    path = written(tmp_path, MESSY.replace("110.0", "110,0"))
    found = look_at(path)
    assert found.faults == []
    samples = open_source(SourceConfig(**found.keys))
    rows = pd.DataFrame(np.concatenate(list(samples.blocks(3))), columns=samples.feature_names)
    assert samples.sample_ids.tolist() == [f"p{i}" for i in range(1, 8)]
    np.testing.assert_array_equal(rows["Age"], [61, np.nan, 58, 40, 35, 70, 66])
    np.testing.assert_array_equal(rows["CRP"], [5, 12.5, np.nan, 3, 4.5, 6.5, 7.5])
    assert rows["Weight"].tolist() == [1070.5, 82, 77.25, 90.5, 60.5, 110, 81.5]


def test_all_faults_at_once_with_their_cells(tmp_path):
    rows = [f"p{i},{i},{i}.5,2025-01-{i + 1:02}" for i in range(25)]
    rows[3], rows[7] = "p3,three,3.5,2025-01-04", "p7,7,inf,soon"
    rows[20] = 'p20,"2,0",1,2025-01-21'
    found = look_at(written(tmp_path, "\n".join(["id,a,b,day", *rows])))
    told = [(fault.column, found.place(fault.row), fault.cell) for fault in found.faults]
    assert sorted(told) == [
        ("a", "line 22", "2,0"),
        ("a", "line 5", "three"),
        ("b", "line 9", ""),
        ("day", "line 9", "soon"),
    ]
    rules = {fault.cell: fault.rule for fault in found.faults}
    assert "a comma in a number" in rules["2,0"]
    assert "dates must be written" in rules["soon"]


def test_what_is_given_is_not_guessed(tmp_path):
    path = written(tmp_path, MESSY)
    found = look_at(path, {"columns": ["Age"], "ids": "Visit", "na_values": ("40",)})
    assert found.keys["columns"] == ["Age"]
    assert found.keys["ids"] == "Visit"
    assert found.keys["na_values"] == ("40",)


def test_words_and_dates_that_nobody_gave_stay_features(tmp_path):
    text = "id,born,seen,sex,smokes\n" + "".join(
        f"p{i},19{i + 50}-02-03,2025-01-1{i},{'mw'[i % 2]},{'no yes'.split()[i % 3 > 0]}\n"
        for i in range(9)
    )
    path = written(tmp_path, text)
    given = {"categorical": ["sex"], "words": {"m": "male"}, "dates": ["born"]}
    found = look_at(path, given)
    assert found.keys["categorical"] == ["sex", "smokes"]
    assert found.keys["dates"] == ["born", "seen"]
    assert "columns" not in found.keys
    assert found.faults == []


@pytest.mark.parametrize("rule", ["missing", {"crp": "missing"}])
def test_limits_that_are_no_values_are_kept_as_gaps(tmp_path, rule):
    path = written(tmp_path, "crp,age\n" + "<0.3,50\n1.2,60\n2.2,61\n1.9,71\n0.7,44\n")
    found = look_at(path, {"censored": rule})
    assert found.keys["missing"] == "keep"
    assert found.faults == []
    assert "missing" not in look_at(path, {"censored": "half"}).keys


def test_limits_of_columns_that_nobody_named_are_read_too(tmp_path):
    path = written(tmp_path, "crp,tsh\n" + "<0.3,<2\n1.2,60\n2.2,61\n1.9,71\n0.7,44\n")
    found = look_at(path, {"censored": {"crp": "half"}})
    assert found.keys["censored"] == {"crp": "half", "tsh": "limit"}
    assert found.faults == []


@pytest.mark.parametrize(
    ("cells", "codes"),
    [
        ([50, 61, 58, 40, 77, 999], ["999"]),
        ([50, 61, 58, 40, 77, -9], ["-9"]),
        ([1, 2, 3, 4, 5, 9], []),  # may be a value
        ([900, 950, 870, 1010, 999, 940], []),
        ([-20, 3, 8, -12, -9, 4], []),
        ([50, 61, 58, 40, 77, -99, 999], ["-99", "999"]),
    ],
)
def test_codes_for_missing_values(tmp_path, cells, codes):
    text = "\n".join(["id,a", *(f"p{i},{cell}" for i, cell in enumerate(cells))])
    found = look_at(written(tmp_path, text))
    assert next(own for own in found.columns if own.name == "a").codes == codes


@pytest.mark.parametrize(
    ("cells", "kind", "date_format"),
    [
        (["2025-03-31", "2025-04-01", "2025-04-01"], "date", None),
        (["31/03/2025", "01/04/2025", "01/04/2025"], "date", "%d/%m/%Y"),
        (["03/31/2025", "04/01/2025", "04/01/2025"], "date", "%m/%d/%Y"),
        (["31.3.25", "1.4.25", "1.4.25"], "date", "%d.%m.%y"),
        (["2025", "2026", "2026"], "number", None),
        (["20250331", "20250401", "20250401"], "number", None),
        (["a", "b", "b"], "words", None),
        (["", "", ""], "empty", None),
    ],
)
def test_kinds_of_columns(tmp_path, cells, kind, date_format):
    text = "\n".join(["id,a", *(f'p{i},"{cell}"' for i, cell in enumerate(cells))])
    own = look_at(written(tmp_path, text)).columns[1]
    assert (own.kind, own.date_format) == (kind, date_format)


def test_doubts_are_told(tmp_path):
    rows = [f"{i % 2 + 1},{i % 12 + 1:02}/03/2025,7,m" for i in range(12)]
    found = look_at(written(tmp_path, "\n".join(["patient,day,one,sex", *rows])))
    doubts = {own.name: " ".join(own.doubts) for own in found.columns}
    assert "some repeat or are empty; a table with a row for each measurement" in doubts["patient"]
    assert "it holds 1, 2 alone; name it in source.categorical" in doubts["patient"]
    assert "days may be months: %m/%d/%Y fits as well" in doubts["day"]
    assert "one value alone" in doubts["one"]
    assert "ids" not in found.keys


def test_a_long_table(tmp_path):
    rows = [f"p{i},{test},{i}.5" for i in range(4) for test in ("crp", "egfr")]
    path = written(tmp_path, "\n".join(["patient,test,result", *rows]))
    pivot = {"rows": "patient", "names": "test", "values": "result"}
    assert look_at(path, {"pivot": pivot}).n_samples == 4


def test_other_tables_and_arrays(tmp_path):
    table = pd.DataFrame({"key": ["a", "b", "c"], "x": [1.5, -9.0, 2.0], "y": [1, 2, 3]})
    table.to_parquet(tmp_path / "t.parquet")
    found = look_at(str(tmp_path / "t.parquet"))
    assert (found.format, found.n_samples, found.keys["ids"]) == ("parquet", 3, "key")
    np.savez(tmp_path / "t.npz", X=np.eye(3))
    found = look_at(str(tmp_path / "t.npz"))
    assert (found.format, found.n_samples, found.columns) == ("npz", 3, [])


@given(
    table=st.lists(
        st.tuples(st.floats(0.001, 1e6).map(lambda x: round(x, 3)), st.integers(0, 10**7)),
        min_size=5,
        max_size=20,
    ),
    delimiter=st.sampled_from(";\t|"),
    decimal=st.sampled_from(".,"),
)
def test_marks_are_those_that_it_was_written_with(tmp_path_factory, table, delimiter, decimal):
    rows = [f"{x:.3f}".replace(".", decimal) + f"{delimiter}{y}{delimiter}w" for x, y in table]
    text = "\n".join([delimiter.join(["x", "y", "z"]), *rows])
    found = guessed_marks(written(tmp_path_factory.mktemp("t"), text))
    assert found.get("delimiter", ",") == delimiter
    assert found.get("decimal", ".") == decimal
    assert found.get("header") is None


@pytest.mark.parametrize(
    ("cells", "marks", "read", "told"),
    [
        (["2,300", "850", "15,400"], {"thousands": ","}, 2300, "2,300 is read as 2300"),
        (["2.300", "850", "15.400"], {"decimal": ",", "thousands": "."}, 2300, "2.300 is read as"),
        (["2,300", "0,850", "15,400"], {"decimal": ","}, 2.3, ""),
        (["2,300", "8,5", "150"], {"decimal": ","}, 2.3, ""),
        (["1,025", "1,013", "1,030"], {"decimal": ","}, 1.025, "1,025 is read as 1.025"),
        (["1.025", "1.013", "1500"], {}, 1.025, "1.025 is read as 1.025"),
        (["1.025", "1.013", "-9"], {}, 1.025, "1.025 is read as 1.025"),  # a code for no value
        (["01067", "80331", "50667"], {}, 1067, "some begin with 0"),
    ],
)
def test_marks_before_three_digits_and_codes(tmp_path, cells, marks, read, told):
    """Thousands were read as decimals: 2,300 was 2.3 beside 850."""
    text = "\n".join(["x;age", *(f"{cell};{60 + i}" for i, cell in enumerate(cells))])
    found = look_at(written(tmp_path, text))
    keys = {key: found.keys[key] for key in ("decimal", "thousands") if key in found.keys}
    assert keys == marks
    assert next(open_source(SourceConfig(**found.keys)).blocks(1))[0, 0] == read
    doubts = [doubt for doubt in found.columns[0].doubts if "alone" not in doubt]
    assert [doubt.startswith(told) for doubt in doubts] == [True] * bool(told)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encodings(tmp_path, encoding):
    path = written(tmp_path, "größe,b\n1,2\n3,4\n", encoding=encoding)
    assert look_at(path).columns[0].name == "größe"
