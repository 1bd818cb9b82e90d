"""One party's ledgers as an audit reads them, and the comparison of all parties' ledgers."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from daskfc.federation.ledger.chain import Chain
from daskfc.federation.ledger.key import signer_of
from daskfc.federation.messages.declaration import CALLER

Line = Mapping[str, Any]

_NEEDED = {
    "message": ("run", "sender", "receiver", "message", "step", "task", "protection", "mark"),
    "receipt": ("run", "sender", "message", "step", "id", "digest"),
    "start": ("run", "start", "party", "settings"),
    "refusal": ("run", "error"),
}
_WHY = {
    "twice": "sent twice, as to a receiver that asks again",
    "uncounted": "received, and how many bytes it took was not written down",
    "again": "made and sent again, as after a restart of its sender",
    "broken": "not received, and its sending broke off",
    "restarted": "not received, as the receiver was started again",
    "refused": "not received, as the receiver had refused to go on",
    "unfinished": "not received, in a run that broke off",
}


def _can_be_read(kind: str, line: Line) -> bool:
    words = all(isinstance(line.get(name), str) for name in _NEEDED.get(kind, ()))
    return words and isinstance(line.get("time"), float)


def messages(count: int) -> str:
    """Return "1 message", "2 messages" and so on."""
    return f"{count:,} message{'' if count == 1 else 's'}"


def named(row: Line) -> str:
    """Return what to call a message in a sentence."""
    return f"{row['message']} of step {row['step']!r} in round {row.get('round')}"


@dataclass
class Read:
    """One party's ledger files, and their lines in the compared runs, by default all."""

    name: str
    chains: list[Chain]
    runs: frozenset[str] | None = None
    sent: list[dict[str, Any]] = field(default_factory=list)
    receipts: list[Line] = field(default_factory=list)
    starts: list[Line] = field(default_factory=list)
    refusals: list[Line] = field(default_factory=list)

    def __post_init__(self) -> None:
        for chain in self.chains:
            self._take(chain)

    def _take(self, chain: Chain) -> None:
        known = {"receipt": self.receipts, "start": self.starts, "refusal": self.refusals}
        rows: dict[str, dict[str, Any]] = {}
        for line in chain.lines:
            kind = str(line.get("kind", "message" if "step" in line else "sent"))
            if kind == "sent":
                if (row := rows.get(str(line.get("mark")))) is not None:
                    row.update(whole=True, wire_bytes=line.get("wire_bytes"))
            elif not _can_be_read(kind, line):  # it was changed, as its chain shows
                continue
            elif self.runs is not None and line.get("run") not in self.runs:
                continue
            elif kind == "message":
                rows[str(line["mark"])] = {**line, "whole": False}
            elif kind in known:
                known[kind].append(line)
        self.sent += rows.values()

    @property
    def keys(self) -> tuple[str, ...]:
        """The public keys at the starts in its files, without repetitions."""
        return tuple(dict.fromkeys(key for chain in self.chains for key in chain.keys))


