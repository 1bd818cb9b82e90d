"""What others tried at the ports of sites and their scheduler with TLS, on real processes.

The numbers are those of the list of attempts in docs/security.md.
"""

import asyncio
import base64
import dataclasses
import json
import os

import numpy as np
import psutil
import pytest
from dask._task_spec import Task
from dask.highlevelgraph import HighLevelGraph
from distributed import CancelledError, Client, LocalCluster
from distributed.comm import connect
from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.protocol import to_serialize
from distributed.protocol.serialize import ToPickle

from daskfc.deploy.certificates.signatures import sign
from daskfc.deploy.certificates.tls import security_of
from daskfc.deploy.config.config import SecurityFiles
from daskfc.deploy.config.settings import PIN
from daskfc.errors import ClusterError, DaskfcError, NotAdmitted, PartyError, PrivacyError
from daskfc.federation import Federation
from daskfc.federation.driver.graph import PinnedTask, start
from daskfc.federation.identity.session_key import SessionKey
from daskfc.federation.party.gate import content_of_end, signed_content
from daskfc.federation.party.options import RunSettings
from daskfc.federation.steps.calls import StepCall, call_bytes
from daskfc.federation.worker.guard import run_step
from tests.deploy.consortium import ROLES, Consortium
from tests.deploy.test_sites import cluster_of
from tests.federation import steps

pytestmark = pytest.mark.slow

ROWS = {"a": np.array([[1.0, 2.0], [3.0, 4.0]]), "b": np.array([[10.0, 20.0]])}


@pytest.fixture(scope="module")
def consortium(tmp_path_factory):
    made = Consortium(tmp_path_factory.mktemp("consortium"), ROWS, forked=False)
    yield made
    made.site.end()


@pytest.fixture
def federation(consortium):
    with consortium.joined() as federation:
        federation.start_run(f"r-{id(federation)}", random_state=0, deadline_s=60)
        yield federation


def test_a_connection_lends_the_certificates_of_its_files(consortium):
    security = security_of(SecurityFiles(**consortium.files["bob"]))
    with (
        Client(consortium.address, security=security, set_as_default=False) as client,
        Federation.connect(client, clients=["a"]) as federation,
    ):
        federation.start_run("lent", random_state=0)
        assert federation.publish(steps.row_sum, party="a").values.tolist() == [4.0, 6.0]


def workers(federation, what="address"):
    told = federation.dask_client.scheduler_info(n_workers=-1)["workers"]
    return {str(one["name"]): one.get(what, address) for address, one in told.items()}


def test_sides_with_keys_of_their_own_work_together(federation, consortium):
    sent = federation.publish(steps.total_message, federation.ask(steps.row_sum), wait=False)
    federation.wait([sent])
    assert sent.result().values.tolist() == [14.0, 26.0]
    folders = [consortium.folder / name for name in ("ca", "sent")]
    files = [path for one in folders for path in one.rglob("*") if path.is_file()]
    with_keys = [path.name for path in files if b"PRIVATE KEY" in path.read_bytes()]
    assert with_keys == ["ca-key.pem"]
    checked = consortium.certs("check", consortium.folder / "parties.yaml", *consortium.ca)
    assert checked == "".join(f"{name}: valid\n" for name in ROLES)


def test_2_messages_of_others_are_not_handed_out(federation, consortium):
    """`get_data` with a `who` that is another's: the certificate says who asks."""
    sent = federation.ask(steps.row_sum)
    federation.wait(list(sent.values()))
    there = workers(federation)
    (key,) = [future.key for future in sent["a"].futures.values()]
    for thief in ("b", "alice", "scheduler"):
        told = consortium.ask(thief, there["a"], op="get_data", keys=[key], who=there["server"])
        (answer,) = told["data"].values()
        assert type(answer).__name__ == "Refused", answer
    assert [row for row in federation.ledger if row.sender == "a"] == []


def test_2_what_one_submitter_s_run_tells_its_caller_another_does_not_get(federation, consortium):
    sent = federation.publish(steps.total_message, federation.ask(steps.row_sum), wait=False)
    federation.wait([sent])
    (key,) = [future.key for future in sent.futures.values()]
    there = workers(federation)["server"]
    with pytest.raises(ClusterError, match="or of whoever began this run"):
        consortium.ask("bob", there, op="get_data", keys=[key])
    assert sent.result().values.tolist() == [14.0, 26.0]


