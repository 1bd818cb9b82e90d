"""What a party's nanny asks of a run before it begins."""

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest

from daskfc.deploy.certificates.authority import Authority
from daskfc.deploy.certificates.signatures import sign
from daskfc.errors import InvalidInput, PolicyRefused, PrivacyError
from daskfc.federation.party import gate as module
from daskfc.federation.party.gate import Gate, signed_content
from daskfc.federation.party.options import PartyOptions, RunSettings, by_steps
from daskfc.site import Policy, RunRequest, SiteState
from daskfc.testing.federation import stores_of
from tests.deploy.test_signatures import files_of


def settings(start="s", run="r", request=None, preparation=None, **more):
    told = {} if request is None else dataclasses.asdict(request)
    more["preparation"] = by_steps(preparation or {})
    more = {"pseudonyms": {"label": "p"}, "session": "ab", "builds": {"a": "1"}, **more}
    return RunSettings(run, 0, start=start, request=told, **more)


@pytest.fixture
def gate(tmp_path):
    """Make a gate of a client with two columns and three samples."""
    store = stores_of(tmp_path / "stores", {"a": np.arange(6.0).reshape(3, 2)})["a"]

    def make(remembers=True, **options):
        given = {"state": str(tmp_path / "state.sqlite")} if remembers else {}
        return Gate(PartyOptions("a", "client", str(tmp_path), store=store, **given, **options))

    return make


def refused(rule):
    return pytest.raises(PolicyRefused, match=rf"party 'a' refuses this by its rule '{rule}'")


def audited(gate):
    return [(row.what, row.rule) for row in gate._state.audit()]


# -- each start once ------------------------------------------------------------------------------


@pytest.mark.parametrize("remembers", [True, False])
def test_a_start_is_answered_once(gate, remembers):
    one = gate(remembers)
    nonces = {one.admit(settings(*at), None).nonce for at in (("s", "r"), ("t", "r"), ("s", "q"))}
    assert {len(nonce) for nonce in nonces} == {32}
    assert len(nonces) == 3
    with refused("start"):
        one.admit(settings(), None)


def test_a_start_is_remembered_by_the_next_process(gate):
    gate().admit(settings(), None)
    with refused("start"):
        gate().admit(settings(), None)


# -- the policy -----------------------------------------------------------------------------------


def test_the_site_says_what_its_data_are(gate):
    policy = Policy(samples={"at_least": 4}, columns=["x0"], methods=["OmniFC"])
    lies = RunRequest("OmniFC", columns=("x0",))
    one = gate(policy=policy)
    with refused("columns"):
        one.admit(settings(request=lies), None)
    with refused("methods"):
        one.admit(settings("t", request=RunRequest("FedSC")), None)
    assert [rule for _, rule in audited(one)][:2] == ["samples.at_least", "columns"]


def test_no_noise_on_rows_that_a_site_prepares_without_any(gate):
    """F8: one row of 1,000 moved all clipped rows, so that an epsilon of 1 was one of 25."""
    noise = {"kind": "data", "epsilon": 1.0, "delta": 1e-5, "clip": 2.0}
    noisy = RunRequest("FedSC", parameters={"noise": noise})
    own = {"a": [{"step": "standardise", "own": True}]}
    told = {"a": [{"step": "standardise", "mean": [0.0, 0.0], "scale": [1.0, 1.0]}]}
    one = gate(policy=Policy())
    with refused("preparation"):
        one.admit(settings(request=noisy, preparation=own), None)
    one.admit(settings("t", request=noisy, preparation=told), None)
    columns = RunRequest("ESFMC", parameters={"noise": noise})  # whose clients differ
    one.admit(settings("u", request=columns, preparation={"b": own["a"]}), None)
    one.admit(settings("v", request=RunRequest("FedSC"), preparation=own), None)


