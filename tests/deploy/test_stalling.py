"""What one side tried in order to stall the runs of others, with TLS and on real processes."""

import asyncio
import contextlib
import os
import re
import socket
import time
from pathlib import Path

import psutil
import pytest
from distributed.comm import connect

from daskfc.errors import ClusterError, PolicyRefused, PrivacyError
from daskfc.federation.driver.waiting import error_of
from tests.deploy import test_attacks
from tests.deploy.consortium import Consortium
from tests.deploy.test_attacks import ROWS, register, workers
from tests.federation import stalling_steps, steps

pytestmark = pytest.mark.slow

federation = test_attacks.federation
PORTS = ("scheduler", "address", "nanny")
THERE = "tls://127.0.0.1:9"  # where c says that it listens; nobody does


@pytest.fixture(scope="module")
def consortium(tmp_path_factory):
    made = Consortium(tmp_path_factory.mktemp("stalling"), ROWS, rest=4.0)
    yield made
    made.site.end()


@pytest.fixture
def pipes(tmp_path):
    paths = [str(tmp_path / name) for name in ("started", "release")]
    for path in paths:
        os.mkfifo(path)
    return paths


def as_c(consortium, federation, *messages):
    """Say something as c, which takes no part in any run, and wait until it was heard."""
    metrics = workers(federation, "metrics")["a"]
    return consortium.say("c", register("c", metrics=metrics, address=THERE), *messages)


@pytest.mark.parametrize("op", ["add-keys", "task-finished"])
def test_nobody_says_that_it_has_the_message_of_another(consortium, federation, op):
    """Others would ask it for the message, and take what it gives for the sender's."""
    sent = federation.ask(steps.row_sum)
    federation.wait(list(sent.values()))
    (key,) = [future.key for future in sent["a"].futures.values()]
    about = {"op": op, "worker": THERE, "stimulus_id": "x"}
    finished = {"metadata": {}, "nbytes": 1, "type": b"", "typename": "", "startstops": []}
    holders = []
    for run in range(60):  # Dask counts starts of tasks
        told = {"keys": [key]} if op == "add-keys" else {"key": key, "run_id": run, **finished}
        holders.append({**about, **told, "thread": 0} if op == "task-finished" else about | told)

    async def whole():
        comm = await connect(consortium.address, **consortium.arguments("c"))
        metrics = workers(federation, "metrics")["a"]
        await comm.write(register("c", metrics=metrics, address=THERE))
        assert (await comm.read())["status"] == "OK"
        await comm.write(holders)
        heard = {"op": "request-refresh-who-has", "keys": [key], "worker": THERE}
        await comm.write([{**heard, "stimulus_id": "y"}])
        while True:  # it also tells other things
            for one in await comm.read():
                if one["op"] == "refresh-who-has":
                    comm.abort()
                    return list(one["who_has"][key])

    assert asyncio.run(whole()) == [workers(federation)["a"]]
    assert federation.publish(steps.total_message, sent).values.tolist() == [14, 26]


@pytest.mark.parametrize("op", ["task-erred", "long-running", "reschedule"])
def test_nobody_ends_the_step_of_another(consortium, federation, pipes, op):
    started, release = pipes
    sent = federation.publish(steps.held, started, release, party="a", wait=False)
    Path(started).read_text()
    (key,) = [future.key for future in sent.futures.values()]
    told = {"op": op, "key": key, "worker": THERE, "stimulus_id": "x", "compute_duration": 1.0}
    erred = {"exception": None, "traceback": None, "exception_text": "", "traceback_text": ""}
    as_c(consortium, federation, [{**told, **erred, "run_id": run} for run in range(60)])
    Path(release).write_text("on")
    assert sent.result(timeout=60)
    assert error_of(sent) is None


def test_a_worker_that_fetched_messages_is_told_to_drop_them(consortium, federation):
    """What a receiver says of its inputs is heard: otherwise it would keep them for ever."""
    sent = federation.ask(steps.row_sum)
    assert federation.publish(steps.total_message, sent)
    del sent
    ends, kept = time.monotonic() + 30, None
    while kept != 0 and time.monotonic() < ends:
        (kept,) = federation.publish(
            stalling_steps.counted, federation.on_server(stalling_steps.sums_kept)
        ).values
    assert kept == 0
    said = consortium.said("scheduler")
    assert all(f"{who} said" not in said for who in ("client 'a'", "client 'b'", "server 'server'"))