@pytest.mark.parametrize(
    ("thief", "said"),
    [
        ("b", "with a certificate of the role submitter; yours is of client 'b'"),
        ("server", "with a certificate of the role submitter; yours is of server 'server'"),
        ("scheduler", "'identity' is not answered to the role in your certificate"),
    ],
)
def test_3_a_stolen_certificate_begins_no_run(consortium, thief, said):
    with pytest.raises(ClusterError, match=f"no Dask scheduler answered at tls://.*{said}"):
        consortium.joined(thief)


@pytest.mark.parametrize("thief", ["b", "server", "scheduler"])
def test_3_a_start_that_a_party_signed_is_none(consortium, federation, thief):
    """As a scheduler that lets anybody submit could pass it on."""
    settings = dataclasses.replace(federation._run, start=f"of {thief}")
    proof = sign(SecurityFiles(**consortium.files[thief]), signed_content(settings))
    told = {"run": dataclasses.asdict(settings), "proof": proof}
    answers = federation._roll_call.ask("daskfc_start_run", nanny=True, **told)
    said = f"is signed by {ROLES[thief]} {thief!r}, whose role begins no runs"
    assert all(said in answer["sentence"] for answer in answers.values())
    assert len(answers) == 3


def test_3_a_start_that_bob_signed_is_not_alices(consortium, federation):
    """Settings of one, signature of another: as a scheduler could mix them."""
    settings = dataclasses.replace(federation._run, start="of bob's")
    told = {"run": dataclasses.asdict(settings), "proof": None}
    answers = federation._roll_call.ask("daskfc_start_run", nanny=True, **told)
    assert {answer["kind"] for answer in answers.values()} == {"PrivacyError"}
    assert all("bears no signature" in answer["sentence"] for answer in answers.values())


@pytest.mark.parametrize("by", ["nobody", "b", "bob", "the start of it"])
def test_3_a_run_is_ended_by_who_began_it_alone(consortium, federation, by):
    """As a scheduler could have parties forget what a resumed run needs."""
    run, files = federation._run, consortium.files
    content = signed_content(run) if by == "the start of it" else content_of_end(run)
    signer = "alice" if by == "the start of it" else by
    proof = None if by == "nobody" else sign(SecurityFiles(**files[signer]), content)
    told = {"run": dataclasses.asdict(run), "proof": proof}
    answers = federation._roll_call.ask("daskfc_end_run", nanny=True, **told)
    assert {answer["kind"] for answer in answers.values()} == {"PrivacyError"}
    assert len(answers) == 3
    own = sign(SecurityFiles(**files["alice"]), content_of_end(run))
    answers = federation._roll_call.ask("daskfc_end_run", nanny=True, **{**told, "proof": own})
    assert [answer["status"] for answer in answers.values()] == 3 * ["OK"]


@pytest.mark.parametrize("by", ["nobody", "bob"])
def test_4_a_call_that_the_submitter_did_not_sign_is_not_done(federation, by):
    """What a scheduler, or another submitter, could put among the steps of a run."""
    run = federation._run
    content = call_bytes(StepCall(steps.row_sum, {}, "a", run.run_id, 0, "send", ("caller",), {}))
    data = bytes(64) + content if by == "nobody" else SessionKey().signed(content)
    (future,) = start(federation.dask_client, [PinnedTask(f"row_sum|{by}", "a", run_step, (data,))])
    with pytest.raises(PartyError, match="was not signed by whoever began the run"):
        future.result(timeout=60)


def test_4_a_function_of_no_step_is_not_run(federation):
    future = federation.dask_client.submit(len, b"x", resources={"a": 1}, key="len-of-x")
    # Older versions of Dask have one sentence for whatever a scheduler does not take.
    told = "no step of daskfc|deserialization of the task graph"
    with pytest.raises((PrivacyError, RuntimeError), match=told):
        future.result(timeout=60)


def test_4_what_a_script_defines_is_not_run_at_a_site(federation):
    def raw(data):
        return None

    raw.__module__ = "__main__"
    with pytest.raises(PartyError, match="holds code"):
        federation.wait(list(federation.on_clients(raw).values()))


@pytest.mark.parametrize("thief", ["b", "alice"])
@pytest.mark.parametrize("op", ["terminate", "daskfc_ledger", "identity", "free_keys"])
def test_8_a_worker_answers_its_scheduler_alone(federation, consortium, thief, op):
    extra = {"run_id": "r"} if op == "daskfc_ledger" else {}
    with pytest.raises(PrivacyError, match="is not answered to the role in your certificate"):
        consortium.ask(thief, workers(federation)["a"], op=op, **extra)


