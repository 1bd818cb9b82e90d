"""Files are whole or absent, whoever is killed at any write: none gets bytes under its own name.

Files are made beside their place, flushed and renamed. Those that grow are named here; who reads
them leaves a torn line out, which tests of each look at.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from daskfc.runs import prepare
from daskfc.stores import write_store
from tests.cli.conftest import daskfc, files  # noqa: F401 - fixtures
from tests.runs.conftest import fake, storage  # noqa: F401 - fixtures
from tests.runs.fakes import PIPELINE

ROOT = Path(__file__).parents[1]
GROWING = {"log.txt"}
MEMORY = "/dev/shm"  # of Linux
_heard: list[str] = []
_listens = [False]


def _hear(event, args):
    if _listens[0] and event == "open" and isinstance(args[2], int):
        path, _, flags = args
        if flags & (os.O_WRONLY | os.O_RDWR) and isinstance(path, str | bytes | os.PathLike):
            _heard.append(os.path.abspath(os.fsdecode(path)))


sys.addaudithook(_hear)  # none can be removed: this one only listens while a test asks


@pytest.fixture
def written_in_place(tmp_path):
    """Return the files below a folder that were opened for writing under the names they have."""

    def found():
        _listens[0] = False
        assert _heard
        there = {Path(name) for name in _heard if Path(name).is_file()}
        names = {str(path.relative_to(tmp_path)) for path in there if tmp_path in path.parents}
        return {name for name in names if Path(name).name not in GROWING}

    _heard.clear()
    _listens[0] = True
    yield found
    _listens[0] = False


def done(result):
    assert result.exit_code == 0, result.output


def test_a_run_and_its_stores(fake, storage, tmp_path, written_in_place):  # noqa: F811
    prepare(PIPELINE, storage=storage, runs_dir=tmp_path / "runs", name="a").resume()
    made = {path.name for path in (tmp_path / "runs" / "a").iterdir()}
    assert {"run.json", "summary.json", "labels.csv", "ledger.parquet", "report.html"} <= made
    assert written_in_place() == set()


def test_stores_that_are_added_and_grow(daskfc, tmp_path, written_in_place):  # noqa: F811
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text(f"id,x,y\n{name}1,1,2\n{name}2,3,4.5\n")
    keys = ("--id", "id")
    done(daskfc("stores", "add", "hospital", "a.csv", *keys))
    done(daskfc("stores", "append", "stores/hospital.zarr", "b.csv", *keys))
    assert {name for name in written_in_place() if not name.endswith(".csv")} == set()


def test_certificates(daskfc, tmp_path, written_in_place):  # noqa: F811
    parties = {"hospital-a": "client", "server": "server", "ana": "submitter"}
    (tmp_path / "parties.yaml").write_text(yaml.safe_dump({"parties": parties}))
    done(daskfc("certs", "init"))
    done(daskfc("certs", "issue", "--parties", "parties.yaml"))
    done(daskfc("certs", "renew", "hospital-a"))
    done(daskfc("certs", "revoke", "ana"))
    done(daskfc("certs", "request", "hospital-b"))
    assert written_in_place() == {"parties.yaml"}


def test_what_sites_write(daskfc, tmp_path, written_in_place):  # noqa: F811
    write_store(str(tmp_path / "a.zarr"), "a", np.eye(3), ["p1", "p2", "p3"])
    table = pd.DataFrame({"sample_id": ["p1", "p2", "p3"], "client": "a", "cluster": [2, 0, 1]})
    table.to_csv(tmp_path / "labels.csv", index=False)
    words = ("labels", "labels.csv", "--store", "a.zarr")
    for out in ("own.csv", "own.parquet"):
        done(daskfc(*words, "--out", out))
    done(daskfc(*words, "--into-store", "night"))
    done(daskfc("policy", "init"))
    assert written_in_place() == {"labels.csv"}


def test_what_listens_hears_a_file_that_is_written_in_its_place(tmp_path, written_in_place):
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "b.new").write_text("{}")
    os.replace(tmp_path / "b.new", tmp_path / "b.json")
    assert written_in_place() == {"a.json"}


@pytest.mark.slow
@pytest.mark.parametrize("most", [3, pytest.param(1000, marks=pytest.mark.long)])
def test_who_is_killed_leaves_all_or_nothing_and_may_try_again(tmp_path, most):
    # A killed process loses nothing that the system has. In memory, flushing takes no time.
    place = MEMORY if os.access(MEMORY, os.W_OK) else tmp_path
    with tempfile.TemporaryDirectory(dir=place) as folder:
        words = [sys.executable, "-m", "tests.killed", f"{folder}/killed", str(most)]
        said = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    killed = defaultdict(list)
    whole = {}
    for told in map(json.loads, said.stdout.splitlines()):
        if "after" in told:
            whole[told["case"]] = told
        else:
            killed[told["case"]].append(told)
    assert set(whole) == set(killed), said.stderr
    for case, clean in whole.items():
        for told in killed[case]:
            assert told.get("left", told) in (clean["before"], clean["after"], "absent"), told
            assert told.get("again", told) == clean["after"], told
            assert "error" not in told, told
