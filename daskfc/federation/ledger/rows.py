"""What a party writes of its messages: a row for each, in a file that others read page by page.

A party's file has more lines than rows: starts and ends of runs, what arrived, what was refused.
All of them are chained and signed, see `daskfc.federation.ledger.chain`.
"""

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import secrets
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from daskfc.federation.identity.versions import HERE
from daskfc.federation.ledger.chain import Head, linked, read_head
from daskfc.federation.ledger.key import LedgerKey

Place: TypeAlias = tuple[int, Sequence[str]]
"""Where to go on in a party's file, and the marks of rows before it that were not completed yet."""

Page: TypeAlias = tuple[dict[str, dict[str, Any]], list[str], int | None]
"""Rows by mark, or what completes earlier ones; marks without it so far; where to go on, if so."""

_PAGE = 1 << 20  # bytes that are read at once: 2,000 messages; the party answers nobody meanwhile


@dataclasses.dataclass(frozen=True)
class LedgerRow:
    """One message, as it was sent.

    Attributes
    ----------
    run, round, step : str, int, str
        Where in the run it was sent.
    sender, receiver : str
        Parties, or "caller".
    message, protection : str
        The message's class and how that protects its content.
    shapes, dtypes : dict
        Of every array, by field.
    payload_bytes : int
        Bytes of the content.
    wire_bytes : int
        Bytes handed to the connection, framing included (TLS records are not counted).
    time : float
        Seconds since 1970, when its sending began.
    task : str
        The task's key; a message that is fetched twice has two rows with one key.
    noise_multiplier : float or None
        For a release with Gaussian noise, its standard deviation over the sensitivity.
    """

    run: str
    round: int
    step: str
    sender: str
    receiver: str
    message: str
    protection: str
    shapes: dict[str, list[int]]
    dtypes: dict[str, str]
    payload_bytes: int
    wire_bytes: int
    time: float
    task: str
    noise_multiplier: float | None = None


_COLUMNS = frozenset(field.name for field in dataclasses.fields(LedgerRow))