@pytest.mark.parametrize("op", ["restart_workers", "unregister"])
def test_parties_of_a_run_are_sent_away_by_whoever_began_it(consortium, federation, op):
    address = workers(federation)["a"]
    asked = {"workers": [address]} if op == "restart_workers" else {"address": address}
    with pytest.raises(PrivacyError, match="it is about parties that are in no run of yours"):
        consortium.ask("bob", op=op, **asked, stimulus_id="x")
    if op == "restart_workers":
        with pytest.raises(PrivacyError, match="it is about parties that are in no run of yours"):
            consortium.ask("bob", op=op, stimulus_id="x")  # all of them
    assert federation.publish(steps.total_message, federation.ask(steps.row_sum))


def test_bob_cancels_no_step_of_alices(consortium, federation, pipes):
    started, release = pipes
    sent = federation.publish(steps.held, started, release, party="a", wait=False)
    Path(started).read_text()
    (key,) = [future.key for future in sent.futures.values()]
    bob = {"op": "register-client", "reply": False, "client": "bob", "versions": {}}
    order = {"op": "cancel-keys", "client": "bob", "keys": [key], "force": True}
    wants = {"op": "client-desires-keys", "client": "bob", "keys": [key]}
    consortium.say("bob", bob, [wants, {**order, "reason": "", "msg": ""}])
    Path(release).write_text("on")
    assert sent.result(timeout=60)


def test_bob_hears_of_no_clients_by_whose_names_parties_are_held(consortium, federation):
    bob = {"op": "register-client", "reply": False, "client": "bob", "versions": {}}
    alice = federation.dask_client.id

    async def whole():
        comm = await connect(consortium.address, **consortium.arguments("bob"))
        await comm.write(bob)
        await comm.read()
        await comm.write([{"op": "subscribe-topic", "client": "bob", "topic": "all"}])
        await comm.write([{"op": "subscribe-topic", "client": "bob", "topic": alice}])
        other = await connect(consortium.address, **consortium.arguments("bob"))
        await other.write({**bob, "client": "bob-2"})
        await other.read()
        await comm.write([{"op": "report-key", "client": "bob", "key": "no such"}])
        told = []
        while not any(one.get("op") == "cancelled-keys" for one in told):
            told += await asyncio.wait_for(comm.read(), 30)
        comm.abort()
        other.abort()
        return told

    told = asyncio.run(whole())
    assert [one for one in told if one["op"] == "event"] == []


@pytest.mark.parametrize("of", ["the run under way", "a run that is not there"])
def test_the_ledger_of_a_run_is_read_by_whoever_began_it(consortium, federation, of):
    """In the same words, whether there is such a run or not."""
    federation.publish(steps.total_message, federation.ask(steps.row_sum))
    run = federation.run_id if of == "the run under way" else "no-such"
    places = dict.fromkeys(federation.parties, (0, ()))
    asked = {"op": "daskfc_ledger", "run_id": run, "places": places}
    for proof in (b"", bytes(64) + b"the ledger of " + run.encode()):
        answers = consortium.ask("bob", op="broadcast", msg={**asked, "proof": proof})
        assert len(answers) == 3
        for name, address in workers(federation).items():
            assert answers[address]["sentence"] == (
                f"party {name!r} tells rows of a run to whoever began it, and to nobody else."
            )
    assert len(federation.ledger) == 3


RARER = [
    *("an error", "an error of the network", "a connection that breaks off"),
    *(half for half in stalling_steps.HALVES if half != "a part of a message"),
]


@pytest.mark.parametrize(
    "what",
    [
        "nothing",
        "a part of a message",
        *(pytest.param(one, marks=pytest.mark.long) for one in RARER),
    ],
)
def test_a_peer_that_gives_no_message_fails_the_step_and_is_named(federation, what):
    federation.wait(federation.on_client("a", stalling_steps.answers_peers_with, what))
    try:
        began = time.monotonic()
        with pytest.raises(ClusterError, match="party 'server' asked 'a' for a message again and"):
            federation.publish(
                steps.total_message, federation.ask(steps.row_sum), wait=False
            ).result(timeout=90)
        assert time.monotonic() - began < 60
    finally:
        federation.wait(federation.on_client("a", stalling_steps.answers_peers_with, "message"))
    assert federation.publish(
        steps.total_message, federation.ask(steps.row_sum)
    ).values.tolist() == [14, 26]


@pytest.mark.parametrize("thief", ["bob", "scheduler"])
def test_a_message_that_is_not_for_somebody_might_as_well_not_be_there(
    consortium, federation, thief
):
    sent = federation.ask(steps.row_sum)
    federation.wait(list(sent.values()))
    (key,) = [future.key for future in sent["a"].futures.values()]
    there, said = workers(federation)["a"], set()
    for asked in (key, "no-such-key"):
        answer = consortium.ask(thief, there, op="get_data", keys=[asked], who=there)
        said.add((answer["status"], str(answer["data"][asked].error)))
    ((_, sentence),) = said
    assert "was asked for data by a process that is no party of this scheduler" in sentence


