"""The type of a store is the smallest that holds its values."""

import contextlib
import json
import sqlite3

import numpy as np
import pandas as pd
import pytest

from daskfc.errors import StoreError
from daskfc.stores import (
    ClientStore,
    StoreWriter,
    add_store,
    append_samples,
    load_storage,
    write_store,
)
from daskfc.stores.sources.tables import sql

STAMPS = 1.65e9 + np.random.default_rng(0).uniform(0, 86400, 50)
SMALL = np.random.default_rng(1).normal(size=50)


@pytest.fixture
def url(tmp_path):
    return f"{tmp_path}/a.zarr"


def ids(n):
    return [f"s{i}" for i in range(n)]


def needs_float64(X):
    """Return the rule for whole data, column by column, without daskfc."""
    moved = np.abs(X - X.astype(np.float32).astype(np.float64))
    whole = (moved > 0) & (X == np.rint(X))
    return (moved.max(axis=0) > 1e-6 * X.std(axis=0)) | whole.any(axis=0)


def written(url, X, **more):
    write_store(url, "a", X, ids(len(X)), **more)
    return ClientStore.open(url, verify=True)


@pytest.mark.parametrize(
    ("column", "dtype"),
    [
        (STAMPS, "float64"),
        (SMALL, "float32"),
        (SMALL + 1e3, "float64"),
        (np.arange(50.0), "float32"),
        (np.arange(2**24 - 50, 2**24), "float32"),
        (np.arange(2**24, 2**24 + 50), "float64"),
        (np.arange(50) * 2.0**24 + 2**30 + 1, "float64"),  # moved by little, and yet another number
        (np.full(50, 0.5), "float32"),
        (np.full(50, 0.1), "float64"),
        (SMALL * 1e-60, "float64"),
        (SMALL * 1e39, "float64"),
        (SMALL * 1e140, "float64"),
    ],
)
def test_the_smallest_type_that_holds_the_values(column, dtype, url):
    X = np.column_stack([SMALL, column])
    store = written(url, X)
    assert store.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(store.rows(0, 50), X.astype(dtype))


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([0, 255], "uint8"),
        ([-1, 127], "int8"),
        ([-0.0, 3.0], "uint8"),
        ([0, 256], "uint16"),
        ([-1, 128], "int16"),
        ([0, 2**16], "float32"),
        ([-1, 2**24], "float32"),
        ([0, 2**24 + 1], "uint32"),
        ([-1, 2**24 + 1], "int32"),
        ([0, 2**32 + 1], "float64"),
        ([0, 0.5], "float32"),
    ],
)
def test_whole_numbers_take_the_shortest_type(values, dtype, url):
    X = np.array([[1.0, values[0]], [2.0, values[1]]])
    store = written(url, X, chunk_rows=1)
    assert store.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(store.rows(0, 2), X)
    # and others when they come
    append_samples(url, np.array([[0.5, 7.0]]), ["new"])
    again = ClientStore.open(url, verify=True)
    large = dtype in ("uint32", "int32", "float64")
    assert again.dtype == np.dtype("float64" if large else "float32")
    np.testing.assert_array_equal(again.rows(0, 3), [*X, [0.5, 7.0]])


def test_where_values_may_be_missing_it_is_a_float(url):
    write_store(url, "a", np.array([[1.0], [2.0]]), ["p", "q"], missing="keep")
    assert ClientStore.open(url).dtype == np.float32


@pytest.mark.parametrize("code", [-99999.0, 1e9, -(2.0**53)])
@pytest.mark.parametrize("missing", [None, "keep"])
def test_a_code_among_the_values_does_not_merge_the_others(code, missing, url):
    fine = 1000 + 1e-5 * np.random.default_rng(5).permutation(2000)
    X = np.concatenate([fine, [code, code]])[:, None]
    if missing:
        X[7] = np.nan
    store = written(url, X, missing=missing)
    assert store.dtype == np.float64
    np.testing.assert_array_equal(store.rows(0, len(X)), X)