class LedgerFile:
    """A party's own ledger: an append-only file of chained JSON lines, signed if there is a key.

    A row is written before its message is sent and completed after, so that no message leaves
    without a row; one that is never completed keeps its payload size as its bytes on the wire.
    """

    def __init__(self, path: Path, key: LedgerKey | None = None) -> None:
        self.path = path
        self._key = key
        self._head, self._end = Head(), 0
        self._run: dict[str, str] | None = None

    def new_id(self) -> str:
        """Return an id for a message, which names the key of this ledger if it has one."""
        return secrets.token_hex(8) if self._key is None else self._key.new_id()

    def start(self, party: str, settings: Mapping[str, Any]) -> None:
        """Append that the party begins or resumes a run, with a digest of the settings only."""
        told = json.dumps(settings, sort_keys=True, default=str).encode()
        trusted = settings.get("request", {}).get("trusted", False)
        self._run = {"run": str(settings["run_id"]), "start": str(settings["start"])}
        line = {
            "party": party,
            "key": "" if self._key is None else self._key.public,
            "versions": HERE,
            "settings": hashlib.sha256(told).hexdigest(),
            **({"trusted": True} if trusted else {}),
        }
        self._append([{"kind": "start", **self._run, **line, "time": time.time()}])

    def end(self) -> None:
        """Append that the party is done with the run; a failed write is ignored."""
        run, self._run = self._run, None
        if run is not None and self.path.exists():
            with contextlib.suppress(OSError):
                self._append([{"kind": "end", **run, "time": time.time()}])

    def refuse(self, kind: str, sentence: str) -> None:
        """Append a refusal, its error class and value-free sentence; a failed write is ignored."""
        if self._run is not None:
            line = {"kind": "refusal", **self._run, "error": kind, "sentence": sentence}
            with contextlib.suppress(OSError):
                self._append([{**line, "time": time.time()}])

    def receive(self, receipts: Iterable[Mapping[str, Any]]) -> None:
        """Append receipts of messages: run, round, step, sender, class, id and digest of each."""
        now = time.time()
        self._append({"kind": "receipt", **one, "time": now} for one in receipts)

    def begin(
        self, rows: Sequence[LedgerRow], contents: Sequence[tuple[str, str]] = ()
    ) -> list[str]:
        """Append rows of messages about to be sent, all or none (OSError); return their marks."""
        marks = [uuid.uuid4().hex for _ in rows]
        told = [{"id": name, "digest": digest} for name, digest in contents] or [{}] * len(rows)
        self._append(
            {"kind": "message", "mark": mark, **vars(row), **content}
            for mark, row, content in zip(marks, rows, told, strict=True)
        )
        return marks

    def complete(self, marks: Sequence[str], wire_bytes: Sequence[int]) -> None:
        """Append the bytes handed to the connection for each of the marked rows."""
        self._append(
            {"kind": "sent", "mark": mark, "wire_bytes": size}
            for mark, size in zip(marks, wire_bytes, strict=True)
        )

    def _append(self, lines: Iterable[Mapping[str, Any]]) -> None:
        file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)  # steps and the door write from threads of their own
            end = os.fstat(file).st_size
            # Another process of the party, or a crash, may have written since.
            head = self._head if end and end == self._end else read_head(file, end)
            text, after = linked(lines, head, self._key)
            try:
                _write_all(file, text)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(file, end)  # rows are whole or absent
                raise
            self._head, self._end = after, end + len(text)
        finally:
            os.close(file)

    def read(self, run: str) -> list[dict[str, Any]]:
        """Return the rows of one run, oldest first; a line cut off by a crash is left out."""
        return list(collected(lambda at: {"": self.page(run, *at[""])}, [""]))

    def page(self, run: str, start: int = 0, unsent: Sequence[str] = ()) -> Page:
        """Return one run's rows in a part of the file, from byte `start`; see `collected`."""
        lines, end = self._lines(start)
        rows: dict[str, dict[str, Any]] = {}
        waiting = dict.fromkeys(unsent)
        for line in lines:
            try:
                part = json.loads(line)
            except ValueError:
                continue
            if (mark := part.get("mark")) is None or (mark not in waiting and "run" not in part):
                continue
            if part.get("run", run) == run:
                own = {name: value for name, value in part.items() if name in _COLUMNS}
                rows.setdefault(mark, {}).update(own)
                if "run" in part:
                    waiting[mark] = None
                else:
                    del waiting[mark]
        return rows, list(waiting), end

    def _lines(self, start: int) -> tuple[list[bytes], int | None]:
        """Return whole lines from a byte on, and where the next ones begin."""
        if not self.path.exists():
            return [], None
        with self.path.open("rb") as file:
            file.seek(start)
            lines = file.readlines(_PAGE)
            return lines, file.tell() if lines and file.peek(1) else None


def _write_all(file: int, text: bytes) -> None:
    while text:  # a disk that fills up takes a part first, and refuses the rest
        text = text[os.write(file, text) :]


def collected(
    ask: Callable[[dict[str, Place]], Mapping[str, Page]], parties: Iterable[str]
) -> Iterator[dict[str, Any]]:
    """Yield all rows of some parties, page by page; rows that were never completed come last."""
    places: dict[str, Place] = dict.fromkeys(parties, (0, ()))
    begun: dict[str, dict[str, Any]] = {}
    while places:
        after: dict[str, Place] = {}
        for party, (rows, unsent, end) in ask(places).items():
            waiting = frozenset(unsent)
            for mark, part in rows.items():
                row = {**begun.pop(mark, {}), **part}
                if mark in waiting:
                    begun[mark] = row
                else:
                    yield row
            if end is not None:
                after[party] = (end, unsent)
        places = after
    yield from begun.values()
