"""The table of docs/deploy/index.md, and that all its pages show is typed by somebody."""

import re
from pathlib import Path

import pytest

from tests.deployments.lines import PAGES
from tests.deployments.page import INDEX, ROWS, new_versions, table, written

FOLDER = Path(__file__).parent


def test_the_page_has_the_table():
    assert table(written()) in INDEX.read_text("utf-8")


def test_every_page_and_every_test_is_in_the_table():
    pages = {path.name for path in PAGES.glob("*.md")} - {"index.md", "schedules.md"}
    assert pages == {row.page for row in ROWS if "/" not in row.page}
    named = {(FOLDER / test).resolve() for row in ROWS for test in row.tests}
    assert all(path.exists() for path in named)
    of_all = {FOLDER / name for name in ("test_command_lines.py", "test_page.py")}
    assert {*FOLDER.glob("test_*.py")} - of_all <= named


@pytest.mark.parametrize("path", sorted(PAGES.glob("*.md")), ids=lambda path: path.stem)
def test_what_a_page_shows_is_typed(path):
    """A terminal's block, or one of bare output, is read by a test of the page's row."""
    fences = re.findall(r"^```(\w*)\n", path.read_text("utf-8"), re.MULTILINE)
    if {"console", ""} & {*fences[::2]}:  # every second one ends a block
        (row,) = [row for row in ROWS if row.page == path.name]
        texts = [(FOLDER / test).read_text("utf-8") for test in row.tests]
        assert any(f'"{path.name}"' in text for text in texts)


@pytest.mark.deploy
@pytest.mark.parametrize("number", range(len(ROWS)), ids=[row.page for row in ROWS])
def test_versions_are_those_that_are_here(number):
    here, told = list(new_versions())[number], written()[number]
    if here not in (None, told):
        pytest.skip(f"here is {here}: python -m tests.deployments.page writes it to the page")
