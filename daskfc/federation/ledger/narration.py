"""Lines on a party's terminal: when runs begin, which steps it performs and what it sends."""

import json
import sys
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Literal, TextIO

from rich.filesize import decimal

from daskfc.federation.ledger.rows import LedgerRow

Narrates = bool | Literal["json"]
"""Whether lines are told, and if not as text, as a JSON object each."""

_ID = 8  # ours: letters of the id of a run without a name that a line of text begins with


class Narration:
    """Lines about a party on its terminal, if `told`: names, numbers and bytes, never content."""

    def __init__(self, party: str, *, told: Narrates, stream: TextIO | None = None) -> None:
        self._party, self._run, self._id = party, "", ""
        self._told = told
        self._stream = stream
        self._steps: Counter[str] = Counter()
        self._sent: Counter[tuple[str, str]] = Counter()
        self._bytes = 0

    def say(self, words: str) -> None:
        """Write a line with the time, the party's name and the run."""
        if not self._told:
            return
        now = datetime.now().astimezone()
        run = self._run or self._id[:_ID]
        line = f"{now:%Y-%m-%d %H:%M:%S} {f'{self._party} {run}'.strip()}: {words}"
        if self._told == "json":
            when = now.isoformat(timespec="milliseconds")
            told = {"time": when, "party": self._party, "run": self._run or None}
            line = json.dumps(
                {**told, "id": self._id or None, "message": words}, ensure_ascii=False
            )
        print(line, file=self._stream or sys.stderr, flush=True)

    def begins(self, run_id: str, name: str = "") -> None:
        """Say that a start of the run `name` begins, and what left this party in the one before."""
        self.ends()
        self._run, self._id = name, run_id
        self.say(f"run {run_id} begins")

    def ends(self) -> None:
        """Say what was asked and what left since the last run began."""
        if self._steps:
            messages, steps = sum(self._sent.values()), sum(self._steps.values())
            self.say(f"so far {steps:,} steps, {messages:,} messages, {decimal(self._bytes)} sent")
        self._steps.clear()
        self._sent.clear()
        self._bytes = 0

    def asked(self, step: str) -> None:
        """Say which step this party is asked for, the first time."""
        if not self._steps[step]:
            self.say(f"asked for {step}")
        self._steps[step] += 1

    def sends(self, rows: Iterable[LedgerRow]) -> None:
        """Say which message goes to whom, the first time."""
        for row in rows:
            kind = (row.message, row.receiver)
            if not self._sent[kind]:
                size = decimal(row.payload_bytes)
                self.say(f"sends {row.message} to {row.receiver}, {row.protection}, {size}")
            self._sent[kind] += 1
            self._bytes += row.payload_bytes