@pytest.mark.parametrize("op", ["kill", "terminate", "restart", "identity"])
def test_8_a_nanny_answers_its_scheduler_alone(federation, consortium, op):
    nanny = workers(federation, "nanny")["a"]
    with pytest.raises(PrivacyError, match="is not answered to the role in your certificate"):
        consortium.ask("b", nanny, op=op)


@pytest.mark.parametrize("where", ["address", "nanny"])
def test_no_certificate_no_connection(federation, where):
    address = workers(federation, where)["a"]

    async def attempt():
        comm = await connect(address.replace("tls://", "tcp://"), timeout=3)
        comm.abort()

    with pytest.raises(OSError, match=r"."):
        asyncio.run(attempt())


@pytest.mark.parametrize("thief", ["a", "server", "alice"])
def test_a_scheduler_with_a_certificate_of_another_role_is_not_joined(consortium, thief):
    security = security_of(SecurityFiles(**consortium.files[thief]))
    with LocalCluster(
        n_workers=0, processes=False, protocol="tls", security=security, dashboard_address=None
    ) as posing:
        files = consortium.files["bob"]
        cluster = cluster_of(posing.scheduler_address, security=files, startup="10s")
        with pytest.raises(NotAdmitted, match=f"by its certificate it is {ROLES[thief]} "):
            Federation.connect(cluster, clients=["a"])


def test_whoever_has_certificates_takes_no_connection_without(consortium):
    """Neither to a scheduler that offers none, nor at a port of its own."""

    async def attempt(ends):
        arguments = security_of(SecurityFiles(**consortium.files["a"])).get_connection_args(ends)
        await connect("tcp://127.0.0.1:9", timeout=3, **arguments)

    for ends in ("client", "worker", "scheduler"):
        with pytest.raises(RuntimeError, match="encryption required"):
            asyncio.run(attempt(ends))


def test_11_a_start_that_was_used_is_refused(consortium, federation):
    """A replay of alice's own start, with her own signature, in the middle of her next run."""
    heard = []
    ask_all = federation._roll_call.everyone

    def everyone(parties, op, **given):
        heard.append((parties, op, given))
        return ask_all(parties, op, **given)

    federation._roll_call.everyone = everyone
    federation.start_run("first", random_state=0, deadline_s=60)
    first = list(heard)
    federation.start_run("second", random_state=0, deadline_s=60)
    for parties, op, given in first:
        with pytest.raises(DaskfcError, match="refuses this by its rule 'start'"):
            ask_all(parties, op, **given)
    assert isinstance(federation._run, RunSettings)
    assert federation.publish(
        steps.total_message, federation.ask(steps.row_sum)
    ).values.tolist() == [14, 26]


