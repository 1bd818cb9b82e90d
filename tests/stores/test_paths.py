"""Paths of a storage file start at its folder, wherever it is read from."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import yaml

from daskfc.errors import StoreError
from daskfc.stores import ClientStore, load_storage, write_store
from daskfc.stores.building.paths import paths_of
from daskfc.stores.dealing.config import SourceConfig

HERE, ELSEWHERE = "x,y\n1,2\n3,4\n", "x,y\n5,6\n7,8\n"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A working directory with a storage file in ``storage/``, and who writes its parts."""
    here = tmp_path / "study"
    here.mkdir()
    monkeypatch.chdir(here)

    def write(path, text=HERE):
        file = here / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    return write


def storage_of(write, place="storage/mine.yaml", **source):
    write(place, yaml.safe_dump({"clients": {"a": {"source": source}}}))
    return load_storage(place)


def first_of(storage):
    [url] = storage.ensure().values()
    return ClientStore.open(url).rows(0, 1).tolist()


def test_paths_start_at_the_files_folder(place, tmp_path, monkeypatch):
    place("storage/a.csv")
    storage = storage_of(place, path="a.csv")
    assert first_of(storage) == [[1, 2]]
    monkeypatch.chdir(tmp_path)
    again = load_storage("study/storage/mine.yaml")
    assert again.digest == storage.digest  # a store follows where the file is not edited
    assert again.build(root=str(tmp_path / "other"))
    assert load_storage(tmp_path / "study/storage/mine.yaml").source is None


def test_a_path_upwards(place):
    place("data/a.csv")
    assert first_of(storage_of(place, path="../data/a.csv")) == [[1, 2]]


def test_what_is_elsewhere_is_missed_where_it_should_be(place):
    place("data/a.csv")
    storage = storage_of(place, path="data/a.csv")
    looked = os.path.abspath("storage/data/a.csv")
    with pytest.raises(StoreError, match=rf"^{looked}: the source file is not there; .* folder of"):
        storage.ensure()
    missing = storage_of(place, "storage/all.yaml", path="data/*.csv")
    with pytest.raises(StoreError, match=rf"^{os.path.dirname(looked)}/\*\.csv: no file matches"):
        missing.ensure()


def test_a_file_of_the_same_name_elsewhere_changes_nothing(place):
    place("storage/data/a.csv", HERE)
    place("data/a.csv", ELSEWHERE)
    assert first_of(storage_of(place, path="data/a.csv")) == [[1, 2]]


def test_the_folder_may_be_a_link(place, tmp_path):
    """`..` is the folder above the one to which the link leads, as in a shell's `cat`."""
    os.makedirs(tmp_path / "shared" / "storage")
    os.symlink(tmp_path / "shared" / "storage", "storage")
    os.symlink(tmp_path / "shared" / "storage" / "s.yaml", "linked.yaml")
    (tmp_path / "shared" / "a.csv").write_text(HERE)
    place("a.csv", ELSEWHERE)
    clients = {"a": {"source": {"path": "../a.csv"}}}
    place("storage/s.yaml", yaml.safe_dump({"clients": clients, "root": "../kept"}))
    storage = load_storage("storage/s.yaml")
    assert storage.client_urls() == {"a": f"file://{tmp_path}/shared/kept/a.zarr"}
    assert first_of(storage) == [[1, 2]]
    assert load_storage(tmp_path / "shared/storage/s.yaml").ensure() == storage.client_urls()
    outside = load_storage("linked.yaml").clients["a"].source.path  # the link's own folder counts
    assert outside == os.path.join(tmp_path, "a.csv")


@pytest.mark.parametrize("file", ["mine.yaml", "./mine.yaml", "../study/mine.yaml"])
def test_a_file_in_the_working_directory_has_one_rule(place, file):
    place("a.csv")
    storage = storage_of(place, file, path="a.csv")
    assert first_of(storage) == [[1, 2]]


@pytest.mark.parametrize(
    "path", ["/srv/a.csv", "s3://b/a.csv", "~/a.csv", "${UNSET_7}/a.csv", "file:///srv/a.csv"]
)
def test_whole_paths_stay_as_they_are_written(place, path):
    assert storage_of(place, path=path).clients["a"].source.path == path


