import contextlib
import re
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
import yaml
import zarr

from daskfc.stores import ClientStore
from daskfc.stores.store.clusters import write_clusters


def build(daskfc, *more):
    return daskfc("stores", "build", "s.yaml", *more)


def test_build_inspect_check(daskfc, files):
    result = build(daskfc)
    assert result.exit_code == 0, result.output
    assert "client-3" in result.stdout
    result = daskfc("stores", "inspect", "s.yaml")
    assert result.exit_code == 0
    rows = [line.split() for line in result.stdout.splitlines() if "client-" in line]
    assert [(row[1], "yes" in row) for row in rows if len(row) > 5] == [("50", True)] * 3
    head, *lines = [line for line in result.stdout.splitlines() if re.match(" *client", line)]
    end = head.index("samples") + len("samples")  # numbers end where their head does
    assert [line[:end].split()[-1] for line in lines] == ["50"] * 3
    assert {line[end - 1] for line in lines} == {"0"}
    result = daskfc("stores", "check", "s.yaml")
    assert result.exit_code == 0
    assert result.stdout.count(": ok") == 3


def test_stores_are_not_written_over_unless_asked(daskfc, files):
    build(daskfc)
    result = build(daskfc)
    assert result.exit_code == 2
    assert "--overwrite" in result.stderr
    assert build(daskfc, "--overwrite").exit_code == 0


def test_another_root(daskfc, files, tmp_path):
    assert build(daskfc, "--root", "elsewhere").exit_code == 0
    assert (tmp_path / "elsewhere" / "client-1.zarr").is_dir()
    assert daskfc("stores", "check", "s.yaml", "--root", "elsewhere").exit_code == 0
    assert daskfc("stores", "check", "s.yaml").exit_code == 2


@pytest.mark.parametrize("command", ["inspect", "check"])
def test_a_missing_store_is_one_line(daskfc, files, command):
    result = daskfc("stores", command, "s.yaml")
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1


