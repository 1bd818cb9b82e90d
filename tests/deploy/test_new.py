"""A federation out of one list, over TLS: its own scripts, its own cluster file, and labels."""

import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from click.testing import CliRunner
from sklearn.metrics import adjusted_rand_score

from daskfc.cli import main
from tests.deploy.test_sites import site  # noqa: F401 - a fixture
from tests.ports import free_port

pytestmark = pytest.mark.slow

CLIENTS = ("hospital-a", "hospital-b", "hospital-c")


def daskfc(*words):
    told = CliRunner().invoke(main, [str(word) for word in words])
    assert told.exit_code == 0, told.output
    return told.stdout


def test_from_a_list_to_labels(site, tmp_path):  # noqa: F811
    place = {"host": "127.0.0.1", "port": free_port()}
    told = {"scheduler": place, "clients": [*CLIENTS], "submitters": ["alice"]}
    (tmp_path / "federation.yaml").write_text(yaml.safe_dump({**told, "methods": ["OmniFC"]}))
    daskfc("new", tmp_path / "federation.yaml")
    parties = tmp_path / "ca" / "parties"
    generator = np.random.default_rng(0)
    truth = {}
    for name in CLIENTS:
        kind = generator.integers(2, size=12)
        rows = 9.0 * kind[:, None] + generator.normal(size=(12, 3))
        frame = pd.DataFrame(rows, columns=["age", "bmi", "pulse"])
        frame.insert(0, "patient", [f"{name}-{i}" for i in range(12)])
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        own = parties / name / "store.zarr"  # where the README puts it
        daskfc("stores", "add", name, tmp_path / f"{name}.csv", "--id", "patient", "--store", own)
        truth[name] = kind
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    started = {
        name: site.start(program=str(parties / name / "start.sh"), PATH=path)
        for name in ("server", *CLIENTS, "scheduler")  # in any order
    }
    pipeline = {"method": "OmniFC", "params": {"n_clusters": 2, "clusterer": "k-means"}}
    (tmp_path / "pipeline.yaml").write_text(yaml.safe_dump(pipeline))
    cluster = parties / "alice" / "cluster.yaml"
    said = daskfc(
        "run", tmp_path / "pipeline.yaml", "--cluster", cluster, "--name", "first",
        "--runs-dir", tmp_path / "runs",
    )  # fmt: skip
    assert "OmniFC on 36 samples of 3 clients" in said
    assert "refuses" not in said  # policies tell no labels, and nobody asked for scores
    found = pd.read_csv(tmp_path / "runs" / "first" / "labels.csv")
    assert list(found["client"].drop_duplicates()) == list(CLIENTS)
    assert adjusted_rand_score(np.concatenate(list(truth.values())), found.iloc[:, -1]) == 1.0
    assert "tls://127.0.0.1" in site.said(started["scheduler"])
    for name in CLIENTS:
        assert list((parties / name / "files").glob("runs/*/*/ledger.jsonl"))
