"""Every bad input is answered in one sentence: what, whose, the rule, the way out."""

import re

import pytest
from click.testing import CliRunner

from daskfc.cli import main
from daskfc.stores import write_store
from tests.bad_inputs.cases import COMMANDS, IRIS, OMNIFC


def laid_out(case, folder):
    """Write what a case needs into a folder."""
    for name, text in {"p.yaml": OMNIFC, "s.yaml": IRIS, **case.files}.items():
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    for name, keys in (case.stores() if case.stores else {}).items():
        write_store(str(folder / f"{name}.zarr"), name, **keys)


@pytest.mark.parametrize("number", COMMANDS)
def test_a_bad_input_is_refused_before_anything_starts(number, tmp_path, monkeypatch):
    case = COMMANDS[number]
    laid_out(case, tmp_path)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, list(case.words))
    told = result.stderr.strip()
    assert result.exit_code == case.code, (result.exit_code, told)
    assert re.search(case.says, told, re.DOTALL), told
    assert len([line for line in told.splitlines() if line.startswith("daskfc: ")]) == 1
    assert "Resume" not in told
    assert "Error" not in re.sub("FileNotFoundError|ConnectionRefusedError|CalamineError", "", told)
    assert not list(tmp_path.glob("runs/*"))
