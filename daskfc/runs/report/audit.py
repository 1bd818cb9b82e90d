"""Audit the parties' ledgers of a run: whether the messages sent are those received."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from daskfc.errors import InvalidInput
from daskfc.federation.ledger.chain import read_chain
from daskfc.federation.messages.declaration import CALLER
from daskfc.runs.outcome.folder import RunFolder
from daskfc.runs.report.ledgers_compared import Compared, Line, Read, messages, named


@dataclass(frozen=True)
class AuditedParty:
    """What an audit read of one party.

    Parameters
    ----------
    name : str
        The party.
    files, lines : int
        Counts of its ledger files and of their lines.
    sent, received : int
        Messages in the runs that were compared.
    keys : tuple of str
        Public keys that signed, 64 hexadecimal digits each.
    """

    name: str
    files: int
    lines: int
    sent: int
    received: int
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    Parameters
    ----------
    parties : tuple of AuditedParty
        The parties with ledgers.
    findings : tuple of str
        Contradictions, one sentence each.
    notes : tuple of str
        Differences with a known reason, and refusals, one sentence each.
    """

    parties: tuple[AuditedParty, ...]
    findings: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether there are no findings."""
        return not self.findings


def audit(
    folder: str | PathLike[str],
    *,
    ledgers: Mapping[str, Sequence[str | PathLike[str]]] | None = None,
    keys: Mapping[str, str] | None = None,
) -> Audit:
    """Check the parties' ledgers of a run, each by itself and all against one another.

    Parameters
    ----------
    folder : path
        The run's folder; of a run on this machine it has the ledgers of all parties.
    ledgers : mapping of str to sequence of path, optional
        By party, files ``ledger.jsonl`` or folders with such files below, as sites hand them over.
    keys : mapping of str to str, optional
        The agreed public key of a party, 64 hexadecimal digits.

    Returns
    -------
    Audit

    Raises
    ------
    InvalidInput
        When there is no run, no ledger, or one that cannot be read.

    Notes
    -----
    Every line must follow from the one before, be signed by the key of the party's start, and every
    message to another party must have a receipt there with the same digest, and every receipt a
    message. Rows of the run's ``ledger.parquet`` must be in the ledgers of their senders. Messages
    to the caller have no receipts. Two parties that agree on the same false lines go undetected.

    Examples
    --------
    >>> from daskfc.runs import audit
    >>> audit("/no/such/run")
    Traceback (most recent call last):
    ...
    daskfc.errors.InvalidInput: /no/such/run: no run is there (it has no run.json). Give the \