def test_case_of_time_stamps_from_csv(tmp_path, url):
    """Differences of a second stay differences of a second."""
    csv = tmp_path / "a.csv"
    pd.DataFrame({"id": ids(50), "time": STAMPS}).to_csv(csv, index=False)
    row = add_store("a", [str(csv)], url, source={"ids": "id"})
    assert row["dtype"] == "float64"
    np.testing.assert_array_equal(ClientStore.open(url).rows(0, 50)[:, 0], STAMPS)


def one_between(width):
    """Return a column in which float32 moves one value, by 2**-24, and others are wide or not."""
    others = np.random.default_rng(3).normal(scale=width, size=3999).astype(np.float32)
    return np.concatenate([[1 + 2.0**-24], others])[:, None]


def test_the_edge_is_a_millionth(tmp_path):
    low, high = 0.01, 0.1
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if needs_float64(one_between(middle))[0] else (low, middle)
    assert 1e-6 * one_between(high).std() == pytest.approx(2.0**-24, rel=1e-8)
    for width, dtype in [(low * (1 - 1e-7), "float64"), (high * (1 + 1e-7), "float32")]:
        X = one_between(width)
        assert 1e-6 * X.std() == pytest.approx(2.0**-24, rel=1e-6)
        assert needs_float64(X)[0] == (dtype == "float64")
        for rows in (64, 1024, 4000):
            assert written(f"{tmp_path}/{dtype}{rows}", X, chunk_rows=rows).dtype == dtype


@pytest.mark.parametrize("seed", range(20))
def test_whatever_the_columns_the_rule_is_that_of_whole_data(seed, tmp_path):
    rng = np.random.default_rng(seed)
    offset, scale = 10.0 ** rng.uniform(-3, 3), 10.0 ** rng.uniform(-3, 3)
    X = rng.normal(offset, scale, size=(60, 1))
    if seed % 3 == 0:
        X = np.rint(X * 1e5)
        X[0] += 0.5  # no table of whole numbers
    expected = "float64" if needs_float64(X)[0] else "float32"
    assert written(f"{tmp_path}/{seed}", X, chunk_rows=16).dtype == np.dtype(expected)


@pytest.mark.parametrize("X", [SMALL[:, None], STAMPS[:, None]], ids=["float32", "float64"])
def test_blocks_decide_as_one(X, tmp_path):
    whole = written(f"{tmp_path}/whole", X, chunk_rows=8)
    for size in (1, 7, 49):
        url = f"{tmp_path}/{size}"
        with StoreWriter(url, "a", 50, 1, chunk_rows=8) as writer:
            for start in range(0, 50, size):
                writer.append(X[start : start + size], ids(50)[start : start + size])
        store = ClientStore.open(url, verify=True)
        assert (store.dtype, store.digest) == (whole.dtype, whole.digest)


def test_a_store_is_the_same_by_hand_and_by_default(tmp_path):
    for number, (X, dtype) in enumerate([(SMALL, "float32"), (STAMPS, "float64")]):
        one = written(f"{tmp_path}/{number}-default", X[:, None])
        other = written(f"{tmp_path}/{number}-by-hand", X[:, None], dtype=dtype)
        assert one.digest == other.digest
        assert one.bytes_on_disk() == pytest.approx(other.bytes_on_disk(), abs=8)


def test_missing_values_count_for_nothing(url):
    X = np.column_stack([SMALL, SMALL])
    X[::3, 0] = np.nan
    store = written(url, X, missing="keep")
    assert store.dtype == np.float32
    np.testing.assert_array_equal(store.stored(0, 50), X.astype(np.float32))


@pytest.mark.parametrize("place", ["{}/a.zarr", "memory://rounding/{}"])
def test_by_hand_what_moves_a_column_is_refused(place, tmp_path):
    url = place.format(tmp_path)
    frame = pd.DataFrame({"size": SMALL, "time": STAMPS})
    with pytest.raises(
        StoreError, match=r"float32 .* the first is 'time'\. Choose dtype f"
    ) as told:
        write_store(url, "a", frame, ids(50), dtype="float32", chunk_rows=4)
    assert "\n" not in str(told.value)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(StoreError):
        ClientStore.open(url)


