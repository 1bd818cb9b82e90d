"""One start of a fit releases what bears noise, and its step may be performed again."""

import errno
import os

import pytest

from daskfc.errors import PrivacyError
from daskfc.federation.driver.one_start import begin_releases


def test_one_start_releases_and_no_other(tmp_path):
    folder = tmp_path / "server" / "work"
    note = begin_releases(str(folder), "Means", "{'k': 2}", "start-1")
    (kept,) = folder.iterdir()
    assert (str(kept), kept.read_text()) == (note, "start-1")
    words = "an earlier start of this fit of Means released what bears noise"
    with pytest.raises(PrivacyError, match=words):
        begin_releases(str(folder), "Means", "{'k': 2}", "start-2")
    assert kept.read_text() == "start-1"


def test_the_same_start_may_perform_its_step_again(tmp_path):
    first = begin_releases(str(tmp_path), "Means", "{'k': 2}", "start-1")
    assert begin_releases(str(tmp_path), "Means", "{'k': 2}", "start-1") == first


def test_other_methods_and_parameters_are_other_fits(tmp_path):
    asked = [("Means", "{'k': 2}"), ("Means", "{'k': 3}"), ("Medians", "{'k': 2}")]
    notes = {begin_releases(str(tmp_path), *of, "start") for of in asked}
    assert len(notes) == 3


def test_a_disk_that_is_full_leaves_no_half_note(tmp_path, monkeypatch):
    """Nothing was released, so that another start may."""

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            begin_releases(str(tmp_path), "Means", "{}", "start-1")
    assert not list(tmp_path.iterdir())
    begin_releases(str(tmp_path), "Means", "{}", "start-2")
