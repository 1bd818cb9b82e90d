"""Results of queries beyond memory: read in batches, with the types of all rows at once."""

import contextlib
import gc
import sqlite3
import tracemalloc
import weakref
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from daskfc.errors import StoreError
from daskfc.stores import ClientStore, add_store
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.sources.cells import as_text
from daskfc.stores.sources.readers import open_source
from daskfc.stores.sources.tables import copied
from daskfc.stores.sources.tables import sql as module
from daskfc.stores.sources.tables.copied import Copied
from daskfc.stores.sources.tables.table import Held, whole

ROWS, COLUMNS = 16_000, 60
WHOLE = ROWS * COLUMNS * 8  # bytes


@pytest.fixture
def small(monkeypatch):
    """Batches and files as those of a result that is larger."""
    monkeypatch.setattr(module, "BATCH", 512)
    monkeypatch.setattr(module, "_VECTOR", 512)
    monkeypatch.setattr(copied, "_IN_MEMORY", 100_000)


@pytest.fixture(params=["sqlite", "duckdb"])
def large(request, tmp_path):
    """A query of many rows: column j of row i is i + j / 64."""
    columns = ", ".join(f"i + {j} / 64.0 as c{j}" for j in range(COLUMNS))
    if request.param == "duckdb":
        pytest.importorskip("duckdb", reason="needs daskfc[sql]")
        return {"uri": "duckdb://", "sql": f"select {columns} from range({ROWS}) t(i) order by i"}
    sqlite3.connect(tmp_path / "large.db").close()
    numbers = (
        f"with recursive t(i) as (select 0 union all select i + 1 from t where i < {ROWS - 1})"
    )
    return {"path": str(tmp_path / "large.db"), "sql": f"{numbers} select {columns} from t"}


@contextlib.contextmanager
def at_most(n_bytes):
    """Fail where more of Python's and NumPy's memory was taken at one moment."""
    gc.collect()
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < n_bytes


@pytest.mark.slow
def test_a_query_is_read_in_batches_into_the_store(large, small, tmp_path):
    """Never whole: with the ids, of which all are there, three quarters of it may be taken."""
    place = large.get("uri") or large["path"]
    add_store("a", [place], str(tmp_path / "first.zarr"), source={"sql": "select 1.5 as x"})
    with at_most(0.75 * WHOLE):  # once all modules are imported
        add_store("a", [place], str(tmp_path / "a.zarr"), source={"sql": large["sql"]})
    store = ClientStore.open(str(tmp_path / "a.zarr"))
    assert (store.n_samples, store.n_features) == (ROWS, COLUMNS)
    expected = np.arange(ROWS)[-100:, None] + np.arange(COLUMNS) / 64
    np.testing.assert_allclose(store.rows(ROWS - 100, ROWS), expected, rtol=1e-6)


@pytest.mark.slow
def test_few_batches_are_there_at_once(large, small, monkeypatch):
    alive, most = weakref.WeakSet(), [0]
    keep = Copied._keep

    def counted(self, frame):
        alive.add(frame)
        most[0] = max(most[0], len(alive))
        keep(self, frame)

    monkeypatch.setattr(Copied, "_keep", counted)
    monkeypatch.setattr(pd.DataFrame, "__hash__", object.__hash__)
    monkeypatch.setattr(pd.DataFrame, "__eq__", object.__eq__)
    samples = open_source(SourceConfig(**large))
    assert samples.n_samples == ROWS
    assert most[0] <= 2  # of 10 or 20
    blocks = [len(block) for block in samples.blocks(1000)]
    assert max(blocks) <= 1000
    assert sum(blocks) == ROWS


CELLS = {
    "whole numbers": ("int64", [1, 2, 3, 4, 5, 6]),
    "with gaps": ("Int64", [1, 2, None, 4, None, None]),
    "gaps first": ("Int64", [None, None, 3, 4, 5, 6]),
    "gaps alone": ("object", [None] * 6),
    "fractions later": ("float64", [1, 2, 3, 4, 5.5, 6]),
    "fractions that are whole": ("float64", [1.0, 2.0, 3.0, None, 5.0, 6.0]),
    "words": ("object", ["a", "b", None, "d", "e", "f"]),
    "words and numbers": ("object", [1, None, "a", 4, 5, 6]),
    "large": ("int64", [2**53 + 1, 2, 3, 4, 5, 6]),
    "large with gaps": ("Int64", [2**53 + 1, 2**53 + 2, 2**53 + 3, None, None, -(2**63) + 1]),
}