def test_a_damaged_store_is_found(daskfc, files, storage):
    build(daskfc)
    (chunk,) = Path(storage["root"], "client-2.zarr", "features", "c", "0").glob("*")
    raw = bytearray(chunk.read_bytes())
    raw[len(raw) // 2] ^= 1
    chunk.write_bytes(raw)
    result = daskfc("stores", "check", "s.yaml")
    assert result.exit_code == 2
    assert "client-2" in result.stderr
    shutil.rmtree(storage["root"])


def test_another_content_than_was_written_is_found(daskfc, files, storage):
    """Its chunks have their checksums, so that only reading all of it tells."""
    build(daskfc)
    features = zarr.open_group(f"{storage['root']}/client-2.zarr", mode="r+")["features"]
    features[0] = features[1]
    result = daskfc("stores", "check", "s.yaml")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "client 'client-2': the content of" in result.stderr


def test_views_and_scaling_are_shown(daskfc, tmp_path):
    document = {
        "source": {"dataset": "digits-views", "scaling": {"fourier": "standard"}},
        "partition": {"scheme": "views", "overlap": 0.25},
    }
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    for command in ("build", "inspect"):
        result = daskfc("stores", command, "s.yaml")
        assert result.exit_code == 0, result.output
        lines = [line.split() for line in result.stdout.splitlines()]
        head, *rows = [line for line in lines if line and re.fullmatch(r"client(-\d)?", line[0])]
        assert head[:5] == ["client", "view", "scaling", "samples", "features"]
        assert [row[:3] for row in rows] == [
            ["client-1", "pixels", "none"],
            ["client-2", "profiles", "none"],
            ["client-3", "fourier", "standard"],
        ]
    assert daskfc("stores", "check", "s.yaml").stdout.count(": ok") == 3


def test_a_plain_storage_has_no_column_for_views(daskfc, files):
    build(daskfc)
    words = daskfc("stores", "inspect", "s.yaml").stdout.split()
    assert not {"view", "scaling"} & set(words)


@pytest.fixture
def patients(tmp_path):
    text = "patient;age;weight;diagnosis\np1;61,5;1.070,0;CKD\np2;58;?;none\n"
    (tmp_path / "a.csv").write_text(text.replace("?", "82,0"), encoding="utf-8")
    (tmp_path / "b.csv").write_text(text, encoding="utf-8")
    return ["--delimiter", ";", "--decimal", ",", "--thousands", ".", "--id", "patient"]


def test_a_store_of_a_csv(daskfc, patients, tmp_path):
    result = daskfc("stores", "add", "hospital-a", "a.csv", *patients, "--label", "diagnosis")
    assert result.exit_code == 0, result.output
    store = ClientStore.open(str(tmp_path / "stores" / "hospital-a.zarr"))
    assert store.feature_names == ("age", "weight")
    assert store.rows(0, 2).tolist() == [[61.5, 1070.0], [58.0, 82.0]]
    assert store.sample_ids().tolist() == ["p1", "p2"]
    assert store.has_labels
    (tmp_path / "s.yaml").write_text(result.stdout.split("In a storage file:")[1], encoding="utf-8")
    assert daskfc("stores", "check", "s.yaml").stdout.startswith("hospital-a: ok")
    again = daskfc("stores", "add", "hospital-a", "a.csv", *patients, "--label", "diagnosis")
    assert again.exit_code == 2
    assert "--overwrite" in again.stderr


@pytest.mark.parametrize(
    ("several", "rows"), [([], [[4.0, 61.0], [3.0, 90.0]]), (["mean"], [[4.0, 61.0], [3.0, 80.0]])]
)
def test_a_row_a_measurement_becomes_a_row_a_sample(daskfc, tmp_path, several, rows):
    told = ["patient,test,result", "p1,egfr,61", "p1,crp,4", "p2,egfr,90", "p2,crp,3"]
    told += ["p2,egfr,70"] if several else []
    (tmp_path / "long.csv").write_text("\n".join(told), encoding="utf-8")
    pivot = ",".join(["patient", "test", "result", *several])
    result = daskfc("stores", "add", "a", "long.csv", "--pivot", pivot)
    assert result.exit_code == 0, result.output
    store = ClientStore.open(str(tmp_path / "stores" / "a.zarr"))
    assert store.feature_names == ("crp", "egfr")
    assert store.sample_ids().tolist() == ["p1", "p2"]
    assert store.rows(0, 2).tolist() == rows


def test_several_files_elsewhere(daskfc, patients, tmp_path):
    (tmp_path / "c.csv").write_text("patient;age;weight\np3;1;2\n", encoding="utf-8")
    (tmp_path / "d.csv").write_text("patient;age;weight\np4;3;4\n", encoding="utf-8")
    args = ["--store", "x.zarr", "--columns", "weight,age", "--dtype", "float64", *patients]
    assert daskfc("stores", "add", "a", "c.csv", "d.csv", *args).exit_code == 0
    assert ClientStore.open(str(tmp_path / "x.zarr")).rows(0, 2).tolist() == [[2, 1], [4, 3]]


@pytest.mark.parametrize(
    ("args", "match"),
    [
        (
            ["a", "b.csv"],
            r"line 3, column 'weight': features must be numeric; got '\?'\. Set --na if",
        ),
        (["a", "b.csv", "--na", "?"], "line 3, column 'weight': features must be finite"),
        (["my hospital", "a.csv"], "client 'my hospital': .* Rename it"),
        (["a", "gone.csv"], "gone.csv: the source file is not there"),
        (["a", "a.csv", "--encoding", "utf-9"], "key 'encoding': must be the name of an encoding"),
        (["a", "a.csv", "--dtype", "float31"], "must be a float or an integer type"),
        (["a", "a.csv", "--label", "gone"], "the column 'gone' named by the source is not there"),
    ],
)
def test_what_cannot_be_added(daskfc, patients, tmp_path, args, match):
    more = [] if "--label" in args else ["--label", "diagnosis"]
    result = daskfc("stores", "add", *args, *patients, *more)
    assert result.exit_code == 2
    assert re.search(match, result.stderr)
    assert len(result.stderr.splitlines()) == 1
    assert not list(tmp_path.glob("stores/*"))


def test_a_file_in_place_of_a_store(daskfc, patients, tmp_path):
    (tmp_path / "s.yaml").write_text("clients: {a: {store: a.csv}}", encoding="utf-8")
    result = daskfc("stores", "check", "s.yaml")
    assert result.exit_code == 2
    assert "'daskfc stores add NAME FILE'" in result.stderr


def test_samples_are_appended(daskfc, patients, tmp_path):
    daskfc("stores", "add", "hospital-a", "a.csv", *patients, "--label", "diagnosis")
    (tmp_path / "c.csv").write_text("patient;age;weight;diagnosis\np3;1,5;2;none\n")
    more = ["append", "stores/hospital-a.zarr", "c.csv", *patients, "--label", "diagnosis"]
    before = ClientStore.open(str(tmp_path / "stores" / "hospital-a.zarr"))
    write_clusters(before, "night", np.array([[0], [1]]), ["cluster"])
    result = daskfc("stores", *more)
    assert result.exit_code == 0, result.output
    assert "left out: night." in result.stderr
    assert result.stdout.splitlines()[-1] == "1 samples appended."
    store = ClientStore.open(str(tmp_path / "stores" / "hospital-a.zarr"), verify=True)
    assert store.sample_ids().tolist() == ["p1", "p2", "p3"]
    assert store.rows(2, 3).tolist() == [[1.5, 2.0]]
    again = daskfc("stores", *more)
    assert again.exit_code == 2
    assert "1 of 1 ids are there already" in again.stderr
    assert len(again.stderr.splitlines()) == 1


def test_a_look_writes_the_storage_file(daskfc, tmp_path):
    rows = [f"p{i};{i},5;{i % 28 + 1:02}.03.2025;{'fm'[i % 2]}" for i in range(12)]
    text = "\n".join(["patient;age;visit;sex", *rows])
    (tmp_path / "My file.csv").write_text(text, encoding="utf-8")
    result = daskfc("stores", "look", "My file.csv", "--out", "s.yaml")
    assert result.exit_code == 0, result.output
    assert "First rows" in result.stdout
    written = yaml.safe_load((tmp_path / "s.yaml").read_text(encoding="utf-8"))
    assert result.stdout.endswith((tmp_path / "s.yaml").read_text(encoding="utf-8") + "\n")
    assert written["clients"]["My-file"]["source"]["date_format"] == {"visit": "%d.%m.%Y"}
    built = daskfc("stores", "build", "s.yaml")
    assert built.exit_code == 0, built.output
    store = ClientStore.open(str(tmp_path / "stores" / "s" / "My-file.zarr"))
    assert store.feature_names == ("age", "visit", "sex")
    beside = daskfc("stores", "look", "My file.csv", "--out", "storage/t.yaml")
    assert "path: ../My file.csv" in beside.stdout
    assert daskfc("stores", "build", "storage/t.yaml").exit_code == 0
    again = daskfc("stores", "look", "My file.csv", "--out", "s.yaml")
    assert again.exit_code == 2
    assert "s.yaml is there already" in again.stderr


@pytest.mark.parametrize(
    ("rule", "told"), [("limit", "count as 30"), ("half", "count as 15"), ("missing", "no values")]
)
def test_a_look_says_what_becomes_of_limits(daskfc, tmp_path, rule, told):
    (tmp_path / "a.csv").write_text("crp,age\n<0.3,50\n1.2,60\n2.2,61\n1.9,71\n0.7,44\n")
    looked = daskfc("stores", "look", "a.csv", "--censored", rule)
    assert looked.exit_code == 0, looked.output
    assert told in " ".join(looked.stdout.split())


def test_a_look_writes_the_path_of_a_database_and_of_labels(daskfc, tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "lab.db")) as database:
        database.execute("create table lab as select 1.5 as x, 2 as y union all select 2.5, 3")
        database.commit()
    (tmp_path / "deep" / "storage").mkdir(parents=True)
    for name, file in (
        ("uri", "sqlite:///lab.db"),
        ("path", "lab.db"),
        ("whole", f"sqlite:///{tmp_path}/lab.db"),
    ):
        out = f"deep/storage/{name}.yaml"
        looked = daskfc("stores", "look", file, "--sql", "select * from lab", "--out", out)
        assert looked.exit_code == 0, looked.output
        built = daskfc("stores", "build", out)
        assert built.exit_code == 0, built.output
    written = yaml.safe_load((tmp_path / "deep/storage/uri.yaml").read_text(encoding="utf-8"))
    assert written["clients"]["lab"]["source"]["uri"] == "sqlite:///../../lab.db"
    whole = yaml.safe_load((tmp_path / "deep/storage/whole.yaml").read_text(encoding="utf-8"))
    assert whole["clients"]["lab"]["source"]["uri"] == f"sqlite:///{tmp_path}/lab.db"
    (tmp_path / "images").write_bytes(b"\0\0\x08\x02\0\0\0\2\0\0\0\3" + bytes(range(6)))
    (tmp_path / "kinds").write_bytes(b"\0\0\x08\x01\0\0\0\2\0\1")
    idx = ("--format", "idx", "--label", "kinds", "--out", "deep/storage/idx.yaml")
    looked = daskfc("stores", "look", "images", *idx)
    assert looked.exit_code == 0, looked.output
    built = daskfc("stores", "build", "deep/storage/idx.yaml")
    assert built.exit_code == 0, built.output


