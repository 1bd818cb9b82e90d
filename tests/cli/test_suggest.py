import json
from pathlib import Path

import pytest
import yaml

from daskfc.cli.suggest import _print
from daskfc.runs import check_pipeline, load_pipeline
from daskfc.runs.planning.suggestion import Proposal, Suggestion


@pytest.fixture
def suggested(daskfc, tmp_path, storage):
    """Call ``daskfc suggest`` on three clients with iris."""
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(storage), encoding="utf-8")
    return lambda *words: daskfc("suggest", "s.yaml", *words)


def test_what_fits_is_told_and_nothing_runs(suggested):
    result = suggested("--server-learns", "sums")
    assert result.exit_code == 0, result.output
    assert "3 clients hold samples with the same columns, each its own: 150" in result.stdout
    for number, method in enumerate(["FederatedKMeans", "FederatedKernelKMeans"], start=1):
        assert any(
            line.startswith(f"{number}. ") and method in line for line in result.stdout.splitlines()
        )
    assert not Path("runs").exists()


def test_what_does_not_fit_is_told_with_its_reason(suggested):
    result = suggested("--server-learns", "nothing")
    assert result.exit_code == 0, result.output
    assert "Not k-means on shares: where nobody learns anything" in result.stdout
    assert suggested("--server-learns", "nothing", "--write", "own").exit_code == 0
    assert not Path("own").exists()


def test_pipelines_are_written_once(suggested):
    result = suggested("--write", "own")
    assert result.exit_code == 0, result.output
    files = sorted(Path("own").iterdir())
    elsewhere = suggested("--write", "own [bold]")
    assert "daskfc run 'own [bold]/1-spectral.yaml' --storage s.yaml" in elsewhere.stdout
    assert [file.name for file in files] == ["1-spectral.yaml", "2-k-means.yaml", "3-hdbscan.yaml"]
    for file in files:
        check_pipeline(load_pipeline(file))
        assert f"daskfc run own/{file.name} --storage s.yaml" in result.stdout
    files[0].unlink()
    again = suggested("--write", "own")
    assert again.exit_code == 2
    assert "own/2-k-means.yaml is there already" in again.stderr
    assert not files[0].exists()


def test_what_is_suggested_is_shown_as_it_is(capsys):
    proposal = Proposal("k-means", {"method": "[dim]"}, "of [bold].")
    _print(Suggestion("three [clients]", (proposal,), {"a [b]": "c [d]."}), [], "s.yaml")
    told = capsys.readouterr().out
    assert told == "three [clients]\n\n1. k-means ([dim]). of [bold].\n\nNot a [b]: c [d].\n"


def test_what_to_call_next_is_one_line_however_long(capsys):
    proposal = Proposal("k-means", {"method": "OmniFC"}, "It fits.")
    path = Path("a/" * 100, "1-k-means.yaml")
    _print(Suggestion("three clients", (proposal,), {}), [path], "s.yaml")
    assert capsys.readouterr().out.endswith(f"\nNext\n  daskfc run {path} --storage s.yaml\n")


def test_a_suggestion_as_json(suggested):
    result = suggested("--json", "--clusters", "3")
    found = json.loads(result.stdout)
    assert [one["name"] for one in found["proposals"]] == ["spectral", "k-means"]
    assert found["proposals"][1]["pipeline"]["params"] == {"clusterer": "k-means", "n_clusters": 3}


@pytest.mark.slow
def test_what_is_suggested_is_tried(suggested):
    result = suggested("--try", "--clusters", "3")
    assert result.exit_code == 0, result.output
    assert "modularity" in result.stdout
    assert "Take " in result.stdout
    runs = sorted(path.name for path in Path("runs").iterdir())
    assert [name.rsplit("-", 3)[0] for name in runs] == ["k-means", "spectral"]
    summary = json.loads(Path("runs", runs[1], "summary.json").read_text("utf-8"))
    assert f"{summary['quality']['modularity']:.3f}" in result.stdout


@pytest.mark.slow
def test_what_was_tried_as_json(suggested):
    found = json.loads(suggested("--try", "--clusters", "3", "--json").stdout)["tried"]
    assert len(found["runs"]) == 2
    assert found["why"].startswith(f"{found['taken']}: ")
