"""A party without its process: folders, what may cross of an error, calls that are refused."""

import errno
import logging
import os
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from distributed.protocol.serialize import dask_dumps, dask_loads

from daskfc.coding import SecretKey
from daskfc.errors import (
    ClusterError,
    EgressRefused,
    InvalidInput,
    LedgerError,
    OverflowRefused,
    PartyError,
    PolicyRefused,
    PrivacyError,
    StoreError,
)
from daskfc.federation.messages.envelopes import Here, Outgoing
from daskfc.federation.party import party as module
from daskfc.federation.party.crossing import reason, without_values
from daskfc.federation.party.kept import Kept
from daskfc.federation.party.options import PartyOptions, RunSettings, by_steps
from daskfc.federation.party.party import Party
from daskfc.federation.steps.calls import StepCall
from daskfc.federation.steps.handles import Slot
from daskfc.site import Policy, SiteState
from daskfc.stores import ClientStore, append_samples, write_store
from daskfc.testing.federation import stores_of
from tests.federation import steps

RUN = RunSettings("r", 0, start="1")
WORK = "work-WORK"


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Makes parties, whose logs are left alone."""
    monkeypatch.setattr(module, "_LOGGERS", ())
    monkeypatch.setattr(module.logging, "captureWarnings", lambda capture: None)

    def make(name="client-1", role="client", run=RUN, **options):
        return Party(PartyOptions(name, role, str(tmp_path / "scratch"), run=run, **options))

    return make


@pytest.mark.parametrize(
    ("role", "folder", "run", "where", "lasting"),
    [
        ("client", None, None, "scratch", "scratch"),
        ("client", "own", None, "own", "own"),
        ("client", None, ("r", None), "scratch/r", "scratch"),
        ("client", "own", ("r", None), "own/runs/night/r", "own"),
        ("client", "own", ("r", "w"), "own/runs/night/r", "own"),
        ("client", None, ("r", "w"), "w/parties/a", "w/parties/a"),
        ("server", None, ("r", "w"), "w/server", "w/server"),
        ("server", "own", ("r", None), "own/runs/night/r", "own"),
        ("server", "own", ("r", "w"), f"own/runs/night/{WORK}", "own"),
    ],
)
def test_a_party_has_its_folder(role, folder, run, where, lasting):
    settings = run and RunSettings(run[0], 0, workspace=run[1], name="night")
    options = PartyOptions("a", role, "scratch", folder=folder, run=settings)
    found = re.sub("work-[0-9a-f]{16}-[0-9a-f]{16}$", WORK, str(options.run_folder()))
    assert Path(found) == Path(where)
    assert options.durable_folder() == Path(lasting)


@pytest.mark.parametrize(
    ("error", "kind", "crossing"),
    [
        (ValueError("1.5"), "", "ValueError"),
        (type("Of1dot5", (ArithmeticError,), {})("1.5"), "", "ArithmeticError"),
        (OverflowRefused("too large."), "OverflowRefused", "too large."),
        (OSError(errno.EACCES, "1.5", "file"), "", "PermissionError (permission denied)"),
        (OSError("1.5"), "", "OSError"),
        (
            OSError(errno.ENOSPC, "1.5"),
            "",
            "no space left on device at that party. Free some and resume the run.",
        ),
        (
            OSError(errno.EDQUOT, "1.5"),
            "",
            "disk quota exceeded at that party. Free some and resume the run.",
        ),
        (InvalidInput("no \ud800"), "InvalidInput", "no \\ud800"),
    ],
)
def test_of_an_error_its_class_crosses_or_a_sentence_of_daskfc(error, kind, crossing):
    found = without_values(error, "a", "sums")
    assert type(found) is PartyError
    assert (found.party, found.step, found.kind) == ("a", "sums", crossing)
    assert found.error_type == kind
    assert found is not error


def test_what_ends_a_run_crosses_with_its_class():
    for kind in (EgressRefused, LedgerError):
        found = without_values(type("Telling", (kind,), {})("no \ud800"), "a", "sums")
        assert (type(found), str(found)) == (kind, "no \\ud800")


@pytest.mark.parametrize(("told", "known"), [("InvalidInput", "InvalidInput"), ("Rows1", "")])
def test_an_error_of_a_party_crosses_anew(told, known):
    error = PartyError("b", "means", "ValueError")
    error.error_type = told
    found = without_values(error, "a", "sums")
    assert (found.party, found.step, found.kind) == ("b", "means", "ValueError")
    assert (found.error_type, found is error) == (known, False)


@pytest.mark.parametrize(
    ("errors", "sentence"),
    [
        (
            "codes",
            "step 'means' of party 'b' failed: {kind}. Its site tells no more; ask there.",
        ),
        ("sentences", "step 'means' of party 'b' failed: a sentence."),
    ],
)
@pytest.mark.parametrize("told", ["InvalidInput", ""])
def test_a_site_may_tell_the_kind_of_an_error_alone(made, errors, sentence, told):
    party = made(policy=Policy.of({"errors": errors}))
    error = PartyError("b", "means", "a sentence.")
    error.error_type = told
    crossing = party._crossing(error, "sums")
    assert str(crossing) == sentence.format(kind=told or "an error of its own")
    assert (type(crossing), crossing.error_type) == (PartyError, told)
    ends = party._crossing(EgressRefused("why not."), "sums")  # which everybody must know
    assert (type(ends), str(ends)) == (EgressRefused, "why not.")


def test_a_file_that_cannot_be_used_has_a_reason_without_its_name():
    assert reason(OSError(errno.ENOSPC, "secret", "secret")) == "no space left on device"
    assert reason(OSError("secret")) == "OSError"


def test_a_ledger_that_cannot_be_written_is_said_by_its_run_or_without_a_folder(made, tmp_path):
    full = OSError(errno.ENOSPC, "x")
    after = (
        " (no space left on device), and nothing leaves it unrecorded. Free space there or restore "
        "the folder, and resume the run."
    )
    refusal = made().unrecorded(full)
    assert type(refusal) is LedgerError
    path = tmp_path / "scratch" / "r" / "ledger.jsonl"
    assert str(refusal) == f"party 'client-1' cannot write its ledger {path}{after}"
    refusal = made(folder=str(tmp_path / "own")).unrecorded(full)
    assert str(refusal) == (
        f"party 'client-1' cannot write its ledger ledger.jsonl of its workspace{after}"
    )


@pytest.mark.parametrize(("role", "left"), [("client", False), ("server", True)])
def test_a_run_sweeps_what_earlier_ones_left_in_a_clients_workspace(made, tmp_path, role, left):
    """A server finds its own again; ledgers and logs are the site's."""
    own = tmp_path / "own"
    party = made(role=role, folder=str(own))
    (party.folder / "rows.zarr").mkdir()
    (party.folder / "rows.zarr" / "0").write_text("1.5")
    (party.folder / "party.log").write_text("said")
    (own / "not-a-run").mkdir()
    (own / "not-a-run" / "mine").mkdir()
    before = party.folder
    party.start_run(RUN)  # the same again, as a process that was started in between is told
    assert (before / "rows.zarr" / "0").exists()
    party.start_run(RunSettings("r2", 0, start="2"))
    assert (before / "rows.zarr").exists() is left
    assert (before / "ledger.jsonl").exists()
    assert (before / "party.log").read_text() == "said"
    assert (own / "not-a-run" / "mine").exists()
    assert (own / "runs" / "unnamed" / "r2" / "ledger.jsonl").exists()


