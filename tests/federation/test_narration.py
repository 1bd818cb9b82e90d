"""What a party tells whoever started it."""

import io
import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

from daskfc.federation.ledger.narration import Narration


def row(message, receiver, size=2000):
    return SimpleNamespace(
        message=message, receiver=receiver, protection="masked", payload_bytes=size
    )


def told(narrate, said=True):
    stream = io.StringIO()
    narration = Narration("a", told=said, stream=stream)
    narrate(narration)
    lines = stream.getvalue().splitlines()
    for line in lines:
        assert abs(datetime.fromisoformat(line[:19]) - datetime.now()) < timedelta(minutes=9)
    return [line[20:] for line in lines]


def two_runs(narration):
    narration.begins("r1")
    for _ in range(3):
        narration.asked("masked_part")
        narration.sends([row("MaskedPart", "server"), row("MaskedPart", "b", 10)])
    narration.begins("r2")
    narration.asked("masked_part")


def test_every_step_and_every_kind_of_message_is_told_once_a_run():
    assert told(two_runs) == [
        "a r1: run r1 begins",
        "a r1: asked for masked_part",
        "a r1: sends MaskedPart to server, masked, 2.0 kB",
        "a r1: sends MaskedPart to b, masked, 10 bytes",
        "a r1: so far 3 steps, 6 messages, 6.0 kB sent",
        "a r2: run r2 begins",
        "a r2: asked for masked_part",
    ]


def test_lines_are_json_where_a_program_reads_them():
    stream = io.StringIO()
    narration = Narration("Zoë", told="json", stream=stream)
    narration.say('holds "1"')
    narration.begins("0123456789abcdef")
    narration.begins("fedcba", "nightly-2026-03-01")
    first, second, third = map(json.loads, stream.getvalue().splitlines())
    assert abs(datetime.fromisoformat(first.pop("time")) - datetime.now(UTC)) < timedelta(minutes=9)
    assert first == {"party": "Zoë", "run": None, "id": None, "message": 'holds "1"'}
    assert (second["run"], second["id"]) == (None, "0123456789abcdef")
    assert (third["run"], third["id"]) == ("nightly-2026-03-01", "fedcba")


def test_lines_have_the_name_that_the_run_has_where_it_was_started():
    def narrate(narration):
        narration.begins("0123456789abcdef", "nightly-2026-03-01")
        narration.begins("0123456789abcdef")

    assert told(narrate) == [
        "a nightly-2026-03-01: run 0123456789abcdef begins",
        "a 01234567: run 0123456789abcdef begins",
    ]


def test_nothing_is_told_unless_asked_for():
    assert told(two_runs, said=False) == []
