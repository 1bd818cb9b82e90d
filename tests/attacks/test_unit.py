"""The unit file for systemd is one, and holds what docs/security.md says of it."""

import configparser
import re
import shutil
import subprocess
import sys

import pytest
from click.testing import CliRunner

from daskfc.cli import main
from tests.attacks.attempts import ROOT

UNIT = ROOT / "cluster-configs" / "systemd" / "daskfc-party.service"


def lines_of(text):
    return dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))


def test_the_page_says_what_its_lines_do():
    page = (ROOT / "docs" / "security.md").read_text("utf-8")
    held = lines_of(UNIT.read_text("utf-8"))
    told = re.findall(r"`(\w+)=`", page)
    assert told
    assert set(told) <= set(held)
    assert held["IPAddressDeny"] == "any"


def test_its_command_is_one_that_daskfc_has():
    (words,) = re.findall(r"^ExecStart=(\S+ (?:.*\\\n)*.*)$", UNIT.read_text("utf-8"), re.MULTILINE)
    _, *given = words.replace("\\\n", " ").split()
    told = CliRunner().invoke(main, [given[0], "--help"]).output
    assert {word for word in given if word.startswith("--")} <= set(told.split())


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_takes_it(tmp_path):
    ours = tmp_path / UNIT.name
    ours.write_text(UNIT.read_text("utf-8").replace("/opt/daskfc/bin/daskfc", sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(ours)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_it_has_the_form_of_a_unit():
    """For machines without systemd."""
    unit = configparser.RawConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read_string(UNIT.read_text("utf-8").replace("\\\n", " "))
    assert unit.sections() == ["Unit", "Service", "Install"]
