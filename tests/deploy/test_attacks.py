"""What others tried at the ports of sites with TLS: each attempt on real processes.

The numbers are those of the list of attempts in docs/security.md.
"""

import asyncio
import dataclasses
import shutil

import numpy as np
import pytest
from distributed.comm import connect
from distributed.core import rpc

from daskfc.deploy.authority import Authority
from daskfc.deploy.config import SecurityFiles
from daskfc.deploy.connection import security_of
from daskfc.errors import DaskfcError, PartyError, PrivacyError
from daskfc.federation import Federation
from daskfc.federation.guard import run_step
from daskfc.federation.party_options import RunSettings
from daskfc.federation.session_key import SessionKey
from daskfc.federation.steps import StepCall, call_bytes
from daskfc.testing.federation import stores_of
from tests.deploy.test_sites import Site, cluster_of
from tests.federation import steps

pytestmark = pytest.mark.slow

ROLES = {
    "a": "client", "b": "client", "server": "server", "scheduler": "scheduler",
    "alice": "submitter", "bob": "submitter",
}  # fmt: skip
ROWS = {"a": np.array([[1.0, 2.0], [3.0, 4.0]]), "b": np.array([[10.0, 20.0]])}


class Consortium:
    """Two clients, a server and a scheduler with TLS, and everybody's certificate."""

    def __init__(self, folder):
        self.folder, authority = folder, Authority.create(folder / "ca")
        self.authority = authority
        self.files = {}
        for name, role in ROLES.items():
            authority.issue(role, name)
            own = shutil.copytree(authority.folder_of(name), self.held(name))  # handed over
            self.files[name] = {key: str(own / f"{key}.pem") for key in ("ca", "cert", "key")}
        urls = stores_of(folder, ROWS)
        self.site = Site(folder)
        own = self.files["scheduler"]
        flags = [f"--tls-{flag}" for flag in ("ca-file", "cert", "key")]
        files = (own["ca"], own["cert"], own["key"])
        given = [word for pair in zip(flags, files, strict=True) for word in pair]
        self.address = self.site.scheduler("127.0.0.1", *given)
        for name in ("a", "b", "server"):
            options = {"store": urls[name]} if name in urls else {}
            options |= {"workspace": str(folder / f"{name}-files")}
            self.site.party(name, self.address, security=self.files[name], **options)

    def held(self, name):
        return self.folder / "held" / name

    def joined(self, name="alice", clients=("a", "b")):
        cluster = cluster_of(self.address, security=self.files[name])
        return Federation.connect(cluster, clients=list(clients))

    def arguments(self, name):
        """Return how a Dask worker with a certificate connects."""
        return security_of(SecurityFiles(**self.files[name])).get_connection_args("worker")


@pytest.fixture(scope="module")
def consortium(tmp_path_factory):
    made = Consortium(tmp_path_factory.mktemp("consortium"))
    yield made
    made.site.end()


@pytest.fixture
def federation(consortium):
    with consortium.joined() as federation:
        federation.start_run(f"r-{id(federation)}", random_state=0, deadline_s=60)
        yield federation


def ask(address, arguments, **message):
    """Ask a port and return the answer."""

    async def whole():
        async with rpc(address, connection_args=arguments) as there:
            op = message.pop("op")
            return await getattr(there, op)(**message)

    return asyncio.run(whole())


def workers(federation, what="address"):
    told = federation.dask_client.scheduler_info(n_workers=-1)["workers"]
    return {str(one["name"]): one.get(what, address) for address, one in told.items()}


def test_2_messages_of_others_are_not_handed_out(federation, consortium):
    """`get_data` with a `who` that is another's: the certificate says who asks."""
    sent = federation.ask(steps.row_sum)
    federation.wait(list(sent.values()))
    there = workers(federation)
    (key,) = [key for key in federation.dask_client.has_what()[there["a"]] if "row_sum" in str(key)]
    for thief in ("b", "alice", "scheduler"):
        arguments = consortium.arguments(thief)
        told = ask(there["a"], arguments, op="get_data", keys=[key], who=there["server"])
        (answer,) = told["data"].values()
        assert type(answer).__name__ == "_Refused", answer
    assert [row for row in federation.ledger if row.sender == "a"] == []


@pytest.mark.parametrize("thief", ["b", "server", "scheduler"])
def test_3_a_stolen_certificate_begins_no_run(consortium, thief):
    with pytest.raises(
        PrivacyError, match=f"signed by {ROLES[thief]} {thief!r}, whose role begins"
    ):
        consortium.joined(thief)


def test_3_a_start_that_bob_signed_is_not_alices(consortium, federation):
    """Settings of one, signature of another: as a scheduler could mix them."""
    settings = dataclasses.replace(federation._run, start="of bob's")
    told = {"run": dataclasses.asdict(settings), "proof": None}
    answers = federation._roll_call.ask("daskfc_start_run", nanny=True, **told)
    assert {answer["kind"] for answer in answers.values()} == {"PrivacyError"}
    assert all("bears no signature" in answer["sentence"] for answer in answers.values())


@pytest.mark.parametrize("by", ["nobody", "bob"])
def test_4_a_call_that_the_submitter_did_not_sign_is_not_done(federation, by):
    """What a scheduler, or another submitter, could put among the steps of a run."""
    run = federation._run
    content = call_bytes(StepCall(steps.row_sum, {}, "a", run.run_id, 0, "send", ("caller",), {}))
    data = bytes(64) + content if by == "nobody" else SessionKey().signed(content)
    future = federation.dask_client.submit(
        run_step, data, key=f"row_sum|{by}", resources={"a": 1}, workers=[workers(federation)["a"]]
    )
    with pytest.raises(PartyError, match="was not signed by whoever began the run"):
        future.result(timeout=60)


def test_4_a_function_of_no_step_is_not_run(federation):
    future = federation.dask_client.submit(len, b"x", resources={"a": 1}, key="len-of-x")
    with pytest.raises(DaskfcError, match="no step of daskfc"):
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
        ask(workers(federation)["a"], consortium.arguments(thief), op=op, **extra)


@pytest.mark.parametrize("op", ["kill", "terminate", "restart", "identity"])
def test_8_a_nanny_answers_its_scheduler_alone(federation, consortium, op):
    nanny = workers(federation, "nanny")["a"]
    with pytest.raises(PrivacyError, match="is not answered to the role in your certificate"):
        ask(nanny, consortium.arguments("b"), op=op)


@pytest.mark.parametrize("where", ["address", "nanny"])
def test_no_certificate_no_connection(federation, where):
    address = workers(federation, where)["a"]

    async def attempt():
        comm = await connect(address.replace("tls://", "tcp://"), timeout=3)
        comm.abort()

    with pytest.raises(OSError, match=r"."):
        asyncio.run(attempt())


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


def test_a_revoked_certificate_is_answered_nothing_without_a_restart(consortium):
    """The last of this file: b and bob are out after it."""
    with consortium.joined("bob") as federation:
        address = workers(federation)["a"]
    for name in ("b", "bob"):
        consortium.authority.revoke(name)
    for name in ROLES:
        shutil.copy(consortium.authority.folder / "revoked.pem", consortium.held(name))
    asked = {"op": "get_data", "keys": [], "who": None}
    ask(address, consortium.arguments("alice"), **asked)
    with pytest.raises(PrivacyError, match="is not answered"):
        ask(address, consortium.arguments("b"), **asked)
    with pytest.raises(PrivacyError, match="'bob', whose certificate was revoked"):
        consortium.joined("bob")
    with consortium.joined("alice", clients=["a"]) as federation:
        assert federation.clients == ("a",)
