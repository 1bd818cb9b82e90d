"""Sections of a page that programs write, tables in them, and differences."""

from pathlib import Path

import pytest

from pipelines.papers.fedsc.tables import INTRO as FEDSC
from pipelines.papers.kcagc.tables import INTRO as KCAGC
from pipelines.papers.omnifc.tables import INTRO as OMNIFC
from pipelines.papers.results import difference, markdown_table, put_section, write_section


def test_section_replaces_only_itself():
    page = put_section("# Mine\n", "A", "one")
    page = put_section(page, "B", "two")
    page = put_section(page + "\nafterwards\n", "A", "three")
    assert page.startswith("# Mine")
    assert "one" not in page
    assert page.index("three") < page.index("two") < page.index("afterwards")
    assert page.count("<!-- A: begin -->") == page.count("<!-- A: end -->") == 1


def test_section_in_a_new_file_has_a_heading(tmp_path):
    path = tmp_path / "docs" / "results.md"
    write_section(path, "A", "one")
    assert path.read_text(encoding="utf-8").startswith("# Results")


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
