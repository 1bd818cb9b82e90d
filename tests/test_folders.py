"""Who may open what holds private values, and what a folder may be called."""

import logging
import os
import stat

import pytest

from daskfc.errors import InvalidInput
from daskfc.folders import PrivateLog, below, check_folder_name, make_private, write_once


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0o022, 0o077], ids=oct)
def umask(request):
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_folders_that_are_made_are_their_owners_and_others_stay(tmp_path):
    there = tmp_path / "there"
    there.mkdir()
    there.chmod(0o755)
    made = make_private(there / "a" / "b")
    assert make_private(made) == made
    assert [mode(path) for path in (there, there / "a", made)] == [0o755, 0o700, 0o700]


@pytest.mark.usefixtures("umask")
def test_a_file_is_written_once_and_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    done, link, fsync = [], os.link, os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: done.append("flush") or fsync(handle))
    monkeypatch.setattr(os, "link", lambda *names: done.append("name") or link(*names))
    path = tmp_path / "began"
    assert write_once(path, b"first")
    assert done == ["flush", "name", "flush"]
    assert not write_once(path, b"second")
    assert (path.read_bytes(), mode(path)) == (b"first", 0o600)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("delay", [False, True])
def test_a_log_is_its_owners_and_takes_every_text(tmp_path, delay):
    handler = PrivateLog(tmp_path / "log.txt", delay=delay)
    assert (tmp_path / "log.txt").exists() == (not delay)
    handler.emit(logging.makeLogRecord({"msg": "a lone \ud800", "levelname": "INFO"}))
    handler.close()
    assert mode(tmp_path / "log.txt") == 0o600
    assert r"a lone \ud800" in (tmp_path / "log.txt").read_text()


class _Large:
    def __str__(self):
        raise MemoryError


def test_what_there_is_no_memory_to_log_is_told_nowhere(tmp_path, capsys):
    handler = PrivateLog(tmp_path / "log.txt")
    handler.handle(logging.makeLogRecord({"msg": "%s of %r", "args": (_Large(), "a sample")}))
    handler.close()
    assert (tmp_path / "log.txt").read_text() == capsys.readouterr().err == ""


@pytest.mark.parametrize("name", ["night", "digits-20261121-2255", "Übung 2", "a+b=c", "0" * 200])
def test_names_of_folders(name):
    check_folder_name("run", name)


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../a", "/a", "a/b", "a\\b", ".hidden", "a\0", "a\n", "ü" * 101, None, 7],
)
def test_names_that_lead_elsewhere(name):
    with pytest.raises(InvalidInput, match="the name of a run must be usable as the name of a"):
        check_folder_name("run", name)


def test_a_path_below_a_folder_is_the_systems_and_keeps_names_of_links(tmp_path, monkeypatch):
    """A link that is turned to another folder, as certificates are renewed, is followed later."""
    (tmp_path / "far" / "v1").mkdir(parents=True)
    (tmp_path / "now").symlink_to(tmp_path / "far" / "v1")
    monkeypatch.chdir(tmp_path)
    for path in ("ca.pem", "../ca.pem", "a/../ca.pem", str(tmp_path / "ca.pem")):
        found = below("now", path)
        assert os.path.isabs(found)
        assert os.path.realpath(found) == os.path.realpath(os.path.join("now", path))
    assert below("now", "ca.pem") == str(tmp_path / "now" / "ca.pem")
    assert below("now", "../ca.pem") == str(tmp_path / "far" / "ca.pem")
    assert below("", "ca.pem") == str(tmp_path / "ca.pem")
    (tmp_path / "far" / "blob").write_text("x")
    (tmp_path / "far" / "a.csv").symlink_to(tmp_path / "far" / "blob")  # whose name tells its kind
    assert below("now", "../a.csv") == str(tmp_path / "far" / "a.csv")
    (tmp_path / "far" / "live").symlink_to(tmp_path / "far" / "v1")
    assert below("now", "../live/cert.pem") == str(tmp_path / "far" / "live" / "cert.pem")
