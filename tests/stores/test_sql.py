"""Queries of SQLite, DuckDB and a PostgreSQL that the test starts: read, and never written."""

import contextlib
import os
import shutil
import sqlite3
import subprocess
import tempfile
from pathlib import Path
from pwd import getpwall

import numpy as np
import pandas as pd
import pytest

from daskfc.errors import InvalidInput, StoreAway, StoreError
from daskfc.stores import add_store, load_storage
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.sources.readers import fingerprint, open_source
from tests.ports import free_port

PASSWORD = "p@ss/wört:7391"
TABLE = pd.DataFrame(
    {"patient": ["p1", "p2", "p3"], "age": [61, 58, 40], "crp": [4.5, None, 7391.25]}
)
QUERY = "select patient, age, crp from lab where age > 41 order by patient"
ROWS = [[61, 4.5], [58, np.nan]]


@pytest.fixture
def sqlite(tmp_path):
    path = tmp_path / "lab.db"
    with contextlib.closing(sqlite3.connect(path)) as database:
        TABLE.to_sql("lab", database, index=False)
    return {"path": str(path)}


@pytest.fixture
def duckdb(tmp_path):
    package = pytest.importorskip("duckdb", reason="needs daskfc[sql]")
    path = tmp_path / "lab.db"  # whose kind its first bytes tell
    with contextlib.closing(package.connect(path)) as database:
        database.register("given", TABLE)
        database.execute("create table lab as select * from given")
    return {"path": str(path)}


@pytest.fixture(scope="session")
def server():
    """A PostgreSQL of these tests alone, with a password, ended after them."""
    pytest.importorskip("psycopg", reason="the driver of Postgres")
    pytest.importorskip("sqlalchemy", reason="needs daskfc[sql]")
    initdb, pg_ctl, psql = (shutil.which(name) for name in ("initdb", "pg_ctl", "psql"))
    own = None if os.getuid() else "postgres"  # it starts for nobody with root's rights
    if None in (initdb, pg_ctl, psql) or (own and own not in {user.pw_name for user in getpwall()}):
        pytest.skip("needs PostgreSQL's programs, and a user for them")

    def call(*command, **more):
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       user=own, timeout=100, cwd="/", **more)  # fmt: skip

    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        data, password = f"{folder}/data", Path(folder, "password")
        password.write_text(f"{PASSWORD}\n", encoding="utf-8")
        if own:
            for path in (folder, password):
                shutil.chown(path, own)
        made = ["--auth=scram-sha-256", "--username=reader", f"--pwfile={password}"]
        call(initdb, "-D", data, *made, "--encoding=UTF8", "--locale=C", "--no-sync")
        options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        call(pg_ctl, "-D", data, "-w", "-l", f"{folder}/log", "-o", options, "start")
        try:
            rows = "('p1', 61, 4.5), ('p2', 58, null), ('p3', 40, 7391.25)"
            made = "create table lab (patient text, age int, crp numeric)"
            where = ["-h", "127.0.0.1", "-p", f"{port}", "-U", "reader", "postgres"]
            environment = {**os.environ, "PGPASSWORD": PASSWORD}
            call(psql, "-c", f"{made}; insert into lab values {rows}", *where, env=environment)
            yield port
        finally:
            call(pg_ctl, "-D", data, "-m", "immediate", "-w", "stop")


@pytest.fixture
def postgres(server, monkeypatch):
    monkeypatch.setenv("CLINIC", PASSWORD)
    return {"uri": f"postgresql+psycopg://reader:${{CLINIC}}@127.0.0.1:{server}/postgres"}


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def database(request):
    return request.getfixturevalue(request.param)


def opened(database, sql=QUERY, **keys):
    return open_source(SourceConfig(**database, sql=sql, **keys))


@pytest.mark.slow
def test_a_query_gives_samples(database):
    samples = opened(database, ids="patient", missing="keep")
    assert samples.sample_ids.tolist() == ["p1", "p2"]
    assert samples.feature_names == ("age", "crp")
    np.testing.assert_array_equal(np.concatenate(list(samples.blocks(1))), ROWS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "sql",
    ["delete from lab", "drop table lab", "insert into lab values ('p4', 1, 2)",
     "update lab set age = 0 returning patient, age, crp"],
)  # fmt: skip
def test_nothing_is_written(database, sql):
    with pytest.raises(StoreError, match=r"refused source\.sql"):
        opened(database, sql, ids="patient")
    assert opened(database, ids="patient", missing="keep").n_samples == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sql", "said"), [("select agee from lab", "agee"), ("select * from labs", "labs")]
)
def test_a_wrong_query_says_what_is_not_there(database, sql, said):
    with pytest.raises(StoreError, match=f"refused source.sql .*{said}.*Try it in a client"):
        opened(database, sql)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["duckdb", "postgres"])
