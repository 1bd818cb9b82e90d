"""A site's memory: what was used stays used, and what cannot be remembered is not done."""

import resource
import sqlite3
import stat
import threading
from contextlib import closing, contextmanager, suppress
from dataclasses import replace

import numpy as np
import pytest

from daskfc.errors import InvalidInput, LedgerError, PolicyRefused
from daskfc.privacy import Accountant, GaussianEvent, noise_multiplier
from daskfc.site import Budget, Refusal, RunRequest, SiteState
from daskfc.site.database import transaction

BUDGET = Budget(epsilon=1, delta=1e-5)
ASKED = RunRequest("FedSC", submitter="alice")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "party" / "state.sqlite"


@pytest.fixture
def state(path):
    return SiteState(path, clock=lambda: 1000.0)


def charge(state, label, multiplier=10.0, budget=BUDGET, *, dataset="d", start="s", **more):
    return state.charge(dataset, multiplier, budget, run_id="r", start=start, label=label, **more)


@contextmanager
def refused(rule):
    with pytest.raises(PolicyRefused) as caught:
        yield
    assert caught.value.rule == rule


# -- the file ---------------------------------------------------------------------------------


def test_nobody_else_can_read_it(state, path):
    state.begin("r", "s", ASKED)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [file.name for file in path.parent.iterdir()] == [path.name]  # and nothing else stays


def test_one_that_others_may_read_is_refused(state, path):
    path.chmod(0o640)
    with pytest.raises(InvalidInput, match=r"other users .* \(mode 0640\)\. Run: chmod 600"):
        SiteState(path)


def test_every_transaction_is_on_the_disk_when_it_ends(state, path):
    for writes in (True, False):
        with transaction(path, writes=writes) as db:
            assert db.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA
            assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_the_secret_is_drawn_once(state, path, tmp_path):
    secret = state.root_secret()
    assert len(secret) == 32
    assert SiteState(path).root_secret() == secret
    assert SiteState(tmp_path / "other.sqlite").root_secret() != secret


def test_a_damaged_secret_is_none(state, path):
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE root SET secret = zeroblob(32)")
    with pytest.raises(InvalidInput, match="the root secret in the site's state is damaged"):
        state.root_secret()


def test_only_a_new_one_is_made(tmp_path):
    with pytest.raises(InvalidInput, match="no site's state is there"):
        SiteState(tmp_path / "none.sqlite", new=False)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InvalidInput, match="is a file, and this is none"):
        SiteState(tmp_path)


