"""Steps and messages between real processes: values, places, seeds, secrets and the ledger."""

import importlib
import json
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from daskfc import seeds
from daskfc.errors import (
    ClusterError,
    DeadlineError,
    EgressRefused,
    InvalidInput,
    PartyError,
    PrivacyError,
)
from daskfc.federation import PerClient
from daskfc.federation.messages.wire_format import sealed
from daskfc.federation.party.options import PartyOptions, RunSettings
from daskfc.federation.steps.calls import StepCall, call_bytes
from daskfc.federation.worker.guard import run_step
from daskfc.stores import ClientStore
from tests.federation import steps
from tests.federation.conftest import ROWS

SUMS = {name: rows.sum(axis=0) for name, rows in ROWS.items()}


def test_the_server_publishes_what_goes_from_a_server_only(federation):
    with pytest.raises(
        EgressRefused, match=r"would send Talkative server → caller; its routes are"
    ):
        federation.publish(steps.with_own_pickling)


def test_ask_tell_exchange_publish(federation):
    names = list(federation.clients)
    asked = federation.ask(steps.row_sum, axes={"n": 2})
    at_server = federation.on_server(steps.total, asked)
    told = federation.tell(steps.as_message, at_server)
    exchanged = federation.exchange(steps.addressed, told, names=names)
    answers = federation.publish(steps.total_message, exchanged, party="clients")
    total = sum(SUMS.values())
    for index, name in enumerate(names):
        np.testing.assert_allclose(answers[name].values, 3 * (total + index))
    rows = federation.ledger.rows
    kinds = {(row.step, row.sender, row.receiver) for row in rows}
    expected = {("row_sum", name, "server") for name in names}
    expected |= {("as_message", "server", name) for name in names}
    expected |= {("addressed", a, b) for a in names for b in names if a != b}  # none to itself
    expected |= {("total_message", name, "caller") for name in names}
    assert kinds == expected
    assert len(rows) == len(expected)


def test_each_client_its_own_message_and_argument(federation):
    own = PerClient({name: float(i) for i, name in enumerate(federation.clients)})
    local = federation.on_clients(steps.as_message, own)
    back = federation.publish(steps.sent_on, local, party="clients")
    assert [message.values[0] for message in back.values()] == [0.0, 1.0, 2.0]
    named = federation.tell(
        steps.length_of_name, names=["client-1", "client-3"], clients=["client-1", "client-3"]
    )
    assert list(named) == ["client-1", "client-3"]
    got = federation.publish(steps.sent_on, named, party=["client-1", "client-3"])
    assert {name: message.values[0] for name, message in got.items()} == {
        "client-1": 8.0,
        "client-3": 8.0,
    }


def test_a_message_that_lies_at_its_party_is_sent_as_it_is(federation):
    names = list(federation.clients)
    own = federation.on_clients(steps.row_sum)
    asked = federation.ask(own)
    message = federation.on_server(steps.as_message, federation.on_server(steps.total, asked))
    told = federation.tell(message)
    for name, back in federation.publish(steps.sent_on, told, party="clients").items():
        np.testing.assert_array_equal(back.values, federation.publish(message).values, name)
    np.testing.assert_allclose(federation.publish(message).values, sum(SUMS.values()))
    np.testing.assert_allclose(federation.publish(own["client-2"]).values, SUMS["client-2"])
    some = PerClient({name: own[name] for name in names[:2]})
    assert list(federation.publish(some)) == names[:2]
    assert list(federation.ask(some)) == names[:2]
    kinds = {(row.step, row.sender, row.receiver) for row in federation.ledger.rows}
    expected = {("row_sum", name, to) for name in names for to in ("server", "caller")}
    expected -= {("row_sum", "client-3", "caller")}
    expected |= {("as_message", "server", name) for name in names}
    expected |= {("as_message", "server", "caller")}
    assert kinds - {("sent_on", name, "caller") for name in names} == expected


