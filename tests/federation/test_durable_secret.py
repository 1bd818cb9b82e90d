"""The secret that a party keeps in its folder."""

import stat

import pytest

from daskfc.federation.durable_secret import durable_secret


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
