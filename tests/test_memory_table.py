"""The table of memory: what it says of rows, and one row measured."""

import pytest

from tests import memory_table
from tests.memory_table import MOST, Row, cases, measure, page


def test_a_line_has_the_server_and_the_worst_party():
    rows = [Row("k-means", 1200, "a", 100, 150), Row("k-means", 1200, "server", 2 * 10**8, 10**8)]
    assert page(rows).splitlines()[-1] == "| k-means | 1,200 | 200 | 100 | 0.50 | 1.50 |"


def test_the_page_has_every_case_at_three_sizes():
    text = memory_table.PAGE.read_text(encoding="utf-8")
    assert len(memory_table.SIZES) == 3
    for case in cases():
        assert text.count(f"| {case.name} |") == 3
    lines = [line for line in text.splitlines() if line.startswith("| ")][1:]
    assert max(float(line.split("|")[-2]) for line in lines) <= MOST


def test_lines_of_other_cases_stay():
    text = memory_table.PAGE.read_text(encoding="utf-8")
    assert memory_table.merged(text, text) == text
    changed = page([Row("NMF", n, "server", 10**8, 10**8) for n in memory_table.SIZES])
    both = memory_table.merged(text, changed)
    lines = zip(text.splitlines(), both.splitlines(), strict=True)
    assert [new for old, new in lines if old != new] == changed.splitlines()[-3:]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["k-medoids", "k-medoids, 0.75 GB", "HDBSCAN", "kernel k-means"])
def test_no_party_takes_more_than_a_tenth_beyond_its_plan(name):
    case = next(case for case in cases() if case.name == name)
    for row in measure(case, 3600):
        assert row.measured <= MOST * row.foreseen, row