def test_only_a_message_is_sent_as_it_is(federation):
    rows = federation.on_clients(steps.raw_rows)
    with pytest.raises(InvalidInput, match=r"'raw_rows' sends a message, so its return annotation"):
        federation.ask(rows)
    each = federation.on_client("client-1", steps.numbered, ["client-2"])
    with pytest.raises(InvalidInput, match=r"'numbered' is a mapping of receivers to messages"):
        federation.publish(each)
    with pytest.raises(InvalidInput, match=r"only a message that lies at its party"):
        federation.ask(PerClient({"client-1": 3}))


def test_a_step_must_address_all_its_receivers(federation):
    sent = federation.exchange(
        steps.addressed_to_one, names=["client-1"], clients=["client-2"], receivers=["client-1"]
    )
    federation.wait(sent)
    short = federation.exchange(steps.addressed_to_one, names=["client-1"], clients=["client-2"])
    with pytest.raises(PartyError, match="must return one message for each of client-1, client-2"):
        federation.wait(short)
    long = federation.exchange(
        steps.length_of_name, names=federation.clients, receivers=["client-1"], clients=["client-2"]
    )
    with pytest.raises(PartyError, match="each of client-1; got messages for client-1, client-2"):
        federation.wait(long)


def test_a_step_returns_one_message_or_one_for_each_as_its_verb_needs(federation):
    names = list(federation.clients)
    for party in ("clients", "client-1", names):
        with pytest.raises(InvalidInput, match="'length_of_name' must return one message to be"):
            federation.publish(steps.length_of_name, names, party=party)
    with pytest.raises(InvalidInput, match="'length_of_name' must return one message to be"):
        federation.ask(steps.length_of_name, names)
    with pytest.raises(InvalidInput, match="'row_sum' must return a mapping of receivers to one"):
        federation.exchange(steps.row_sum)


def test_each_sender_may_have_its_own_receivers(federation):
    pairs = {"client-1": ("client-2",), "client-2": ("client-1", "client-3")}
    sent = federation.exchange(
        steps.length_of_name,
        names=PerClient({"client-1": ["client-2"], "client-2": ["client-1", "client-3"]}),
        receivers=PerClient(pairs),
        clients=["client-1", "client-2"],
    )
    federation.wait(sent)
    assert {
        sender: tuple(receiver for receiver in sorted(sent) if sender in sent[receiver])
        for sender in pairs
    } == pairs


def test_nobody_is_no_choice_of_clients(federation):
    with pytest.raises(InvalidInput, match="got none"):
        federation.on_clients(steps.row_sum, clients=[])
    with pytest.raises(InvalidInput, match="got none"):
        federation.ask(steps.row_sum, clients=[])
    with pytest.raises(InvalidInput, match="got none"):
        federation.tell(steps.as_message, 1.0, clients=[])
    with pytest.raises(InvalidInput, match="got none"):
        federation.exchange(steps.length_of_name, [], receivers=[])
    with pytest.raises(InvalidInput, match="got none"):
        federation.publish(steps.row_sum, party=[])


def test_steps_run_at_their_party_and_nowhere_else(federation):
    pids = {party: federation.processes.pid(party) for party in federation.parties}
    assert len(set(pids.values())) == 4
    for _ in range(3):
        for name, message in federation.publish(steps.where, party="clients").items():
            assert (message.party, message.pid) == (name, pids[name])
    assert federation.publish(steps.where).pid == pids["server"]


def test_equal_steps_of_two_parties_are_two_tasks(federation):
    locals_ = federation.on_clients(steps.keep_pid)
    again = federation.on_clients(steps.keep_pid)
    keys = {
        future.key
        for local in (*locals_.values(), *again.values())
        for future in local.futures.values()
    }
    assert len(keys) == 6
    assert all(f"|{party}-" in str(local.futures[party].key) for party, local in locals_.items())


def test_seeds_are_per_party_round_and_step(federation):
    first = federation.publish(steps.draws, party="clients")
    again = federation.publish(steps.draws, party="clients")
    other = federation.publish(steps.other_draws, party="client-1")
    assert federation.next_round() == 1
    later = federation.publish(steps.draws, party="clients")
    for name in federation.clients:
        expected = seeds.generator(0, name, 0, "draws").random(4)
        np.testing.assert_array_equal(first[name].values, expected)
        np.testing.assert_array_equal(again[name].values, expected)
        np.testing.assert_array_equal(
            later[name].values, seeds.generator(0, name, 1, "draws").random(4)
        )
    streams = {tuple(m.values) for m in (*first.values(), *later.values(), other)}
    assert len(streams) == 7


