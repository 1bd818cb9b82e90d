"""The list of known bugs stays true: what it replaces is there, and so are the tests it names."""

import ast

import psutil
import pytest

from tests.mutations import sample
from tests.mutations.run import ROOT, mutations, run_tests


@pytest.mark.parametrize("mutation", mutations(), ids=lambda mutation: mutation.name)
def test_every_known_bug_can_be_put_in_again(mutation):
    broken = mutation.applied((ROOT / mutation.file).read_text(encoding="utf-8"))
    ast.parse(broken)
    for test in mutation.tests:
        file, _, name = test.partition("::")
        source = (ROOT / file).read_text(encoding="utf-8")
        assert f"def {name.split('[')[0].split('::')[-1]}(" in source, test


def test_names_of_known_bugs_differ():
    names = [mutation.name for mutation in mutations()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("file", "tests"),
    [
        ("stores/layout/id_key.py", "tests/stores"),
        ("cli/audit.py", "tests/runs/test_audit.py"),
        ("cli/sites/policy.py", "tests/cli/test_policy.py"),
        ("federation/driver/graph.py", "tests/federation"),
        ("federation/driver/server_work.py", "tests/federation/test_server_work.py"),
        ("secure/distances/parties/party.py", "tests/secure/distances/test_steps.py"),
        ("linalg/landmarks.py", "tests/linalg/test_landmarks.py"),
    ],
)
def test_the_nearest_tests_of_a_file_are_those_of_its_room(file, tests):
    own, *nearest = sample.nearest_tests(ROOT / "daskfc" / file)
    assert own == f"daskfc/{file}"
    assert any(one.startswith(tests) for one in nearest[:4]), nearest


def test_every_room_is_drawn_from():
    files = [path for room in sample.rooms() for path in sample.files_of(room)]
    assert sorted(files) == sorted((ROOT / "daskfc").rglob("*.py"))


def test_what_survived_is_counted_unless_there_is_a_reason(monkeypatch):
    rows = [
        {"room": room, "file": f"daskfc/{room}/a.py", "verdict": verdict, "old": old, "new": "b",
         "told": "passed"}
        for room, verdict, old in (
            ("stores", "caught", "1"), ("stores", "caught", "2"), ("stores", "survived", "3"),
            ("site", "survived", "4"), ("site", "caught", "5"), ("site", "unfinished", "6"),
        )
    ]  # fmt: skip
    monkeypatch.setattr(sample, "accepted", lambda: lambda file, old, new: old == "4")
    _, _, *lines = sample.table(rows)
    assert lines[:3] == [
        "| `site` | 3 | 1 | 1 | 0 | 1 | 100% |",
        "| `stores` | 3 | 0 | 0 | 1 | 2 | 67% |",
        "| `all` | 6 | 1 | 1 | 1 | 3 | 75% |",
    ]
    assert lines[3:] == [
        "",
        "daskfc/stores/a.py (survived)\n  - 3\n  + b",
        "daskfc/site/a.py (unfinished)\n  - 6\n  + b",
    ]


LEAVES_ONE = """
import subprocess, sys
def test_that_leaves_a_process():
    command = [sys.executable, "-c", "import time; time.sleep(900)"]
    print(subprocess.Popen(command, start_new_session=True).pid, file=open("pid", "w"))
"""


@pytest.mark.slow
def test_no_process_outlives_the_tests_of_a_bug(tmp_path):
    (tmp_path / "test_it.py").write_text(LEAVES_ONE)
    assert run_tests(tmp_path, ["test_it.py"]) == "passed"
    try:
        psutil.Process(int((tmp_path / "pid").read_text())).wait(30)
    except psutil.NoSuchProcess:
        pass