def test_no_weights_of_samples_where_samples_are_summed(gate):
    """Lengths of 10^300 for all samples but one would make a sum over samples that one's row."""
    weighed = {"a": [{"step": "normalise", "lengths": [1.0, 1e300, 1e300]}]}
    one = gate(policy=Policy())
    runs = (
        ("FederatedKMeans", {}), ("FederatedKMeans", {"split": "columns"}),
        ("OmniFC", {"split": "samples"}), ("profiles", {}),
    )  # fmt: skip
    for at, (method, parameters) in enumerate(runs):
        asked = RunRequest(method, parameters=parameters)
        with refused("preparation"):
            one.admit(settings(f"s{at}", request=asked, preparation=weighed), None)
    for at, asked in enumerate([RunRequest("OmniFC", parameters={"split": "columns"}),
                                RunRequest("kCAGC"), RunRequest("opening")]):  # fmt: skip
        one.admit(settings(f"t{at}", request=asked, preparation=weighed), None)


def test_no_client_is_prepared_as_others_are_not(gate):
    """Features of all clients but one divided by 10^300 would make their sum that one's."""
    plain = {"step": "standardise", "mean": [0.0, 0.0], "scale": [1.0, 1.0]}
    away = {**plain, "scale": [1e300, 1e300]}
    one = gate(policy=Policy())
    for at, asked in enumerate([RunRequest("FederatedKMeans"), RunRequest("FedSC")]):
        with refused("preparation"):
            one.admit(
                settings(f"s{at}", request=asked, preparation={"a": [plain], "b": [away]}), None
            )
        with refused("preparation"):  # which is left as it is
            one.admit(
                settings(f"u{at}", request=asked, preparation={"a": [away]},
                         builds={"a": "1", "b": "2"}), None,
            )  # fmt: skip
        one.admit(settings(f"t{at}", request=asked, preparation={"a": [plain], "b": [plain]}), None)


@pytest.mark.parametrize("builds", [{}, {"b": "2"}, {"x": "1", "y": "2", "z": "3"}])
def test_a_client_takes_no_part_where_it_was_not_announced(gate, builds):
    """Of no clients, or strange ones, all are prepared alike: sums were one client's own."""
    away = {"b": [{"step": "standardise", "mean": [0.0, 0.0], "scale": [1e300, 1e300]}]}
    one, asked = gate(policy=Policy()), RunRequest("FederatedKMeans")
    with refused("start"):
        one.admit(settings(request=asked, builds=builds), None)
    with refused("start"):
        one.admit(settings("t", request=asked, builds=builds, preparation=away), None)
    one.admit(settings("u", request=RunRequest("opening"), builds=builds), None)


def test_no_noise_on_rows_that_hold_those_of_neighbours(gate):
    noisy = RunRequest("FederatedKMeans", parameters={"noise": {"epsilon": 1.0, "delta": 1e-5}})
    with refused("preparation"):
        gate(policy=Policy()).admit(
            settings(request=noisy, preparation={"a": [{"step": "smooth", "order": 1}]}), None
        )


SHIFT = {"step": "jitter", "share": 0.1, "seed": 3}


def test_no_shift_of_samples_by_all_of_them_beside_noise(gate):
    """The spread and the largest value of all samples moved each row, and noise was for one."""
    noisy = RunRequest("FederatedKMeans", parameters={"noise": {"epsilon": 1.0, "delta": 1e-5}})
    one = gate(policy=Policy())
    with refused("preparation"):
        one.admit(settings(request=noisy, preparation={"a": [SHIFT]}), None)
    bare = RunRequest("FederatedKMeans")
    one.admit(settings("t", request=bare, preparation={"a": [SHIFT]}), None)


@pytest.mark.parametrize(
    "step", [{**SHIFT, "share": 1e6}, {**SHIFT, "share": -0.1}, {**SHIFT, "scale": [1e6, 1e6]},
             {"step": "jitter", "scale": [1e6, 1e6], "seed": 1, "largest": 1e300}],
)  # fmt: skip
def test_no_shift_that_tells_samples_apart(gate, step):
    """Known and huge, they left one sample of a column above a bound by which it was clipped."""
    with refused("preparation"):
        gate(policy=Policy()).admit(
            settings(request=RunRequest("FederatedKMeans"), preparation={"a": [step]}), None
        )


