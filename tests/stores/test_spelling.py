"""Words of columns are the same at all sites, however programs write them."""

from decimal import Decimal, InvalidOperation

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from daskfc.cli import main
from daskfc.errors import InvalidInput, StoreError
from daskfc.stores import ClientStore, add_store, append_samples, append_store, write_store
from daskfc.stores.layout.spelling import Spelling, plain_word, words_apart

KEYS = {"categorical": ["stage"]}


def words_of_rows(url, column=0):
    """The word of each sample."""
    store = ClientStore.open(url)
    words = store.categories[store.feature_names[column]]
    return [words[int(i)] for i in store.rows(0, store.n_samples)[:, column]]


def as_decimal(word):
    try:
        return Decimal(word)
    except InvalidOperation:
        return None


@given(st.decimals(allow_nan=False, allow_infinity=False, places=3), st.integers(0, 3))
def test_equal_numbers_are_one_word(number, zeros):
    plain = f"{number:f}"
    written = plain_word(plain)
    assert Decimal(written) == number
    assert plain_word(f" {plain}{'0' * zeros}") == written
    assert plain_word(plain.replace(".", ","), decimal=",") == written


@given(st.text(alphabet="01-+.,eE aM", max_size=8))
def test_words_are_written_once_and_for_all(text):
    found = plain_word(text)
    assert plain_word(found) == found
    # as an independent reader of numbers has them: no other number, and words stay words
    assert as_decimal(found) == as_decimal(text.strip()) or not found


@pytest.mark.parametrize(
    "word", ["007", "1E5", "+1", "1e3", "-", ".", "1.2.3", "1,5", "00", "01", "0x1", "nan", "٣"]
)
def test_codes_stay_words(word):
    assert plain_word(word) == word


def test_digits_are_grouped_by_threes_only():
    assert plain_word("1,250", thousands=",") == "1250"
    assert plain_word("1,2", thousands=",") == "1,2"  # a list of two


def test_accents_are_one_word():
    assert plain_word("me\u0301nage") == plain_word("m\u00e9nage")


def csv(folder, name, text):
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def test_readers_of_all_tables_write_words_alike(tmp_path):
    written = ["1.0", " 2", "1", "2.00", "x "]
    lines = "stage,age\n" + "".join(f"{word},{i}\n" for i, word in enumerate(written))
    add_store("a", [csv(tmp_path, "a.csv", lines)], f"{tmp_path}/a.zarr", source=KEYS)
    german = "stage;age\n" + "".join(f"{w.replace('.', ',')};{i}\n" for i, w in enumerate(written))
    add_store("b", [csv(tmp_path, "b.csv", german)], f"{tmp_path}/b.zarr",
              source={**KEYS, "delimiter": ";", "decimal": ","})  # fmt: skip
    pq.write_table(pa.table({"stage": written, "age": range(5)}), tmp_path / "c.parquet")
    add_store("c", [f"{tmp_path}/c.parquet"], f"{tmp_path}/c.zarr", source=KEYS)
    frame = pd.DataFrame({"stage": pd.Categorical(written), "age": range(5)})
    write_store(f"{tmp_path}/d.zarr", "d", frame)
    for name in "abcd":
        assert words_of_rows(f"{tmp_path}/{name}.zarr") == ["1", "2", "1", "2", "x"], name


def test_whole_numbers_beside_fractions_are_the_same_words(tmp_path):
    write_store(f"{tmp_path}/a.zarr", "a", pd.DataFrame({"s": [1.0, 1.5]}), categorical=["s"])
    assert words_of_rows(f"{tmp_path}/a.zarr") == ["1", "1.5"]


MAPPED = {"M": "male", "m": "male", "stage": {1: "one", "2.0": "two"}}


def test_a_mapping_mends_words_by_column_or_everywhere(tmp_path):
    path = csv(tmp_path, "a.csv", "stage,sex,age\n1.0,M,5\n2, m,6\n3,f,7\n")
    keys = {"categorical": ["stage", "sex"], "words": MAPPED}
    add_store("a", [path], f"{tmp_path}/a.zarr", source=keys)
    assert words_of_rows(f"{tmp_path}/a.zarr") == ["one", "two", "3"]
    assert words_of_rows(f"{tmp_path}/a.zarr", 1) == ["male", "male", "f"]
    spelling = Spelling({"250.00": "code 250.00"})  # a code that is no number, as it is written
    assert spelling.of("250.00", "icd") == "code 250.00"


