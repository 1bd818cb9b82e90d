"""Sections of a page that programs write, tables in them, and differences."""

from pathlib import Path

import pytest

from pipelines.papers.fedsc.tables import INTRO as FEDSC
from pipelines.papers.kcagc.tables import INTRO as KCAGC
from pipelines.papers.omnifc.tables import INTRO as OMNIFC
from pipelines.papers.results import (
    difference,
    markdown_table,
    put_section,
    wrapped,
    write_section,
)


def test_section_replaces_only_itself():
    page = put_section("# Mine\n", "A", "one")
    page = put_section(page, "B", "two")
    page = put_section(page + "\nafterwards\n", "A", "three")
    assert page.startswith("# Mine")
    assert "one" not in page
    assert page.index("three") < page.index("two") < page.index("afterwards")
    assert page.count("<!-- A: begin -->") == page.count("<!-- A: end -->") == 1


def test_parts_that_are_not_made_again_stay():
    first = "## A\n\nintro\n\n### one\n\n1\n\n### two\n\n2\n\n### three\n\n3"
    page = put_section("", "A", first)
    assert put_section(page, "A", first) == page
    page = put_section(page, "A", "## A\n\nother\n\n### zero\n\n0\n\n### two\n\n2 anew")
    text = " ".join(page.split("begin -->")[1].split("<!--")[0].split())
    assert text == "## A other ### one 1 ### zero 0 ### two 2 anew ### three 3"
    page = put_section(page, "A", "no heading")
    assert "no heading" in page
    assert page.count("### ") == 4
    assert "intro" not in page


def test_section_in_a_new_file_has_a_heading(tmp_path):
    path = tmp_path / "docs" / "results.md"
    write_section(path, "A", "one")
    assert path.read_text(encoding="utf-8").startswith("# Results")


def test_a_section_is_wrapped_where_it_is_text():
    words, table = (15 * "a word. ").strip(), f"| {30 * 'cell '} |"
    parts = [f"## {words}", words, table, f"- {words}\n- two", f"```\n{words}\n\n{words}\n```"]
    page = put_section("", "A", "\n\n".join(parts))
    heading, text, kept, items, *code = page.split("begin -->\n")[1].split("\n\n")
    assert (heading, kept) == (parts[0], table)
    assert max(map(len, f"{text}\n{items}".splitlines())) <= 100
    assert text.split() == words.split()
    assert [line[:2] for line in items.splitlines()] == ["- ", "  ", "- "]
    assert "\n\n".join(code).startswith(parts[-1])
    assert put_section(page, "A", page.split("begin -->\n")[1].split("\n<!--")[0]) == page


@pytest.mark.parametrize("whole", ["`some code`", "[a link](a.md)", "word - dash", "word 2. two"])
def test_wrapping_leaves_code_and_links_whole_and_begins_no_list(whole):
    for length in range(80, 101):
        text = f"{length * 'a'} {whole} b\n"
        lines = wrapped(text).splitlines()
        assert " ".join(lines) == text.strip()
        assert len(lines) == 1 + (len(text) > 101)
        assert all(len(line) <= 100 for line in lines)
        if whole.startswith("word"):
            assert not lines[-1].startswith(("- ", "2. "))
        else:
            assert any(whole in line for line in lines)


def test_table_refuses_ragged_rows():
    with pytest.raises(AssertionError):
        markdown_table(["a", "b"], [["1"]])


def test_difference_is_between_printed_digits():
    assert difference(0.944999, 0.94) == "0.00"  # not +0.00
    assert difference(0.946, 0.94) == "+0.01"
    assert difference(None, 0.9) == difference(0.9, None) == "–"


@pytest.mark.parametrize("intro", [FEDSC, KCAGC, OMNIFC])
def test_the_page_begins_its_sections_as_the_programs_do(intro):
    page = Path(__file__).parents[3] / "docs" / "results.md"
    assert intro in page.read_text(encoding="utf-8")