def test_no_step_that_leaves_samples_no_numbers(gate):
    """Those above a bound were made NaN, and an error told how many rows have one."""
    step = {"step": "min-max", "low": [45.0, 0.0], "width": [5e-324, 1.0]}
    one, asked = gate(policy=Policy()), RunRequest("OmniFC")
    with refused("preparation"):
        one.admit(settings(request=asked, preparation={"a": [step]}), None)
    sound = {"a": [{**step, "width": [1.0, 1.0]}]}
    one.admit(settings("t", request=asked, preparation=sound), None)


@pytest.mark.parametrize("task", ["preparation", "profiles"])
def test_tasks_that_look_at_samples_take_them_as_they_are(gate, task):
    told = {"a": [{"step": "standardise", "mean": [0.0, 0.0], "scale": [1.0, 1.0]}]}
    with refused("preparation"):
        gate(policy=Policy()).admit(settings(request=RunRequest(task), preparation=told), None)


def test_clear_ids_are_asked_for_by_the_settings_whatever_the_request_says(gate):
    told = dataclasses.asdict(RunRequest("OmniFC", clear_ids=False))
    with refused("ids"):
        run = RunSettings("r", 0, start="s", builds={"a": "1"}, request=told)
        gate(policy=Policy()).admit(run, None)


@pytest.mark.parametrize("told", ["the request", "the party"])
def test_whoever_says_that_a_dask_cluster_is_trusted_is_believed(gate, told):
    said = {"request": RunRequest("opening", trusted=told == "the request")}
    knows = {"trusted": told == "the party"}
    with refused("trusted"):
        gate(policy=Policy(), **knows).admit(settings(**said), None)
    gate(policy=Policy(trusted="allow"), **knows).admit(settings("t", **said), None)


def test_what_a_run_is_for_may_be_refused_by_itself(gate):
    one = gate(policy=Policy(methods=[]))
    one.admit(settings("1", request=RunRequest("opening")), None)
    one.admit(settings("2", request=RunRequest("preparation")), None)
    with refused("labels"):
        one.admit(settings("3", request=RunRequest("labels")), None)
    with refused("methods"):
        one.admit(settings("4"), None)  # whose driver does not say what it is for


def test_runs_are_counted_and_tasks_are_not(gate):
    one = gate(policy=Policy(runs={"at_most": 1, "per": "day"}))
    one.admit(settings("1", request=RunRequest("opening")), None)
    one.admit(settings("2", request=RunRequest("OmniFC")), None)
    for number, name in enumerate(("OmniFC", "preparation", "profiles")):
        with refused("runs.at_most"):
            one.admit(settings(f"3{number}", request=RunRequest(name)), None)


@pytest.mark.parametrize("name", ["preparation", "profiles"])
def test_preparations_and_profiles_are_counted(gate, name):
    one = gate(policy=Policy(runs={"at_most": 1, "per": "day"}))
    one.admit(settings("1", request=RunRequest(name)), None)
    with refused("runs.at_most"):
        one.admit(settings("2", request=RunRequest("OmniFC")), None)


def test_only_what_is_counted_begins_the_time_of_a_driver_anew(gate, monkeypatch):
    clock = SimpleNamespace(now=1e9)
    monkeypatch.setattr(module.time, "time", lambda: clock.now)
    one = gate(policy=Policy(runs={"at_most": 9, "per": "day", "longest": "1h"}))

    def until(start, method, driver="d"):
        clock.now += 60.0
        told = settings(start, request=RunRequest(method), driver=driver)
        return one.admit(told, None).until - 1e9

    assert until("1", "opening") == 60.0 + 3600.0
    assert until("2", "opening") == 60.0 + 3600.0
    assert until("3", "OmniFC") == 180.0 + 3600.0
    assert until("4", "opening") == 180.0 + 3600.0
    assert until("5", "opening", driver="e") == 300.0 + 3600.0