def test_secrets_are_per_party_and_run(federation, tmp_path):
    def traces():
        answers = federation.publish(steps.secret_trace, party="clients")
        return {name: tuple(message.values) for name, message in answers.items()}

    first = traces()
    assert traces() == first
    federation.start_run("another", random_state=0, workspace=str(tmp_path))
    assert len({*first.values(), *traces().values()}) == 6


def test_a_run_that_is_begun_again_has_new_secrets(federation, tmp_path):
    def traces():
        answers = federation.publish(steps.secret_trace, party="clients")
        return {tuple(message.values) for message in answers.values()}

    first = traces()
    federation.start_run(federation.run_id, random_state=0, workspace=str(tmp_path))
    assert len(first | traces()) == 6


def test_secrets_are_nowhere_but_in_the_process(federation, tmp_path):
    federation.publish(steps.secret_trace, party="clients")
    for name in federation.clients:
        key = federation.processes._nannies[name]._party.secret.to_bytes()
        written = b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
        told = repr(federation.dask_client.scheduler_info()).encode()
        for form in (key, key.hex().encode(), repr(key).encode()):
            assert form not in written
            assert form not in told
        assert key.hex() not in repr(federation.processes._nannies[name]._party)


def test_each_party_has_its_folder(federation, tmp_path):
    answers = federation.publish(steps.in_folder, party="clients")
    assert answers["client-2"].note == str(tmp_path / "parties" / "client-2")
    assert federation.publish(steps.in_folder).note == str(tmp_path / "server")
    assert (tmp_path / "server" / "touched").read_text() == "x"


def test_the_ledger_says_what_was_sent(federation, tmp_path):
    federation.next_round()
    parts = federation.ask(steps.megabytes, 2, clients=["client-1"])
    federation.wait(federation.on_server(steps.total, parts))
    (row,) = federation.ledger.rows
    assert (row.run, row.round, row.step) == (federation.run_id, 1, "megabytes")
    assert (row.sender, row.receiver) == ("client-1", "server")
    assert (row.message, row.protection) == ("Vector", "masked")
    assert (row.shapes, row.dtypes) == ({"values": [262144]}, {"values": "float64"})
    assert row.payload_bytes == 2 * 2**20
    assert 0 < row.wire_bytes - row.payload_bytes < 2000
    file = tmp_path / "parties" / "client-1" / "ledger.jsonl"
    kinds = [json.loads(line)["kind"] for line in file.read_text().splitlines()]
    assert kinds == ["start", "message", "sent"]
    federation.start_run("empty", random_state=0)
    assert len(federation.ledger) == 0


def test_the_ledger_keeps_a_releases_noise(federation):
    federation.wait(federation.on_server(steps.lengths_of, federation.ask(steps.noised, 2.5)))
    rows = federation.ledger.rows
    assert [(row.protection, row.noise_multiplier) for row in rows] == [("noised", 2.5)] * 3
    assert {row.payload_bytes for row in rows} == {16}  # the multiplier is no content
    assert set(federation.ledger.releases()) == set(federation.clients)


def test_wire_bytes_of_several_messages_in_one_answer(federation):
    parts = [federation.ask(steps.pair_of, n, clients=["client-1"]) for n in range(1, 9)]
    federation.wait(parts)
    federation.wait(federation.on_server(steps.lengths, [part["client-1"] for part in parts]))
    rows = federation.ledger.rows
    assert sorted(row.payload_bytes for row in rows) == [9 * n for n in range(1, 9)]
    assert all(row.wire_bytes > row.payload_bytes for row in rows)