def test_variables_are_read_before_the_place_is(place, monkeypatch):
    monkeypatch.setenv("OUR_DATA", "data")
    place("storage/data/a.csv")
    assert first_of(storage_of(place, path="${OUR_DATA}/a.csv")) == [[1, 2]]


def test_patterns(place):
    place("storage/data/1.csv")
    place("storage/data/2.csv", ELSEWHERE)
    storage = storage_of(place, path="data/*.csv")
    [url] = storage.ensure().values()
    assert ClientStore.open(url).n_samples == 4


def test_views_have_paths_too(place):
    for view in ("one", "two"):
        place(f"storage/{view}.csv", f"id,{view}\np,1.5\nq,2.5\n")
    views = {view: {"path": f"{view}.csv", "ids": "id"} for view in ("one", "two")}
    deal = {"scheme": "views"}
    place("storage/v.yaml", yaml.safe_dump({"source": {"views": views}, "partition": deal}))
    assert list(load_storage("storage/v.yaml").ensure()) == ["one", "two"]


def test_databases_have_paths_too(place):
    place("storage/lab.db", "")
    with closing(sqlite3.connect("storage/lab.db")) as database:
        database.execute("create table lab as select 1.5 as x union all select 2.5")
        database.commit()
    query = "select x from lab order by x"
    for name, where in {"uri": "sqlite:///lab.db", "path": "lab.db"}.items():
        storage = storage_of(place, f"storage/by-{name}.yaml", sql=query, **{name: where})
        assert first_of(storage) == [[1.5]]
    for uri, meant in {
        "sqlite+pysqlite:///lab.db": f"sqlite+pysqlite:///{Path('storage/lab.db').absolute()}",
        "sqlite:///:memory:": "sqlite:///:memory:",
        "postgresql:///lab": "postgresql:///lab",
    }.items():
        given = paths_of(
            str(Path("storage").absolute()), SourceConfig(uri=uri, sql=query), {}, None
        )
        assert given["source"].uri == meant


def test_labels_of_idx_are_a_path(place):
    images = b"\0\0\x08\x02" + (2).to_bytes(4, "big") + (3).to_bytes(4, "big") + bytes(range(6))
    labels = b"\0\0\x08\x01" + (2).to_bytes(4, "big") + bytes([0, 1])
    place("storage/x").write_bytes(images)
    place("storage/y").write_bytes(labels)
    storage = storage_of(place, path="x", labels="y", format="idx")
    [url] = storage.ensure().values()
    assert ClientStore.open(url).has_labels


def test_a_column_of_labels_is_none(place):
    place("storage/a.csv")
    place("y", "a file of that name")
    storage = storage_of(place, path="a.csv", labels="y")
    assert storage.clients["a"].source.labels == "y"


@pytest.mark.parametrize("kind", ["store", "root"])
def test_stores_and_their_folder(place, kind):
    os.mkdir("kept")  # of the working directory: no other meaning of the path
    where = "storage/kept" if kind == "store" else "storage/kept/a.zarr"
    write_store(os.path.abspath(where), "a", np.eye(2))
    place("storage/a.csv")
    client = {"store": "kept"} if kind == "store" else {"source": {"path": "a.csv"}}
    root = {} if kind == "store" else {"root": "kept"}
    place("storage/s.yaml", yaml.safe_dump({"clients": {"a": client}, **root}))
    assert load_storage("storage/s.yaml").client_urls() == {"a": f"file://{os.path.abspath(where)}"}


def test_stores_lie_below_the_working_directory_by_default(place):
    place("storage/a.csv")
    urls = storage_of(place, path="a.csv").client_urls()
    assert urls == {"a": f"file://{os.path.abspath('stores/mine/a.zarr')}"}


def test_a_mapping_has_no_folder(place):
    place("a.csv")
    place("storage/a.csv", ELSEWHERE)
    storage = load_storage({"clients": {"a": {"source": {"path": "a.csv"}}}})
    assert first_of(storage) == [[1, 2]]