class Evil:
    """Makes a folder wherever it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_4_no_code_of_a_submitter_runs_in_the_scheduler(federation, tmp_path):
    """In the argument of a task, in a class that a graph is made of, as function and plug-in."""
    client, caught = federation.dask_client, []
    graph = HighLevelGraph.from_collections(
        "x", {"x": Task("x", len, Evil(tmp_path / "graph"))}, ()
    )
    attempts = {
        "argument": lambda path: client.submit(len, Evil(path), key="evil").result(timeout=60),
        "step": lambda path: client.submit(run_step, Evil(path), key="step").result(timeout=60),
        "graph": lambda path: client.get(graph, ["x"]),
        "annotation": lambda path: client.submit(
            len, b"", key="annotated", resources={Evil(path): 1}
        ).result(timeout=60),
        "function": lambda path: client.run_on_scheduler(os.mkdir, str(path)),
        "plugin": lambda path: client.register_plugin(evil_plugin(path)),
        "everywhere": lambda path: client.run(os.mkdir, str(path)),
    }
    for name, attempt in attempts.items():
        with pytest.raises((DaskfcError, ValueError, RuntimeError, CancelledError, OSError)) as no:
            attempt(tmp_path / name)
        caught.append((name, no.type, str(no.value)))
    assert list(tmp_path.iterdir()) == [], caught
    federation.publish(steps.total_message, federation.ask(steps.row_sum))  # all goes on


def evil_plugin(path):
    class Plugin(SchedulerPlugin):
        def start(self, scheduler):
            os.mkdir(path)

    return Plugin()


@pytest.mark.parametrize("op", ["identity", "run_function", "register-client", "no such thing"])
def test_1_a_pickle_at_the_scheduler_s_port_is_not_opened(consortium, tmp_path, op):
    message = {"op": op, "function": ToPickle(Evil(tmp_path / "a")), "client": "x", "versions": {}}
    consortium.say("c", {**message, "plugin": to_serialize(Evil(tmp_path / "b"))})
    assert list(tmp_path.iterdir()) == []


def register(name, **changes):
    return {
        "op": "register-worker", "reply": False, "address": "tls://127.0.0.1:9", "name": name,
        "resources": {name: PIN}, "status": "running", "server_id": "x", "nthreads": 1, "now": 0.0,
        "memory_limit": 10**9, "metrics": {}, "services": {}, "local_directory": "", "extra": {},
        "versions": {}, "nanny": "tls://127.0.0.1:9", "stimulus_id": "x", **changes,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("thief", "name", "resources", "said"),
    [
        ("c", "server-2", {"server-2": PIN}, "the name of its certificate alone, which is of clie"),
        ("c", "server", {"server": PIN}, "the name of its certificate alone, which is of client"),
        ("c", "d", {"d": PIN}, "the name of its certificate alone"),
        ("server", "server-2", {"server-2": PIN}, "the name of its certificate alone"),
        ("alice", "c", {"c": PIN}, "which is of submitter 'alice'; got 'c'"),
        ("c", "c", {"c": PIN, "server": PIN}, "'c' offers 'c', 'server'"),
        ("c", "c", {"server": PIN}, "'c' offers 'server'"),
        ("c", "c", {"c": 1}, "the resource of its own name alone"),
        ("c", "c", {}, "'c' offers none"),
    ],
)
def test_7_a_worker_offers_itself_alone(consortium, thief, name, resources, said):
    answer = consortium.say(thief, register(name, resources=resources))
    assert answer["status"] == "error"
    assert said in answer["message"]


def test_7_resources_do_not_come_later(consortium, federation):
    metrics = workers(federation, "metrics")["a"]
    beat = {"address": workers(federation)["a"], "metrics": metrics, "now": 0.0}
    with pytest.raises(PrivacyError, match="resources are those of the beginning"):
        consortium.ask("a", op="heartbeat_worker", **beat, resources={"server": PIN})
    assert consortium.ask("a", op="heartbeat_worker", **beat)["status"] == "OK"
    assert workers(federation, "resources")["a"] == {"a": PIN}


@pytest.mark.parametrize("by", ["address", "name"])
@pytest.mark.parametrize("op", ["unregister", "heartbeat_worker"])
def test_7_a_party_speaks_for_itself_alone(consortium, federation, op, by):
    address = workers(federation)["a"] if by == "address" else "a"
    with pytest.raises(PrivacyError, match="it is about another party"):
        consortium.ask("b", op=op, address=address)
    assert "a" in workers(federation)


@pytest.mark.parametrize("thief", ["b", "server", "scheduler"])
@pytest.mark.parametrize(
    "op", ["broadcast", "gather", "restart_workers", "who_has", "processing", "versions"]
)
def test_3_what_submitters_ask_a_scheduler_is_theirs(consortium, thief, op):
    with pytest.raises(PrivacyError, match="is not answered to the role in your certificate"):
        consortium.ask(thief, op=op)


@pytest.mark.parametrize(
    "op",
    "run_function register_scheduler_plugin register_worker_plugin scatter update_data restart "
    "set_metadata set_resources terminate retire_workers log_event feed proxy".split(),
)
def test_3_what_no_federation_asks_is_answered_to_nobody(consortium, op):
    with pytest.raises((PrivacyError, ValueError), match=r"not answered|disallowed"):
        consortium.ask("alice", op=op)


@pytest.mark.parametrize("op", ["terminate", "daskfc_start_run", "run", "get_data"])
def test_6_a_submitter_asks_parties_what_daskfc_asks_them(consortium, op):
    """A start that a scheduler hands a worker, past its nanny, would pass the site's policy by."""
    with pytest.raises(PrivacyError, match="it is no request of daskfc to its parties"):
        consortium.ask("alice", op="broadcast", msg={"op": op})


def test_6_nor_does_a_scheduler_begin_a_run_past_the_nanny(consortium, federation):
    run = dataclasses.asdict(dataclasses.replace(federation._run, start="past"))
    answer = consortium.ask(
        "scheduler", workers(federation)["a"],
        op="daskfc_start_run", run=run, nonce=bytes(32), submitter="alice", seal=bytes(32),
    )  # fmt: skip
    assert (answer["status"], answer["kind"]) == ("declined", "PrivacyError")