def test_first_answers_win_and_the_late_are_cancelled(federation, pipes):
    started, release = pipes
    straggler = federation.ask(steps.held, started, release, clients=["client-2"])
    prompt = federation.ask(steps.draws, clients=["client-1", "client-3"])
    with open(started) as running:
        running.read()
    done, late = federation.wait([straggler, prompt], count=2)
    assert {handle.party for handle in done} == {"client-1", "client-3"}
    assert [handle.party for handle in late] == ["client-2"]
    done, late = federation.wait(straggler, timeout=0.05)
    assert (done, len(late)) == ([], 1)
    federation.cancel(late)
    with open(release, "w") as let_go:
        let_go.write("go")
    assert federation.publish(steps.where, party="client-2").party == "client-2"


def test_failures_count_only_when_they_must(federation):
    failing = federation.ask(steps.fails_with_values, clients=["client-1"])
    good = federation.ask(steps.draws, clients=["client-2", "client-3"])
    done, late = federation.wait([failing, good], count=2)
    assert {handle.party for handle in done} == {"client-2", "client-3"}
    assert [handle.party for handle in late] == ["client-1"]
    with pytest.raises(PartyError, match="party 'client-1' failed: ValueError"):
        federation.wait([failing, good], count=3)
    also = federation.ask(steps.fails_with_sentence, clients=["client-2"])
    with pytest.raises(PartyError):
        federation.wait(also)
    with pytest.raises(PartyError, match="party 'client-1'"):  # the first of several
        federation.wait([failing, also, good])


def test_more_than_there_are_is_no_count(federation):
    asked = federation.ask(steps.draws)
    with pytest.raises(InvalidInput, match="4 steps were to end and 3 were given"):
        federation.wait(asked, count=4)


def test_a_cancelled_step_has_not_ended_well(federation, pipes):
    started, release = pipes
    straggler = federation.ask(steps.held, started, release, clients=["client-2"])
    behind = federation.ask(steps.draws, clients=["client-2"])
    with open(started) as running:
        running.read()
    federation.cancel(behind)
    with open(release, "w") as let_go:
        let_go.write("go")
    done, late = federation.wait([behind, straggler], count=1)
    assert ([handle.step for handle in done], [handle.step for handle in late]) == (
        ["held"],
        ["draws"],
    )
    with pytest.raises(ClusterError, match="'draws' of party 'client-2' was cancelled"):
        federation.wait(behind)


def test_a_result_in_time_or_an_error(federation, pipes):
    started, release = pipes
    sent = federation.publish(steps.held, started, release, party="client-1", wait=False)
    with open(started) as running:
        running.read()
    with pytest.raises(DeadlineError, match=r"'held' of party 'client-1' has not ended within"):
        sent.result(timeout=0.05)
    with open(release, "w") as let_go:
        let_go.write("go")
    assert len(sent.result(timeout=30).values) == 3


def test_memory_is_measured_and_limited(federation):
    peaks, limits = federation.peak_memory(), federation.limits()
    assert set(peaks) == set(limits) == {"client-1", "client-2", "client-3", "server"}
    assert all(50e6 < peak < 2e9 for peak in peaks.values())
    assert set(limits.values()) == {2_000_000_000}


def test_a_party_keeps_a_secret_for_runs_that_are_resumed(federation, tmp_path):
    def traces():
        told = federation.publish(steps.durable_trace, party="clients")
        return {name: tuple(message.values) for name, message in told.items()}

    first = traces()
    assert len(set(first.values())) == 3
    federation.start_run("another-id", random_state=0, workspace=str(tmp_path))
    assert traces() == first
    file = tmp_path / "parties" / "client-1" / "secret.key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(list(file.parent.glob("*secret*"))) == 1
    federation.start_run("elsewhere", random_state=0, workspace=str(tmp_path / "b"))
    assert not set(traces().values()) & set(first.values())


def test_the_folder_that_a_site_names_is_where_its_secret_stays(tmp_path):
    options = PartyOptions("a", "client", scratch="/scratch", folder=str(tmp_path))
    for run_id in ("one", "two"):
        inside = replace(options, run=RunSettings(run_id, 0, workspace="/of/the/driver"))
        assert inside.durable_folder() == tmp_path
        assert inside.run_folder() == tmp_path / "runs" / "unnamed" / run_id
    assert replace(options, folder=None).durable_folder() == Path("/scratch")


