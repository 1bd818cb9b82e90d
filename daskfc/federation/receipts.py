"""Receipts: a party writes down every message that arrives, before a step takes it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from weakref import WeakSet

from daskfc.federation.digests import content_digest, salted
from daskfc.federation.envelopes import Outgoing
from daskfc.federation.ledger import LedgerFile

__all__ = ["Receipts"]


class Receipts:
    """What one party got in a run; each message is written down once, however many steps take it.

    One that is fetched again, after it was dropped, arrives again.

    Parameters
    ----------
    party : str
        Whose.
    ledger : LedgerFile
        Its ledger.
    """

    def __init__(self, party: str, ledger: LedgerFile) -> None:
        self._party = party
        self._ledger = ledger
        self._noted: WeakSet[Outgoing] = WeakSet()  # while the party has them

    def note(self, envelopes: Iterable[Outgoing]) -> None:
        """Write down those that others sent and that are new.

        Raises
        ------
        OSError
            When they cannot be written.
        """
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
