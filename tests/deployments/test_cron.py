"""The crontab: its lines are played by the shell, and by cron itself where a test may start one."""

import re
import subprocess

import pytest

from tests.deployments.cron_daemon import Cron, why_no_cron
from tests.deployments.lines import CONFIGS, crontab
from tests.deployments.slurm_cluster import until

SETTINGS, LINES = crontab((CONFIGS / "cron").read_text("utf-8"))
MANY, LAST = LINES
WORDS = "run pipeline.yaml --cluster tls-sites.yaml --resume-or-start --run-key nightly-{date}"


@pytest.fixture
def play(tmp_path):
    """Perform a line as cron does, with a daskfc that ends with a code; return what is mailed."""
    nightly, programs = tmp_path / "nightly", tmp_path / "bin"
    nightly.mkdir()
    programs.mkdir()

    def play(line, code):
        stub = programs / "daskfc"
        stub.write_text(f'#!/bin/sh\necho "$@"\necho "daskfc: why" >&2\nexit {code}\n')
        stub.chmod(0o755)
        environment = {
            **SETTINGS, "HOME": str(tmp_path), "NIGHTLY": str(nightly),
            "PATH": f"{programs}:/usr/bin:/bin",
        }  # fmt: skip
        done = subprocess.run(
            [SETTINGS["SHELL"], "-c", line[5]],
            env=environment, cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.stdout + done.stderr, (nightly / "log").read_text()

    return play


def test_a_line_has_a_time_and_nothing_that_cron_takes_for_an_end():
    for *when, command in LINES:
        assert all(re.fullmatch(r"[\d,*/-]+", field) for field in when)
        assert "%" not in command
    assert [line[1] for line in LINES] == ["2-6", "7"]  # one night, and the last of it is the last
    assert {"SHELL", "PATH", "MAILTO"} <= SETTINGS.keys()


@pytest.mark.parametrize("line", LINES, ids=["many", "last"])
def test_a_run_that_is_done_mails_nothing(play, line):
    mailed, log = play(line, 0)
    assert mailed == ""
    assert log.startswith(WORDS)


@pytest.mark.parametrize("line", LINES, ids=["many", "last"])
@pytest.mark.parametrize("code", [1, 2])
def test_what_broke_off_or_is_wrong_is_mailed(play, line, code):
    mailed, _ = play(line, code)
    assert mailed == "daskfc: why\n"


def test_who_is_away_is_waited_for_until_the_last_start(play):
    assert play(MANY, 75)[0] == ""
    assert play(LAST, 75)[0] == "daskfc: why\n"


def test_the_log_is_kept_and_closed_to_others(play, tmp_path):
    play(MANY, 75)
    _, log = play(LAST, 0)
    assert log.count("daskfc: why") == 2
    assert (tmp_path / "nightly" / "log").stat().st_mode & 0o077 == 0


def test_a_folder_that_is_missing_is_mailed(tmp_path):
    environment = {**SETTINGS, "NIGHTLY": str(tmp_path / "none"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        ["/bin/sh", "-c", MANY[5]], env=environment, capture_output=True, text=True, check=False
    )
    assert "none" in done.stderr


@pytest.mark.deploy
@pytest.mark.slow
@pytest.mark.skipif(bool(why_no_cron()), reason=why_no_cron())
def test_cron_starts_it(tmp_path):
    """The file as it is, with other folders and a time that comes soon: within a minute."""
    nightly, programs = tmp_path / "nightly", tmp_path / "bin"
    nightly.mkdir()
    programs.mkdir()
    stub = programs / "daskfc"
    stub.write_text('#!/bin/sh\necho "$PWD: $@"\nexit 75\n')
    stub.chmod(0o755)
    text = (CONFIGS / "cron").read_text("utf-8")
    text = text.replace("/srv/daskfc/nightly", str(nightly)).replace(
        "/opt/daskfc/bin", str(programs)
    )
    log = nightly / "log"
    with Cron(tmp_path) as cron:
        cron.install(text.replace("30 2-6 * * *", "* * * * *"))
        until(
            lambda: log.exists() and log.read_text().endswith("\n") and cron.runs(),
            lambda: f"cron runs: {cron.runs()}",
        )
    assert log.read_text().startswith(f"{nightly}: {WORDS} --keep 30 --runs-dir runs")
    assert log.stat().st_mode & 0o077 == 0