@pytest.mark.parametrize("thief", ["b", "bob"])
def test_who_asks_and_takes_nothing_keeps_nobody_out(consortium, federation, thief):
    """Dask's workers say to all others that they are busy, while a few dozen are being answered."""
    there = workers(federation)["a"]

    async def ask():
        comm = await connect(there, **consortium.arguments(thief))
        await comm.write({"op": "get_data", "keys": ["no-such-key"], "who": there})
        return comm

    async def whole():
        asking = [await ask() for _ in range(150)]
        await asyncio.gather(*(one.read() for one in asking))  # and "OK" is never said
        got = await asyncio.to_thread(
            lambda: federation.publish(steps.total_message, federation.ask(steps.row_sum))
        )
        for one in asking:
            one.abort()
        return got

    assert asyncio.run(asyncio.wait_for(whole(), 60)).values.tolist() == [14, 26]


def at(consortium, federation, where):
    return consortium.address if where == "scheduler" else workers(federation, where)["a"]


def written(consortium, where):
    """Return what the server at a port wrote down; a worker does so in a file for each run."""
    if where == "address":
        return "".join(path.read_text() for path in consortium.folder.rglob("party.log"))
    return consortium.said("scheduler" if where == "scheduler" else "a")


def test_a_message_that_has_begun_ends_or_its_connection_does(consortium, federation):
    """With a certificate, after it has asked something; another one that is silent stays."""
    there = {where: at(consortium, federation, where) for where in PORTS}
    cases = [(where, half) for where in PORTS for half in stalling_steps.HALVES]

    async def one_half(where, half):
        address = there[where]
        comm, silent = [await connect(address, **consortium.arguments("c")) for _ in range(2)]
        for one in (comm, silent):
            await one.write({"op": "identity", "reply": True})
            await one.read()
        began = time.monotonic()
        await comm.stream.write(stalling_steps.HALVES[half])
        with contextlib.suppress(OSError):
            while await asyncio.wait_for(comm.stream.read_bytes(1), 30):
                pass
        took = time.monotonic() - began
        await silent.write({"op": "identity", "reply": True})
        assert await silent.read()
        silent.abort()
        return took

    async def whole():
        return await asyncio.gather(*(one_half(*case) for case in cases))

    for case, took in zip(cases, asyncio.run(whole()), strict=True):
        assert took < 15, case
    for where in PORTS:
        for told in ("announces more than", "sends a message too slowly"):
            assert re.search(f"client 'c' at 127.0.0.1:[0-9]+ {told}", written(consortium, where))
    assert federation.publish(steps.total_message, federation.ask(steps.row_sum))


async def opened(consortium, there, name, number):
    """Return connections with a certificate, and whether each was answered."""
    made = [await connect(there, **consortium.arguments(name)) for _ in range(number)]
    return made, [await answered(one) for one in made]


async def answered(one):
    try:
        await one.write({"op": "identity", "reply": True})
        return bool(await one.read())
    except OSError:
        return False


@pytest.mark.parametrize("where", PORTS)
def test_one_certificate_has_so_many_connections_and_no_more(consortium, federation, where):
    there = at(consortium, federation, where)

    async def whole():
        made, told = await opened(consortium, there, "c", 280)
        got = await asyncio.to_thread(
            lambda: federation.publish(steps.total_message, federation.ask(steps.row_sum))
        )
        made[0].abort()
        again = [False]
        while again != [True]:  # it was closed here, and will be there
            more, again = await opened(consortium, there, "c", 1)
            made += more
        for one in made:
            one.abort()
        return told, got

    told, got = asyncio.run(asyncio.wait_for(whole(), 120))
    assert told == [True] * 256 + [False] * 24
    assert got.values.tolist() == [14, 26]
    said = written(consortium, where)
    assert said.count("client 'c' has 256 connections open; further ones are closed") == 1


def test_the_scheduler_asks_for_all_drivers(consortium, federation):
    async def whole():
        made, told = await opened(consortium, workers(federation)["a"], "scheduler", 280)
        for one in made:
            one.abort()
        return told

    assert all(asyncio.run(asyncio.wait_for(whole(), 120)))