def test_a_party_begins_whole_and_a_run_begins_it_anew(made):
    party = made(run=None)
    assert party.refusal is None
    assert party._store is None
    assert party.run is None
    party.refusal = EgressRefused("no.")
    party._store = object()
    party.start_run(RUN)
    assert party.refusal is None
    assert party._store is None
    assert party.run == RUN
    assert party.folder == party.options.run_folder()
    assert party.ledger.path == party.folder / "ledger.jsonl"
    assert party.folder.is_dir()


def test_a_folder_that_cannot_be_made_is_said_and_not_raised(made, tmp_path):
    (tmp_path / "file").write_text("x")
    party = made(folder=str(tmp_path / "file" / "below"))
    assert isinstance(party.refusal, LedgerError)
    with pytest.raises(LedgerError, match=r"ledger\.jsonl of its workspace \(file exists\)") as one:
        party.check_open()
    assert one.value is not party.refusal


def call(step, party="client-1", run="r", verb="keep", receivers=(), **arguments):
    return StepCall(step, arguments, party, run, 0, verb, receivers)


def test_what_arrives_at_a_step_is_unpacked(made):
    given = (Kept([1.0]), arrived := outgoing(steps.Vector(np.ones(2))), 3)
    arguments = {"values": [Slot(0), Slot(1), Slot(2)]}
    kept = made().perform(StepCall(list_of, arguments, "client-1", "r", 0), given)
    assert kept.value[0] == [1.0]
    assert kept.value[1] is arrived.message
    assert kept.value[2] == 3


