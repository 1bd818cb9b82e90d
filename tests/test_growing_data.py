"""The commands of docs/guides/growing-data.md, typed as they stand there, on real workers."""

import csv
import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from daskfc.cli import main
from daskfc.examples import hospital_tables
from daskfc.runs import site_labels

PAGE = Path(__file__).parents[1] / "docs" / "guides" / "growing-data.md"
NEW = 40


def typed():
    text = PAGE.read_text(encoding="utf-8")
    return [shlex.split(line) for line in re.findall(r"^ {4}(\S.*)$", text, re.MULTILINE)]


@pytest.mark.slow
def test_the_page_runs_as_it_stands(tmp_path, monkeypatch):
    """Diabetics come to hospital A, and their cluster is told to have grown."""
    monkeypatch.chdir(tmp_path)
    (command, *init), (cd, folder), *rest = typed()
    assert (command, cd) == ("daskfc", "cd")
    assert CliRunner().invoke(main, init).exit_code == 0
    monkeypatch.chdir(tmp_path / folder)
    head, *rows = hospital_tables(seed=1)["hospital-b"]
    new = [row for row in rows if row[-1] == "diabetes"][:NEW]
    with Path("tuesday.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([head, *([f"new-{row[0]}", *row[1:]] for row in new)])
    outputs = []
    for _, *words in rest:
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 0, result.output
        outputs.append(" ".join(result.stdout.split()))
    assert outputs[1].endswith("40 samples appended.")
    assert "What changed" in outputs[2]
    changes = json.loads(Path("runs/tuesday/summary.json").read_text(encoding="utf-8"))["changes"]
    assert (changes["by"], changes["n_shared"], changes["n_samples"]) == ("rows", 420, 460)
    assert changes["stayed"] > 0.9
    grown = [one for one in changes["clusters"] if one["share"] > one["share_before"]]
    assert len(grown) == 1
    assert grown[0]["profile"][0]["feature"] in head
    # Monday's labels still go to the samples of Monday, under the site's own ids.
    own = site_labels("runs/monday/labels.csv", "stores/hospitals/hospital-a.zarr")
    assert len(own) == 170
    assert not own["sample_id"].str.startswith("new-").any()
