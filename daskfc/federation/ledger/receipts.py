"""Receipts: a party records every message that arrives, before a step takes it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from weakref import WeakSet

from daskfc.federation.ledger.rows import LedgerFile
from daskfc.federation.messages.digests import content_digest, salted
from daskfc.federation.messages.envelopes import Outgoing


class Receipts:
    """Records each message that a party receives in a run, once unless it is fetched again."""

    def __init__(self, party: str, ledger: LedgerFile) -> None:
        self._party = party
        self._ledger = ledger
        self._noted: WeakSet[Outgoing] = WeakSet()  # while the party has them

    def note(self, envelopes: Iterable[Outgoing]) -> None:
        """Record in the ledger those envelopes of other senders that are new."""
        new = [one for one in envelopes if one.sender != self._party and one not in self._noted]
        if new:
            self._ledger.receive(_receipts(new))
            self._noted.update(new)


def _receipts(envelopes: Iterable[Outgoing]) -> Iterator[Mapping[str, Any]]:
    for one in envelopes:
        yield {
            "run": one.run_id,
            "round": one.round,
            "step": one.step,
            "sender": one.sender,
            "message": type(one.message).__name__,
            "id": one.id,
            "digest": salted(content_digest(one.message), one.salt),
        }
