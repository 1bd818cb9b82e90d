"""``daskfc budget``: what was spent at a site, what is left, and a grant."""

import pytest

from daskfc.errors import PolicyRefused
from daskfc.site import Budget, SiteState

BUDGET = Budget(epsilon=1.2, delta=1e-5)


@pytest.fixture
def state(tmp_path):
    return SiteState(tmp_path / "state.sqlite")


def charge(state, label, dataset="abc"):
    state.charge(dataset, 5.0, BUDGET, run_id="r", start="s", label=label, count=2)


def rows(told):
    return [line.split() for line in told.stdout.splitlines() if line.strip()]


def test_what_was_spent_and_what_is_left(daskfc, state, tmp_path):
    empty = daskfc("budget", "show", "state.sqlite")
    assert (empty.exit_code, empty.stdout) == (0, "Nothing was released with noise.\n")
    charge(state, "a")
    charge(state, "a", "other")
    state.grant("other", 0.25, "why")
    spent = f"{state.spent('abc').epsilon(1e-5):.4g}"
    told = rows(daskfc("budget", "show", "state.sqlite"))
    assert told[0] == ["data", "set", "releases", "epsilon", "at", "1e-05", "granted", "left"]
    assert told[2:4] == [["abc", "2", spent, "0"], ["other", "2", spent, "0.25"]]
    (tmp_path / "site.yaml").write_text("budget: {epsilon: 1.5, delta: 1e-6}", encoding="utf-8")
    told = rows(daskfc("budget", "show", "state.sqlite", "--policy", "site.yaml"))
    spent = state.spent("abc").epsilon(1e-6)
    assert told[0][5] == "1e-06"
    assert told[2] == ["abc", "2", f"{spent:.4g}", "0", f"{1.5 - spent:.4g}"]
    assert told[3] == ["other", "2", f"{spent:.4g}", "0.25", f"{1.75 - spent:.4g}"]
    at = rows(daskfc("budget", "show", "state.sqlite", "--delta", "1e-3"))
    assert at[2][2] == f"{state.spent('abc').epsilon(1e-3):.4g}"


def test_a_grant_lets_more_be_released(daskfc, state):
    charge(state, "a")
    with pytest.raises(PolicyRefused):
        charge(state, "b")
    granted = daskfc("budget", "grant", "state.sqlite", "--epsilon", "0.9", "--why", "second study")
    assert (granted.exit_code, granted.stdout) == (0, "Granted epsilon 0.9 to each data set.\n")
    charge(state, "b")
    daskfc("budget", "grant", "state.sqlite", "--epsilon", "2", "--why", "third", "--dataset", "x")
    told = daskfc("budget", "show", "state.sqlite").stdout.splitlines()
    assert told[-2].endswith("epsilon 0.9 to all data sets: second study")
    assert told[-1].endswith("epsilon 2 to x: third")
    assert [row.what for row in state.audit()] == ["refused", "granted", "granted"]


def test_what_is_wrong_is_one_sentence(daskfc, state, tmp_path):
    (tmp_path / "bare.yaml").write_text("raw: never", encoding="utf-8")
    (tmp_path / "site.yaml").write_text("budget: {epsilon: 1, delta: 1e-6}", encoding="utf-8")
    grant = ("grant", "state.sqlite", "--why", "x", "--epsilon")
    for words, says in (
        (("show", "none.sqlite"), "none.sqlite: no site's state is there"),
        (("grant", "none.sqlite", "--why", "x", "--epsilon", "1"), "no site's state is there"),
        (("show", "bare.yaml"), "bare.yaml"),
        (("show", "state.sqlite", "--policy", "bare.yaml"), "bare.yaml: has no budget"),
        (
            ("show", "state.sqlite", "--policy", "site.yaml", "--delta", "1e-5"),
            "the policy's budget has a delta of its own, 1e-06",
        ),
        ((*grant, "0"), "an epsilon above 0"),
        ((*grant, "nan"), "an epsilon above 0"),
        (("grant", "state.sqlite", "--epsilon", "1", "--why", " "), "needs a reason"),
    ):
        told = daskfc("budget", *words)
        assert (told.exit_code, told.stdout) == (2, ""), words
        assert says in told.stderr
        assert len(told.stderr.splitlines()) == 1
    assert not (tmp_path / "none.sqlite").exists()
