import csv
import filecmp
import hashlib
from pathlib import Path

import pytest

from daskfc.errors import InvalidInput
from daskfc.examples import EXAMPLES, hospital_tables, write_example
from daskfc.examples.hospitals import PATIENTS
from daskfc.stores import load_storage

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "daskfc" / "examples"


def test_what_is_shipped_is_what_the_repository_has():
    """One text in two places: who installed daskfc has no repository."""
    files = sorted(path.relative_to(SHIPPED) for path in SHIPPED.rglob("*.yaml"))
    assert {str(path) for path in files} == {f for e in EXAMPLES.values() for f in e.files}
    for path in files:
        assert filecmp.cmp(SHIPPED / path, ROOT / path, shallow=False), f"cp {path} {SHIPPED}"


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_written_once(name, tmp_path):
    paths = write_example(name, tmp_path)
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == set(paths)
    before = {path: path.read_bytes() for path in paths}
    with pytest.raises(InvalidInput, match="only where nothing is yet"):
        write_example(name, tmp_path)
    assert {path: path.read_bytes() for path in paths} == before


def test_one_file_in_the_way_keeps_all_from_being_written(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "hospital-c.csv").write_text("mine", encoding="utf-8")
    with pytest.raises(InvalidInput, match="hospital-c"):
        write_example("hospitals", tmp_path)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["hospital-c.csv"]


def test_a_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(InvalidInput, match="can be written to"):
        write_example("digits", tmp_path / "file")


def test_an_unknown_example_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="there are digits, hospitals"):
        write_example("banks", tmp_path)


def test_the_hospitals_stores_hold_all_patients(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_example("hospitals")
    storage = load_storage("storage/hospitals.yaml")
    storage.build()
    rows = {row["client"]: row for row in storage.inspect()}
    assert {name: row["samples"] for name, row in rows.items()} == {
        name: sum(counts) for name, counts in PATIENTS.items()
    }
    assert {row["features"] for row in rows.values()} == {8}
    assert all(row["labels"] for row in rows.values())
    storage.check()


def test_patients_are_the_same_each_time_and_others_for_another_seed():
    assert hospital_tables(0) == hospital_tables(0)
    assert hospital_tables(0) != hospital_tables(1)


def test_patients_are_those_of_the_pages_that_show_what_runs_of_them_found():
    told = "\n".join(",".join(row) for table in hospital_tables().values() for row in table)
    digest = "772b4662ef5d81d0e99e26eb834efde8bbe40ff31bae619e1a5ede5c510932ac"
    assert hashlib.sha256(told.encode()).hexdigest() == digest, told[:500]


def test_every_patient_says_that_nobody_of_that_name_exists():
    tables = hospital_tables()
    ids = [row[0] for table in tables.values() for row in table[1:]]
    assert all(name.startswith("synthetic-") for name in ids)
    assert len(set(ids)) == len(ids)


def test_csv_files_are_as_a_spreadsheet_would_write_them(tmp_path):
    write_example("hospitals", tmp_path)
    with (tmp_path / "data" / "hospital-b.csv").open(encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == list(hospital_tables()["hospital-b"])
