"""What parties write down of messages that arrive, of starts, refusals and ends."""

import gc
import json

import numpy as np
import pytest

from daskfc.errors import EgressRefused, LedgerError
from daskfc.federation.ledger.chain import read_chain
from daskfc.federation.ledger.receipts import Receipts
from daskfc.federation.ledger.rows import LedgerFile
from daskfc.federation.messages.envelopes import Outgoing
from tests.federation import steps


def lines(tmp_path, party, kind):
    folder = tmp_path / ("server" if party == "server" else f"parties/{party}")
    chain = read_chain(folder / "ledger.jsonl")
    assert chain.faults == ()
    return [line for line in chain.lines if line["kind"] == kind]


def test_a_receipt_is_what_was_sent(federation, tmp_path):
    federation.wait(federation.on_server(steps.total, federation.ask(steps.row_sum)))
    got = lines(tmp_path, "server", "receipt")
    assert len(got) == 3
    for line in got:
        (sent,) = lines(tmp_path, line["sender"], "message")
        for name in ("run", "round", "step", "message", "id", "digest"):
            assert line[name] == sent[name], name
        (start,) = lines(tmp_path, line["sender"], "start")
        assert start["key"].startswith(sent["id"].partition("-")[0])
        assert len(lines(tmp_path, line["sender"], "sent")) == 1
    assert not lines(tmp_path, "client-1", "receipt")


def test_a_message_that_several_steps_take_has_one_receipt(federation, tmp_path):
    asked = federation.ask(steps.row_sum, clients=["client-1"])
    federation.wait([federation.on_server(steps.total, asked) for _ in range(3)])
    assert len(lines(tmp_path, "server", "receipt")) == 1


def test_what_was_noted_is_forgotten_with_its_message(tmp_path):
    receipts = Receipts("server", LedgerFile(tmp_path / "ledger.jsonl"))
    place = ("client-1", "server", "sums", "r", 2, {})
    held, dropped = (Outgoing(steps.Vector(np.ones(2)), *place, id=name) for name in "ab")
    receipts.note([held, dropped])
    receipts.note([held, dropped])
    del dropped
    gc.collect()
    assert list(receipts._noted) == [held]
    told = [json.loads(line) for line in (tmp_path / "ledger.jsonl").read_text().splitlines()]
    assert [line["id"] for line in told] == ["a", "b"]


def test_a_message_to_itself_has_no_receipt(federation, tmp_path):
    names = ["client-1", "client-2"]
    sent = federation.exchange(steps.numbered, names, clients=names[:1], receivers=names)
    federation.wait(federation.on_clients(steps.total_of_numbers, sent, clients=names))
    assert not lines(tmp_path, "client-1", "receipt")
    assert len(lines(tmp_path, "client-2", "receipt")) == 1


def test_equal_contents_have_different_digests(federation, tmp_path):
    """Who reads the ledgers of others cannot compare what two of them sent."""
    told = federation.tell(steps.as_message, 5.0)
    federation.wait(federation.on_clients(steps.scaled, told))
    sent = lines(tmp_path, "server", "message")
    assert len({line["digest"] for line in sent}) == len(sent) == 3


def test_a_refusal_is_written_down_without_values(federation, tmp_path):
    with pytest.raises(EgressRefused):
        federation.wait(federation.ask(steps.pair_wrong_dtype, clients=["client-2"]))
    (line,) = lines(tmp_path, "client-2", "refusal")
    assert (line["run"], line["error"]) == (federation.run_id, "EgressRefused")
    assert "tried to send Pair" in line["sentence"]


def test_the_next_run_ends_the_one_before(federation, tmp_path):
    assert not lines(tmp_path, "client-1", "end")
    run = federation.run_id
    federation.start_run("next", random_state=0, workspace=str(tmp_path))
    (end,) = lines(tmp_path, "client-1", "end")
    first, second = lines(tmp_path, "client-1", "start")
    assert (end["run"], end["start"]) == (run, first["start"])
    assert (second["run"], second["party"]) == ("next", "client-1")
    assert first["key"] == second["key"]
    assert first["settings"] != second["settings"]
    assert [line["settings"] for line in lines(tmp_path, "server", "start")] == [
        first["settings"],
        second["settings"],
    ]


def test_what_arrives_and_cannot_be_written_down_is_not_used(federation, tmp_path):
    asked = federation.ask(steps.row_sum)
    federation.wait(asked)
    file = tmp_path / "server" / "ledger.jsonl"
    file.unlink()
    file.symlink_to("/dev/full")
    with pytest.raises(LedgerError, match="cannot write its ledger"):
        federation.wait(federation.on_server(steps.total, asked))
    federation.start_run("after", random_state=0)
