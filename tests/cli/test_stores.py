import re
import shutil
from pathlib import Path

import pytest
import yaml


def build(daskfc, *more):
    return daskfc("stores", "build", "s.yaml", *more)


def test_build_inspect_check(daskfc, files):
    result = build(daskfc)
    assert result.exit_code == 0, result.output
    assert "client-3" in result.stdout
    result = daskfc("stores", "inspect", "s.yaml")
    assert result.exit_code == 0
    assert "50" in result.stdout
    result = daskfc("stores", "check", "s.yaml")
    assert result.exit_code == 0
    assert result.stdout.count(": ok") == 3


def test_stores_are_not_written_over_unless_asked(daskfc, files):
    build(daskfc)
    result = build(daskfc)
    assert result.exit_code == 2
    assert "--overwrite" in result.stderr
    assert build(daskfc, "--overwrite").exit_code == 0


def test_another_root(daskfc, files, tmp_path):
    assert build(daskfc, "--root", "elsewhere").exit_code == 0
    assert (tmp_path / "elsewhere" / "client-1.zarr").is_dir()
    assert daskfc("stores", "check", "s.yaml", "--root", "elsewhere").exit_code == 0
    assert daskfc("stores", "check", "s.yaml").exit_code == 2


@pytest.mark.parametrize("command", ["inspect", "check"])
def test_a_missing_store_is_one_line(daskfc, files, command):
    result = daskfc("stores", command, "s.yaml")
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1


def test_a_damaged_store_is_found(daskfc, files, storage):
    build(daskfc)
    (chunk,) = Path(storage["root"], "client-2.zarr", "features", "c", "0").glob("*")
    raw = bytearray(chunk.read_bytes())
    raw[len(raw) // 2] ^= 1
    chunk.write_bytes(raw)
    result = daskfc("stores", "check", "s.yaml")
    assert result.exit_code == 2
    assert "client-2" in result.stderr
    shutil.rmtree(storage["root"])


def test_views_and_scaling_are_shown(daskfc, tmp_path):
    document = {
        "source": {"dataset": "digits-views", "scaling": {"fourier": "standard"}},
        "partition": {"scheme": "views", "overlap": 0.25},
    }
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    for command in ("build", "inspect"):
        result = daskfc("stores", command, "s.yaml")
        assert result.exit_code == 0, result.output
        lines = [line.split() for line in result.stdout.splitlines()]
        head, *rows = [line for line in lines if line and re.fullmatch(r"client(-\d)?", line[0])]
        assert head[:5] == ["client", "view", "scaling", "samples", "features"]
        assert [row[:3] for row in rows] == [
            ["client-1", "pixels", "none"],
            ["client-2", "profiles", "none"],
            ["client-3", "fourier", "standard"],
        ]
    assert daskfc("stores", "check", "s.yaml").stdout.count(": ok") == 3


def test_a_plain_storage_has_no_column_for_views(daskfc, files):
    build(daskfc)
    words = daskfc("stores", "inspect", "s.yaml").stdout.split()
    assert not {"view", "scaling"} & set(words)