def test_what_a_worker_tells_is_of_workers_and_of_itself(consortium, federation):
    """A party's connection speaks as a client, for another client, and about its topic."""
    alice, metrics = federation.dask_client.id, workers(federation, "metrics")["a"]
    answer = consortium.say(
        "c",
        register("c", metrics=metrics),
        [{"op": "close-client", "client": alice}],
        [{"op": "client-releases-keys", "client": alice, "keys": ["x"]}],
        [{"op": "log-event", "topic": alice, "msg": {"action": "remove-client"}}],
        [{"op": "worker-status-change", "worker": workers(federation)["a"], "status": "paused"}],
        [{"op": "close-stream"}],
    )
    assert answer["status"] == "OK"
    told = consortium.ask("a", op="events", topic=alice)
    assert [event["action"] for _, event in told if "client" in str(event)][-1:] != [
        "remove-client"
    ]
    assert set(workers(federation, "status").values()) == {"running"}
    federation.publish(steps.total_message, federation.ask(steps.row_sum))


def test_a_registration_that_breaks_off_leaves_nobody(consortium, federation):
    with pytest.raises(OSError, match=r"."):
        consortium.say("c", register("c", metrics={"memory": "much"}))
    assert set(workers(federation)) == {"a", "b", "server"}


def test_nobody_takes_the_place_of_a_client(consortium, federation):
    alice = federation.dask_client.id
    message = {"op": "register-client", "reply": False, "client": alice, "versions": {}}
    (answer,) = consortium.say("bob", message)
    assert f"a client {alice!r} is connected already" in answer["error"]
    assert federation._roll_call.addresses()


@pytest.fixture
def consortium_of_its_own(tmp_path):
    made = Consortium(tmp_path, ROWS)
    yield made
    made.site.end()


@pytest.mark.long
def test_a_revoked_certificate_is_answered_nothing_without_a_restart(consortium_of_its_own):
    """Another than the other tests have: b and bob are out after it."""
    consortium = consortium_of_its_own
    asked = {"op": "get_data", "keys": [], "who": None}
    with consortium.joined("bob") as federation:
        address = workers(federation)["a"]
        consortium.ask("b", address, **asked)
        consortium.revoke("b", "bob")
        assert consortium.processes["b"].wait(60) == 2
        said = consortium.said("b").splitlines()[-1]
        assert said == (
            "daskfc: party 'b' was sent away by the scheduler: 'identity' is not answered to a "
            "certificate that was revoked. Make another key by 'daskfc certs request NAME', and "
            "have it signed."
        )
        with pytest.raises((PrivacyError, ClusterError)):
            federation._roll_call.addresses()
    consortium.ask("alice", address, **asked)
    with pytest.raises(PrivacyError, match="is not answered"):
        consortium.ask("b", address, **asked)
    with pytest.raises(
        ClusterError, match="'identity' is not answered to a certificate that was r"
    ):
        consortium.joined("bob")
    answer = consortium.say("b", register("b"))
    assert answer["message"].startswith("the certificate of party 'b' was revoked")
    with consortium.joined("alice", clients=["a"]) as federation:
        assert federation.clients == ("a",)
    assert "party 'b' left" in consortium.said("scheduler")


def test_no_private_key_is_where_others_look(federation, consortium):
    """NVFlare#4932, #4933, #4979: tokens stood in logs and in what `ps` shows of a process."""
    federation.wait(list(federation.ask(steps.row_sum).values()))
    failed = federation.ask(steps.fails_with_cause)
    with pytest.raises(PartyError):
        federation.wait(list(failed.values()))
    files = [path for path in consortium.folder.rglob("*") if path.is_file()]
    own = [path for path in files if path.name.endswith("key.pem")]
    secrets = {line for path in own for line in path.read_bytes().splitlines()[1:-1]}
    about = [path for path in files if path.parts[-2:] == ("sample_id", "zarr.json")]
    secrets |= {json.loads(path.read_text())["attributes"]["id_key"].encode() for path in about}
    session = federation.session._key.private_bytes_raw()
    secrets |= {session, session.hex().encode(), base64.b64encode(session)}
    assert len(own) >= len(ROLES)
    assert len(about) == len(ROWS)
    texts = {path: path.read_bytes() for path in files if path not in own + about}
    assert any(path.name == "party.log" for path in texts)
    for process in psutil.Process().children(recursive=True):
        texts[process.pid] = "\0".join(process.cmdline()).encode()
        texts[-process.pid] = repr(process.environ()).encode()
    told = {name for name, text in texts.items() if any(one in text for one in secrets)}
    assert told == set()
