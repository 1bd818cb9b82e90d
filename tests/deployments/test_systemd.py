"""The units for systemd: a party, a run every night, and an alert."""

import re
import shutil
import subprocess

import pytest

from tests.deployments.lines import CONFIGS, unit

FOLDER = CONFIGS / "systemd"
UNITS = sorted(path.name for path in FOLDER.iterdir())
SERVICES = [name for name in UNITS if name.endswith(".service")]
needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="there is no systemd here"
)


def read(name):
    return unit((FOLDER / name).read_text("utf-8"))


@pytest.fixture
def copies(tmp_path):
    """All units in one folder, with a program that is there in place of daskfc."""
    for name in UNITS:
        text = (FOLDER / name).read_text("utf-8")
        (tmp_path / name).write_text(text.replace("/opt/daskfc/bin/daskfc", "/bin/true"))
    return tmp_path


def analyze(*words):
    return subprocess.run(
        ["systemd-analyze", *map(str, words)], capture_output=True, text=True, check=False
    )


@needs_systemd
def test_systemd_takes_all_units(copies):
    done = analyze("verify", *(copies / name for name in UNITS))
    assert (done.returncode, done.stderr) == (0, "")


@needs_systemd
def test_systemd_would_tell_of_a_wrong_line(copies):
    ours = copies / "daskfc-nightly.service"
    ours.write_text(ours.read_text().replace("RestartSec=10min", "RestartSec=soon"))
    assert "ignoring: soon" in analyze("verify", ours).stderr


@needs_systemd
@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_exposed_little(copies, name):
    """In tenths of systemd's number, of which 0 is the least and 100 a service without a word."""
    done = analyze("security", "--offline=true", "--threshold=20", copies / name)
    assert done.returncode == 0, done.stdout


@needs_systemd
def test_the_timer_fires_once_a_night():
    when = read("daskfc-nightly.timer")["Timer"]["OnCalendar"]
    done = analyze("calendar", "--base-time=2026-03-01 12:00:00 UTC", "--iterations=3", when)
    assert done.returncode == 0, done.stderr
    days = re.findall(r"\d{4}-\d\d-(\d\d) 02:30:00", done.stdout)
    assert list(dict.fromkeys(days)) == ["02", "03", "04"]


def test_a_night_that_was_missed_is_made_up_for():
    timer = read("daskfc-nightly.timer")
    assert timer["Timer"]["Persistent"] == "true"
    assert timer["Install"]["WantedBy"] == "timers.target"


def test_the_nightly_run_is_tried_again_and_no_try_mends_bad_input():
    service = read("daskfc-nightly.service")
    held = service["Service"]
    assert held["Type"] == "oneshot"
    assert held["Restart"] == "on-failure"
    assert held["RestartSec"] == "10min"
    assert held["RestartPreventExitStatus"] == "2"
    assert held["TimeoutStartSec"] == "8h"
    assert held["KillMode"] == "mixed"
    assert held["MemoryMax"]
    assert service["Unit"]["OnFailure"] == "daskfc-alert@%n.service"
    assert "daskfc-alert@.service" in UNITS


def test_tries_come_to_an_end_and_are_not_counted_into_the_next_night():
    """Without a limit OnFailure= would never be reached."""
    held = read("daskfc-nightly.service")["Unit"]
    assert int(held["StartLimitBurst"]) > 1
    hours = int(held["StartLimitIntervalSec"].removesuffix("h"))
    assert int(held["StartLimitBurst"]) * 10 / 60 < hours < 24


def test_what_the_nightly_run_writes_is_its_own():
    held = read("daskfc-nightly.service")["Service"]
    assert f"/var/lib/{held['StateDirectory']}/" in held["ExecStart"]
    assert held["ProtectSystem"] == "strict"
    assert f"NUMBA_CACHE_DIR=/var/cache/{held['CacheDirectory']}" in held["Environment"]


def test_an_alert_posts_what_the_unit_told(tmp_path):
    """Its line is played by the shell, with stand-ins for systemctl and curl."""
    line = read("daskfc-alert@.service")["Service"]["ExecStart"]
    (typed,) = re.fullmatch(r"/bin/sh -c '(.*)'", line).groups()
    programs = {
        "systemctl": 'echo "$@: broke off"; exit 3',
        "curl": f'printf "%s\\n" "$@" >{tmp_path}/asked; cat >{tmp_path}/posted',
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "ALERT_URL": "https://alerts.example.org/x"}
    typed = typed.replace("%i", "daskfc-nightly.service").replace("$$", "$")
    assert subprocess.run(["/bin/sh", "-c", typed], env=environment, check=False).returncode == 0
    told = (tmp_path / "posted").read_text()
    assert told.endswith("daskfc-nightly.service: broke off\n")
    assert (tmp_path / "asked").read_text().splitlines()[-1] == "https://alerts.example.org/x"
