"""The result of a query: of a SQLite or DuckDB file, or of a database that SQLAlchemy reaches.

The query runs once, since a second one might see other rows, and its result is copied, a batch of
rows at a time, into a file without a name (`copied`). It runs read-only where the driver can
(SQLite, DuckDB, PostgreSQL), and nothing is committed anywhere.
What a database says of rows or of a connection may hold values or names of users, so it is in no
error; what it says while it plans the query speaks of the query and the names of columns alone.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from daskfc.errors import StoreAway, StoreError
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.layout.locations import expand, local_path
from daskfc.stores.sources.source import from_extra
from daskfc.stores.sources.tables.copied import BATCH, Copied
from daskfc.stores.sources.tables.table import KEYS_OF_TABLES, Table, TableFile, typed

_VECTOR = 2048  # rows that DuckDB has in one
_PLANS = ("sqlite", "duckdb", "postgresql", "mysql", "mariadb")  # they know EXPLAIN before a query


class Sql(Table):
    """A query; `path` is a database in a file, `uri` one that listens, or duckdb:// without one."""

    suffixes = (".sqlite", ".sqlite3", ".db", ".duckdb")
    keys = KEYS_OF_TABLES | {"sql", "uri"}

    def file(self, source: SourceConfig) -> TableFile:
        """Run the query."""
        if source.sql is None:
            raise StoreError(
                f"{source.where}: source.sql must say what to select, such as 'select * from "
                "patients'. Add it."
            )
        with _connected(source) as (kind, connection):
            if kind in _PLANS:
                explained = _batches(kind, connection, f"EXPLAIN {source.sql}")
                list(_told(source, explained, planned=True))
            if kind not in ("sqlite", "duckdb"):  # else its driver fetches all rows at once
                connection = connection.execution_options(stream_results=True)
            return Copied(_told(source, _batches(kind, connection, source.sql)))


def _batches(kind: str, connection: Any, query: str) -> Iterator[pd.DataFrame]:
    """Yield the result of a query, at least one frame with its columns."""
    if kind != "duckdb":
        yield from _of_rows(kind, connection, query)
        return
    result = connection.execute(query)
    names, more = [column[0] for column in result.description], True
    while more:
        frame = result.fetch_df_chunk(BATCH // _VECTOR)
        more = len(frame) > 0
        yield frame.set_axis(names, axis=1)  # DuckDB's own frames rename what comes twice


def _of_rows(kind: str, connection: Any, query: str) -> Iterator[pd.DataFrame]:
    run = connection.execute if kind == "sqlite" else connection.exec_driver_sql
    with closing(run(query)) as result:
        own = result if kind == "sqlite" else result.cursor
        names = [column[0] for column in own.description or ()]
        more = True
        while more:
            rows = [tuple(row) for row in result.fetchmany(BATCH)]
            more = len(rows) == BATCH
            cells = pd.DataFrame(rows, columns=names, dtype=object)
            yield typed(cells, pd.DataFrame.from_records(rows, columns=names, coerce_float=True))


def _told(
    source: SourceConfig, frames: Iterable[pd.DataFrame], planned: bool = False
) -> Iterator[pd.DataFrame]:
    """Yield frames of a query; what the database says of it is told if it is a plan alone."""
    try:
        yield from frames
    except MemoryError:
        raise
    except Exception as error:
        own = getattr(error, "orig", None) or error.__cause__ or error
        said = str(own).strip().partition("\n")[0] if planned else ""
        raise StoreError(
            f"{source.where}: the database refused source.sql ({said or type(own).__name__}). "
            "Try it in a client of the database; it may read and not write."
        ) from None


@contextmanager
def _connected(source: SourceConfig) -> Iterator[tuple[str, Any]]:
    """Yield the kind of a database and a connection, read-only if it can be."""
    scheme = (source.uri or "").partition(":")[0]
    if source.uri is not None and scheme not in ("sqlite", "duckdb"):
        with _listening(source) as (kind, connection):
            yield kind, connection
        return
    place = source.file if source.uri is None else expand(source.uri.partition("://")[2][1:])
    in_memory = scheme == "duckdb" and not place
    path = local_path(place)
    if path is None:
        raise StoreError(f"{source.where}: a database must be on this machine; copy it here.")
    if not in_memory and not path.is_file():
        raise FileNotFoundError(place)
    if scheme == "duckdb" or (source.uri is None and _is_duckdb(path)):
        with from_extra("DuckDB", "duckdb", "sql"):
            import duckdb
        with closing(duckdb.connect(place if place else ":memory:", read_only=bool(place))) as own:
            yield "duckdb", own
        return
    address = f"file:{quote(str(path.absolute()))}?mode=ro"
    with closing(sqlite3.connect(address, uri=True)) as plain:
        yield "sqlite", plain


def _is_duckdb(path: Path) -> bool:
    """Return whether a file is one of DuckDB, whatever its name."""
    with path.open("rb") as file:
        return file.read(12)[8:] == b"DUCK"


@contextmanager
def _listening(source: SourceConfig) -> Iterator[tuple[str, Any]]:
    """Connect by SQLAlchemy; variables are put in part by part, so that any password will do."""
    with from_extra("SQL", "SQLAlchemy", "sql"):
        import sqlalchemy
        from sqlalchemy.exc import ArgumentError
    where = source.where
    try:
        url = sqlalchemy.make_url(str(source.uri))
        parts = ("username", "password", "host", "database")
        told: Any = {part: expand(own) for part in parts if (own := getattr(url, part))}
        query = {key: expand(own) for key, own in url.query.items() if isinstance(own, str)}
        engine = sqlalchemy.create_engine(
            url.set(**told, query={**url.query, **query}),
            poolclass=sqlalchemy.NullPool,
            hide_parameters=True,
        )
    except ModuleNotFoundError as error:
        raise StoreError(
            f"{where}: its driver, {error.name}, is not installed here. Install it, or name "
            "another one in source.uri, such as postgresql+psycopg://."
        ) from None
    except (ArgumentError, ValueError) as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(
            f"{where}: source.uri must be KIND://USER:${{PASSWORD}}@HOST/DATABASE, of a kind that "
            "SQLAlchemy or a package beside it knows. Correct it."
        ) from None
    try:
        connection = engine.connect()
    except Exception as error:
        own = getattr(error, "orig", None) or error
        raise StoreAway(
            f"{where}: the database does not answer, or refuses the user ({type(own).__name__}). "
            "See address, user and the variables that source.uri names."
        ) from None
    kind = engine.dialect.name
    with closing(connection):
        if kind == "postgresql":
            connection = connection.execution_options(postgresql_readonly=True)
        yield kind, connection
    engine.dispose()
