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
from daskfc.runs import list_runs, run, site_labels
from daskfc.stores import append_samples
from daskfc.testing.federation import stores_of
from tests.protocols.fedsc.one_place import IRIS, ROWS

PAGE = Path(__file__).parents[1] / "docs" / "guides" / "growing-data.md"
NEW = 40
NEW_IDS = [f"new-{i}" for i in range(5)]


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


@pytest.mark.long
@pytest.mark.slow
def test_a_run_starts_from_where_the_last_one_ended(tmp_path):
    urls = stores_of(tmp_path / "stores", ROWS)
    storage = {"clients": {name: {"store": url} for name, url in urls.items()}}
    pipeline = {"method": "FedSC", "params": {"n_clusters": 3, "start": "last"}}
    runs = tmp_path / "runs"
    told = []
    for name in ("monday", "tuesday"):
        if told:
            append_samples(urls["client-1"], IRIS.data[:5] + 0.01, sample_ids=NEW_IDS)
        made = run(
            pipeline, storage=storage, cluster={"cluster": "local"}, runs_dir=runs, name=name
        )  # fmt: skip
        told.append(made.summary["choices"]["start"])
    assert "kept no dictionary" in told[0]
    assert told[1] == "the dictionary of the last fit like this one"
    # what is kept is no run, and not open to others
    assert list(list_runs(runs)["name"]) == ["tuesday", "monday"]
    assert (runs / ".last-results").stat().st_mode & 0o077 == 0