class Compared:
    """The comparison of all parties' ledgers: `findings` are contradictions.

    `notes` are explained differences, and refusals. In `finished` runs all messages must arrive.
    """

    def __init__(self, parties: Mapping[str, Read], finished: frozenset[str]) -> None:
        self._parties = parties
        self._finished = finished
        self.findings: list[str] = []
        self.notes: list[str] = []
        self._counted: Counter[tuple[str, str, str]] = Counter()
        self._got: dict[tuple[str, str], list[tuple[str, Line]]] = {}
        self._sent: dict[tuple[str, str], list[dict[str, Any]]] = {}
        self._gather()
        self._look_for_the_absent()
        self._look_at_keys()
        self._look_at_messages()
        self._look_at_receipts()
        for (why, sender, receiver), count in self._counted.items():
            verb = "was" if count == 1 else "were"
            self.notes.append(f"{messages(count)} from {sender} to {receiver} {verb} {_WHY[why]}.")
        for name, party in parties.items():
            kinds = Counter(str(line["error"]) for line in party.refusals)
            if kinds:
                listed = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
                self.notes.append(f"{name} refused: {listed}; its ledger has the sentences.")

    def _gather(self) -> None:
        for name, party in self._parties.items():
            for line in party.receipts:
                self._got.setdefault((line["run"], line["id"]), []).append((name, line))
            bare = 0
            for row in party.sent:
                if isinstance(row.get("id"), str):
                    self._sent.setdefault((row["run"], row["id"]), []).append(row)
                else:
                    bare += 1
            if bare:
                self.findings.append(f"{messages(bare)} of {name} have no digest to be compared.")

    def _look_for_the_absent(self) -> None:
        others = Counter(str(rows[0]["receiver"]) for rows in self._sent.values())
        others.update(str(got[0][1]["sender"]) for got in self._got.values())
        for name, count in others.items():
            if name != CALLER and name not in self._parties:
                self.findings.append(
                    f"no ledger of {name} was given, so that {messages(count)} from or to it could "
                    f"not be compared. Add --ledger {name}=FILE."
                )

    def _look_at_keys(self) -> None:
        """Compare the key that a receipt names with that of the sender's ledger."""
        wrong: Counter[tuple[str, str]] = Counter()
        for name, party in self._parties.items():
            for line in party.receipts:
                sender = self._parties.get(line["sender"])
                halves = {signer_of(key) for key in sender.keys} if sender is not None else set()
                if halves and signer_of(line["id"]) not in halves:
                    wrong[name, line["sender"]] += 1
        for (name, origin), count in wrong.items():
            self.findings.append(
                f"{name} got {messages(count)} from {origin} under another key than that of the "
                f"ledger which was given for {origin}."
            )

    def _look_at_messages(self) -> None:
        arrived = {
            (row["run"], row["task"], row["receiver"])
            for key in self._sent.keys() & self._got.keys()
            for row in self._sent[key]
        }
        for key, rows in self._sent.items():
            row = rows[0]
            sender, receiver = row["sender"], row["receiver"]
            if receiver not in self._parties:
                continue
            if len(rows) > 1:
                self._counted["twice", sender, receiver] += 1
            if key in self._got:
                if not any(one["whole"] for one in rows):
                    self._counted["uncounted", sender, receiver] += 1
                self._compare(row, self._got[key])
            elif why := self._why_not(rows, (row["run"], row["task"], receiver) in arrived):
                self._counted[why, sender, receiver] += 1
            else:
                self.findings.append(
                    f"{sender} says that it sent {receiver} the message {named(row)}, and the "
                    f"ledger of {receiver} has no receipt of it."
                )

    def _compare(self, row: Line, got: Sequence[tuple[str, Line]]) -> None:
        what = f"{named(row)}, which {row['sender']} sent to {row['receiver']},"
        same = ("sender", "message", "step", "round")
        for name, line in got:
            if name != row["receiver"]:
                self.findings.append(f"the message {what} is among the receipts of {name}.")
            elif any(line.get(key) != row.get(key) for key in same):
                self.findings.append(
                    f"the message {what} is called {named(line)} of {line['sender']} in the "
                    f"receipt of {name}."
                )
            elif line["digest"] != row.get("digest"):
                self.findings.append(
                    f"the message {what} has another digest in the receipt of {name}."
                )

    def _why_not(self, rows: Sequence[Line], again: bool) -> str:
        """Return why a message may have no receipt; empty where nothing explains it."""
        receiver, run = self._parties[rows[0]["receiver"]], rows[0]["run"]
        last = max(row["time"] for row in rows)
        if again:
            return "again"
        if not any(row["whole"] for row in rows):
            return "broken"
        if any(line["run"] == run and line["time"] > last for line in receiver.starts):
            return "restarted"
        if any(line["run"] == run for line in receiver.refusals):
            return "refused"
        return "" if run in self._finished else "unfinished"

    def _look_at_receipts(self) -> None:
        for key, got in self._got.items():
            for name, line in got:
                if key not in self._sent and line["sender"] in self._parties:
                    self.findings.append(
                        f"{name} says that it got from {line['sender']} the message "
                        f"{named(line)}, and the ledger of {line['sender']} has no such message."
                    )