def test_a_look_writes_for_the_folder_to_which_a_link_leads(daskfc, tmp_path):
    (tmp_path / "a.csv").write_text("x\n1\n2\n", encoding="utf-8")
    (tmp_path / "far" / "away" / "storage").mkdir(parents=True)
    (tmp_path / "storage").symlink_to(tmp_path / "far" / "away" / "storage")
    looked = daskfc("stores", "look", "a.csv", "--out", "storage/s.yaml")
    assert looked.exit_code == 0, looked.output
    assert "path: ../../../a.csv" in looked.stdout
    for file in ("storage/s.yaml", "far/away/storage/s.yaml"):
        assert daskfc("stores", "build", file, "--overwrite").exit_code == 0


def test_a_look_at_all_sites_spells_their_columns_alike(daskfc, tmp_path):
    for name, head in {
        "a": "patient;age;heart_rate;sex",
        "b": "Patient,Age,HEART RATE,sex",
        "c": "patient,AGE,sex,crp",
    }.items():
        mark = head[len("patient")]
        cells = {"patient": name + "{i}", "age": "5{i}", "sex": "fm", "crp": "{i}.5"}
        rows = [head]
        for i in range(9):
            told = {**cells, "heartrate": "7{i}", "sex": "fm"[i % 2]}
            keys = [one.lower().replace("_", "").replace(" ", "") for one in head.split(mark)]
            rows.append(mark.join(told[key].replace("{i}", str(i)) for key in keys))
        (tmp_path / f"{name}.csv").write_text("\n".join(rows), encoding="utf-8")
    looked = daskfc("stores", "look", "a.csv", "b.csv", "--out", "two.yaml")
    assert looked.exit_code == 0, looked.output
    assert "lacks" not in looked.stdout
    clients = yaml.safe_load((tmp_path / "two.yaml").read_text(encoding="utf-8"))["clients"]
    renamed = {"Patient": "patient", "Age": "age", "HEART RATE": "heart_rate"}
    assert clients["b"]["source"]["rename"] == renamed
    assert "rename" not in clients["a"]["source"]
    built = daskfc("stores", "build", "two.yaml")
    assert built.exit_code == 0, built.output
    store = ClientStore.open(str(tmp_path / "stores" / "two" / "b.zarr"))
    assert store.feature_names == ("age", "heart_rate", "sex")
    apart = daskfc("stores", "look", "a.csv", "c.csv")
    assert "Note: a.csv lacks 'crp', which c.csv has." in apart.stdout
    assert "Note: c.csv lacks 'heart_rate', which a.csv has." in apart.stdout
    (tmp_path / "old").mkdir()
    (tmp_path / "a.csv").rename(tmp_path / "old" / "b.csv")
    for words in (("b.csv", "old/b.csv"), ("b.csv", "c.csv", "--client", "x")):
        refused = daskfc("stores", "look", *words)
        assert refused.exit_code == 2
        assert "a client's name of its own" in refused.stderr


