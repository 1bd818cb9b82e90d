"""A few of the seeded faults, the page, and a campaign that goes on; `make chaos` strikes more."""

import json
import subprocess
import sys
import tempfile
from argparse import Namespace

import pytest

from tests.chaos import table
from tests.chaos.cases import environment
from tests.chaos.judge import keys_noted
from tests.chaos.run import KINDS, chosen

OPTIONS = Namespace(seed=0, only="", method=None, jobs=2)


def row(number, fault="KillParty", method="OmniFC", outcome="done", bad="", seconds=1.0):
    return {
        "number": number, "fault": fault, "party": "server", "method": method, "bad": bad,
        "outcome": outcome, "said": "", "seconds": seconds, "total": 9.0,
    }  # fmt: skip


def written(path, *rows, **changes):
    about = {**table.told_of(OPTIONS), **changes}
    path.write_text("".join(f"{json.dumps(line)}\n" for line in (about, *rows)))
    return path


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_first_faults_leave_results_right(tmp_path):
    file = tmp_path / "rows.jsonl"
    words = ("--method", "k-FED", "--only", "KillParty,KillDriver,TwoResumes", "--jobs", "2")
    command = [sys.executable, "-m", "tests.chaos.run", "--rows", str(file), *words]
    for faults in (2, 3):  # the second time goes on after the first
        (tmp_path / f"{faults}").mkdir()
        ended = subprocess.run(
            [*command, "--faults", str(faults)], capture_output=True, text=True, check=False,
            env=environment(tempfile.gettempdir()),
        )  # fmt: skip
        assert ended.returncode == 0, ended.stdout + ended.stderr
    about, rows = table.read(file)
    assert about["seed"] == 0
    assert [row["number"] for row in rows] == [0, 1, 2]
    assert len(file.read_text().splitlines()) == 5  # of which two tell of a start
    assert {row["fault"] for row in rows} == {"KillParty", "KillDriver", "TwoResumes"}


def test_outcomes_are_counted_by_fault_and_method():
    rows = [
        row(0, seconds=2.0),
        row(1, outcome="resumed", seconds=7.6),
        row(2, method="kCAGC"),
        row(3, fault="TornFile", method="kCAGC", outcome="refused"),
    ]
    page = table.page(table.told_of(OPTIONS), rows)
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines()]
    assert ["KillParty", "2 done, 1 resumed", "3", "8"] in [
        c[:1] + c[2:] for c in cells if len(c) > 4
    ]
    assert ["fault", "OmniFC", "kCAGC"] in cells
    assert ["KillParty", "1d 1r", "1d"] in cells
    assert ["TornFile", "–", "1f"] in cells
    assert "4 faults of seed 0" in page
    assert "What must not be and was" not in page


def test_what_is_bad_is_on_the_page():
    page = table.page(table.told_of(OPTIONS), [row(7, outcome="BAD", bad="hangs")])
    assert "- KillParty of server, OmniFC, number 7: hangs." in page
    assert "1 BAD" in page


def test_a_campaign_goes_on_after_its_rows_and_a_torn_one(tmp_path):
    file = written(tmp_path / "rows.jsonl", row(0), row(2))
    with file.open("a") as torn:
        torn.write('{"number": 3, "fau')
    assert [one["number"] for one in table.read_rows(file, table.told_of(OPTIONS))] == [0, 2]
    with file.open("a") as again:
        again.write(f"{json.dumps(row(3))}\n")
    assert [one["number"] for one in table.read(file)[1]] == [0, 2, 3]
    assert table.read_rows(tmp_path / "none.jsonl", table.told_of(OPTIONS)) == []


def test_rows_of_another_campaign_are_refused(tmp_path):
    file = written(tmp_path / "rows.jsonl", row(0), seed=1)
    with pytest.raises(SystemExit, match="a campaign with seed 1, and this one has 0"):
        table.read_rows(file, table.told_of(OPTIONS))


def test_every_fault_says_what_it_does_and_can_be_chosen():
    told = dict(table.facts_of())
    assert all(sentence.endswith(".") for sentence in told.values())
    assert {kind.__name__ for kind, _ in chosen("FreezeParty,KillSite")} == {
        "FreezeParty",
        "KillSite",
    }
    assert chosen("") == KINDS
    with pytest.raises(SystemExit, match="no fault is called Flood; there are Cl"):
        chosen("Flood")


def test_a_key_of_two_arrays_is_found(tmp_path):
    file = tmp_path / "keys.txt"
    file.write_text("own k1 a\nown k1 a\npair:a k2 a\npair:b k2 b\n")
    assert keys_noted(file) == (3, 0)  # the same array again, and the two sides of a pair
    file.write_text("own k1 a\nown k1 b\nnoise k1 c\n")
    assert keys_noted(file) == (2, 1)
    assert keys_noted(tmp_path / "none") == (0, 0)


USES = """
import numpy as np
from daskfc.coding import LagrangeCode, ResidueSystem, SecretKey
from daskfc.privacy import add_gaussian_noise
from daskfc.secure.sums import vault
from daskfc.secure.sums.masked import PairKeys

key = SecretKey.from_bytes(bytes(32))
PairKeys("a", {"b": key}, 2).mask(np.zeros(3, dtype=np.uint64), "t", b"")
for value in (1, 2):
    vault.add_mask(np.full(3, value, dtype=np.uint64), key)
system = ResidueSystem((251,), scale=1.0, bound=200)
LagrangeCode(1, 1, 3).encode(np.ones((2, 2), dtype=np.int64), system, key)
add_gaussian_noise(np.zeros(3), 1.0, stream=key.stream())
"""


def test_every_use_of_a_key_is_noted(tmp_path):
    """The hook is by the names of modules and functions, which may change."""
    env = environment(tmp_path / "t")
    subprocess.run([sys.executable, "-c", USES], env=env, check=True)
    file = tmp_path / "keys.txt"
    uses = [line.split()[0] for line in file.read_text().splitlines()]
    assert uses == ["pair:a", "own", "own", "shares", "noise"]
    assert keys_noted(file) == (4, 1)