def test_by_hand_a_store_that_is_there_stays(url):
    before = written(url, SMALL[:, None]).build_id
    with pytest.raises(StoreError, match="millionth"):
        write_store(url, "a", STAMPS[:, None], ids(50), dtype="float32", overwrite=True)
    assert ClientStore.open(url, verify=True).build_id == before


def test_shares_of_which_one_is_refused_leave_nothing(tmp_path):
    """The first client's columns fit the type, the second's do not."""
    np.savez(tmp_path / "x.npz", X=np.column_stack([SMALL, STAMPS]))
    storage = {
        "source": {"path": str(tmp_path / "x.npz")},
        "partition": {"scheme": "vertical", "clients": 2},
    }
    by_hand = load_storage({**storage, "layout": {"dtype": "float32"}})
    with pytest.raises(StoreError, match=r"'client-2'.*millionth"):
        by_hand.build(str(tmp_path / "stores"))
    assert not list((tmp_path / "stores").glob("**/zarr.json"))
    urls = load_storage(storage).build(str(tmp_path / "stores"))
    assert [ClientStore.open(url).dtype.name for url in urls.values()] == ["float32", "float64"]


def test_appended_samples_may_need_more_digits(url):
    first = written(url, SMALL[:, None]).rows(0, 50)
    append_samples(url, SMALL[:, None] + 1.0, [f"t{i}" for i in range(50)])
    assert ClientStore.open(url).dtype == np.float32
    append_samples(url, np.array([[2.0**24 + 1]]), ["last"])
    store = ClientStore.open(url, verify=True)
    assert store.dtype == np.float64
    assert store.rows(100, 101).tolist() == [[2.0**24 + 1]]
    np.testing.assert_array_equal(store.rows(0, 50), first)


CODES = [2**53 + 1, None, 2**53 + 2, 2**53 + 3]  # of more digits than float64 has


def as_sqlite(frame, path):
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("create table t (code integer, x real)")
        rows = frame.astype(object).where(frame.notna(), None).itertuples(index=False)
        database.executemany("insert into t values (?, ?)", [tuple(row) for row in rows])


def as_json(frame, path):
    rows = [{"code": code, "x": x} for code, x in zip(CODES, frame["x"], strict=True)]
    path.write_text("\n".join(json.dumps(row) for row in rows))


WRITERS = {
    "t.csv": lambda frame, path: frame.to_csv(path, index=False),
    "t.parquet": lambda frame, path: frame.to_parquet(path),
    "t.feather": lambda frame, path: frame.to_feather(path),
    "t.jsonl": as_json,
    "t.db": as_sqlite,
}


@pytest.fixture(params=WRITERS)
def with_codes(request, tmp_path):
    """A file whose whole numbers have a gap, and its source."""
    frame = pd.DataFrame({"code": pd.array(CODES, dtype="Int64"), "x": [1.0, 2.0, 3.0, 4.0]})
    path = tmp_path / request.param
    WRITERS[request.param](frame, path)
    return str(path), {"sql": "select * from t"} if path.suffix == ".db" else {}


def test_codes_with_gaps_keep_all_digits(with_codes, url):
    path, source = with_codes
    add_store("a", [path], url, source={**source, "categorical": ["code"], "missing": "keep"})
    store = ClientStore.open(url)
    assert store.categories["code"] == tuple(str(code) for code in CODES if code)
    np.testing.assert_array_equal(store.rows(0, 4)[:, 0], [0, np.nan, 1, 2])


# pandas reads a column of numbers in a csv file as float64: the last digit of a feature may differ
@pytest.mark.parametrize("with_codes", [one for one in WRITERS if one != "t.csv"], indirect=True)
def test_codes_with_gaps_are_no_features(with_codes, url):
    path, source = with_codes
    with pytest.raises(StoreError, match=r"column 'code'.*(would be rounded|too many digits)"):
        add_store("a", [path], url, source={**source, "missing": "keep"})


