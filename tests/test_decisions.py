"""Decisions can be looked up: each number once, every page in the index and on the site."""

import importlib.util
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "daskfc"
INDEX = PACKAGE / "DESIGN.md"
PAGES = [*sorted(set(PACKAGE.rglob("DESIGN.md")) - {INDEX}), ROOT / "tests" / "DESIGN.md"]
READ = [*PACKAGE.rglob("*.py"), *(ROOT / "docs").rglob("*.md"), *PAGES, INDEX]


def name_of(path):
    return str(path.relative_to(ROOT))


def text_of(path):
    return path.read_text(encoding="utf-8")


def numbers_of(pages):
    return [
        int(one) for page in pages for one in re.findall(r"^### D(\d+)\. ", text_of(page), re.M)
    ]


def test_every_number_is_used_once_or_is_gone():
    found, index = Counter(numbers_of(PAGES)), text_of(INDEX)
    (line,) = re.findall(r"^Gone: (.+)$", index, re.M)
    gone = {int(one) for one in re.findall(r"D(\d+)", re.sub(r"\(.*?\)", "", line))}
    last = max(found)
    assert set(found.values()) == {1}
    assert {*found} == {*range(1, last + 1)} - gone
    assert f"the last is D{last})" in index
    assert f"`### D{last + 1}." in index


def test_the_index_fits_a_screen_and_names_every_page():
    text = text_of(INDEX)
    assert len(text.splitlines()) <= 50
    linked = [(PACKAGE / target).resolve() for target in re.findall(r"\]\((.+?)\)", text)]
    assert sorted(linked) == sorted(PAGES)


def test_the_site_shows_every_page():
    page = ROOT / "docs" / "reference" / "decisions.md"
    shown = [
        (page.parent / one).resolve() for one in re.findall(r"\{include\} (.+)", text_of(page))
    ]
    assert sorted(set(shown)) == sorted([*PAGES, INDEX])


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_has_headings_for_rooms_and_decisions_alone(page):
    """A heading of one word in lower case is a folder beside the page, or the page's own."""
    headings = re.findall(r"^(#+ .+)$", text_of(page), re.M)
    assert headings[1].startswith("## ")  # Sphinx wants no level left out
    for heading in headings[1:]:
        room = re.fullmatch(r"## ([a-z_]+)", heading)
        beside = {page.parent, page.parent.parent, PACKAGE}
        assert room or re.match(r"## [A-Z]|### D\d+\. ", heading), heading
        assert not room or any((at / room[1]).is_dir() for at in beside), heading


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_and_packages_that_a_page_names_exist(page):
    for name in re.findall(r"`([^`\s]+)`", text_of(page)):
        if re.fullmatch(r"[\w.*-]+(/[\w.*-]*)+", name):
            found = [path for at in (ROOT, PACKAGE) for path in at.glob(name.rstrip("/"))]
            assert found, name
        elif re.fullmatch(r"daskfc(\.[a-z_]+)+", name):
            assert importlib.util.find_spec(name), name


def test_every_decision_that_is_referred_to_exists():
    known = set(numbers_of(PAGES))
    for path in READ:
        text = re.sub(r"# noqa.*|^Gone: .+|`### D\d+\.[^`]*`", "", text_of(path), flags=re.M)
        for one in re.findall(r"\bD(\d{1,3})\b", text):
            assert int(one) in known, (name_of(path), one)
