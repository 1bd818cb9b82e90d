"""Counts of a party's work, and of the steps that a scheduler waits for, for Prometheus."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from daskfc.deploy.connections.metrics_page import Family
from daskfc.federation.ledger.rows import LedgerRow


class Counts:
    """What a party did since its worker process began: numbers, names and bytes, no data values."""

    def __init__(self) -> None:
        self._runs = self._steps = self._round = 0
        self._messages: Counter[tuple[str, str]] = Counter()
        self._payload: Counter[tuple[str, str]] = Counter()

    def begins(self) -> None:
        """Count a run."""
        self._runs += 1
        self._round = 0

    def asked(self, round: int) -> None:
        """Count a step of a round."""
        self._steps += 1
        self._round = max(self._round, round)

    def sends(self, rows: Iterable[LedgerRow]) -> None:
        """Count messages that leave."""
        for row in rows:
            self._messages[row.message, row.receiver] += 1
            self._payload[row.message, row.receiver] += row.payload_bytes

    def families(self, awaited: Mapping[str, int]) -> list[Family]:
        """Return all counts for Prometheus; `awaited` counts messages under way here, by sender."""

        def by_message(counter: Counter[tuple[str, str]]) -> list[tuple[dict[str, str], float]]:
            pairs = sorted(counter.items())
            return [({"message": m, "receiver": to}, count) for (m, to), count in pairs]

        waiting = [({"party": name}, float(count)) for name, count in sorted(awaited.items())]
        return [
            Family("daskfc_runs_begun", "counter", "Runs that began.", [({}, self._runs)]),
            Family("daskfc_steps", "counter", "Steps that were asked for.", [({}, self._steps)]),
            Family("daskfc_round", "gauge", "The round of the run.", [({}, self._round)]),
            Family(
                "daskfc_messages_sent", "counter", "Messages that left.", by_message(self._messages)
            ),
            Family(
                "daskfc_payload_bytes_sent", "counter", "Their bytes.", by_message(self._payload)
            ),
            Family("daskfc_messages_awaited", "gauge", "On their way here, by sender.", waiting),
        ]


def families_of_scheduler(scheduler: Any) -> list[Family]:
    """Return counts of parties and submitters, and each party's silence (s) and pending steps."""
    parties = sorted((str(one.name), one) for one in scheduler.workers.values())
    now = time.time()
    return [
        Family("daskfc_parties", "gauge", "Parties that are there.", [({}, len(parties))]),
        Family(
            "daskfc_submitters", "gauge", "Who is connected.", [({}, len(scheduler.client_comms))]
        ),
        Family(
            "daskfc_steps_waited_for",
            "gauge",
            "Steps that a party has to perform: whom the others wait for.",
            [({"party": name}, len(one.processing)) for name, one in parties],
        ),
        Family(
            "daskfc_silent_seconds",
            "gauge",
            "Since a party was last heard.",
            [({"party": name}, max(now - one.last_seen, 0.0)) for name, one in parties],
        ),
    ]
