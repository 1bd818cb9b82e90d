import json
from pathlib import Path

import pytest
import yaml

from daskfc.federation.party import process_memory


@pytest.fixture
def planned(daskfc, tmp_path, storage):
    """Call ``daskfc plan`` on three clients with iris."""
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(storage), encoding="utf-8")

    def call(pipeline, *words):
        (tmp_path / "p.yaml").write_text(yaml.safe_dump(pipeline), encoding="utf-8")
        return daskfc("plan", "p.yaml", "--storage", "s.yaml", *words)

    return call


OMNIFC = {"method": "OmniFC", "params": {"n_clusters": 3}, "compare": ["k-FED"]}


def test_a_plan_is_tables_and_leaves_no_run(planned, tmp_path):
    result = planned(OMNIFC)
    assert result.exit_code == 0, result.output
    for word in ("k-FED", "CodedRows", "client → client", "280.1 MB", "Assumed: columns"):
        assert word in result.stdout
    begin = {line.split()[0] for line in result.stdout.splitlines() if line.strip()}
    assert {"client-1", "client-2", "client-3", "server", "caller"} <= begin
    assert not Path(tmp_path, "runs").exists()


def test_a_plan_as_json(planned):
    result = planned(OMNIFC, "--json", "--bandwidth", "1Mbit", "--latency", "0.1")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["bandwidth_bytes_s"], found["latency_s"]) == (125_000, 0.1)
    own, other, _ = found["parts"]
    assert (own["name"], other["name"]) == ("OmniFC", "k-FED")
    assert own["communication"]["by_message"]["CodedRows"]["reveals"].startswith("nothing")
    assert own["network_s"] > own["delays"] * 4 * 0.1 - 1e-9


def test_a_slower_network_takes_longer(planned):
    seconds = [
        json.loads(planned(OMNIFC, "--json", "--latency", latency).stdout)["parts"][0]["network_s"]
        for latency in ("10ms", "100ms")
    ]
    assert seconds[1] > 5 * seconds[0]


def test_what_a_run_would_refuse_is_exit_code_2(planned, monkeypatch):
    result = planned({"method": "OmniFC", "params": {"n_clusters": 3, "n_spares": 9}})
    assert result.exit_code == 2
    assert "must be a whole number in [0, 0]" in result.stderr
    noise = {"epsilon": 1.0, "delta": 1e-5}
    result = planned(
        {"method": "ESFMC", "params": {"n_clusters": 3, "noise": noise, "incomplete": "align"}}
    )
    assert result.exit_code == 2
    monkeypatch.setattr(process_memory, "USABLE", 0.8)
    tight = {"cluster": "local", "worker": {"memory_limit": "310MB"}}
    Path("c.yaml").write_text(yaml.safe_dump(tight), encoding="utf-8")
    result = planned(OMNIFC, "--cluster", "c.yaml")
    assert result.exit_code == 2
    assert "OmniFC would be refused: " in result.stdout


def test_what_is_assumed_can_be_said(planned):
    pipeline = {"method": "FFCM", "params": {"n_clusters": 3}}
    said = "rounds until it comes to rest=4"
    found = json.loads(planned(pipeline, "--json", "--assume", said).stdout)["parts"][0]
    assert found["rounds"] == 4
    for wrong in ("rounds=4", "rounds until it comes to rest", "=4"):
        result = planned(pipeline, "--assume", wrong)
        assert result.exit_code == 2
        assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("option", "value"), [("--bandwidth", "fast"), ("--bandwidth", "0Mbit"), ("--latency", "soon")]
)
def test_a_network_that_is_none(planned, option, value):
    result = planned(OMNIFC, option, value)
    assert result.exit_code == 2
    assert value in result.stderr
