"""Files for Prometheus and Grafana: they ask for metrics that there are, and the command writes."""

import json
import os
import re
import subprocess
from types import SimpleNamespace

import pytest
import yaml

from daskfc.federation.ledger.counts import Counts, families_of_scheduler
from tests.deployments.test_containers import CONFIGS

FOLDER = CONFIGS / "monitoring"
LAST = "daskfc_last_success_timestamp_seconds"


def names():
    """Return the names that Prometheus sees: a counter's ends in _total."""
    scheduler = SimpleNamespace(workers={}, client_comms={})
    families = [*Counts().families({}), *families_of_scheduler(scheduler)]
    return {one.name + "_total" * (one.kind == "counter") for one in families} | {LAST}


def asked(expressions):
    return {name for one in expressions for name in re.findall(r"\bdaskfc_\w+", one)}


def test_alerts_and_board_ask_for_metrics_that_there_are():
    (group,) = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]
    rules = [rule["expr"] for rule in group["rules"]]
    panels = json.loads((FOLDER / "grafana.json").read_text())["panels"]
    drawn = [target["expr"] for panel in panels for target in panel["targets"]]
    assert len({panel["id"] for panel in panels}) == len(panels) == 8
    assert len(asked(rules)) == 3
    assert len(asked(drawn)) == 8
    assert asked(rules) | asked(drawn) <= names()


@pytest.mark.parametrize(("status", "written"), [("done", True), ("failed", False)])
def test_the_last_success_is_written_for_a_run_that_ended_well(tmp_path, status, written):
    file = tmp_path / "daskfc.prom"
    given = {**os.environ, "DASKFC_STATUS": status, "DASKFC_TEXTFILE": str(file)}
    subprocess.run([FOLDER / "last-success.sh"], env=given, check=True, input=b"{}")
    assert file.exists() == written
    if written:
        *comments, line = file.read_text().splitlines()
        assert [one.split()[:2] for one in comments] == [["#", "HELP"], ["#", "TYPE"]]
        assert re.fullmatch(rf"{LAST} \d{{10}}", line)
        assert [path.name for path in tmp_path.iterdir()] == ["daskfc.prom"]
