"""Which commands have workers' libraries loaded beside their own."""

import pytest

from daskfc.cli import _load_early
from daskfc.deploy.processes import spawn


@pytest.mark.parametrize(
    ("words", "clusters"),
    [
        (["run", "a.yaml", "--storage", "b.yaml"], [None]),
        (["demo", "--no-open"], [None]),
        (["run", "a.yaml", "--cluster", "c.yaml"], ["c.yaml"]),
        (["run", "--cluster=c.yaml", "a.yaml"], ["c.yaml"]),
        (["run", "a.yaml", "--cluster"], [None]),  # which ends in a sentence
        (["run", "a.yaml", "--cluster="], [""]),
        (["run", "--help"], []),
        (["demo", "-h"], []),
        (["plan", "a.yaml"], []),
        ([], []),
    ],
    ids=str,
)
def test_commands_that_may_start_workers(monkeypatch, words, clusters):
    asked = []
    monkeypatch.setattr(spawn, "load_early", asked.append)
    _load_early(words)
    assert asked == clusters
