"""What the page of long checks is told."""

import subprocess
import sys

import pytest

from tests import long_checks

PRINTS = (
    "import sys; print('===== 3 passed, 1 skipped in 2.51s (0:00:02) ====='); sys.exit(int({}))"
)


@pytest.fixture
def page(tmp_path, monkeypatch):
    monkeypatch.setattr(long_checks, "PAGE", tmp_path / "page.md")
    return tmp_path / "page.md"


def test_a_check_has_the_row_of_its_last_run(page):
    for check, code in (("make b", 0), ("make a", 0), ("make b", 1)):
        assert long_checks.main(check, sys.executable, "-c", PRINTS.format(code)) == code
    rows = [line.split(" | ") for line in page.read_text().splitlines() if "`make" in line]
    assert [cells[0] for cells in rows] == ["| `make a`", "| `make b`"]
    assert all(cells[-1] == "3 passed, 1 skipped |" for cells in rows)
    assert page.read_text().startswith(long_checks.HEAD)


def test_what_ends_no_test_says_so(page):
    assert long_checks.main("make c", sys.executable, "-c", "raise SystemExit(4)") == 4
    assert "no test ended |" in page.read_text()


def test_a_changed_tree_is_no_commit(tmp_path):
    def git(*words):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True, capture_output=True)

    assert long_checks.commit_of(tmp_path) == "unknown"
    git("init")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-m", "a")
    commit = long_checks.commit_of(tmp_path)
    assert len(commit) >= 7
    (tmp_path / "a").write_text("2")
    assert long_checks.commit_of(tmp_path) == f"{commit} and changes"