def test_an_envelope_arrives_without_sizes_of_the_sender(monkeypatch):
    key = SecretKey.from_os()
    monkeypatch.setattr(Here, "packages", {"daskfc"})  # others had steps of tests run before
    sent = Outgoing(steps.Vector(np.ones(2)), "client-2", "client-1", "s", "r", 3, {"n": 2}, key)
    with pytest.raises(PrivacyError, match=r"steps\.Vector' may not be named"):
        dask_loads(*dask_dumps(sent))
    monkeypatch.setattr(Here, "keys", {key})
    arrived = dask_loads(*dask_dumps(sent))
    assert arrived.message.values.tolist() == [1.0, 1.0]
    assert (arrived.sender, arrived.receiver) == ("client-2", "client-1")
    assert (arrived.step, arrived.run_id, arrived.round, arrived.axes) == ("s", "r", 3, {})


def list_of(values):
    return values


def outgoing(message):
    return Outgoing(message, "client-2", "client-1", "s", "r", 0, {})


def test_a_store_is_its_clients_and_as_it_was_when_the_federation_opened(made, tmp_path):
    urls = stores_of(tmp_path, {"client-1": np.eye(3), "client-2": np.eye(3)})
    whole = ClientStore.open(urls["client-1"])
    assert made(run=None, store=urls["client-1"]).store().digest == whole.digest
    for builds in ({}, {"client-1": whole.build_id, "client-2": "another"}):
        run = replace(RUN, builds=builds)
        assert made(run=run, store=urls["client-1"]).store().digest == whole.digest
    with pytest.raises(StoreError, match="store of client 'client-1' was written again since"):
        made(run=replace(RUN, builds={"client-1": "another"}), store=urls["client-1"]).store()
    with pytest.raises(StoreError, match=r"own; \S*client-2\.zarr was written for client"):
        made(store=urls["client-2"]).store()


def test_a_step_is_performed_and_its_result_kept(made):
    kept = made().perform(call(steps.scaled, vector=steps.Vector(np.ones(2)), factor=3.0), ())
    assert type(kept) is Kept
    assert kept.value.tolist() == [3.0, 3.0]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"party": "client-2"},
            "step 'keep_pid' was meant for party 'client-2'. Report it.",
        ),
        (
            {"run": "old"},
            "step 'keep_pid' belongs to another run than party 'client-1' is in by now ('old', "
            "'r'). Resume it when the other has ended.",
        ),
    ],
)
def test_a_call_for_another_party_or_run_is_not_performed(made, changes, sentence):
    with pytest.raises(PartyError) as refusal:
        made().perform(call(steps.keep_pid, **changes), ())
    assert (refusal.value.kind, refusal.value.error_type) == (sentence, "ClusterError")
    assert refusal.value.__context__ is None


def test_a_party_that_was_started_again_has_lost_its_secret(made):
    with pytest.raises(ClusterError) as refusal:
        made(run=None)._check_run("a Vector", "r")
    assert str(refusal.value) == (
        "party 'client-1' was started again while run 'r' was under way, and its secret is lost. "
        "Resume the run; it then has new ones."
    )


def test_a_party_without_a_store_reads_no_data(made):
    with pytest.raises(InvalidInput) as refusal:
        made("server", "server").store()
    assert str(refusal.value) == (
        "party 'server' has no store, so that no step of it may have a parameter 'data'. Run the "
        "step at a client."
    )


