"""The ledger: one row for every message that left a party, as all parties wrote them."""

import dataclasses
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from daskfc.errors import InvalidInput
from daskfc.federation.ledger.rows import LedgerRow
from daskfc.folders import write_whole
from daskfc.html_tables import html_table
from daskfc.privacy import Accountant, GaussianEvent


class _Same:
    """Makes rows that share equal words and dicts: many of them take a third of the memory."""

    def __init__(self) -> None:
        self._dicts: dict[str, dict[str, Any]] = {}

    def row(self, told: Mapping[str, Any]) -> LedgerRow:
        """Return a row that was read from JSON or msgpack, which differ in types of sequences."""
        shapes = {name: list(shape) for name, shape in told["shapes"].items()}
        words = {name: sys.intern(told[name]) for name in _WORDS}
        alike = {"shapes": self._dict(shapes), "dtypes": self._dict(told["dtypes"])}
        return LedgerRow(**{**told, **words, **alike})

    def _dict(self, value: dict[str, Any]) -> dict[str, Any]:
        return self._dicts.setdefault(repr(value), value)


_WORDS = ("run", "step", "sender", "receiver", "message", "protection")


class Ledger:
    """All messages of a run, ordered by time.

    Parameters
    ----------
    rows : iterable of mapping
        Rows with the fields of `LedgerRow`.
    trusted : str
        What was not protected, see `Federation`.

    Examples
    --------
    >>> from daskfc.federation.ledger.ledger import Ledger
    >>> Ledger([]).payload_bytes
    0
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]], trusted: str = "") -> None:
        self.trusted = trusted
        same = _Same()
        self.rows = tuple(sorted((same.row(one) for one in rows), key=lambda row: row.time))

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[LedgerRow]:
        return iter(self.rows)

    def __repr__(self) -> str:
        more = f"; {self.trusted}" if self.trusted else ""
        return f"<Ledger: {len(self)} messages, {self.payload_bytes} payload bytes{more}>"

    def _repr_html_(self) -> str:
        """Return the summary as a table, for notebooks."""
        table = self.summary()
        kinds = zip(table.index, table.to_numpy(), strict=True)
        rows = [(*kind, *map(int, counts)) for kind, counts in kinds]
        head = ["message", "protection", "messages", "senders", "receivers", "payload", "wire"]
        title = f"Ledger: {len(self):,} messages, {self.payload_bytes:,} bytes of content"
        return html_table(title, head, rows, self.trusted)

    @property
    def payload_bytes(self) -> int:
        """Bytes of content, over all messages."""
        return sum(row.payload_bytes for row in self.rows)

    @property
    def wire_bytes(self) -> int:
        """Bytes handed to connections, over all messages."""
        return sum(row.wire_bytes for row in self.rows)

    def to_frame(self) -> pd.DataFrame:
        """Return one line per message."""
        names = [field.name for field in dataclasses.fields(LedgerRow)]
        # asdict would copy every dict; frozen rows can share theirs.
        frame = pd.DataFrame([vars(row) for row in self.rows], columns=names)
        return frame.astype({"noise_multiplier": "float64"})  # NaN: no noise

    def summary(self) -> pd.DataFrame:
        """Return one line per message class and protection, in the order of first use.

        Returns
        -------
        pandas.DataFrame
            Index: message, protection. Columns: messages (count), senders and receivers (count of
            parties), payload_bytes, wire_bytes.
        """
        columns = ["messages", "senders", "receivers", "payload_bytes", "wire_bytes"]
        if not self.rows:
            index = pd.MultiIndex.from_arrays([[], []], names=["message", "protection"])
            return pd.DataFrame(columns=columns, index=index, dtype="int64")
        grouped = self.to_frame().groupby(["message", "protection"], sort=False)
        table = grouped.agg(
            messages=("sender", "size"),
            senders=("sender", "nunique"),
            receivers=("receiver", "nunique"),
            payload_bytes=("payload_bytes", "sum"),
            wire_bytes=("wire_bytes", "sum"),
        )
        return table[columns]

    def releases(self) -> dict[str, Accountant]:
        """Return, by sender, the accountant of all its releases with Gaussian noise, if any."""
        events: dict[str, dict[str, GaussianEvent]] = {}
        for row in self.rows:
            if row.noise_multiplier is not None:
                event = GaussianEvent(row.noise_multiplier)
                events.setdefault(row.sender, {})[row.task] = event
        return {name: Accountant(tuple(by_task.values())) for name, by_task in events.items()}

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a line per message to a ``.parquet`` or ``.csv`` file; shapes, dtypes are JSON."""
        file = Path(path)
        frame = self.to_frame()
        for column in ("shapes", "dtypes"):
            frame[column] = frame[column].map(json.dumps)
        if file.suffix == ".parquet":
            data = frame.to_parquet(index=False)
        elif file.suffix == ".csv":
            data = frame.to_csv(index=False).encode()
        else:
            raise InvalidInput(
                f"a ledger's file must end in .parquet or .csv; got {file.name!r}. Rename it."
            )
        write_whole(file, data, mode=0o644)
