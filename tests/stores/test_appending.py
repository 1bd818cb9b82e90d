"""A store that grows is the store of all samples, and whatever happens the old one or the new."""

import contextlib
import fcntl
import subprocess
import sys
import textwrap
import uuid

import numpy as np
import pandas as pd
import pytest
import zarr
from scipy import sparse

from daskfc.errors import InvalidInput, StoreError
from daskfc.stores import (
    ClientStore,
    add_store,
    append_samples,
    append_store,
    load_storage,
    write_store,
)
from daskfc.stores.building.appending import _alone, rows_of_before
from daskfc.stores.layout import staging
from daskfc.stores.store.clusters import cluster_names, read_clusters, write_clusters
from daskfc.stores.store.together import check_samples

OLD, NEW = "id,age,kind\np1,61,ckd\np2,58,none\n", "id,age,kind\np3,70,acute\n"
NAMED = {"ids": "id", "labels": "kind"}


@pytest.fixture
def url(tmp_path):
    return f"{tmp_path}/a.zarr"


@pytest.fixture
def csv(tmp_path):
    def written(text, name="new.csv"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    return written


@pytest.fixture
def store(url, csv):
    add_store("a", [csv(OLD, "old.csv")], url, source=NAMED)
    return url


def content(url):
    """Return everything of a store that a method or a site reads."""
    found = ClientStore.open(url, verify=True)
    labels = found.labels()
    classes = found.classes
    return {
        "digest": found.digest,
        "rows": found.stored(0, found.n_samples).tolist(),
        "ids": found.sample_ids().tolist(),
        "labels": None if labels is None else labels.tolist(),
        "classes": classes,
        "categories": found.categories,
        "key": found.id_key(),
    }


@pytest.mark.parametrize("place", ["disk", "elsewhere"])
def test_the_store_is_that_of_all_samples(place, tmp_path, csv):
    root = str(tmp_path) if place == "disk" else f"memory://{uuid.uuid4().hex}"
    grown, whole = f"{root}/grown.zarr", f"{root}/whole.zarr"
    files = [csv(OLD, "old.csv"), csv(NEW)]
    add_store("a", files[:1], grown, source=NAMED)
    before = ClientStore.open(grown)
    row = append_store(grown, files[1:], source=NAMED)
    assert (row["samples"], row["appended"]) == (3, 1)
    add_store("a", files, whole, source=NAMED)
    assert content(grown) == {**content(whole), "key": before.id_key()}
    store = ClientStore.open(grown)
    assert store.build_id != before.build_id
    append_store(grown, [csv("id,age,kind\np4,1,ckd\np5,2,ckd\n", "more.csv")], source=NAMED)
    after = ClientStore.open(grown)
    assert [one["samples"] for one in after.attributes["appended"]] == [2, 3]
    assert [rows_of_before(after, one.digest) for one in (before, store, after)] == [2, 3, 5]
    assert rows_of_before(after, "another") == 0


@pytest.mark.parametrize("rows", [3, 8, 100])
def test_many_rows_in_many_chunks(rows, url):
    X = np.random.default_rng(0).normal(size=(2 * rows, 4))
    ids = [f"s{i}" for i in range(2 * rows)]
    write_store(url, "a", X[:rows], ids[:rows], chunk_rows=8)
    append_samples(url, X[rows:], ids[rows:])
    store = ClientStore.open(url, verify=True)
    np.testing.assert_array_equal(store.rows(0, 2 * rows), X.astype("float32"))
    assert store.sample_ids().tolist() == ids
    assert store.chunk_rows == (8 if rows > 8 else 2 * rows)  # one chunk had them all


@pytest.mark.parametrize("dtype", ["int64", "float64", "uint8"])
def test_the_stored_type_stays(dtype, url):
    """Large whole numbers are copied as they are."""
    large = 2**62 + 2**10 if dtype == "int64" else 200
    old = np.array([[large, 1]], dtype=dtype)
    write_store(url, "a", old, ["p1"], dtype=dtype)
    append_samples(url, np.array([[7, 8]]), ["p2"])
    store = ClientStore.open(url, verify=True)
    assert store.dtype == np.dtype(dtype)
    assert store.stored(0, 2).tolist() == [[large, 1], [7, 8]]


def test_what_the_type_cannot_hold_is_refused(url):
    write_store(url, "a", np.array([[1, 2]]), ["p1"], dtype="uint8")
    before = content(url)
    with pytest.raises(StoreError, match="uint8 cannot hold 1 values"):
        append_samples(url, np.array([[256, 0]]), ["p2"])
    assert content(url) == before


def test_words_gaps_and_tables(url):
    """New words take their place among the old, in rows old and new."""
    tables = [
        pd.DataFrame({"sex": words, "age": ages, "kind": kinds}, index=ids)
        for words, ages, kinds, ids in [
            (["m", None, "f"], [1.0, 2.0, np.nan], ["b", "c", "b"], ["p1", "p2", "p3"]),
            (["d", "m"], [np.nan, 5.0], ["a", "b"], ["p4", "p5"]),
        ]
    ]
    keys = {"categorical": ["sex"], "missing": "keep"}
    whole = url.replace("a.zarr", "b.zarr")
    write_store(url, "a", tables[0], labels="kind", **keys)
    append_samples(url, tables[1], labels="kind")
    write_store(whole, "a", pd.concat(tables), labels="kind", **keys)
    assert repr(content(url)) == repr(content(whole))  # NaN is not itself
    assert ClientStore.open(url).categories == {"sex": ("d", "f", "m")}


def words_of(url):
    found = ClientStore.open(url, verify=True)
    numbers = found.stored(0, found.n_samples)[:, 0]
    return found, [found.categories["code"][int(i)] for i in numbers]


def test_more_words_than_a_byte_can_number(url):
    """All columns are words, so that the store is of bytes; the new words come before the old."""
    old, new = [f"w{i:03d}" for i in range(200)], [f"a{i:03d}" for i in range(100)]
    write_store(url, "a", pd.DataFrame({"code": old}), categorical=["code"])
    assert ClientStore.open(url).dtype == np.uint8
    append_samples(url, pd.DataFrame({"code": new}))
    store, found = words_of(url)
    assert (store.dtype, found) == (np.dtype("uint16"), [*old, *new])
    hand = url.replace("a.zarr", "b.zarr")
    write_store(hand, "a", pd.DataFrame({"code": old}), categorical=["code"], dtype="uint8")
    with pytest.raises(StoreError, match="uint8 cannot hold 44 values"):
        append_samples(hand, pd.DataFrame({"code": new}))
    assert words_of(hand)[1] == old


def test_a_storage_file_still_knows_the_store(tmp_path, csv):
    """A run of a storage file whose client has a source goes on with the grown store."""
    source = {"path": csv(OLD, "old.csv"), **NAMED}
    storage = load_storage({"clients": {"a": {"source": source}}, "root": f"{tmp_path}/s"})
    url = storage.ensure()["a"]
    append_store(url, [csv(NEW)], source=NAMED)
    storage.ensure()
    storage.check()
    assert storage.inspect()[0]["samples"] == 3


def test_numbered_samples_are_numbered_on(url, csv):
    add_store("a", [csv("age\n1\n2\n", "old.csv")], url, source={})
    append_store(url, [csv("age\n3\n"), csv("age\n4\n", "c.csv")])
    assert ClientStore.open(url).sample_ids().tolist() == ["a/0", "a/1", "a/2", "a/3"]


@pytest.mark.parametrize(
    ("text", "keys", "match"),
    [
        ("id,bmi,kind\np3,1,ckd\n", NAMED, "column 'age' is missing"),
        ("id,age,kind,bmi\np3,1,ckd,2\n", NAMED, "column 'bmi' is one too many"),
        (NEW, {"ids": "id"}, "column 'kind' is one too many"),
        ("id,age\np3,1\n", {"ids": "id"}, "has labels for evaluation, and new samples need them"),
        ("age,kind\n1,ckd\n", {"labels": "kind"}, "ids of their own, and new ones need them"),
        ("id,age,kind\np9,1,ckd\np2,1,ckd\n", NAMED, r"1 of 2 ids .* that of row 2\. Leave"),
        ("id,age,kind\np9,1,ckd\np9,1,ckd\n", NAMED, "1 are repeated, rows 1 and 2 are"),
        ("id,age,kind\np9,,ckd\n", NAMED, "features must be finite"),
        ("id,age,kind\np9,old,ckd\n", NAMED, "features must be numeric"),
        ("id,age,kind\np9,1,3\n", NAMED, "labels must be words, .* got whole numbers"),
        (NEW, {**NAMED, "missing": "keep"}, "no value may be missing"),
        ("id,age,kind\np9,x,ckd\n", {**NAMED, "categorical": ["age"]}, "'age' holds numbers in"),
    ],
)
def test_what_cannot_be_appended(text, keys, match, store, csv, tmp_path):
    before = content(store)
    with pytest.raises((StoreError, InvalidInput), match=match) as caught:
        append_store(store, [csv(text)], source=keys)
    assert "\n" not in str(caught.value)
    assert content(store) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zarr", "new.csv", "old.csv"]


def test_columns_in_another_order_are_refused_by_name(url):
    write_store(url, "a", np.eye(2), ["p1", "p2"], feature_names=["age", "bmi"])
    table = pd.DataFrame({"bmi": [1.0], "age": [2.0]}, index=["p3"])
    with pytest.raises(StoreError, match="'bmi' comes where 'age' is expected"):
        append_samples(url, table)
    append_samples(url, table, feature_names=["age", "bmi"])
    assert ClientStore.open(url).rows(2, 3).tolist() == [[2.0, 1.0]]


def test_labels_of_a_store_without(url):
    write_store(url, "a", np.eye(2), ["p1", "p2"])
    with pytest.raises(StoreError, match=r"has no labels for evaluation\. Leave out 'labels'"):
        append_samples(url, np.ones((1, 2)), ["p3"], [0])
    with pytest.raises(StoreError, match="column 'x1' is missing"):
        append_samples(url, np.ones((1, 1)), ["p3"])


def test_a_graph_and_scaled_features_are_refused(url, tmp_path):
    edges = sparse.csr_array(np.array([[0, 1], [1, 0]]))
    write_store(url, "a", np.eye(2), ["p1", "p2"], graph=edges)
    with pytest.raises(StoreError, match="it has a graph, and rows do not say how"):
        append_samples(url, np.ones((1, 2)), ["p3"])
    scaled = load_storage({
        "source": {"dataset": "iris", "scaling": "min-max"},
        "partition": {"scheme": "iid", "clients": 2},
        "root": f"{tmp_path}/iris",
    })  # fmt: skip
    (first, _) = scaled.ensure().values()
    with pytest.raises(StoreError, match=r"went through scaling \(min-max\) when it was built"):
        append_samples(first, np.ones((1, 4)), ["new"])


def test_a_place_without_a_store(url, csv):
    with pytest.raises(StoreError, match="no store of a client is there"):
        append_store(url, [csv(NEW)], source=NAMED)


def test_columns_of_the_same_samples_grow_client_by_client(tmp_path):
    """A storage whose clients hold columns is whole again when all have the new samples."""
    storage = load_storage({
        "source": {"dataset": "iris"},
        "partition": {"scheme": "vertical", "clients": 2},
        "root": f"{tmp_path}/columns",
    })  # fmt: skip
    urls = list(storage.ensure().values())
    append_samples(urls[0], np.ones((1, 2)), ["new"], ["setosa"])
    with pytest.raises(InvalidInput, match="client-"):
        check_samples(storage.open(), "columns")
    append_samples(urls[1], np.ones((1, 2)), ["new"], ["setosa"])
    storage.check()
    check_samples(storage.open(), "columns")
    assert [row["samples"] for row in storage.inspect()] == [151, 151]


def test_whoever_reads_meanwhile_is_refused_and_never_gets_a_mixture(store, csv):
    reader = ClientStore.open(store)
    reader.rows(0, 1)
    append_store(store, [csv(NEW)], source=NAMED)
    for read in (lambda: reader.rows(0, 2), reader.sample_ids, reader.labels):
        with pytest.raises(StoreError, match="was replaced while it was in use; start the run aga"):
            read()


def test_clusters_of_the_samples_before_are_left_out_and_named(store, csv):
    write_clusters(ClientStore.open(store), "night", np.array([[0], [1]]), ["cluster"])
    assert append_store(store, [csv(NEW)], source=NAMED)["left_out"] == ["night"]
    with pytest.raises(InvalidInput, match="no clusters called 'night'"):
        read_clusters(ClientStore.open(store), "night")


def test_clusters_that_are_not_whole_are_none(store):
    """Whoever dies while it writes them leaves an array without its last attribute."""
    opened = ClientStore.open(store)
    write_clusters(opened, "night", np.array([[0], [1]]), ["cluster"])
    array = zarr.open_group(store, mode="r+")["clusters/night"]
    del array.attrs["complete"]
    assert cluster_names(opened) == []
    with pytest.raises(InvalidInput, match="no clusters called 'night'"):
        read_clusters(opened, "night")


def test_two_appends_at_once(store, csv):
    with _alone(store):
        with pytest.raises(StoreError, match="being appended to the store by another process"):
            append_store(store, [csv(NEW)], source=NAMED)
    append_store(store, [csv(NEW)], source=NAMED)
    assert ClientStore.open(store).n_samples == 3


def test_an_append_that_ended_before_ours_was_locked_is_not_undone(store, csv, monkeypatch):
    """Whoever locked the folder that was replaced has the samples of before."""
    lock = fcntl.flock

    def late(handle, how):
        monkeypatch.setattr(fcntl, "flock", lock)
        append_store(store, [csv(NEW)], source=NAMED)
        lock(handle, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with pytest.raises(StoreError, match="being appended to the store by another process"):
        append_store(store, [csv("id,age,kind\np4,1,ckd\n", "more.csv")], source=NAMED)
    assert ClientStore.open(store).sample_ids().tolist() == ["p1", "p2", "p3"]


def test_a_store_behind_a_link(store, csv, tmp_path):
    (tmp_path / "link.zarr").symlink_to(store)
    append_store(str(tmp_path / "link.zarr"), [csv(NEW)], source=NAMED)
    assert (tmp_path / "link.zarr").is_symlink()
    assert ClientStore.open(store).n_samples == 3


@pytest.mark.parametrize("swaps", [True, False], ids=["exchange", "two renames"])
def test_each_write_may_fail(swaps, url, monkeypatch, tmp_path):
    """Whichever write fails, the old store is there; a writer's last threads may leave a part."""
    from zarr.storage import LocalStore

    X = np.arange(24.0).reshape(12, 2)
    ids = [str(i) for i in range(12)]
    write_store(url, "a", X[:6], ids[:6], chunk_rows=4)
    before = content(url)
    write = LocalStore.set
    if not swaps:
        monkeypatch.setattr(staging, "_exchanged", lambda *_: False)
    left = 0

    async def failing(self, *args, **more):
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(28, "No space left on device")
        return await write(self, *args, **more)

    monkeypatch.setattr(LocalStore, "set", failing)
    for at in range(100):
        left = at
        with contextlib.suppress(StoreError):
            append_samples(url, X[6:], ids[6:])
            break
        assert content(url) == before
        assert [path.name for path in tmp_path.glob("[!.]*")] == ["a.zarr"]
    assert at > 8
    assert ClientStore.open(url, verify=True).n_samples == 12


# Kills itself at the k-th change of the folder, for all k; forked, for each has one more.
KILLED = """
import os, shutil, signal, sys
from pathlib import Path
import numpy as np
from daskfc.stores.layout import staging
from daskfc.stores import ClientStore, append_samples

root, swaps = Path(sys.argv[1]), sys.argv[2] == "True"
url, spare = root / "a.zarr", root.with_name("spare.zarr")
CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree")
exchange = staging._exchanged

def forked(work):
    child = os.fork()
    if not child:
        try:
            os._exit(work() or 0)
        except BaseException as error:
            print(type(error).__name__, error, flush=True)
            os._exit(3)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def append(at, on):
    left, on = [at], [on]
    def count():
        left[0] -= on[0]
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
    def hook(event, args):
        if event in CHANGES or (event == "open" and args[2] & (os.O_WRONLY | os.O_RDWR)):
            count()
    def swapped(one, other):
        on[0] = True
        count()
        done = swaps and exchange(one, other)
        count()
        return done
    staging._exchanged = swapped
    sys.addaudithook(hook)
    append_samples(str(url), np.ones((3, 2)), ["n1", "n2", "n3"])

def look():
    staging.sweep(url)  # as the next writer does
    return ClientStore.open(str(url), verify=True).n_samples

shutil.copytree(url, spare)
seen = []
# Before the store is replaced every eighth change, from there on each; the former once for both.
for start, step in ((True, 8), (False, 1))[not swaps:]:
    for at in range(0, 1000, step):
        code = forked(lambda: append(at, start))
        seen.append(forked(look))
        if seen[-1] not in (6, 9):
            print("at", at, "the store has", seen[-1], flush=True)
        if seen[-1] == 9:
            shutil.rmtree(url)
            shutil.copytree(spare, url)
        if code == 0:
            break
        assert code == -signal.SIGKILL, code
forked(lambda: staging.sweep(url))
print(seen[0], seen[-1], len(seen), 9 in seen[-4:-1], sorted(path.name for path in root.iterdir()))
"""


@pytest.mark.slow
@pytest.mark.parametrize("swaps", [True, False], ids=["exchange", "two renames"])
def test_a_kill_at_any_change_leaves_the_old_store_or_the_new(swaps, tmp_path):
    root = tmp_path / "stores"
    write_store(f"{root}/a.zarr", "a", np.zeros((6, 2)), list("abcdef"))
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(root), str(swaps)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    *faults, last = done.stdout.splitlines() or [""]
    assert not faults, (faults, done.stderr)
    first, end, kills, seen_new, left = last.split(maxsplit=4)
    assert (first, end, seen_new, left) == ("6", "9", "True", "['a.zarr']"), last
    assert int(kills) > (8 if swaps else 3)


# -- what cells mean -------------------------------------------------------------------------------

MEANT = {
    "ids": "id",
    "multiply": {"crea": 88.42},
    "na_values": {"age": [999], "crea": ["?"]},
    "censored": {"crea": "half"},
    "dates": ["visit"],
    "date_format": "%d.%m.%Y",
    "missing": "keep",
}
FIRST = "id,crea,age,visit\np1,1.0,61,02.01.1970\np2,<3,58,03.01.1970\n"
LATER = "id,crea,age,visit\np3,1.25,999,04.01.1970\np4,?,70,05.01.1970\n"
MEANING = [[88.42, 61, 1], [132.63, 58, 2], [110.525, np.nan, 3], [np.nan, 70, 4]]


@pytest.mark.parametrize("by_path", [False, True])
def test_cells_of_new_files_mean_what_they_meant_before(by_path, url, csv):
    """In the same units, with the same codes: once at a time, and once more."""
    add_store("a", [csv(FIRST, "old.csv")], url, source=MEANT, dtype="float64")
    if by_path:
        append_samples(url, csv(LATER), "id")
    else:
        append_store(url, [csv(LATER)], source={"ids": "id"})
    append_store(url, [csv(LATER.replace("p", "q"), "more.csv")], source={"ids": "id"})
    expected = np.array([*MEANING, *MEANING[2:]])
    np.testing.assert_allclose(ClientStore.open(url).rows(0, 6), expected, rtol=1e-15)


def test_keys_that_are_given_replace_those_of_before_once(url, csv):
    add_store("a", [csv(FIRST, "old.csv")], url, source=MEANT, dtype="float64")
    other = csv("id,crea,age,visit\np5,100,61,1970-01-02\n", "si.csv")
    given = {"ids": "id", "multiply": {"crea": 1, "age": 2}, "date_format": "%Y-%m-%d"}
    append_store(url, [other], source=given)
    append_store(url, [csv(LATER)], source={"ids": "id"})
    more = {"ids": "id", "multiply": {"age": 2}}
    append_store(url, [csv(LATER.replace("p", "q"), "more.csv")], source=more)
    later = [[110.525, np.nan, 3], [np.nan, 140, 4]]
    expected = np.array([*MEANING[:2], [100, 122, 1], *MEANING[2:], *later])
    np.testing.assert_allclose(ClientStore.open(url).rows(0, 7), expected, rtol=1e-15)


def test_codes_of_columns_that_are_not_there_any_more(url, csv):
    codes = {"crea": ["?"], "kind": ["x"], "note": ["-"]}
    source = {"ids": "id", "columns": ["crea"], "na_values": codes, "missing": "keep"}
    add_store("a", [csv("id,crea,kind,note\np1,?,a,b\np2,2,a,b\n", "old.csv")], url, source=source)
    append_store(url, [csv("id,crea\np3,?\n")], source={"ids": "id"})
    np.testing.assert_array_equal(ClientStore.open(url).rows(0, 3), [[np.nan], [2], [np.nan]])


def test_a_part_of_dealt_columns_grows_by_its_own_rules(tmp_path, csv):
    source = {"path": csv("id,a,b\np1,1,2\np2,3,4\n", "old.csv"), "ids": "id",
              "multiply": {"a": 2, "b": 10}}  # fmt: skip
    partition = {"scheme": "vertical", "clients": 2}
    storage = load_storage({"source": source, "partition": partition, "root": str(tmp_path)})
    for url in storage.ensure().values():
        (name,) = ClientStore.open(url).feature_names
        append_store(url, [csv(f"id,{name}\np3,5\n")], source={"ids": "id"})
        assert ClientStore.open(url).rows(2, 3).tolist() == [[{"a": 10, "b": 50}[name]]]