def test_what_a_database_says_of_rows_is_not_told(kind, request):
    database = request.getfixturevalue(kind)
    with pytest.raises(StoreError) as caught:
        opened(database, "select cast(patient || '!' as int) as a from lab")
    assert "p1!" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@pytest.mark.slow
def test_a_password_is_in_no_error(server, monkeypatch):
    monkeypatch.setenv("CLINIC", "wrong-7391")
    uri = f"postgresql+psycopg://reader:${{CLINIC}}@127.0.0.1:{server}/postgres?sslmode=disable"
    with pytest.raises(StoreAway, match="does not answer, or refuses the user") as caught:
        opened({"uri": uri})
    told = str(caught.value)
    assert f"the database postgresql+psycopg://127.0.0.1:{server}/postgres:" in told
    assert not any(word in told for word in ("7391", "reader", "CLINIC", "sslmode"))


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://reader:secret7391@db/clinic",
        "postgresql://reader:${PW}secret7391@db/clinic",
        "postgresql://:sec:ret@7391@db/clinic",
        "mssql+pyodbc://db/clinic?driver=x&PWD=secret7391",
        "postgresql://db/clinic?password=secret7391",
    ],
)
def test_a_password_that_is_written_out_is_refused(uri, tmp_path):
    source = {"uri": uri, "sql": "select 1"}
    for refused in (
        lambda: load_storage({"clients": {"a": {"source": source}}}),
        lambda: add_store("a", [uri], str(tmp_path / "a.zarr"), source={"sql": "select 1"}),
    ):
        with pytest.raises(InvalidInput, match="must hold no password; write") as caught:
            refused()
        assert "ret" not in str(caught.value).replace("secret;", "")
        assert "7391" not in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://reader:${PW}@db:5432/clinic",
        "postgresql://reader@db/clinic",
        "mysql://db/clinic?password=${PW}",
        "oracle://db:1521/?service_name=x@y",
    ],
)
def test_uris_without_a_password_are_taken(uri):
    assert SourceConfig(uri=uri, sql="select 1").where.startswith("the database ")


@pytest.mark.parametrize(
    ("keys", "match"),
    [
        ({"path": "lab.db"}, "source.sql must say what to select"),
        ({"uri": "duckdb://"}, "'sql' must say what to select"),
        ({"uri": "duckdb://", "path": "a.csv", "sql": "x"}, "exactly one of"),
        ({"uri": "nothing://db/x", "sql": "select 1"}, "of a kind that SQLAlchemy"),
        ({"uri": "postgresql+nothing://db/x", "sql": "select 1"}, "of a kind that SQLAlchemy"),
        ({"uri": "postgresql://${UNSET_7}@db/x", "sql": "select 1"}, "UNSET_7, which is not set"),
        ({"path": "s3://b/lab.db", "sql": "select 1"}, "must be on this machine"),
        ({"path": "a.csv", "sql": "select 1"}, "source.sql means nothing to the format 'csv'"),
    ],
)
def test_sources_that_cannot_be(sqlite, keys, match, tmp_path, monkeypatch):
    pytest.importorskip("sqlalchemy", reason="needs daskfc[sql]")
    monkeypatch.chdir(tmp_path)
    with pytest.raises((InvalidInput, ValueError), match=match):
        open_source(SourceConfig(**keys))


def test_duckdb_queries_files(tmp_path, monkeypatch):
    pytest.importorskip("duckdb", reason="needs daskfc[sql]")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("x,y\n1,2\n3,4\n")
    samples = opened({"uri": "duckdb://"}, "select x + y as z from 'a.csv' order by x")
    assert next(samples.blocks(9)).tolist() == [[3], [7]]


def test_names_that_come_twice(sqlite):
    with pytest.raises(StoreError, match="'age' comes twice"):
        opened(sqlite, "select age, age from lab")


def test_a_changed_file_is_noticed_and_a_database_is_not(sqlite):
    source = SourceConfig(**sqlite, sql=QUERY)
    before = fingerprint(source)
    with contextlib.closing(sqlite3.connect(sqlite["path"])) as database:
        database.execute("update lab set age = 62 where patient = 'p1'")
        database.commit()
    assert fingerprint(source) != before
    assert fingerprint(SourceConfig(uri="postgresql://db/x", sql=QUERY)) == ""


def test_packages_that_are_missing_are_named(sqlite, monkeypatch, tmp_path):
    modules = __import__("sys").modules
    monkeypatch.setitem(modules, "duckdb", None)
    with pytest.raises(StoreError, match=r"DuckDB is read by duckdb, .*'daskfc\[sql\]'"):
        opened({"uri": "duckdb://"}, "select 1 as a")
    monkeypatch.setitem(modules, "sqlalchemy", None)
    with pytest.raises(StoreError, match=r"SQL is read by SQLAlchemy, .*'daskfc\[sql\]'"):
        opened({"uri": "postgresql://db/x"}, "select 1 as a")
    assert opened(sqlite, ids="patient", missing="keep").n_samples == 2  # needs none of them