folder of a run, for example runs/<name>.
    """
    run = RunFolder(folder)
    rows = run.read_ledger()
    columns = [str(name) for name in rows.columns]
    told = [dict(zip(columns, row, strict=True)) for row in rows.to_numpy()]
    collected = frozenset(str(row["run"]) for row in told)
    given = ledgers or {}
    read = [
        Read(name, [read_chain(path) for path in paths])
        for name, paths in run.own_ledgers().items()
        if name not in given
    ]
    for name, places in given.items():
        chains = [read_chain(path) for path in _files(name, places)]
        if collected:  # a site's folder may have the ledgers of many runs
            chains = [one for one in chains if collected & {line.get("run") for line in one.lines}]
        read.append(Read(name, chains, collected or None))
    if not read:
        raise InvalidInput(
            f"{run.path}: no party's ledger is there, as of a run between sites. Have each site "
            "hand over its file and add --ledger NAME=FILE for each."
        )
    findings: list[str] = []
    parties = {party.name: party for party in read}
    for party in read:
        findings += _alone(party, (keys or {}).get(party.name))
    findings += [
        f"a key was given for {name}, and no ledger of it. Add --ledger {name}=FILE."
        for name in keys or {}
        if name not in parties
    ]
    findings += _settings(read)
    findings += _against_the_run(parties, told)
    compared = Compared(parties, collected)
    findings += compared.findings
    notes = compared.notes
    to_caller = sum(row["receiver"] == CALLER for party in read for row in party.sent)
    if to_caller:
        notes.append(
            f"{messages(to_caller)} to the caller, who writes no receipts, were compared with the "
            "rows of ledger.parquet alone."
        )
    return Audit(
        tuple(
            AuditedParty(
                party.name,
                len(party.chains),
                sum(len(chain.lines) for chain in party.chains),
                len(party.sent),
                len({line.get("id") for line in party.receipts}),
                party.keys,
            )
            for party in read
        ),
        tuple(findings),
        tuple(notes),
    )


def _files(name: str, places: Iterable[str | PathLike[str]]) -> list[Path]:
    found: list[Path] = []
    for place in map(Path, places):
        below = sorted(place.rglob("ledger.jsonl")) if place.is_dir() else [place]
        if not below:
            raise InvalidInput(
                f"{fspath(place)}: no ledger of {name} is below that folder. Give its file "
                "ledger.jsonl, or the folder that 'daskfc party' has for its --workspace."
            )
        found += below
    return found


def _alone(party: Read, agreed: str | None) -> Iterator[str]:
    """Yield the faults of one party's ledgers by themselves."""
    for chain in party.chains:
        for fault in chain.faults:
            yield f"the ledger of {party.name} {fault}."
    if not any(chain.lines for chain in party.chains):
        yield f"the ledger of {party.name} has no line of this run."
    others = sorted({str(line["party"]) for line in party.starts} - {party.name})
    others += sorted({str(row.get("sender")) for row in party.sent} - {party.name, *others})
    if others:
        yield f"the ledger that was given for {party.name} is that of {', '.join(others)}."
    begun = {line["run"] for line in party.starts}
    lines = [*party.sent, *party.receipts]
    if party.starts and (lost := {line.get("run") for line in lines} - begun):
        runs = f"{len(lost)} run{'' if len(lost) == 1 else 's'}"
        yield f"the ledger of {party.name} has lines of {runs} whose start it lacks."
    if agreed is not None and any(key != agreed.lower() for key in party.keys or ("",)):
        keys = ", ".join(party.keys) or "of nobody"
        yield f"the ledger of {party.name} is signed by the key {keys}, and {agreed} was agreed on."


def _settings(read: Sequence[Read]) -> Iterator[str]:
    """Yield the runs that parties began with different settings."""
    found: dict[tuple[Any, Any], dict[str, str]] = {}
    for party in read:
        for line in party.starts:
            of_run = found.setdefault((line["run"], line["start"]), {})
            of_run[party.name] = str(line.get("settings"))
    for (run, _), by_party in found.items():
        if len(set(by_party.values())) > 1:
            usual = Counter(by_party.values()).most_common(1)[0][0]
            other = ", ".join(name for name, digest in by_party.items() if digest != usual)
            yield f"run {run} was begun by {other} with other settings than by the other parties."


def _against_the_run(
    parties: Mapping[str, Read], told: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """Yield messages of the run's ledger that senders' ledgers lack or have otherwise."""
    own = {_place(row): row for party in parties.values() for row in party.sent}
    lacking: dict[str, list[Mapping[str, Any]]] = {}
    for row in told:
        sender = str(row["sender"])
        if sender not in parties:
            continue
        found = own.get(_place(row))
        same = found is not None and all(
            found.get(name) == row[name] for name in ("message", "protection", "payload_bytes")
        )
        completed = row["wire_bytes"] != row["payload_bytes"]  # else collected before it was sent
        if not same or (completed and found and found.get("wire_bytes") != row["wire_bytes"]):
            lacking.setdefault(sender, []).append(row)
    for sender, rows in lacking.items():
        yield (
            f"the run's ledger.parquet has {messages(len(rows))} that the ledger of {sender} has "
            f"not or has otherwise, the first {named(rows[0])}."
        )


def _place(row: Line) -> tuple[Any, ...]:
    return (row["run"], row["sender"], row["receiver"], row["task"], float(row["time"]))
