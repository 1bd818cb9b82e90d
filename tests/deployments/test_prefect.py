"""The flow in Prefect's own environment, with Prefect's own server, and daskfc or a stub for it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from daskfc.cli import main
from daskfc.runs import list_runs
from tests.deployments.lines import CONFIGS

PYTHON = Path(os.environ.get("DASKFC_PREFECT", "none")) / "bin" / "python"
pytestmark = [
    pytest.mark.deploy,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not PYTHON.exists(), reason="DASKFC_PREFECT names no environment"),
]

# The flow as it is, without its waits between tries.
PROGRAM = """
import json, os, sys
sys.path.insert(0, os.environ["FOLDER"])
import prefect_flow
task = prefect_flow.start_or_resume
prefect_flow.start_or_resume = task.with_options(retry_delay_seconds=0)
def night(day):
    return prefect_flow.nightly("p.yaml", "c.yaml", "runs", day=day)
scores = night("2026-03-01")
try:
    night("2026-03-02")
except Exception as error:
    wrong = [type(error).__name__, str(error)]
prefect_flow.start_or_resume = task.with_options(retries=0, timeout_seconds=3)
try:
    night("2026-03-03")
except Exception as error:
    late = type(error).__name__
json.dump({"scores": scores, "wrong": wrong, "late": late}, open(os.environ["FOUND"], "w"))
"""
# Of the first night's tries one finds nobody and one breaks off; the second night's input is bad;
# the third night's run takes too long.
STUB = """#!/bin/sh
echo "$@" >>{calls}
echo 'daskfc: why' >&2
case $(wc -l <{calls}) in
1) exit 75 ;;
2) exit 1 ;;
3) echo '{{"metrics": {{"OmniFC": {{"nmi": 0.5}}}}}}' ;;
4) exit 2 ;;
*)
    trap 'echo ended >{calls}.ended; exit 1' TERM
    while :; do sleep 0.05; done ;;
esac
"""


def flows(program, folder, daskfc, **more):
    """Run a program that calls the flow in Prefect's environment."""
    environment = {
        "PATH": f"{PYTHON.parent}:/usr/bin:/bin", "HOME": str(folder),
        "FOLDER": str(CONFIGS), "DASKFC": str(daskfc), **more,
        "PREFECT_HOME": str(folder / "prefect"), "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1", "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "300",
    }  # fmt: skip
    return subprocess.run(
        [PYTHON, "-c", program], env=environment, cwd=folder,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_prefect_tries_again_what_a_further_try_mends(tmp_path):
    calls, found, stub = tmp_path / "calls", tmp_path / "found.json", tmp_path / "daskfc"
    stub.write_text(STUB.format(calls=calls))
    stub.chmod(0o755)
    done = flows(PROGRAM, tmp_path, stub, FOUND=str(found))
    assert done.returncode == 0, done.stderr
    told = json.loads(found.read_text())
    assert told["scores"] == {"OmniFC": {"nmi": 0.5}}
    assert told["wrong"] == ["BadInput", "daskfc: why"]
    assert told["late"] == "TaskRunTimeoutError"
    assert calls.with_name("calls.ended").read_text() == "ended\n"  # by SIGTERM
    first, second, third, *others = calls.read_text().splitlines()
    assert first == second == third
    assert "--run-key nightly-2026-03-01" in first
    assert len(others) == 2  # bad input was not tried again
    assert "daskfc: why" in done.stderr + done.stdout


# One night with daskfc itself: the first try's process is killed once it clusters.
NIGHT = """
import json, os, sys
sys.path.insert(0, os.environ["FOLDER"])
import prefect_flow
task = prefect_flow.start_or_resume
prefect_flow.start_or_resume = task.with_options(retry_delay_seconds=0)
scores = prefect_flow.nightly(
    "pipelines/hospitals.yaml", "cluster.yaml", "runs",
    storage="storage/hospitals.yaml", day="2026-03-01",
)
json.dump(scores, open("scores.json", "w"))
"""
STORAGE = "storage/hospitals.yaml"
KILLED_ONCE = """#!/bin/sh
if [ -e calls ]; then
    echo again >>calls
    exec {python} -m daskfc "$@"
fi
echo first >calls
{python} -m daskfc "$@" &
until grep -qs '"stage": "OmniFC' runs/*/progress.json; do
    kill -0 $! || exit 3
    sleep 0.05
done
kill -KILL $!
wait $!
"""


def test_prefect_goes_on_with_a_run_that_was_killed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words in (["init", "--example", "hospitals", "."], ["stores", "build", STORAGE]):
        made = CliRunner().invoke(main, words)
        assert made.exit_code == 0, made.output
    Path("cluster.yaml").write_text("cluster: local\n")
    daskfc = tmp_path / "daskfc"
    daskfc.write_text(KILLED_ONCE.format(python=sys.executable))
    daskfc.chmod(0o755)
    done = flows(NIGHT, tmp_path, daskfc)
    assert done.returncode == 0, done.stderr
    assert Path("calls").read_text() == "first\nagain\n"
    assert list_runs("runs")[["name", "state"]].to_numpy().tolist() == [
        ["nightly-2026-03-01", "done"]
    ]
    scores = json.loads(Path("scores.json").read_text())
    assert scores["OmniFC"]
    summary = json.loads(Path("runs/nightly-2026-03-01/summary.json").read_text())
    assert scores == summary["metrics"]
