"""The program that reproduces the ESFMC paper: values, tables, a first look."""

import sys

import pytest

from pipelines.papers.esfmc import reproduce, values
from pipelines.papers.esfmc.fits import BASELINES
from pipelines.papers.esfmc.tables import render
from tests.conftest import DATA, needs_data
from tests.pipelines.papers.pages import row_of

ONE = {"all columns, k-means": BASELINES["all columns, k-means"]}


def run(method, acc, seed=10, overlap=1.0, mode="local", data="HW"):
    return {"kind": "accuracy", "data": data, "method": method, "mode": mode, "seed": seed,
            "overlap": overlap, "acc": acc, "nmi": 0.9, "ari": 0.8, "seconds": 20.0}  # fmt: skip


def test_every_table_names_a_data_set_at_hand():
    assert set(values.TABLE_1) | set(values.TABLE_2) == set(values.DATASETS)
    assert values.SHARES == ("sample", "clustering", "complete")


def test_the_tables_have_the_papers_value_ours_and_the_difference():
    page = render([run("ESFMC, robust", 0.98), run("ESFMC, robust", 0.97, seed=11),
                   run("all columns, spectral", 0.9, mode="")])  # fmt: skip
    row = row_of(page, "HW", "ESFMC, robust")
    assert row[2:7] == ["", "2", "98.0", "97.5 ± 0.5", "-0.5"]
    assert row_of(page, "HW", "all columns, spectral")[4:7] == ["–", "90.0 ± 0.0", "–"]
    assert "Table 2" not in page


def test_the_two_ways_of_incomplete_samples_have_rows_of_their_own():
    page = render([run("ESFMC, robust", 0.93, overlap=0.5, mode=mode, data="BDGP")
                   for mode in ("local", "align")])  # fmt: skip
    for mode in ("local", "align"):
        assert row_of(page, "BDGP", "ESFMC, robust", mode)[6] == "-1.9"


def test_the_figure_of_overlaps_needs_several_of_them():
    runs = [run("ESFMC, robust", rate, overlap=rate, data="BDGP") for rate in (0.5, 0.9, 1.0)]
    assert "Fig. 2" not in render(runs[:2])
    assert row_of(render(runs), "0.9")[1:] == ["1", "90.0 ± 0.0", "0", "–"]


def test_attacks_and_sharing_are_means_over_seeds():
    attacks = [{"kind": "attack", "data": "HW", "view": "client-1", "shared": "z_c",
                "seed": seed, "error": 0.1 * seed} for seed in (1, 2)]  # fmt: skip
    shares = [{"kind": "sharing", "data": "HW", "share": "complete", "seed": 1,
               "acc": 0.9, "nmi": 0.8, "ari": 0.7}]  # fmt: skip
    page = render(attacks + shares)
    assert row_of(page, "HW", "client-1")[2:] == ["–", "–", "0.150", "–", "–"]
    assert row_of(page, "HW", "complete")[3:5] == ["87.3", "90.0 ± 0.0"]


def test_a_first_look_says_so():
    assert "first look" not in render([run("ESFMC, robust", 0.9)])
    assert "at most 80 samples" in render([{**run("ESFMC, robust", 0.9), "samples": 80}])


@needs_data
@pytest.mark.slow
def test_a_first_look_through_real_federations(tmp_path, monkeypatch):
    pytest.importorskip("jax", reason="JAX is not installed (daskfc[multiview])")
    page, records = tmp_path / "results.md", tmp_path / "records.jsonl"
    cell = tmp_path / "cell.yaml"
    cell.write_text("method: ESFMC\nparams: {n_clusters: 5}\nseeds: [10]\n")
    words = ["reproduce", str(cell), "--data", str(DATA), "--out", str(page), "--samples", "120"]
    words += ["--records", str(records), "--only", "half,attack"]
    monkeypatch.setattr(sys, "argv", words)
    for name, few in {"ATTACKED": ("Synthetic3d",), "MODES": ("local",), "BASELINES": ONE}.items():
        monkeypatch.setattr(reproduce, name, few)
    reproduce.main()
    text = page.read_text()
    assert "at most 120 samples" in text
    assert row_of(text, "BDGP", "ESFMC, robust", "local")[3] == "1"
    assert row_of(text, "BDGP", "all columns, k-means", "")[3] == "1"
    errors = [float(cell) for cell in row_of(text, "Synthetic3d", "client-1")[2:]]
    assert all(0.0 < error < 2.0 for error in errors)
    length = len(records.read_text())
    reproduce.main()  # all of it is there
    assert len(records.read_text()) == length
    assert page.read_text() == text