def test_a_run_must_be_started_well(federation):
    with pytest.raises(InvalidInput, match=r"name of a folder, .* got '\.\./x'"):
        federation.start_run("../x", random_state=0)
    with pytest.raises(
        InvalidInput, match="random_state must be a whole number of at least 0; got -1"
    ):
        federation.start_run("x", random_state=-1)


def test_steps_of_an_old_run_are_not_performed(federation, pipes, tmp_path):
    started, release = pipes
    federation.on_client("client-1", steps.held, started, release)
    with open(started) as running:
        running.read()
    old = federation.ask(steps.draws, clients=["client-1"])
    federation.start_run("the-next", random_state=0, workspace=str(tmp_path))
    with open(release, "w") as let_go:
        let_go.write("go")
    with pytest.raises(PartyError, match="belongs to another run"):
        federation.wait(old)


def test_a_step_within_another_gives_what_it_gives_by_itself(federation):
    """Its chance is that of its own name, and of the round in which it was asked for."""
    alone = federation.publish(steps.draws, party="clients")
    within = federation.inline(steps.draws)
    scale = PerClient({name: float(i) for i, name in enumerate(federation.clients)})
    scaled = federation.inline(steps.scaled, within, scale)
    federation.next_round()
    told = federation.publish(steps.as_message, scaled, party="clients")
    for i, name in enumerate(federation.clients):
        np.testing.assert_array_equal(told[name].values, i * alone[name].values)
    assert {row.step for row in federation.ledger if row.round} == {"as_message"}
    some = federation.inline(steps.draws, clients=["client-2"])
    assert repr(some) == "PerClient({'client-2': <Inline of client-2: draws>})"


def test_a_step_within_another_stays_where_it_is(federation):
    within = federation.inline(steps.raw_rows)
    with pytest.raises(PrivacyError, match="'total' of party 'server' may not use the result of"):
        federation.on_server(steps.total, within)
    with pytest.raises(PrivacyError, match="'raw_rows', which stays at party 'client-1'"):
        federation.on_client("client-2", steps.total, within["client-1"])
    with pytest.raises(InvalidInput, match="take handles; got Inline"):
        federation.wait(within)
    with pytest.raises(InvalidInput, match="only a message that lies at its party can be sent"):
        federation.publish(within)


def test_an_error_of_a_step_within_another_is_its_own(federation):
    within = federation.inline(steps.fails_with_values)
    with pytest.raises(PartyError) as failure:
        federation.publish(steps.sent_on, within, party="client-1")
    assert (failure.value.step, failure.value.kind) == ("fails_with_values", "ValueError")
    with pytest.raises(PartyError, match=r"step 'fails_with_sentence' .*distances need 31 bits"):
        federation.publish(
            steps.sent_on, federation.inline(steps.fails_with_sentence), party="client-1"
        )


def test_steps_of_another_party_are_not_performed(federation):
    call = StepCall(steps.row_sum, {}, "client-2", federation.run_id, 0, "send", ("server",), {})
    future = federation.dask_client.submit(
        run_step,
        sealed(federation.driver_key, call_bytes(call)),
        resources={"client-1": 1},
        pure=False,
    )
    with pytest.raises(PartyError, match="was meant for party 'client-2'"):
        federation.dask_client.gather(future)


def test_data_is_the_clients_own_store(federation):
    for name in federation.clients:
        (sums,) = [federation.publish(steps.row_sum, party=name).values]
        np.testing.assert_array_equal(sums, SUMS[name])
    assert ClientStore.__module__.startswith("daskfc.stores")


def test_a_step_whose_code_a_party_lacks(federation, tmp_path, monkeypatch):
    (tmp_path / "only_at_the_driver.py").write_text(
        "from tests.federation.steps import Vector\ndef step(data) -> Vector: ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    step = importlib.import_module("only_at_the_driver").step
    with pytest.raises(PartyError, match=r"'step' .* 'only_at_the_driver' is missing"):
        federation.wait(federation.ask(step))