def test_a_refusal_in_a_step_ends_the_run_under_way_only(made):
    party = made()
    with pytest.raises(EgressRefused, match="declares Pair"):
        party.perform(call(steps.not_the_declared, verb="send", receivers=("server",)), ())
    assert isinstance(party.refusal, EgressRefused)
    with pytest.raises(EgressRefused, match="declares Pair"):
        party.perform(call(steps.keep_pid), ())
    party.start_run(RUN)
    assert party.perform(call(steps.keep_pid), ()).value == os.getpid()


def issued(party, message, **changes):
    """Return an envelope that a party made."""
    fields = {"receiver": "server", "run_id": "r", "sender": party.name, "axes": {}, **changes}
    envelope = Outgoing(message, step="s", round=0, **fields)
    party._issued.add(envelope)
    return envelope


def test_a_partys_secret_is_its_own_in_every_run_and_start(made):
    def secret_of(**run):
        secret = SecretKey.from_bytes(bytes(32))
        party = made(run=replace(RUN, **run), secret=secret)
        return party._fill("secret", None, "step", b"")

    secrets = [secret_of(), secret_of(run_id="q"), secret_of(start="2")]
    assert len({one.fingerprint() for one in secrets}) == 3
    assert secret_of().fingerprint() == secrets[0].fingerprint()


def test_a_message_has_the_sizes_that_the_caller_fixed(made):
    party = made()

    def three(data) -> steps.Vector:
        return steps.Vector(np.zeros(3))

    call = StepCall(three, {}, "client-1", "r", 0, "send", ("server",), {"n": 3})
    sent = party._address(call, "three", three(None), b"")
    assert (sent.axes, sent.message.values.shape) == ({"n": 3}, (3,))
    with pytest.raises(EgressRefused, match=r"declared float64 \(n=2,\)"):
        party._address(replace(call, axes={"n": 2}), "three", three(None), b"")


def test_logs_of_a_party_go_to_its_folder_alone(tmp_path, monkeypatch):
    captured = []
    monkeypatch.setattr(module, "_LOGGERS", ("daskfc-test-party",))
    monkeypatch.setattr(module.logging, "captureWarnings", captured.append)
    own, other = logging.getLogger("daskfc-test-party"), logging.getLogger()
    before = list(other.handlers)
    party = Party(PartyOptions("client-1", "client", str(tmp_path), run=RUN))
    assert captured == [True]
    assert other.handlers == before
    assert own.propagate is False
    own.warning("here")
    assert "here" in (party.folder / "party.log").read_text()
    for handler in own.handlers:
        handler.close()


def test_a_message_is_checked_again_before_it_leaves(made):
    party = made()
    vector = steps.Vector(np.zeros(2))
    assert party.check(issued(party, vector, axes={"n": 2})) is None
    with pytest.raises(
        EgressRefused, match=r"^party 'client-1' tried .* declared float64 \(n=3,\)"
    ):
        party.check(issued(party, vector, axes={"n": 3}))
    with pytest.raises(ClusterError, match=r"^Vector belongs to another run .*\('old', 'r'\)"):
        party.check(issued(party, vector, run_id="old"))
    with pytest.raises(EgressRefused, match="asked for Vector of party 'client-2'"):
        party.check(issued(party, vector, sender="client-2"))


@pytest.mark.parametrize(
    ("name", "receiver", "route"),
    [
        ("server", "client-2", "server → client"),
        ("server", "caller", "server → caller"),
        ("client-1", "server", "client → server"),
        ("client-1", "caller", "client → caller"),
    ],
)
def test_a_message_between_clients_takes_no_other_route(made, name, receiver, route):
    party = made(name, "server" if name == "server" else "client")
    with pytest.raises(EgressRefused) as refusal:
        party.check(issued(party, steps.ClientsOnly(1), receiver=receiver))
    assert str(refusal.value) == (
        f"party {name!r} tried to send ClientsOnly to {receiver!r} ({route}); its routes are "
        "client → client. Nothing was sent."
    )


def test_raw_data_leaves_only_where_the_run_allows_it(made):
    raw = steps.RawRows(np.zeros((1, 2)))
    party = made()
    with pytest.raises(EgressRefused, match="tried to send RawRows, which is raw data"):
        party.check(issued(party, raw, receiver="caller"))
    party = made(run=replace(RUN, allow_raw=True))
    assert party.check(issued(party, raw, receiver="caller")) is None


