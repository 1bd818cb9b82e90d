"""Processes that die, and several that write at once."""

import subprocess
import sys
from pathlib import Path

import pytest

from daskfc.errors import PolicyRefused
from daskfc.privacy import Accountant, GaussianEvent
from daskfc.site import Budget, RunRequest, SiteState

ROOT = Path(__file__).parents[2]
BUDGET = Budget(epsilon=1, delta=1e-5)

HEAD = """
import sys
from daskfc.errors import PolicyRefused
from daskfc.site import Budget, RunRequest, SiteState

budget, state = Budget(epsilon=1, delta=1e-5), SiteState(sys.argv[1])

def charge(label, multiplier):
    state.charge("d", multiplier, budget, run_id="r", start="s", label=label)
"""

THEN_RELEASE = """
charge("factors", 4.0)
print("charged", flush=True)
sys.stdin.read()  # here it would release
print("released", flush=True)
"""

ON_AND_ON = """
for i in range(10**6):
    charge(str(i), 1000.0)
    print(i, flush=True)
"""

SHARE = """
import os

def use(name):
    for i in range(10):
        try:
            charge(name + str(i), 10.0)
        except PolicyRefused:
            print("refused", flush=True)
        else:
            print("charged", flush=True)
    try:
        state.begin("r", "s", RunRequest("FedSC"))
        print("began", flush=True)
    except PolicyRefused as error:
        print(error.rule, flush=True)

for name in "abc":
    if os.fork() == 0:
        use(name)
        os._exit(0)
for name in "abc":
    print("code", os.wait()[1], flush=True)
"""


def started(program, *words):
    return subprocess.Popen(
        [sys.executable, "-c", HEAD + program, *map(str, words)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.sqlite"


@pytest.mark.slow
def test_a_party_that_dies_between_charge_and_release_has_spent(path):
    with started(THEN_RELEASE, path) as party:
        assert party.stdout.readline() == "charged\n"
        party.kill()
        assert party.stdout.read() == ""  # nothing was released
    state = SiteState(path)
    assert state.spent("d").epsilon(1e-5) == pytest.approx(0.9263, abs=1e-4)
    with pytest.raises(PolicyRefused):
        state.charge("d", 4.0, BUDGET, run_id="r", start="another", label="factors")
    # The same start may release what it charged: its noise is the same.
    state.charge("d", 4.0, BUDGET, run_id="r", start="s", label="factors")


@pytest.mark.slow
@pytest.mark.parametrize("enough", [1, 7])
def test_whenever_a_party_dies_what_it_was_allowed_is_counted(path, enough):
    with started(ON_AND_ON, path) as party:
        for _ in range(enough):
            party.stdout.readline()
        party.kill()
        allowed = enough + len(party.stdout.read().splitlines())
    spent = SiteState(path).spent("d")
    (event,) = spent.events
    assert event.count in (allowed, allowed + 1)  # it may die before it says so


@pytest.mark.slow
def test_several_processes_share_one_budget(path):
    with started(SHARE, path) as parties:
        told = parties.stdout.read().split()
    assert [code for code in told if code.isdigit()] == ["0"] * 3
    state, n = SiteState(path), told.count("charged")
    assert 0 < n < 30
    spent = state.spent("d")
    assert spent == Accountant((GaussianEvent(10.0, n),))
    assert spent.epsilon(1e-5) <= 1 < spent.compose(GaussianEvent(10.0)).epsilon(1e-5)
    assert (told.count("began"), told.count("start")) == (1, 2)
    assert sum(row.rule == "budget" for row in state.audit()) == 30 - n
    with pytest.raises(PolicyRefused):
        state.begin("r", "s", RunRequest("FedSC"))
