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


HUNG = "failed: 'tests/test_a.py::test_b[1 - 2] - Failed: Timeout (>60.0s) from pytest-timeout.'"


@pytest.mark.parametrize(("again", "judged"), [("passed", "hung"), ("hung", "hung"), (HUNG, HUNG)])
def test_what_fails_by_its_time_alone_is_asked_once_more(monkeypatch, again, judged):
    said, asked = [HUNG, again], []
    monkeypatch.setattr(
        sample, "run_tests", lambda tree, tests, *more: asked.append(tests) or said.pop(0)
    )
    assert sample.judged(ROOT, ["tests/test_a.py"], "not slow", 60, None) == judged
    assert asked == [["tests/test_a.py"], ["tests/test_a.py::test_b"]]


def test_what_fails_without_a_change_catches_none(monkeypatch, tmp_path):
    monkeypatch.setattr(sample, "ROWS", tmp_path / "rows.jsonl")
    row = {"file": "a.py", "old": "1", "new": "2", "verdict": "caught"}
    for number, test in enumerate(("test_a", "test_b")):
        sample.keep({**row, "number": number, "told": f"failed: 'tests/t.py::{test} - assert 1'"})

    def run(tree, tests, *more):
        (tree / "pytest.log").write_text("FAILED tests/t.py::test_b - assert 1\n")
        return "failed: 'tests/t.py::test_b - assert 1'"

    monkeypatch.setattr(sample, "run_tests", run)
    sample.forget_what_always_fails(tmp_path, 60)
    assert [one["verdict"] for one in sample.rows().values()] == ["caught", "unfinished"]


def test_tests_that_call_a_function_are_those_that_a_run_noted(monkeypatch, tmp_path):
    source = tmp_path / "a.py"
    source.write_text("class A:\n    def f(self):\n        def g():\n            pass\n\n\nx = 1\n")
    monkeypatch.setattr(sample, "ROOT", tmp_path)
    monkeypatch.setattr(sample, "REACHED", tmp_path)
    noted = ["a.py:A.f", "a.py:A.f.<locals>.g", "t::wide\t0 1", "t::narrow\t0", *[
        f"t::many[{i}]\t0 1" for i in range(9)
    ]]  # fmt: skip
    (tmp_path / "t.txt").write_text("\n".join(noted))
    sample.reached.cache_clear()
    assert sample.calling_tests(source, 2)[0] == "t::narrow"
    assert sample.calling_tests(source, 4) == [*(f"t::many[{i}]" for i in range(4)), "t::wide"]
    assert sample.calling_tests(source, 7) == []
    sample.reached.cache_clear()