def test_without_a_longest_time_there_is_none(gate):
    one = gate(policy=Policy(runs={"at_most": 9, "per": "day"}))
    assert one.admit(settings(request=RunRequest("OmniFC")), None).until is None


def test_rubbish_in_a_request_is_refused(gate):
    with pytest.raises(InvalidInput, match="the request of a run"):
        gate().admit(RunSettings("r", 0, start="s", request={"method": 3}), None)


# -- who begins it --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority.create(tmp_path_factory.mktemp("trust") / "ours")


def test_with_tls_a_run_is_begun_by_a_submitter(gate, authority):
    alice = files_of(authority, "submitter", "alice")
    asked = settings(request=RunRequest("OmniFC", submitter="somebody else"), session="k")
    one = gate(policy=Policy(submitters=["alice"]), ca=alice.ca)
    with pytest.raises(PrivacyError, match="bears no signature"):
        one.admit(asked, None)
    proof = sign(alice, signed_content(asked))
    with pytest.raises(PrivacyError, match="does not hold"):
        one.admit(dataclasses.replace(asked, random_state=1), proof)
    assert one.admit(asked, proof).submitter == "alice"
    (row,) = SiteState(one._options.state).audit()
    assert (row.what, row.submitter, row.text) == ("began", "alice", "OmniFC")


def test_with_tls_a_run_has_a_key_for_its_calls(gate, authority):
    carol = files_of(authority, "submitter", "carol")
    asked = settings(session="")
    with pytest.raises(PrivacyError, match="has no key for its calls"):
        gate(ca=carol.ca).admit(asked, sign(carol, signed_content(asked)))


def test_another_submitter_is_not_named(gate, authority):
    bob = files_of(authority, "submitter", "bob")
    asked = settings(request=RunRequest("OmniFC", submitter="alice"), session="k")
    with refused("submitters"):
        gate(policy=Policy(submitters=["alice"]), ca=bob.ca).admit(
            asked, sign(bob, signed_content(asked))
        )


@pytest.mark.parametrize("role", ["client", "server", "scheduler"])
def test_no_other_role_begins_a_run(gate, authority, role):
    name = "server" if role == "server" else f"{role}-1"
    files = files_of(authority, role, name)
    with pytest.raises(PrivacyError, match=f"is signed by {role} {name!r}, whose role begins no"):
        gate(ca=files.ca).admit(settings(), sign(files, signed_content(settings())))


def test_what_is_signed_survives_the_way_there():
    asked = settings(builds={"b": "2", "a": "1"}, preparation={"a": [{"kind": "log", "of": (1,)}]})
    listed = by_steps({"a": [{"of": [1], "kind": "log"}]})
    arrived = RunSettings(**{**dataclasses.asdict(asked), "preparation": listed})
    assert signed_content(arrived) == signed_content(asked)


@pytest.mark.parametrize(
    ("clients", "alike"),
    [([], True), ([["a", "b"]], True), ([["a"]], False), ([["a"], ["b"]], False),
     ([["a", "b"], ["b"]], False), ([["a", "b"], []], False)],
)  # fmt: skip
def test_clients_are_prepared_alike_only_if_one_text_is_for_all(clients, alike):
    told = {json.dumps([{"step": "log", "number": n}]): own for n, own in enumerate(clients)}
    run = RunSettings("r", 0, builds={"a": "1", "b": "2"}, preparation=told)
    assert run.is_prepared_alike == alike
    for name in "abc":
        first = [n for n, own in enumerate(clients) if name in own][:1]
        assert [one["number"] for one in run.prepared(name)] == first


def test_steps_of_several_clients_are_told_once():
    lengths = np.random.default_rng(0).normal(size=50).tolist()
    steps = [{"step": "normalise", "lengths": lengths}, {"step": "smooth", "order": 2}]
    own = {"a": steps, "b": [dict(reversed(one.items())) for one in steps], "c": steps[:1]}
    told = by_steps(own)
    assert list(told.values()) == [["a", "b"], ["c"]]
    run = RunSettings("r", 0, preparation=told)
    assert {name: run.prepared(name) for name in own} == own  # to the last bit
