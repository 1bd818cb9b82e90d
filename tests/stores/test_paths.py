"""Paths of a storage file start at its folder; no file of before is read otherwise silently."""

import os
import sqlite3
from contextlib import closing

import numpy as np
import pytest
import yaml

from daskfc.errors import InvalidInput, StoreError
from daskfc.stores import ClientStore, load_storage, write_store
from daskfc.stores.building.paths import StoragePathWarning

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


def test_what_is_at_the_working_directory_alone_is_used_and_told(place):
    place("data/a.csv")
    with pytest.warns(StoragePathWarning) as told:
        storage = storage_of(place, path="data/a.csv")
    assert first_of(storage) == [[1, 2]]
    (one,) = told
    assert str(one.message) == (
        "storage/mine.yaml: relative paths start at the folder of this file, where 'data/a.csv' "
        "cannot be found; taken from the working directory, as once. Write '../data/a.csv'."
    )
    assert one.filename == __file__


def test_several_are_told_at_once(place):
    for name in "ab":
        place(f"data/{name}.csv")
    clients = {name: {"source": {"path": f"data/{name}.csv"}} for name in "ab"}
    place("storage/s.yaml", yaml.safe_dump({"clients": clients}))
    with pytest.warns(StoragePathWarning, match=r"'data/a.csv' and 1 more .* and so on\.$") as told:
        load_storage("storage/s.yaml")
    assert len(told) == 1


def test_two_files_are_not_chosen_from(place):
    place("storage/data/a.csv", HERE)
    place("data/a.csv", ELSEWHERE)
    with pytest.raises(InvalidInput) as refused:
        storage_of(place, path="data/a.csv")
    assert str(refused.value) == (
        "storage/mine.yaml: the path 'data/a.csv' may be storage/data/a.csv, from the folder of "
        "this file, or data/a.csv, from the working directory, where such paths once started. "
        "Write the whole path of the one that is meant, or move the other away."
    )
    whole = os.path.abspath("data/a.csv")
    assert first_of(storage_of(place, path=whole)) == [[5, 6]]


def test_one_file_by_two_ways_is_one(place):
    place("data/a.csv")
    os.symlink(os.path.abspath("data"), "link")
    os.mkdir("storage")
    os.symlink(os.path.abspath("data"), "storage/data")
    assert first_of(storage_of(place, path="data/a.csv")) == [[1, 2]]


def test_what_is_nowhere_is_missed_where_it_should_be(place):
    storage = storage_of(place, path="data/a.csv")
    with pytest.raises(StoreError, match=r"storage/data/a\.csv: the source file is not there"):
        storage.ensure()


@pytest.mark.parametrize("file", ["mine.yaml", "./mine.yaml", "../study/mine.yaml"])
def test_a_file_in_the_working_directory_has_one_rule(place, file):
    place("a.csv")
    storage = storage_of(place, file, path="a.csv")
    assert storage.clients["a"].source.path == "a.csv"
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
    place("data/3.csv")
    with pytest.raises(InvalidInput, match="may be storage/data"):
        load_storage("storage/mine.yaml")
    for file in ("1.csv", "2.csv"):
        os.remove(f"storage/data/{file}")
    with pytest.warns(StoragePathWarning):
        load_storage("storage/mine.yaml")


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
    where = "storage/kept" if kind == "store" else "storage/kept/a.zarr"
    write_store(os.path.abspath(where), "a", np.eye(2))
    place("storage/a.csv")
    client = {"store": "kept"} if kind == "store" else {"source": {"path": "a.csv"}}
    root = {} if kind == "store" else {"root": "kept"}
    place("storage/s.yaml", yaml.safe_dump({"clients": {"a": client}, **root}))
    assert load_storage("storage/s.yaml").client_urls() == {"a": f"file://{os.path.abspath(where)}"}


def test_a_root_where_it_was_once_is_found_again(place):
    write_store(os.path.abspath("kept/a.zarr"), "a", np.eye(2))
    place("storage/a.csv")
    document = {"clients": {"a": {"source": {"path": "a.csv"}}}, "root": "kept"}
    place("storage/s.yaml", yaml.safe_dump(document))
    with pytest.warns(StoragePathWarning, match=r"Write '\.\./kept'"):
        storage = load_storage("storage/s.yaml")
    assert storage.client_urls() == {"a": f"file://{os.path.abspath('kept/a.zarr')}"}


def test_stores_lie_below_the_working_directory_by_default(place):
    place("storage/a.csv")
    urls = storage_of(place, path="a.csv").client_urls()
    assert urls == {"a": f"file://{os.path.abspath('stores/mine/a.zarr')}"}


def test_a_store_made_before_paths_moved_is_used_and_not_made_again(place):
    """Its digest is that of the storage file as it is written."""
    place("data/a.csv")
    document = {"clients": {"a": {"source": {"path": "data/a.csv"}}}}
    [url] = load_storage(document).ensure(os.path.abspath("stores/mine")).values()
    build = ClientStore.open(url).build_id
    with pytest.warns(StoragePathWarning):
        storage = storage_of(place, path="data/a.csv")
    assert storage.ensure() == {"a": url}
    assert ClientStore.open(url).build_id == build


def test_a_mapping_has_no_folder(place):
    place("a.csv")
    place("storage/a.csv", ELSEWHERE)
    storage = load_storage({"clients": {"a": {"source": {"path": "a.csv"}}}})
    assert first_of(storage) == [[1, 2]]