def test_a_code_that_means_a_gap_leaves_the_others_as_they_are(with_codes, url):
    path, source = with_codes
    told = {**source, "categorical": ["code"], "missing": "keep", "na_values": [2**53 + 2]}
    add_store("a", [path], url, source=told)
    assert ClientStore.open(url).categories["code"] == (str(2**53 + 1), str(2**53 + 3))


@pytest.mark.parametrize("key", ["ids", "categorical"])
def test_words_that_were_written_as_fractions_are_refused(key, tmp_path, url):
    frame = pd.DataFrame({"code": np.array([2.0**53 - 1, 2.0**53]), "x": [1.0, 2.0]})
    frame.to_parquet(tmp_path / "t.parquet")
    source = {key: "code" if key == "ids" else ["code"]}
    with pytest.raises(StoreError, match="column 'code': words and ids must be text or whole"):
        add_store("a", [str(tmp_path / "t.parquet")], url, source=source)


@pytest.mark.parametrize("ends", ["t.jsonl", "t.parquet"])
def test_whole_numbers_without_a_sign_keep_their_digits(ends, tmp_path, url):
    """Above 2**63, where int64 ends."""
    codes = [2**63 + 1, None, 2**64 - 1]
    path = tmp_path / ends
    frame = pd.DataFrame({"code": pd.array(codes, dtype="UInt64"), "x": [1.0, 2.0, 3.0]})
    if ends == "t.parquet":
        frame.to_parquet(path)
    else:
        rows = [{"code": code, "x": x} for code, x in zip(codes, frame["x"], strict=True)]
        path.write_text("\n".join(json.dumps(row) for row in rows))
    add_store("a", [str(path)], url, source={"categorical": ["code"], "missing": "keep"})
    assert set(ClientStore.open(url).categories["code"]) == {str(2**63 + 1), str(2**64 - 1)}
    with pytest.raises(StoreError, match="would be rounded"):
        add_store("a", [str(path)], f"{url}-2", source={"missing": "keep"})


def test_a_code_among_words_empties_no_other(with_codes, url):
    """A list of numbers and words is one of words, and these were compared as float64."""
    path, source = with_codes
    told = {**source, "categorical": ["code"], "missing": "keep", "na_values": ["none", "0", 2**53]}
    add_store("a", [path], url, source=told)
    assert ClientStore.open(url).categories["code"] == tuple(str(code) for code in CODES if code)


def test_labels_of_many_digits_are_as_many_classes(tmp_path, url):
    """In a csv file, where they are read as text."""
    labels = [2**53, 2**53 + 1, 2**53 + 3]
    pd.DataFrame({"y": labels, "x": [1.0, 2.0, 3.0]}).to_csv(tmp_path / "t.csv", index=False)
    add_store("a", [str(tmp_path / "t.csv")], url, source={"labels": "y"})
    assert ClientStore.open(url).labels().tolist() == labels


def test_a_code_that_no_cell_has_changes_nothing(tmp_path, url):
    frame = pd.DataFrame({"n": [2**60, 2**60 + 2**20], "m": [1, 2]})
    frame.to_parquet(tmp_path / "t.parquet")
    add_store("a", [str(tmp_path / "t.parquet")], url, source={"na_values": [-999]})
    np.testing.assert_array_equal(ClientStore.open(url).rows(0, 2), frame.to_numpy())


def test_labels_of_numbers_with_a_gap_and_later_words(tmp_path, url, monkeypatch):
    monkeypatch.setattr(sql, "BATCH", 2)
    with contextlib.closing(sqlite3.connect(tmp_path / "t.db")) as database, database:
        database.execute("create table t (x real, y)")
        database.executemany("insert into t values (?, ?)", [(1, 1), (2, None), (3, "b")])
    source = {"sql": "select * from t", "labels": "y"}
    with pytest.raises(StoreError, match="every sample must have a label; got none for 1 of 3"):
        add_store("a", [str(tmp_path / "t.db")], url, source=source)
