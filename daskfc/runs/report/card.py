"""``card.html``: a run for a data protection officer, on one page, from its folder alone."""

import hashlib
from collections.abc import Mapping
from typing import Any

import pandas as pd

from daskfc.federation.messages.declaration import CALLER, role_of
from daskfc.runs.outcome.communication import communication_of
from daskfc.runs.outcome.folder import RunFolder
from daskfc.runs.report.audit import audit
from daskfc.runs.report.report import Table, rendered, table_of_messages, without_places
from daskfc.runs.report.table import noise_in_words

_HASHED = ("labels.parquet", "ledger.parquet", "summary.json")


def card_of(folder: RunFolder) -> dict[str, Any]:
    """Return the facts of a run's card as plain values; raise unless the run is done."""
    record = folder.done_record("a card is of a run that is done, and this one's")
    summary, ledger, pipeline = folder.summary, folder.read_ledger(), record["pipeline"]
    sites = (summary.get("quality") or {}).get("by_client", {})
    privacy, profiles = summary.get("privacy") or {}, summary.get("profiles") or {}
    where = (record.get("cluster") or {}).get("cluster", "local")
    facts = {
        "run": record["run_id"],
        "title": record.get("title") or record["run_id"],
        "purpose": record.get("purpose"),
        "begun": record.get("created"),
        "method": summary["method"],
        "compared": {
            name: about.get("note", "")
            for name, about in summary.get("methods", {}).items()
            if name != summary["method"]
        },
        "seeds": summary["seeds"],
        "prepared": pipeline.get("prepare", []),
        "n_samples": summary["n_samples"],
        "n_sites": summary["n_clients"],
        "sites": {name: sum(own.values()) for name, own in sites.items()},
        "columns": sorted(profiles.get("columns", ())),
        "where": "local" if where == "local" else "sites",
        "policy": {
            "raw": bool(len(ledger)) and "raw" in set(ledger["protection"]),
            "ids": pipeline.get("ids", "pseudonyms"),
            "smallest": pipeline.get("smallest"),
            "not_described": dict(profiles.get("withheld", {})),
        },
        "statement": privacy.get("statement", ""),
        "noise": privacy.get("noise") or None,
        "messages": communication_of(ledger),
        "learns": _learned(ledger),
        "ledgers": _ledgers(folder),
        "warnings": (summary.get("quality") or {}).get("warnings", []),
        "versions": record.get("versions", {}),
        "hashes": {
            "settings": folder.settings,
            **{f"store of {name}": told for name, told in _stores(record).items()},
            **{name: _digest(folder, name) for name in _HASHED},
        },
    }
    return dict(without_places(facts))


def _stores(record: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the digests of the stores: of content where the caller reads them, else of builds."""
    return {k: v for k, v in (record.get("contents") or record.get("builds") or {}).items() if v}


def _learned(ledger: pd.DataFrame) -> dict[str, list[str]]:
    """Return by receiver the distinct things that its messages reveal."""
    found: dict[str, dict[str, None]] = {}
    for receiver, reveals in zip(ledger["receiver"], ledger["reveals"], strict=True):
        who = CALLER if receiver == CALLER else role_of(receiver)
        if reveals:
            found.setdefault(who, {})[reveals] = None
    return {who: list(told) for who, told in found.items()}


def _ledgers(folder: RunFolder) -> dict[str, Any]:
    """Return the keys of the parties' own ledgers and what an audit finds; empty if at sites."""
    if not folder.own_ledgers():
        return {}
    found = audit(folder.path)
    keys = {party.name: list(party.keys) for party in found.parties}
    return {"keys": keys, "holds": found.holds, "findings": list(found.findings)}


def _digest(folder: RunFolder, name: str) -> str:
    path = folder.path / name
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "not there"


def card_page(facts: Mapping[str, Any]) -> str:
    """Return the page of the facts of `card_of`."""
    keys = facts["ledgers"].get("keys", {})
    signed = [[name, ", ".join(own)] for name, own in keys.items()]
    return rendered(
        "card.html.jinja",
        **facts,
        spent=noise_in_words(facts["noise"]) if facts["noise"] else "",
        kinds=table_of_messages(facts["messages"]),
        packages=Table(["package", "version"], list(facts["versions"].items()), 2),
        digests=Table(["of", "SHA-256"], list(facts["hashes"].items()), 2),
        keys=Table(["party", "key that signs its ledger"], signed, 2),
    )


def write_card(folder: RunFolder) -> str:
    """Write ``card.html`` from what the run's folder holds, and return its path."""
    folder.write_text("card.html", card_page(card_of(folder)))
    return str(folder.path / "card.html")
