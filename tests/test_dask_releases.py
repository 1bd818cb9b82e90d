"""What the page of releases of Dask is told."""

from packaging.version import Version

from daskfc.deploy.config.dask_insides import KNOWN
from tests import dask_releases
from tests.dask_releases import row, rows_of, with_row

PRINTED = "FAILED tests/a.py::b\n1 failed, 40 passed, 2 skipped, 1 error in 61.20s (0:01:01)\n"


def test_a_release_has_the_row_of_its_last_run():
    older, newer = (row(release, "abc", PRINTED, 61.4) for release in ("2025.9.1", "2025.10.0"))
    assert older.split(" | ")[4:] == ["40", "2", "2", "61 |"]
    page = with_row(with_row(with_row("", newer), older), newer.replace("abc", "def"))
    assert page.startswith(dask_releases.HEAD)
    assert list(rows_of(page)) == ["2025.9.1", "2025.10.0"]
    assert rows_of(page)["2025.10.0"].split(" | ")[2] == "def"


def test_nothing_that_ran_is_not_passed():
    assert row("2025.9.1", "abc", "", 1.0).split(" | ")[4:7] == ["0", "0", "0"]


def test_the_releases_that_an_error_names_are_those_that_passed():
    rows = rows_of(dask_releases.PAGE.read_text(encoding="utf-8"))
    cells = {release: line.split(" | ")[4:6] for release, line in rows.items()}
    passed = [release for release, (n, failed) in cells.items() if n != "0" and failed == "0"]
    assert (passed[0], passed[-1]) == KNOWN
    assert {KNOWN[0], *dask_releases.BETWEEN, KNOWN[1]} <= set(rows)
    assert list(rows) == sorted(rows, key=Version)


def test_the_oldest_is_the_one_that_is_allowed(monkeypatch):
    class Told:
        stdout = "distributed (2031.1.0)\nAvailable versions: 2031.1.0, 2030.12.0\n"

    monkeypatch.setattr(dask_releases.subprocess, "run", lambda *_, **__: Told)
    assert dask_releases.releases() == (KNOWN[0], *dask_releases.BETWEEN, "2031.1.0")
