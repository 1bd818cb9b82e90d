"""The pure parts of the program that reproduces the kCAGC paper: tables from records."""

import pytest

from pipelines.papers.kcagc import reproduce
from pipelines.papers.kcagc.tables import render
from tests.conftest import DATA, needs_data
from tests.pipelines.papers.pages import row_of


def cell(L, m, basis, acc, **changed):
    record = {"kind": "cell", "graph": "Cora", "L": L, "m": m, "basis": basis, "seed": 0}
    return {**record, "variant": "optimised", "acc": acc, "f1": 0.6, "nodes": 42, **changed}


def test_a_cell_shows_paper_here_and_difference():
    text = render([cell(2, 4, "global-norm", 0.70), cell(2, 4, "global-norm", 0.72)])
    row = row_of(text, "2", "4k")
    assert row[2:5] == ["72.12 ± 0.76", "71.00 ± 1.00", "-1.12"]
    assert row[5:9] == ["–"] * 4
    assert "in 0 of 1 cells; not in L = 2, k̂ = 4k." in text


@pytest.mark.parametrize(("acc", "reached"), [(0.7136, 1), (0.7135, 0)])
def test_within_the_papers_deviation_or_above(acc, reached):
    records = [cell(2, 4, "U", acc), cell(2, 4, "global-norm", 0.5)]
    assert f"in {reached} of 1 cells" in render(records)


def test_counts_are_shares_of_the_basic_protocol():
    bound = {"basic": 18956, "optimised": 343, "tree": 343}
    shared = {"kind": "count", "scalars": 10, "sums": 2, "masked_bytes": 2e6, "bound": bound}
    records = [cell(2, 1, "global-norm", 0.7, variant=v, **shared) for v in ("basic", "optimised")]
    assert row_of(render(records), "Cora", "2", "optimised")[6] == "1.81%"


def test_times_are_ratios_to_the_pooled_run():
    agc = {"kind": "time, AGC", "graph": "Cora", "L": 2, "pooled": 2.0, "seconds": 4.0}
    time = cell(2, 1, "global-norm", 0.7, kind="time", seconds=6.0, pooled=2.0, sums=9)
    row = row_of(render([agc, time]), "2", "1k")
    assert row[2:9] == ["1.16", "9", "6.00", "2.00", "3.0", "4.00", "1.5"]


def test_nothing_found_yet_is_a_page_without_tables():
    assert "##" not in render([])


@needs_data
@pytest.mark.slow
def test_every_kind_of_partition_opens():
    split = {"graph": "split", "graph_share": 0.5, "seed": 0}
    with reproduce.opened(DATA, "Cora", 2, **split) as (federation, stores):
        assert list(stores) == list(federation.clients)
        shares = [store.graph().nnz for store in stores.values()]
        assert shares[0] == pytest.approx(shares[1], abs=4)
        assert len(reproduce.truth(stores)) == 2708
