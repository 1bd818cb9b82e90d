import resource

import numpy as np
import pytest

from daskfc.errors import InvalidInput, StoreError
from daskfc.federation import Checkpoints
from tests.faults import tears


def test_the_newest_state_comes_back(tmp_path):
    checkpoints = Checkpoints(tmp_path / "state", keep=2)
    assert checkpoints.latest() is None
    for number in (1, 3, 12):
        checkpoints.save(number, {"centers": np.full((2, 3), number), "done": np.array(True)})
    number, state = Checkpoints(tmp_path / "state").latest()
    assert number == 12
    np.testing.assert_array_equal(state["centers"], np.full((2, 3), 12))
    assert bool(state["done"])
    assert checkpoints.rounds() == [3, 12]


def test_all_states_stay_that_shall(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=None)
    for number in (3, 1, 2):
        checkpoints.save(number, {"a": np.zeros(1)})
    assert checkpoints.rounds() == [1, 2, 3]


def test_a_half_written_state_is_not_there(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, {"a": np.zeros(1)})
    (tmp_path / "round-00000002.77.partial").write_bytes(b"PK")
    assert checkpoints.latest()[0] == 1


def test_a_failed_save_keeps_the_old_state(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, {"a": np.zeros(1)})
    with pytest.raises(InvalidInput, match="arrays without objects; 'b'"):
        checkpoints.save(1, {"b": np.array([object()])})
    assert list(checkpoints.latest()[1]) == ["a"]


# numpy before 2.2 leaves the broken archive to the collector, which says so
@pytest.mark.filterwarnings(r"ignore:.*ZipFile\.__del__:pytest.PytestUnraisableExceptionWarning")
def test_a_save_that_breaks_off_midway_keeps_the_old_state(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    old, new = np.arange(20.0), np.ones(10_000)
    checkpoints.save(1, {"a": old})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, hard))  # as on a disk that is full
    try:
        for number in (1, 2):  # in place of a state, and beside it
            with pytest.raises(OSError, match="too large"):
                checkpoints.save(number, {"a": new})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    number, state = Checkpoints(tmp_path).latest()
    assert number == 1
    np.testing.assert_array_equal(state["a"], old)
    checkpoints.save(1, {"a": new})
    np.testing.assert_array_equal(checkpoints.load(1)["a"], new)


@tears
def test_a_torn_state_is_not_there(tmp_path, tear):
    checkpoints = Checkpoints(tmp_path, keep=3)
    for number in (1, 2, 3):
        checkpoints.save(number, {"a": np.full((40, 30), number), "b": np.array(0.5)})
    tear(tmp_path / "round-00000003.npz")
    number, state = checkpoints.latest()
    assert number == 2
    np.testing.assert_array_equal(state["a"], np.full((40, 30), 2))
    with pytest.raises(StoreError, match="state after round 3 is missing or damaged"):
        checkpoints.load(3)
    tear(tmp_path / "round-00000001.npz")
    tear(tmp_path / "round-00000002.npz")
    assert checkpoints.latest() is None
    checkpoints.save(3, {"a": np.full((40, 30), 9)})
    assert checkpoints.latest()[0] == 3


def test_two_states_are_kept_unless_another_number_is_given(tmp_path):
    usual, one = Checkpoints(tmp_path / "not" / "there"), Checkpoints(tmp_path / "one", keep=1)
    for number in (1, 2, 3):
        usual.save(number, {"a": np.zeros(1)})
        one.save(number, {"a": np.zeros(1)})
    assert (usual.rounds(), one.rounds()) == ([2, 3], [3])
    with pytest.raises(InvalidInput, match=r"'keep' parameter .* at least 1; got 0\.$"):
        Checkpoints(tmp_path, keep=0)


def test_an_old_state_that_somebody_removed_meanwhile_is_not_missed(tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path)
    monkeypatch.setattr(checkpoints, "rounds", lambda: [1, 2, 3])
    checkpoints.save(3, {"a": np.zeros(1)})
    assert checkpoints.load(3)["a"].tolist() == [0.0]


class Spy:
    """What would run if it were read back."""

    def __reduce__(self):
        return _told.append, ("it ran",)


_told = []


def test_objects_in_the_place_of_a_state_are_not_read(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    np.savez(tmp_path / "round-00000001.npz", a=np.array([Spy()]))
    with pytest.raises(StoreError, match=r"missing or damaged \(ValueError\)"):
        checkpoints.load(1)
    assert _told == []


@pytest.mark.parametrize("links", [True, False])
def test_a_state_of_another_folder_is_taken(tmp_path, monkeypatch, links):
    """As a link, which keeps it when the other folder forgets it; else as a copy."""
    if not links:

        def refuse(self, target):
            raise OSError(18, "another disk")

        monkeypatch.setattr(type(tmp_path), "hardlink_to", refuse)
    mine, other = Checkpoints(tmp_path / "mine"), Checkpoints(tmp_path / "other", keep=1)
    other.save(5, {"a": np.arange(3.0)})
    mine.take(0, other, 5)
    paths = [mine.folder / "round-00000000.npz", other.folder / "round-00000005.npz"]
    assert paths[0].samefile(paths[1]) == links
    other.save(6, {"a": np.zeros(3)})
    assert other.rounds() == [6]
    assert mine.load(0)["a"].tolist() == [0.0, 1.0, 2.0]


def test_what_is_taken_comes_in_place_of_a_damaged_state(tmp_path):
    mine, other = Checkpoints(tmp_path / "mine"), Checkpoints(tmp_path / "other")
    mine.save(0, {"a": np.zeros(3)})
    (mine.folder / "round-00000000.npz").write_bytes(b"PK")
    assert mine.latest() is None
    other.save(5, {"a": np.arange(3.0)})
    mine.take(0, other, 5)
    assert mine.latest()[1]["a"].tolist() == [0.0, 1.0, 2.0]
    assert other.latest()[1]["a"].tolist() == [0.0, 1.0, 2.0]
