"""A run every night as a flow of Prefect 3, which retries it, keeps a history and has a web page.

Prefect has an environment of its own and calls daskfc's command in daskfc's: installed into one,
each would change versions of the other's. ``docs/deploy/prefect.md`` has the steps.

    DASKFC=/opt/daskfc/bin/daskfc python prefect_flow.py
"""

import json
import os
import signal
import subprocess
import tempfile
from datetime import date
from typing import Any

from prefect import flow, task
from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy

BAD_INPUT = 2  # no further try mends it
AWAY = 75  # the scheduler or a party is away, or another process has this run


class BadInput(RuntimeError):
    """Nothing was started, and nothing will be until the input is corrected."""


class Away(RuntimeError):
    """Nothing was started this time; a later try may find everybody."""


class BrokeOff(RuntimeError):
    """The run began and ended too early; the next try goes on from there."""


def another_try_may_help(task: Any, task_run: Any, state: Any) -> bool:
    """Return whether Prefect may try again, after any failure but bad input."""
    try:
        state.result()
    except BadInput:
        return False
    except Exception:
        return True
    return True


def command_for(
    pipeline: str, cluster: str, runs_dir: str, day: str, storage: str | None, keep: int
) -> list[str]:
    """Return what a try calls: after midnight it goes on with the run of the day before."""
    words = [os.environ.get("DASKFC", "daskfc"), "run", pipeline, "--cluster", cluster]
    words += ["--runs-dir", runs_dir, "--resume-or-start", "--json"]
    if storage is not None:
        words += ["--storage", storage]
    if day != date.today().isoformat():
        return [*words, "--run-key", f"nightly-{day}"]
    return [*words, "--run-key", "nightly-{date}", "--keep", str(keep)]


def carry_out(command: list[str]) -> dict[str, Any]:
    """Call daskfc and return its summary, with its lines in Prefect's log.

    When Prefect cancels the flow or its time is up, daskfc gets SIGTERM and is waited for: it then
    leaves a run that can be resumed.
    """
    last = ""
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as summary,
        subprocess.Popen(command, stdout=summary, stderr=subprocess.PIPE, text=True) as daskfc,
    ):
        try:
            assert daskfc.stderr is not None
            for line in daskfc.stderr:
                print(line, end="")
                last = line.strip() or last
            code = daskfc.wait()
        finally:
            if daskfc.poll() is None:
                daskfc.send_signal(signal.SIGTERM)
                for line in daskfc.stderr or ():
                    print(line, end="")
                daskfc.wait()
        summary.seek(0)
        text = summary.read()
    if code == BAD_INPUT:
        raise BadInput(last)
    if code == AWAY:
        raise Away(last)
    if code:
        raise BrokeOff(last or f"daskfc ended with code {code}")
    found: dict[str, Any] = json.loads(text) if text.strip() else {}
    return found


@task(
    retries=5,
    retry_delay_seconds=[60, 300, 900, 1800, 1800],
    retry_condition_fn=another_try_may_help,
    timeout_seconds=8 * 3600,  # of one try
    log_prints=True,
)
def start_or_resume(
    pipeline: str, cluster: str, runs_dir: str, day: str, storage: str | None, keep: int
) -> dict[str, Any]:
    """Start the night's run, or go on where an earlier try ended; its scores are the result."""
    summary = carry_out(command_for(pipeline, cluster, runs_dir, day, storage, keep))
    metrics: dict[str, Any] = summary.get("metrics", {})
    return metrics


@flow(name="daskfc-nightly")
def nightly(
    pipeline: str,
    cluster: str,
    runs_dir: str,
    storage: str | None = None,
    keep: int = 30,
    day: str | None = None,
) -> dict[str, Any]:
    """Run a pipeline once a day; a day in ISO form makes up for one that was missed."""
    day = day or date.today().isoformat()
    scores: dict[str, Any] = start_or_resume(pipeline, cluster, runs_dir, day, storage, keep)
    return scores


if __name__ == "__main__":
    nightly.serve(
        name="nightly",
        cron="30 2 * * *",  # UTC
        parameters={
            "pipeline": "/etc/daskfc/nightly/pipeline.yaml",
            "cluster": "/etc/daskfc/nightly/tls-sites.yaml",
            "runs_dir": "/var/lib/daskfc-nightly/runs",
        },
        # A flow that still goes on is not begun again.
        global_limit=ConcurrencyLimitConfig(
            limit=1, collision_strategy=ConcurrencyLimitStrategy.CANCEL_NEW
        ),
    )
