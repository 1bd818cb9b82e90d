"""What FedSC keeps of a fit: torn states are passed over, a torn budget is never a new one."""

import math
import shutil

import numpy as np
import pytest

from daskfc.errors import ClusterError, PrivacyError, StoreError
from daskfc.federation import Checkpoints
from daskfc.federation.party.options import PartyOptions, RunSettings
from daskfc.protocols import FedSC
from daskfc.protocols.fedsc.journal import Journal, Releases, expect, journal_of, resumed
from daskfc.protocols.fedsc.privacy.noise import noise_of
from daskfc.runs.outcome.failures import same_again
from tests.faults import tears

POSITIONS = {"a": np.array([0, 2]), "b": np.array([1])}
DATA = {"kind": "data", "epsilon": 2.0, "delta": 1e-5, "clip": 10.0}
FACTORS = {"kind": "factors", "epsilon": 4.0, "delta": 1e-5, "clip": 1.0}


def opened(folder):
    return journal_of(str(folder), "params", POSITIONS, None)


def rounds(journal, *numbers):
    for number in numbers:
        state = {"dictionary": np.full((8, 5), float(number)), "change": np.array(0.1 * number)}
        Checkpoints(journal.folder, keep=9).save(number, state)


def test_releases_outlive_the_process(tmp_path):
    expect(opened(tmp_path), "first", 2.0)
    expect(opened(tmp_path), "second", 0.1)
    expect(opened(tmp_path), "second", 0.1)  # a step that is repeated after a kill
    np.testing.assert_array_equal(opened(tmp_path).releases(), [2.0, 0.1])
    found = resumed(opened(tmp_path), noisy=True)
    assert (found.round, found.change) == (0, math.inf)
    np.testing.assert_array_equal(found.multipliers, [2.0, 0.1])
    assert {path.name for path in opened(tmp_path).folder.iterdir()} == {"releases.json"}


@tears
def test_a_torn_list_of_releases_is_no_new_budget(tmp_path, tear):
    journal = opened(tmp_path)
    for number in range(20):
        expect(journal, f"release {number}", 2.0)
    tear(journal.folder / "releases.json")
    for use in (
        lambda: resumed(opened(tmp_path), noisy=True),
        lambda: expect(opened(tmp_path), "another", 2.0),
    ):
        with pytest.raises(PrivacyError, match="what is left of its budget is not known"):
            use()
    assert resumed(opened(tmp_path), noisy=False).round == 0  # without noise nothing is owed


def test_a_shorter_list_of_releases_is_damaged_as_well(tmp_path):
    journal = opened(tmp_path)
    expect(journal, "a", 2.0)
    path = journal.folder / "releases.json"
    path.write_text(path.read_text().replace("2.0", "9.0"))
    with pytest.raises(PrivacyError):
        journal.releases()


def test_a_journal_that_was_removed_is_no_reason_to_give_the_run_up(tmp_path):
    journal = opened(tmp_path)
    expect(journal, "a", 2.0)
    shutil.rmtree(journal.folder)
    for use in (journal.releases, lambda: expect(journal, "b", 2.0)):
        with pytest.raises(StoreError, match=r"was removed while it ran\. Resume the run") as error:
            use()
        assert not same_again(error.value)
    assert not journal.folder.exists()
    here = Releases([2.0, 2.0])  # the driver's account, which the next start begins with
    again = resumed(opened(tmp_path), noisy=True)
    assert Releases.of_both(again.multipliers.tolist(), here.multipliers).multipliers == [2.0, 2.0]


def test_a_folder_is_there_with_its_list_or_not_at_all(tmp_path, monkeypatch):
    def killed(self, releases):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "_write", killed)
        with pytest.raises(KeyboardInterrupt):
            opened(tmp_path)
    assert opened(tmp_path).releases().size == 0


@tears
def test_a_torn_round_is_repeated(tmp_path, tear):
    journal = opened(tmp_path)
    rounds(journal, 1, 2, 3)
    assert resumed(journal, noisy=False).round == 3
    tear(journal.folder / "round-00000003.npz")
    found = resumed(journal, noisy=False)
    assert (found.round, found.change) == (2, 0.2)
    tear(journal.folder / "round-00000001.npz")  # the older one of the pair that round 2 needs
    assert resumed(journal, noisy=False).round == 0


@pytest.mark.parametrize(
    ("asked", "releases", "left"),
    [
        (None, 0, True),
        (DATA, 0, True),
        (DATA, 1, False),
        (FACTORS, 5, True),
        (FACTORS, 6, False),  # five rounds, and the rows
        ({"kind": "data", "sigma": 3.0, "clip": 1.0, "delta": 1e-5}, 4, True),  # no budget
    ],
)
def test_whether_a_fit_may_start_again_is_what_is_left_of_its_budget(asked, releases, left):
    model = FedSC(3, noise=asked)
    assert model.can_start_again()
    noise = noise_of(asked, rounds=5, ridge=model.ridge)
    if noise is not None:
        model._releases = Releases(
            [event.noise_multiplier for event in noise.events(5) for _ in range(event.count)][
                :releases
            ]
        )
    assert model.can_start_again() is left


def test_the_costlier_of_two_lists_counts():
    assert Releases.of_both([2.0, 2.0], [2.0]).multipliers == [2.0, 2.0]
    assert Releases.of_both([], [2.0]).multipliers == [2.0]  # the server's folder was lost
    assert Releases.of_both([9.0, 9.0], [1.0]).multipliers == [1.0]
    assert Releases.of_both([], []).accountant is None


def test_what_earlier_starts_released_counts_before_the_server_is_asked():
    class Away:
        def report_progress(self, *stage):
            raise ClusterError("party 'server' is away.")

    model = FedSC(3, noise=DATA)
    model.seed_ = 0
    model.remember([noise_of(DATA, rounds=5, ridge=1e-3).multiplier])
    with pytest.raises(ClusterError):
        model._fit(Away())
    assert not model.can_start_again()
    with pytest.raises(ClusterError):  # another fit of the same object is not of that run
        model._fit(Away())
    assert model.can_start_again()


def test_a_server_with_a_folder_of_its_own_finds_the_list_of_an_earlier_start(tmp_path):
    def folder(run_id, workspace, role="server"):
        run = RunSettings(run_id, 0, workspace=workspace)
        return PartyOptions(role, role, scratch="/s", folder=str(tmp_path), run=run).run_folder()

    expect(opened(folder("start-1", "/night/a/FedSC")), "a", 2.0)
    again = opened(folder("start-2", "/night/a/FedSC"))
    np.testing.assert_array_equal(again.releases(), [2.0])
    assert opened(folder("start-3", "/night/b/FedSC")).releases().size == 0
    own = tmp_path / "runs" / "unnamed" / "start-1"
    assert folder("start-1", None) == own
    assert folder("start-1", "/night/a/FedSC", role="client") == own