def test_two_codes_can_be_swapped(tmp_path):
    """As where another site has them the other way round: each word is mapped once, for good."""
    url, table = f"{tmp_path}/a.zarr", pd.DataFrame({"sex": ["1", "2", "2"]})
    write_store(url, "a", table, categorical=["sex"], words={1: 2, 2: 1})
    append_samples(url, table.iloc[:2])
    assert words_of_rows(url) == ["2", "1", "1", "2", "1"]


def test_what_is_appended_goes_by_the_stores_own_mapping(tmp_path):
    url = f"{tmp_path}/a.zarr"
    keys = {**KEYS, "words": {"M": "male"}}
    add_store("a", [csv(tmp_path, "a.csv", "stage,age\nM,5\n1.0,6\n")], url, source=keys)
    append_store(url, [csv(tmp_path, "b.csv", "stage,age\n1,7\nM,8\nw,9\n")])
    assert words_of_rows(url) == ["male", "1", "1", "male", "w"]
    append_store(url, [csv(tmp_path, "c.csv", "stage,age\nw,1\nM,2\n")],
                 source={"words": {"w": "female", "M": "male"}})  # fmt: skip
    assert words_of_rows(url)[-3:] == ["w", "female", "male"]  # what was there stays
    append_store(url, [csv(tmp_path, "d.csv", "stage,age\nw,3\n")])
    assert words_of_rows(url)[-1] == "female"
    ClientStore.open(url, verify=True)


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"words": {True: "yes"}, **KEYS}, "in quotes"),
        ({"words": {"M": None}, **KEYS}, "in quotes"),
        ({"words": {"M": " "}, **KEYS}, "in quotes"),
        ({"words": ["M"], **KEYS}, "must map words to words"),
        ({"words": {"sex": {"M": "m"}}, **KEYS}, "'sex', which 'categorical' does not name"),
        ({"words": {"M": "m"}}, "columns that 'categorical' names"),
    ],
)
def test_mappings_that_mean_nothing_are_refused(tmp_path, keys, told):
    with pytest.raises(InvalidInput, match=told):
        add_store("a", [csv(tmp_path, "a.csv", "stage\nM\n")], f"{tmp_path}/a.zarr", source=keys)


def test_a_mapping_is_for_tables(tmp_path):
    with pytest.raises(StoreError, match="give a DataFrame"):
        write_store(f"{tmp_path}/a.zarr", "a", np.eye(2), words={"M": "m"})
    table = pd.DataFrame({"sex": ["M"]})
    with pytest.raises(InvalidInput, match="client 'a': 'words' must map words to words"):
        write_store(f"{tmp_path}/a.zarr", "a", table, categorical=["sex"], words={"M": False})


def test_words_of_one_site_and_of_another_case_are_listed(tmp_path):
    held = {
        "a": {"cp": ["1", "2"], "sex": ["F", "m"]},
        "b": {"cp": ["1", "2", *(f"odd {i}" for i in range(8))], "sex": ["f", "m"]},
        "c": {"cp": ["1", "2"], "sex": ["f", "m"]},
        "d": {"elsewhere": ["alone"]},  # no other has its columns
    }
    alone, cases = words_apart(held)
    assert "column 'cp': 'odd 0'" in alone
    assert "and 2 more (b)" in alone
    assert "'F' (a), 'f' (b, c)" in cases
    assert words_apart({"a": {"cp": ["1"]}, "b": {"cp": ["1"]}}) == []


def test_the_command_line_maps_words_and_tells_of_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    a = csv(tmp_path, "a.csv", "sex,age\nM,5\nf,6\n")
    b = csv(tmp_path, "b.csv", "sex,age\nm,7\nf,8\n")
    run = CliRunner()
    for name, path in {"a": a, "b": b}.items():
        made = run.invoke(main, ["stores", "add", name, path, "--categorical", "sex"])
        assert made.exit_code == 0, made.output
    storage = csv(
        tmp_path, "s.yaml", "clients: {a: {store: stores/a.zarr}, b: {store: stores/b.zarr}}"
    )
    told = run.invoke(main, ["stores", "check", storage]).output
    assert "Note: words of column 'sex' differ only in case: 'M' (a), 'm' (b)." in told
    again = ["stores", "add", "a", a, "--categorical", "sex", "--word", "M=m", "--overwrite"]
    assert run.invoke(main, again).exit_code == 0
    assert "Note: words" not in run.invoke(main, ["stores", "check", storage]).output
    wrong = run.invoke(main, [*again[:-2], "M"])
    assert "must be OLD=NEW" in wrong.output