@pytest.mark.parametrize(("dtype", "cells"), CELLS.values(), ids=CELLS)
@pytest.mark.parametrize("batch", [1, 2, 4, 6, 100])
def test_batches_have_the_types_of_all_rows_at_once(dtype, cells, batch, tmp_path, monkeypatch):
    path = tmp_path / "t.db"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("create table t (x)")
        database.executemany("insert into t values (?)", [(one,) for one in cells])
        query = "select x, x as y from t order by rowid"
        (once, *_) = module._batches("sqlite", database, query)
        monkeypatch.setattr(module, "BATCH", batch)
        file = Copied(module._batches("sqlite", database, query))
    assert (file.count(), file.names) == (6, ["x", "y"])
    read = whole(file, ["y", "x"], ["x"])
    pd.testing.assert_series_equal(as_text(read["x"]), as_text(once["x"]))
    if not {"a", 5.5} & {*cells}:
        words = [None if one is None else str(int(one)) for one in cells]
        assert as_text(read["x"]).replace({np.nan: None}).tolist() == words
    for column in (read["x"], once["x"]):
        assert column.dtype == dtype or (dtype == "object" and column.dtype.kind == "O")
    assert [len(frame) for frame in file.frames(["x"], 1)] == [1] * 6
    assert list(read) == ["y", "x"]


@pytest.mark.parametrize("gaps", [0, 1])
def test_flags_are_of_their_type_where_none_lacks(gaps):
    frames = [pd.DataFrame({"x": [True, False]}), pd.DataFrame({"x": [None] * gaps})]
    read = whole(Copied(frames), ["x"])["x"]
    assert read.tolist() == [True, False] + [None] * gaps
    assert read.dtype == (object if gaps else bool)


def test_decimals_of_a_database_are_numbers():
    rows = [(Decimal("1.25"), 1), (None, None), (Decimal(3), 2)]
    cursor = SimpleNamespace(description=[("x",), ("y",)])
    result = SimpleNamespace(cursor=cursor, fetchmany=lambda _: rows, close=lambda: None)
    driver = SimpleNamespace(exec_driver_sql=lambda _: result)
    (frame,) = module._batches("postgresql", driver, "select")
    assert [str(one) for one in frame.dtypes] == ["float64", "Int64"]
    assert frame["x"].dropna().tolist() == [1.25, 3.0]


def test_a_result_without_rows_has_columns():
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        query = "select 1 as a, 'x' as b where 0"
        file = Copied(pd.read_sql_query(query, database, chunksize=5))
    assert (file.names, file.count(), list(file.frames(["a"], 5))) == (["a", "b"], 0, [])
    held = Held(pd.DataFrame({"a": [], "b": []}))
    assert list(whole(file, ["a"])) == list(whole(held, ["a"]))


def test_two_may_read_at_once(small):
    frames = [pd.DataFrame({"x": np.arange(start, start + 5)}) for start in (0, 5, 10)]
    file = Copied(frames)
    one, other = file.frames(["x"], 2), file.frames(["x"], 5)
    found = ([], [])
    for place, values in [(one, 0), (other, 1)] * 3 + [(one, 0)] * 6:
        found[values].extend(next(place)["x"])
    assert found == (list(range(15)), list(range(15)))


def test_a_full_disk_is_said_and_no_row(monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(copied.pickle, "dump", full)
    with pytest.raises(StoreError, match=r"the temporary folder has none .*by TMPDIR") as caught:
        Copied([pd.DataFrame({"x": [7391]})])
    assert "7391" not in str(caught.value)


@pytest.mark.skipif(not hasattr(__import__("os"), "O_TMPFILE"), reason="Linux alone has them")
def test_what_touches_the_disk_has_no_name(small, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    file = Copied([pd.DataFrame({"x": np.arange(50_000.0)})])
    assert file._file._rolled
    assert not list(tmp_path.iterdir())
    opened = file._file
    del file
    gc.collect()
    assert opened.closed
