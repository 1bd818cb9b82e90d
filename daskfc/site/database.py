"""The SQLite file of a site's state: making, opening, and durable transactions.

A transaction that ended is on the disk: SQLite waits for the file, for its journal, and for the
folder from which the journal is removed (``synchronous=EXTRA``), so that a later power cut undoes
nothing. Every transaction has a connection of its own, so that threads and processes share none.
"""

import hashlib
import os
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from daskfc.errors import InvalidInput, LedgerError
from daskfc.folders import flush, make_private

VERSION = 2
"""Of the tables; those of version 1 are brought to it, and files of others are refused."""

_OURS = 0x64666353  # application_id: "dfcS"
_PATIENCE_S = 30.0  # ours: how long a writer waits for another

_SINCE_2 = f"""
PRAGMA user_version = {VERSION};
CREATE TABLE IF NOT EXISTS uses (
    use TEXT NOT NULL, name TEXT NOT NULL, content TEXT NOT NULL, time REAL NOT NULL,
    PRIMARY KEY (use, name, content)
) WITHOUT ROWID;
"""
_TABLES = f"""
PRAGMA application_id = {_OURS};
CREATE TABLE root (secret BLOB NOT NULL, digest BLOB NOT NULL);
CREATE TABLE starts (
    run_id TEXT NOT NULL, start TEXT NOT NULL, time REAL NOT NULL, submitter TEXT,
    request TEXT NOT NULL, task INTEGER NOT NULL, PRIMARY KEY (run_id, start)
) WITHOUT ROWID;
CREATE INDEX starts_by_time ON starts (time);
CREATE TABLE charges (
    dataset TEXT NOT NULL, run_id TEXT NOT NULL, start TEXT NOT NULL, label TEXT NOT NULL,
    multiplier REAL NOT NULL, count INTEGER NOT NULL, time REAL NOT NULL,
    PRIMARY KEY (dataset, run_id, start, label)
) WITHOUT ROWID;
CREATE INDEX charges_by_multiplier ON charges (dataset, multiplier, count);
CREATE TABLE grants (
    id INTEGER PRIMARY KEY, dataset TEXT, epsilon REAL NOT NULL, why TEXT NOT NULL,
    time REAL NOT NULL
);
CREATE TABLE audit (
    id INTEGER PRIMARY KEY, time REAL NOT NULL, what TEXT NOT NULL, run_id TEXT NOT NULL,
    start TEXT NOT NULL, submitter TEXT, rule TEXT NOT NULL, text TEXT NOT NULL
);
{_SINCE_2}"""

_WORDS = {
    "SQLITE_FULL": "the disk is full",
    "SQLITE_BUSY": "another process has held it for too long",
    "SQLITE_NOTADB": "it is damaged",
    "SQLITE_CORRUPT": "it is damaged",
    "SQLITE_READONLY": "it may not be written",
    "SQLITE_CANTOPEN": "it is gone, or may not be opened",
    "SQLITE_IOERR": "the disk does not take it",
}


def _why(error: sqlite3.Error) -> str:
    """Return why SQLite failed; extended codes such as SQLITE_IOERR_WRITE count as their kind."""
    name = getattr(error, "sqlite_errorname", None) or type(error).__name__
    kind = "_".join(name.split("_")[:2])
    return _WORDS.get(kind, name)


def create(path: Path) -> None:
    """Make a state with a new root secret, whole or not at all; leave an existing one."""
    try:
        make_private(path.parent)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # 0600
        os.close(handle)
        partial = Path(name)
        try:
            with closing(sqlite3.connect(partial, isolation_level=None)) as db:
                db.execute("PRAGMA synchronous = OFF")  # it is flushed as a whole, below
                db.executescript(_TABLES)
                secret = os.urandom(32)
                digest = hashlib.sha256(secret).digest()
                db.execute("INSERT INTO root VALUES (?, ?)", (secret, digest))
            flush(partial)
            # An existing file may hold a spent budget: it is never written over.
            if not path.exists():
                try:
                    os.link(partial, path)
                except FileExistsError:  # another process made it meanwhile
                    pass
            flush(path.parent)
        finally:
            partial.unlink(missing_ok=True)
    except (OSError, sqlite3.Error) as error:
        why = error.strerror if isinstance(error, OSError) else _why(error)
        raise InvalidInput(
            f"{path}: the site's state cannot be made there ({why}). Choose another place."
        ) from None


def inspect(path: Path) -> None:
    """Check that a file is a whole state of this version that other users cannot open."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise InvalidInput(
            f"{path}: no site's state is there ({error.strerror}). Correct the path."
        ) from None
    if not stat.S_ISREG(mode):
        raise InvalidInput(f"{path}: a site's state is a file, and this is none. Correct the path.")
    if mode & 0o077:
        raise InvalidInput(
            f"{path}: holds a site's secret, and other users of the machine may open it "
            f"(mode {stat.S_IMODE(mode):04o}). Run: chmod 600 {path}"
        )
    try:
        with closing(_connected(path)) as db:
            (ours,) = db.execute("PRAGMA application_id").fetchone()
            (version,) = db.execute("PRAGMA user_version").fetchone()
            whole = db.execute("PRAGMA quick_check(1)").fetchone() == ("ok",)
            if ours == _OURS and version == 1 and whole:
                db.executescript(f"BEGIN IMMEDIATE; {_SINCE_2} COMMIT;")
                version = VERSION
    except sqlite3.Error as error:
        raise InvalidInput(_unusable(path, _why(error))) from None
    if ours != _OURS:
        raise InvalidInput(_unusable(path, "it is no file of daskfc's"))
    if version != VERSION:
        raise InvalidInput(
            f"{path}: has tables of version {version}, and this daskfc knows {VERSION}. Use the "
            "daskfc that wrote it."
        )
    if not whole:
        raise InvalidInput(_unusable(path, "it is damaged"))


def _unusable(path: Path, why: str) -> str:
    return (
        f"{path}: the site's state cannot be used ({why}). Restore it from a copy: a new one would "
        "forget what was spent."
    )


def _connected(path: Path) -> sqlite3.Connection:
    # Never made here: a file that vanished is an error, and no fresh budget.
    url = f"file:{quote(str(path))}?mode=rw"
    db = sqlite3.connect(url, uri=True, isolation_level=None, timeout=_PATIENCE_S)
    try:
        db.execute("PRAGMA synchronous = EXTRA")
    except BaseException:
        db.close()
        raise
    return db


@contextmanager
def transaction(path: Path, *, writes: bool) -> Iterator[sqlite3.Connection]:
    """Open the state for one transaction, which ends on the disk or not at all.

    On LedgerError, what the transaction was to allow may not be done.
    """
    try:
        with closing(_connected(path)) as db:
            db.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
            try:
                yield db
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")
    except sqlite3.Error as error:
        # The name without its folder: the sentence may reach the submitter.
        raise LedgerError(
            f"the site's state {path.name} cannot be used ({_why(error)}), and nothing is done "
            "that it does not remember. Free space, or restore the file, and start again."
        ) from error