def test_bob_hears_nothing_of_what_was_refused_in_alices_run(consortium, federation):
    bob = {"op": "register-client", "reply": False, "client": "bob", "versions": {}}

    async def listen():
        comm = await connect(consortium.address, **consortium.arguments("bob"))
        await comm.write(bob)
        await comm.read()
        for topic in ("daskfc-refusals", "all"):
            await comm.write([{"op": "subscribe-topic", "client": "bob", "topic": topic}])
        ask = {"op": "report-key", "client": "bob", "key": "no such"}
        await comm.write([ask])
        told = []
        while not any(one.get("op") == "cancelled-keys" for one in told):
            told += await asyncio.wait_for(comm.read(), 30)  # it has subscribed
        heard = await asyncio.to_thread(refused)
        await comm.write([{**ask, "key": "no such either"}])
        while sum(one.get("op") == "cancelled-keys" for one in told) < 2:
            told += await asyncio.wait_for(comm.read(), 30)
        comm.abort()
        return heard, told

    def refused():
        federation.ask(steps.not_the_declared, clients=["a"])
        ends = time.monotonic() + 30
        while federation._refusals.error is None and time.monotonic() < ends:
            federation.dask_client.scheduler_info()
        return federation._refusals.error

    heard, told = asyncio.run(listen())
    assert "declares Pair" in str(heard)
    assert [one for one in told if one["op"] == "event"] == []
    assert consortium.ask("a", op="events", topic="daskfc-refusals") == ()


@pytest.fixture
def impatient(tmp_path):
    """Sites that leave a run after some seconds."""
    made = Consortium(tmp_path, ROWS, "runs: {at_most: 99, per: day, longest: 8s}")
    yield made
    made.site.end()


@pytest.mark.long
def test_a_driver_that_stays_holds_parties_no_longer_than_they_say(impatient):
    with impatient.joined("alice") as alice:
        alice.start_run("first", random_state=0, deadline_s=60)
        with pytest.raises(ClusterError, match="has been in a run of another driver since"):
            impatient.joined("bob")
        ends, told = time.monotonic() + 60, ""
        while not told and time.monotonic() < ends:
            try:
                alice.publish(steps.total_message, alice.ask(steps.row_sum))
            except PolicyRefused as error:
                told = str(error)
        assert "refuses this by its rule 'runs.longest'" in told
        with impatient.joined("bob") as bob:
            bob.start_run("second", random_state=0, deadline_s=60)
            assert bob.publish(steps.total_message, bob.ask(steps.row_sum))


@pytest.fixture
def silent():
    """Opens connections and says at most half of something; they are closed in the end."""
    with contextlib.ExitStack() as stack:

        def make(address, n, *, source="127.0.0.1", say=b""):
            host, _, port = address.rpartition("//")[2].rpartition(":")
            made = []
            for _ in range(n):
                line = socket.create_connection((host, int(port)), 60, (source, 0))
                made.append(stack.enter_context(line))
                line.sendall(say)
            return made

        yield make


def ended(line, seconds):
    """Return whether the other end hangs up in time."""
    line.settimeout(seconds)
    try:
        while line.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


def test_connections_that_ask_nothing_are_ended(consortium, federation, silent):
    """Silent ones, and halves of a TLS handshake; those that somebody uses are not ended."""
    began = time.monotonic()
    lines = []
    for where in PORTS:
        for say in (b"", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"):
            lines += silent(at(consortium, federation, where), 20, say=say)
    assert federation.publish(steps.total_message, federation.ask(steps.row_sum))
    assert all(ended(line, 60) for line in lines)
    assert 10 < time.monotonic() - began
    assert federation.publish(steps.total_message, federation.ask(steps.row_sum))


def test_one_address_has_so_many_unfinished_connections_and_no_more(consortium, silent):
    lines = silent(consortium.address, 530, source="127.0.0.2")
    assert all(ended(line, 5) for line in lines[:18])
    lines[-1].settimeout(0.1)
    with pytest.raises(TimeoutError):
        lines[-1].recv(1)


@pytest.mark.long
def test_100_000_connections_keep_nobody_out(consortium, silent):
    scheduler = psutil.Process(consortium.processes["scheduler"].pid)
    before, lines = scheduler.memory_info().rss, []
    for number in range(100_000):
        lines += silent(consortium.address, 1, source=f"127.0.{number % 7}.9")
        if len(lines) > 500:
            lines.pop(0).close()
        if number % 25_000 == 0:
            with consortium.joined("bob") as federation:
                assert set(workers(federation)) == {"a", "b", "server"}
    assert scheduler.memory_info().rss - before < 300e6


def test_servers_may_open_as_much_as_the_system_allows(consortium):
    for name in ("scheduler", "a"):
        process = psutil.Process(consortium.processes[name].pid)
        for one in (process, *process.children(recursive=True)):
            soft, hard = one.rlimit(psutil.RLIMIT_NOFILE)
            assert soft == min(hard, 65_535)
