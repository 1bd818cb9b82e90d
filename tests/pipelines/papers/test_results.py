"""Pages that programs write, tables in them, differences, and the overview of the pages."""

import shutil
from pathlib import Path

import pytest

from pipelines.papers.esfmc.tables import INTRO as ESFMC
from pipelines.papers.fedsc.tables import INTRO as FEDSC
from pipelines.papers.fk_kmeans.tables import INTRO as FK_KMEANS
from pipelines.papers.kcagc.tables import INTRO as KCAGC
from pipelines.papers.kmeans.tables import INTRO as K_MEANS
from pipelines.papers.omnifc.battery_tables import INTRO as PUBLIC_DATA
from pipelines.papers.omnifc.how_many_tables import INTRO as HOW_MANY
from pipelines.papers.omnifc.tables import INTRO as OMNIFC
from pipelines.papers.overview import overview
from pipelines.papers.results import difference, markdown_table, wrapped, write_page

DOCS = Path(__file__).parents[3] / "docs"
INTROS = {
    "esfmc": ESFMC,
    "fedsc": FEDSC,
    "fk-kmeans": FK_KMEANS,
    "how-many-clusters": HOW_MANY,
    "k-means": K_MEANS,
    "kcagc": KCAGC,
    "omnifc": OMNIFC,
    "omnifc-public-data": PUBLIC_DATA,
}


def written(path, text):
    write_page(path, text)
    return path.read_text(encoding="utf-8")


def test_parts_that_are_not_made_again_stay(tmp_path):
    path = tmp_path / "results" / "a.md"
    first = "# A\n\nintro\n\n## one\n\n1\n\n## two\n\n2\n\n### more\n\n3\n\n## three\n\n3"
    page = written(path, first)
    assert page == first + "\n"
    assert written(path, first) == page
    page = written(path, "# A\n\nother\n\n## zero\n\n0\n\n## two\n\n2 anew")
    assert page.split() == "# A other ## one 1 ## zero 0 ## two 2 anew ## three 3".split()
    page = written(path, "no heading")
    assert page.startswith("no heading\n\n## one")
    assert page.count("## ") == 4
    assert "other" not in page


def test_a_page_is_wrapped_where_it_is_text(tmp_path):
    words, table = (15 * "a word. ").strip(), f"| {30 * 'cell '} |"
    parts = [f"# {words}", words, table, f"- {words}\n- two", f"```\n{words}\n\n{words}\n```"]
    page = written(tmp_path / "a.md", "\n\n".join(parts))
    heading, text, kept, items, *code = page.split("\n\n")
    assert (heading, kept) == (parts[0], table)
    assert max(map(len, f"{text}\n{items}".splitlines())) <= 100
    assert text.split() == words.split()
    assert [line[:2] for line in items.splitlines()] == ["- ", "  ", "- "]
    assert "\n\n".join(code) == parts[-1] + "\n"
    assert written(tmp_path / "a.md", page) == page


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


@pytest.mark.parametrize("name", INTROS)
def test_a_page_begins_as_its_program_does(name):
    page = (DOCS / "results" / f"{name}.md").read_text(encoding="utf-8")
    assert page.startswith(wrapped(INTROS[name]))


def test_the_overview_is_made_of_the_pages_as_they_are():
    page = (DOCS / "results.md").read_text(encoding="utf-8")
    assert page == overview(DOCS / "results")
    for path in (DOCS / "results").glob("*.md"):
        assert f"](results/{path.name})" in page
        assert f"\nresults/{path.stem}\n" in page.split("{toctree}")[1]


def test_the_overview_reads_the_papers_value_ours_and_the_difference(tmp_path):
    folder = shutil.copytree(DOCS / "results", tmp_path / "results")
    path, row = folder / "omnifc.md", "| coil20     | SC           |           0.61 | 0.79 | +0.18 "
    page = path.read_text(encoding="utf-8")
    kappa, found, rest = page.partition(row + "|          0.63 | 0.79 | +0.16 |")
    assert found
    path.write_text(f"{kappa}{row}|          0.62 | 0.78 | +0.11 |{rest}", encoding="utf-8")
    [line] = set(overview(folder).splitlines()) - set(overview(DOCS / "results").splitlines())
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells == ["[OmniFC](results/omnifc.md)", "kappa, spectral clustering", "coil20",
                     "0.62", "0.78", "+0.11"]  # fmt: skip