def test_a_file_that_cannot_be_read_is_called_what_the_command_calls_it(daskfc, tmp_path):
    (tmp_path / "a.what").touch()
    for file in ("a.what", "gone.csv", "gone/*.csv"):
        result = daskfc("stores", "add", "a", file)
        assert result.exit_code == 2
        assert "FILE" in result.stderr
        assert "source." not in result.stderr


def test_a_look_lists_all_faults_and_names_flags(daskfc, tmp_path):
    rows = [f"p{i},{i},{i}.5" for i in range(20)]
    rows[3], rows[5] = "p3,three,1", "p5,five,<7"
    (tmp_path / "a.csv").write_text("\n".join(["id,a,b", *rows]), encoding="utf-8")
    result = daskfc("stores", "look", "a.csv", "--censored", "limit")
    assert result.exit_code == 2
    assert "line 5 'three', line 7 'five'." in result.stdout
    assert "Name the column in --categorical" in result.stdout
    assert "bad cells are listed above, 2 in all" in result.stderr
    added = daskfc("stores", "add", "a", "a.csv", "--id", "id")
    assert added.exit_code == 2
    assert "line 5, column 'a'" in added.stderr
    assert "--categorical, as --label or as --id" in added.stderr
    assert "source." not in added.stderr
    assert "three" not in added.stderr


