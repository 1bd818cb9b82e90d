"""Faults of disks, processes and drivers: one sentence in time, and the same results after it."""

import contextlib
import shutil
import subprocess
import time

import numpy as np
import pytest

from daskfc.errors import LedgerError
from tests.federation import steps

pytestmark = pytest.mark.slow


def total(federation):
    """Return what a round over all parties yields."""
    return federation.publish(steps.total_message, federation.ask(steps.row_sum)).values


def totals_without_end(federation):
    while True:  # the page that a file ends in may have room for some more rows
        total(federation)


@contextlib.contextmanager
def at_most(seconds):
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds


# -- a ledger that cannot be written ----------------------------------------------------------


def to_full_device(folder):
    (folder / "ledger.jsonl").unlink(missing_ok=True)
    (folder / "ledger.jsonl").symlink_to("/dev/full")


def to_folder(folder):
    (folder / "ledger.jsonl").unlink(missing_ok=True)
    (folder / "ledger.jsonl").mkdir()


@pytest.mark.parametrize("party", ["client-2", "server"])
@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (to_full_device, "no space left on device"),
        (to_folder, "is a directory"),
        (shutil.rmtree, "no such file or directory"),
    ],
)
def test_a_ledger_that_cannot_be_written_ends_the_run_at_once(
    federation, tmp_path, party, damage, words
):
    expected = total(federation)
    folder = tmp_path / "server" if party == "server" else tmp_path / "parties" / party
    damage(folder)
    file = folder / "ledger.jsonl"
    sentence = f"party '{party}' cannot write its ledger {file} \\({words}\\)"
    with at_most(10), pytest.raises(LedgerError, match=sentence):
        total(federation)
    with pytest.raises(LedgerError, match="and resume the run"):
        federation.ask(steps.row_sum)
    shutil.rmtree(folder, ignore_errors=True)
    federation.start_run("resumed", random_state=0, workspace=str(tmp_path), deadline_s=15)
    np.testing.assert_array_equal(total(federation), expected)


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 256 kB of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("this machine does not let its tests mount a file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder):
    with contextlib.suppress(OSError), (folder / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(512))


def test_a_full_disk_ends_the_run_and_a_resumed_one_is_whole(federation, small_disk, capfd):
    federation.start_run("full", random_state=0, workspace=str(small_disk), deadline_s=15)
    expected = total(federation)
    fill(small_disk)
    with at_most(15), pytest.raises(LedgerError, match="no space left on device"):
        totals_without_end(federation)
    federation.start_run("full", random_state=0, workspace=str(small_disk), deadline_s=15)
    with at_most(15), pytest.raises(LedgerError, match="no space left on device"):
        totals_without_end(federation)
    (small_disk / "filler").unlink()
    federation.start_run("full", random_state=0, workspace=str(small_disk), deadline_s=15)
    np.testing.assert_array_equal(total(federation), expected)
    rows = [row for row in federation.ledger if row.step == "row_sum"]
    assert {row.sender for row in rows} == set(federation.clients)
    assert capfd.readouterr().err == ""  # no handler of a log complains on the terminal
