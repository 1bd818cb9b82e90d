import re

import pytest

from daskfc.examples import EXAMPLES


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_it_says_comes_next_names_files_that_are_there(daskfc, tmp_path, name):
    result = daskfc("init", "--example", name, "a folder")
    assert result.exit_code == 0
    assert "cd 'a folder'" in result.output
    commands = result.output.partition("Next\n")[2]
    named = re.findall(r"\S+\.yaml", commands)
    assert len(named) == 2
    for path in named:
        assert (tmp_path / "a folder" / path).is_file()


def test_here_is_where_it_writes_by_default(daskfc, tmp_path):
    result = daskfc("init")
    assert "cd " not in result.output
    assert (tmp_path / "pipelines" / "omnifc.yaml").is_file()


def test_what_is_there_is_not_overwritten(daskfc, tmp_path):
    (tmp_path / "storage").mkdir()
    (tmp_path / "storage" / "digits.yaml").write_text("mine", encoding="utf-8")
    result = daskfc("init")
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert "storage/digits.yaml" in result.stderr
    assert not (tmp_path / "pipelines").exists()
    assert (tmp_path / "storage" / "digits.yaml").read_text(encoding="utf-8") == "mine"


def test_what_comes_next_works_without_a_run(daskfc):
    daskfc("init", "--example", "hospitals")
    built = daskfc("stores", "build", "storage/hospitals.yaml")
    assert built.exit_code == 0
    assert "hospital-c" in built.output