def test_sizes_tell_of_messages_their_payload_and_nothing_of_what_stays(made):
    assert outgoing(steps.Vector(np.zeros(3))).__sizeof__() == 24
    assert outgoing("no message").__sizeof__() == 1
    assert Kept([0.0] * 99).__sizeof__() == 1


def test_why_a_step_failed_stands_in_the_log(made, monkeypatch):
    said = []

    def exception(text, *of):
        said.append(text % of)

    monkeypatch.setattr(module, "logger", SimpleNamespace(exception=exception))
    with pytest.raises(PartyError):
        made().perform(StepCall(steps.fails_with_sentence, {}, "client-1", "r", 4), ())
    assert said == ["step fails_with_sentence of round 4 failed"]


def test_a_store_that_grows_brings_no_new_budget(made, tmp_path):
    """Whoever was in it before is in it still."""
    urls = stores_of(tmp_path, {"client-1": np.eye(3)})
    policy = Policy.of({"budget": {"epsilon": 1.0, "delta": 1e-5}})
    options = {
        "store": urls["client-1"],
        "policy": policy,
        "state": str(SiteState(tmp_path / "s.sqlite").path),
    }
    call = StepCall(steps.noised, {"multiplier": 5.0}, "client-1", "r", 0, "send", ("server",))
    made(**options).perform(call, ())
    append_samples(urls["client-1"], np.ones((1, 3)), ["new"])
    again = made(**options, nonce=b"2")
    assert again.store().n_samples == 4
    for _ in range(2):
        with pytest.raises(PolicyRefused, match="rule 'budget'"):
            again.perform(replace(call, round=1), ())


HOT = [{"step": "categories", "words": {"sex": ["f", "m"]}}, {"step": "one-hot", "height": 1.0}]


def test_new_samples_go_by_the_values_and_the_words_of_the_partys_own(made, tmp_path):
    """Not by those of the new samples, of which there may be one alone."""
    own, new = f"{tmp_path}/own.zarr", f"{tmp_path}/new.zarr"
    words = {"words": {"male": "m", "m": "f"}}
    table = pd.DataFrame({"age": [10.0, 30.0], "sex": ["male", "m"]})
    write_store(own, "client-1", table, categorical=["sex"], **words)
    within = {"step": "standardise", "own": True, "within": "site"}
    run = replace(RUN, preparation=by_steps({"client-1": [within, *HOT]}))
    party = made(run=run, store=own)
    one = pd.DataFrame({"age": [40.0], "sex": ["male"]})
    for mapping in ({}, words):  # the site may have mapped the new ones itself, and once is enough
        write_store(new, "client-1", one, categorical=["sex"], overwrite=True, **mapping)
        found = party.as_prepared(ClientStore.open(new)).rows(0, 1)
        assert found.tolist() == [[2.0, 0.0, 1.0]]
    assert made(store=own).as_prepared(ClientStore.open(new)).feature_names == ("age", "sex")


def test_new_samples_have_the_columns_of_the_partys_own(made, tmp_path):
    """Labels of other columns told them, though the policy left them out."""
    own, new = f"{tmp_path}/own.zarr", f"{tmp_path}/new.zarr"
    write_store(own, "client-1", pd.DataFrame({"age": [10.0], "bmi": [30.0]}))
    run = replace(RUN, request={"method": "FederatedKMeans"})
    strict = made(run=run, store=own, policy=Policy(columns=["age", "bmi"]))
    for columns, taken in (
        (["age", "bmi"], True),
        (["bmi", "age"], False),
        (["age", "hiv"], False),
    ):
        write_store(new, "client-1", pd.DataFrame([[1.0, 2.0]], columns=columns), overwrite=True)
        there = ClientStore.open(new)
        assert made(run=run, store=own).as_prepared(there).feature_names == tuple(columns)
        if taken:
            assert strict.as_prepared(there).rows(0, 1).tolist() == [[1.0, 2.0]]
        else:
            with pytest.raises(PolicyRefused, match="by its rule 'columns'"):
                strict.as_prepared(there)