@pytest.mark.parametrize(
    ("args", "match"),
    [
        (["--pivot", "a,b"], "--pivot must be the names of three columns"),
        (["--rename", "a"], "--rename must be OLD=NEW"),
        (["--rename", "c=d"], "--rename must name columns that are there; 'c' is not"),
        (["--date-format", "%Y"], "'date_format' means something to columns that 'dates' names"),
        (["--sheet", "x"], "--sheet means nothing to the format 'csv'"),
        (["--sql", "select 1"], "--sql means nothing to the format 'csv'"),
    ],
)
def test_flags_that_do_not_go(daskfc, tmp_path, args, match):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    result = daskfc("stores", "add", "a", "a.csv", *args)
    assert result.exit_code == 2
    assert re.search(match, result.stderr)
    assert not list(tmp_path.glob("stores/*"))


def test_a_query_on_the_command_line(daskfc, tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "lab.db")) as database:
        database.execute("create table lab (patient text, age int)")
        database.execute("insert into lab values ('p1', 61), ('p2', 58)")
        database.commit()
    result = daskfc("stores", "add", "a", "lab.db", "--sql", "select * from lab", "--id", "patient")
    assert result.exit_code == 0, result.output
    assert ClientStore.open(str(tmp_path / "stores" / "a.zarr")).rows(0, 2).tolist() == [[61], [58]]
    uri = "postgresql://reader:secret7391@db/clinic"
    refused = daskfc("stores", "add", "b", uri, "--sql", "select 1")
    assert refused.exit_code == 2
    assert "must hold no password" in refused.stderr
    assert "7391" not in refused.stderr
