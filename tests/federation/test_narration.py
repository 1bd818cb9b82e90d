"""What a party tells whoever started it."""

import io
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
    return [line.partition(" ")[2] for line in stream.getvalue().splitlines()]


def two_runs(narration):
    narration.begins("r1")
    for _ in range(3):
        narration.asked("masked_part")
        narration.sends([row("MaskedPart", "server"), row("MaskedPart", "b", 10)])
    narration.begins("r2")
    narration.asked("masked_part")


def test_every_step_and_every_kind_of_message_is_told_once_a_run():
    assert told(two_runs) == [
        "a: run r1 begins",
        "a: asked for masked_part",
        "a: sends MaskedPart to server, masked, 2.0 kB",
        "a: sends MaskedPart to b, masked, 10 bytes",
        "a: so far 3 steps, 6 messages, 6.0 kB sent",
        "a: run r2 begins",
        "a: asked for masked_part",
    ]


def test_nothing_is_told_unless_asked_for():
    assert told(two_runs, said=False) == []
