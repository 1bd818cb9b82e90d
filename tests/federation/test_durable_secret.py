"""The secret that a party keeps in its folder."""

import os
import stat
from pathlib import Path

import pytest

from daskfc.federation.identity import durable_secret as module
from daskfc.federation.identity.durable_secret import durable_secret


@pytest.mark.parametrize(
    "torn", [b"", bytes(64), b"half of a key"], ids=["empty", "zeros", "cut off"]
)
def test_a_torn_key_is_drawn_anew_and_then_kept(tmp_path, torn):
    first = durable_secret(tmp_path)
    path = tmp_path / "secret.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_bytes(torn)
    second = durable_secret(tmp_path)
    assert second.to_bytes() not in (first.to_bytes(), bytes(32))
    assert durable_secret(tmp_path) == second
    assert [file.name for file in tmp_path.iterdir()] == ["secret.key"]


def test_a_key_that_another_step_drew_meanwhile_is_taken(tmp_path, monkeypatch):
    read, drawn = module._read, []

    def late(path):
        found = read(path)
        if not drawn:
            drawn.append(None)
            drawn.append(durable_secret(tmp_path))
        return found

    monkeypatch.setattr(module, "_read", late)
    assert durable_secret(tmp_path) == drawn[1]


def test_a_torn_key_that_another_step_removed_meanwhile_is_not_missed(tmp_path, monkeypatch):
    path = tmp_path / "secret.key"
    path.write_bytes(b"torn")
    read = module._read

    def late(path):
        found = read(path)
        if found is None:
            path.unlink()
        return found

    monkeypatch.setattr(module, "_read", late)
    key = durable_secret(tmp_path)
    assert read(path) == key


def test_a_key_is_nowhere_but_in_its_folder(tmp_path, monkeypatch):
    link, seen = os.link, []

    def seeing(partial, path):
        seen.append(Path(partial))
        link(partial, path)

    monkeypatch.setattr(os, "link", seeing)
    durable_secret(tmp_path)
    (partial,) = seen
    assert partial.parent == tmp_path
    assert partial.name.startswith(".secret.key-")