def damaged(content):
    whole = len(content)
    yield b""
    yield b"not a database at all, whatever its name says" * 100
    yield content[: whole // 2]
    yield content[:100] + bytes(whole - 100)
    yield bytes(whole)


def test_a_damaged_file_is_one_sentence_and_never_made_anew(state, path):
    charge(state, "a")
    for content in damaged(path.read_bytes()):
        path.write_bytes(content)
        with pytest.raises(InvalidInput, match=r"the site's state cannot be used \(it is ") as told:
            SiteState(path)
        assert "would forget what was spent" in str(told.value)
        assert path.read_bytes() == content


def test_a_file_of_another_version_is_refused(state, path):
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 3")
    with pytest.raises(InvalidInput, match="tables of version 3, and this daskfc knows 2"):
        SiteState(path)


def test_a_file_of_the_version_before_keeps_what_was_spent(state, path):
    charge(state, "a")
    spent, secret = state.spent("d"), state.root_secret()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DROP TABLE uses")
        db.execute("PRAGMA user_version = 1")
    again = SiteState(path)
    assert (again.spent("d"), again.root_secret()) == (spent, secret)
    hold(again, "x", once)
    with refused("use"):
        hold(SiteState(path), "y", once)


def hold(state, content, check, name="d"):
    state.hold("groups", name, content, check, run_id="r", start="s")


def once(before):
    return Refusal("use", f"it was used for {', '.join(before)}.") if before else None


def test_a_use_is_remembered_unless_it_is_refused(state, path):
    hold(state, "x", once)
    hold(SiteState(path), "x", once)  # the same again
    with refused("use"):
        hold(state, "y", once)
    with refused("use"):  # what was refused was not remembered
        hold(state, "y", once)
    hold(state, "y", once, name="e")
    assert [row.text for row in state.audit()] == ["it was used for x."] * 2


def test_of_two_uses_at_one_moment_one_is_refused(state, path):
    said, barrier = [], threading.Barrier(8)

    def use(i):
        other = SiteState(path)
        barrier.wait()
        with suppress(PolicyRefused):
            hold(other, str(i), once)
            said.append(i)

    threads = [threading.Thread(target=use, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(said) == 1


def test_a_file_that_vanished_does_not_come_back_empty(state, path):
    charge(state, "a")
    path.unlink()
    for use in (lambda: charge(state, "b"), lambda: state.spent("d"), state.root_secret):
        with pytest.raises(LedgerError, match=r"cannot be used \(it is gone") as told:
            use()
        assert str(path.parent) not in str(told.value)  # it may reach the submitter
    assert not path.exists()


def test_a_place_where_none_can_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(InvalidInput, match="cannot be made there"):
        SiteState(tmp_path / "file" / "state.sqlite")


@contextmanager
def full_disk(size):
    """Let no file grow beyond a size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_on_a_full_disk_nothing_is_allowed_and_nothing_is_lost(state):
    charge(state, "a")
    state.begin("r", "s", ASKED)
    with full_disk(100):  # bytes: not even the journal's first page
        for use in (
            lambda: charge(state, "b"),
            lambda: charge(state, "b", 1e-3),  # which the budget refuses anyway
            lambda: state.begin("r", "t", ASKED),
            lambda: state.grant(None, 1.0, "why"),
        ):
            with pytest.raises(LedgerError, match="nothing is done that it does not remember"):
                use()
        assert state.runs_since(0) == 1
    assert len(state.spent("d").events) == 1
    assert state.grants() == ()
    state.begin("r", "t", ASKED)
    assert sum(event.count for event in charge(state, "b").events) == 2


# -- starts -----------------------------------------------------------------------------------


def test_a_start_is_used_once(state, path):
    first = state.begin("r", "s", ASKED)
    others = {state.begin("r", "t", ASKED), state.begin("q", "s", ASKED)}
    assert len({first, *others}) == 3
    assert {len(nonce) for nonce in {first, *others}} == {32}
    again = SiteState(path)  # another process, another day
    for _ in range(2):
        with refused("start"):
            again.begin("r", "s", ASKED)
    with refused("start"):  # by another's id of a run its ledger would be read
        again.begin("r", "u", replace(ASKED, submitter="bob"))


def test_a_tasks_start_is_used_once(state):
    """Tasks are not counted as runs, and their secrets are as much their own."""
    who = {"submitter": ASKED.submitter}
    for request in (RunRequest("opening", **who), RunRequest("preparation", **who), ASKED):
        state.begin("r", request.method, request)
        for again in (request, ASKED):
            with refused("start"):
                state.begin("r", request.method, again)
    assert [row.what for row in state.audit()] == 3 * ["began", "refused", "refused"]


def test_runs_are_counted_from_a_moment_on(path):
    now = iter([10.0, 20.0, 30.0])
    state = SiteState(path, clock=lambda: next(now))
    for start in "abc":
        state.begin("r", start, ASKED)
    assert [state.runs_since(moment) for moment in (0, 10, 10.1, 30, 31)] == [3, 3, 2, 1, 0]


# -- budgets ----------------------------------------------------------------------------------


def test_a_budget_holds_over_runs_and_restarts(path):
    n = 0
    with refused("budget"):
        while n < 100:
            charge(SiteState(path), "a", start=str(n))
            n += 1
    spent = SiteState(path).spent("d")
    assert spent == Accountant((GaussianEvent(10.0, n),))
    assert spent.epsilon(1e-5) <= 1 < spent.compose(GaussianEvent(10.0)).epsilon(1e-5)


def test_a_release_that_is_made_again_counts_once(state):
    first = charge(state, "a", count=3)
    assert charge(state, "a", count=3) == first == Accountant((GaussianEvent(10.0, 3),))
    assert charge(state, "a", start="t") == Accountant((GaussianEvent(10.0, 4),))
    assert len(charge(state, "a", dataset="e").events) == 1


@pytest.mark.parametrize("change", [{"multiplier": 9.0}, {"multiplier": 1e6}, {"count": 2}])
def test_a_label_with_other_noise_is_refused(state, change):
    charge(state, "a")
    with refused("budget"):
        charge(state, "a", **change)
    assert state.spent("d") == Accountant((GaussianEvent(10.0),))


def test_what_is_refused_costs_nothing(state):
    for multiplier in (1.0, 1e-3, 1e-200):  # the last has no square
        with refused("budget"):
            charge(state, "a", multiplier)
    assert state.datasets() == ()
    charge(state, "a")
    assert state.datasets() == ("d",)


def test_without_a_budget_releases_are_counted_for_later(state):
    charge(state, "a", 0.5, None)
    with refused("budget"):
        charge(state, "b", 1e6)
    assert state.spent("d") == Accountant((GaussianEvent(0.5),))


def test_a_budget_may_be_spent_to_its_last_bit(state):
    each = noise_multiplier(1.0, 1e-5, 7)
    for i in range(7):
        charge(state, str(i), each)
    with refused("budget"):
        charge(state, "8", 1000.0)


def test_much_noise_costs_almost_nothing_but_something(state):
    for i, multiplier in enumerate((1e8, 1e12, 1e200)):
        charge(state, str(i), multiplier)
    assert state.spent("d").mu == pytest.approx(3**0.5 * 1e-8)


@pytest.mark.parametrize("multiplier", [0.0, -1.0, np.inf, np.nan, True, "1"], ids=str)
def test_a_multiplier_is_a_number_above_0(state, multiplier):
    with pytest.raises(InvalidInput, match="noise_multiplier"):
        charge(state, "a", multiplier)
    with pytest.raises(InvalidInput, match="count"):
        charge(state, "a", count=0)


def test_numpy_numbers_are_numbers(state):
    charge(state, "a", np.float64(10), count=np.int64(2))
    charge(state, "b", np.float32(10), count=np.int64(3))
    assert state.spent("d") == Accountant((GaussianEvent(10.0, 5),))


def test_a_grant_adds_to_one_data_set_or_to_all(state):
    twice = {"multiplier": 4.0}  # epsilon 0.94 each, 1.37 both
    for dataset in "de":
        charge(state, "a", **twice, dataset=dataset)
    state.grant("d", 0.3, "first")
    with refused("budget"):
        charge(state, "b", **twice, dataset="d")
    state.grant(None, 0.2, "  second\nreason ")
    charge(state, "b", **twice, dataset="d")
    with refused("budget"):
        charge(state, "b", **twice, dataset="e")
    assert (state.granted("d"), state.granted("e"), state.granted("new")) == (0.5, 0.2, 0.2)
    assert [(one.dataset, one.why) for one in state.grants()] == [
        ("d", "first"), (None, "second reason")
    ]  # fmt: skip


@pytest.mark.parametrize("epsilon", [0.0, -1.0, float("inf"), float("nan")])
def test_a_grant_is_more_than_nothing_and_has_a_reason(state, epsilon):
    with pytest.raises(InvalidInput, match="an epsilon above 0"):
        state.grant("d", epsilon, "why")
    with pytest.raises(InvalidInput, match="needs a reason"):
        state.grant("d", 1.0, " ")
    assert state.grants() == ()


# -- the audit log ----------------------------------------------------------------------------


def test_the_audit_log_has_who_what_and_why(state):
    state.begin("r", "s", ASKED)
    with refused("start"):
        state.begin("r", "s", RunRequest("FedSC", submitter="mallory"))
    with refused("budget"):
        charge(state, "a", 0.1)
    state.refused(Refusal("raw", "central sends raw data."), run_id="q", start="t", submitter="bob")
    state.grant(None, 0.5, "second study")
    rows = [(row.what, row.submitter, row.rule) for row in state.audit()]
    assert rows == [
        ("began", "alice", ""),
        ("refused", "mallory", "start"),
        ("refused", "alice", "budget"),
        ("refused", "bob", "raw"),
        ("granted", None, ""),
    ]
    texts = [row.text for row in state.audit()]
    assert texts[0] == "FedSC"
    assert "1970-01-01 00:16:40 UTC" in texts[1]
    assert "epsilon 91.82 of 1 at delta 1e-05" in texts[2]
    assert texts[4] == "epsilon 0.5 to all data sets: second study"


def in_threads(use, n):
    threads = [threading.Thread(target=use, args=(i,)) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_threads_may_share_it(state):
    charged = []

    def use(i):
        with suppress(PolicyRefused):
            charge(state, str(i))
            charged.append(i)

    in_threads(use, 20)
    spent = state.spent("d")
    assert spent == Accountant((GaussianEvent(10.0, len(charged)),))
    assert spent.epsilon(1e-5) <= 1 < spent.compose(GaussianEvent(10.0)).epsilon(1e-5)
