"""The program that reproduces the ESFMC paper: values, tables, a first look."""

import json
import sys

import pytest

from pipelines.papers.esfmc import reproduce, values
from pipelines.papers.esfmc.fits import BASELINES, made, opened, scored
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


def test_fits_that_diverged_are_counted_and_no_mean_is_of_them():
    wild = {**run("ESFMC, paper", 0.0, seed=11), "kind": "diverged"}
    page = render([run("ESFMC, paper", 0.5), wild])
    assert row_of(page, "HW", "ESFMC, paper")[3:6] == ["1 of 2", "98.0", "50.0 ± 0.0"]
    assert "did not stay finite are left out" in page


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


def test_a_term_left_out_stands_beside_the_papers_value():
    runs = [
        {
            "kind": "ablation",
            "data": "BDGP",
            "overlap": 0.5,
            "without": term,
            "seed": 10,
            "acc": acc,
            "nmi": 0.8,
            "ari": 0.8,
        }
        for term, acc in (("", 0.93), ("alignment", 0.9))
    ]
    page = render(runs)
    assert row_of(page, "BDGP", "0.5", "all terms")[4:7] == ["94.9", "93.0 ± 0.0", "-1.9"]
    row = row_of(page, "BDGP", "0.5", "without L_a, alignment")
    assert row[4:7] == ["86.2", "90.0 ± 0.0", "+3.8"]


STUDIES = [
    *({"kind": "alpha", "data": "BDGP", "alpha": alpha, "seed": seed, "acc": 0.9, "nmi": 0.8,
       "ari": 0.8, "acc_in_all": 0.95, "acc_others": 0.85}
      for alpha in (0.0, 1e-4) for seed in (10, 11)),
    *({"kind": "clients", "data": "HW", "each": each, "seed": 10, "acc": 0.9, "nmi": 0.8,
       "ari": 0.8, "seconds": 20.0} for each in (1, 4)),
    *({"kind": "variant", "data": "HW", "variant": words, "seed": seed, "acc": 0.9, "nmi": 0.8,
       "ari": 0.8, "error": error * seed, "labels_error": 6.0}
      for words, error in (("Z_c", 0.2), ("Q", 0.5)) for seed in (10, 11)),
    *({"kind": "losses", "data": "BDGP", "client": client, "term": "Loss of the networks, total",
       "losses": [2.0, 1.0]} for client in ("client-1", "client-2")),
    *(run("ESFMC, robust", 0.9, overlap=rate, data="BDGP") for rate in (0.5, 0.9, 1.0)),
    {"kind": "time", "data": "HW", "seed": 10, "seconds": 20.0, "again": 9.0, "rounds": 3,
     "first_round": 5.0, "other_rounds": 2.5, "server": 1.25},
]  # fmt: skip


def test_studies_are_means_over_seeds():
    page = render(STUDIES)
    assert row_of(page, "0.0001")[1:] == ["2", "95.0 ± 0.0", "85.0 ± 0.0", "90.0 ± 0.0"]
    assert row_of(page, "HW", "4")[2:4] == ["1", "90.0 ± 0.0"]
    assert row_of(page, "HW", "3")[2:] == ["20.0", "9.0", "5.0", "2.5", "1.2"]
    assert row_of(page, "HW", "Q")[6:] == ["5.250", "6.000"]
    assert "2 epochs over all rounds" in " ".join(page.split())


def test_every_study_has_its_figure(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (daskfc[figures])")
    from pipelines.papers.esfmc.figures import draw

    drawn = draw(STUDIES, tmp_path)
    page = render(STUDIES)
    assert len(drawn) == 5
    for file in drawn:
        assert f"figures/{file.name}" in page
        assert "<svg" in file.read_text()
    assert draw([], tmp_path) == []


def test_a_first_look_says_so():
    assert "first look" not in render([run("ESFMC, robust", 0.9)])
    assert "at most 80 samples" in render([{**run("ESFMC, robust", 0.9), "samples": 80}])


@needs_data
@pytest.mark.slow
def test_bdgp_has_the_accuracy_of_its_page():
    """Most distances of its second view are equal, so that labels hang on how ties are broken."""
    pytest.importorskip("jax", reason="JAX is not installed (daskfc[multiview])")
    data = values.DATASETS["BDGP"]
    with opened(data, DATA, 10) as held:
        assert scored(held, made(data, 10))["acc"] > 0.92


@needs_data
@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_first_look_through_real_federations(tmp_path, monkeypatch):
    pytest.importorskip("jax", reason="JAX is not installed (daskfc[multiview])")
    page, records = tmp_path / "results.md", tmp_path / "records.jsonl"
    cell = tmp_path / "cell.yaml"
    cell.write_text("method: ESFMC\nparams: {n_clusters: 5}\nseeds: [10]\n")
    words = ["reproduce", str(cell), "--data", str(DATA), "--out", str(page), "--samples", "120"]
    words += ["--records", str(records), "--only", "half,attack,time"]
    monkeypatch.setattr(sys, "argv", words)
    one = ("Synthetic3d",)
    for name, few in {"ATTACKED": one, "TIMED": one, "MODES": ("local",), "BASELINES": ONE}.items():
        monkeypatch.setattr(reproduce, name, few)
    reproduce.main()
    text = page.read_text()
    assert "at most 120 samples" in text
    assert row_of(text, "BDGP", "ESFMC, robust", "local")[3] == "1"
    assert row_of(text, "BDGP", "all columns, k-means", "")[3] == "1"
    told = [json.loads(line) for line in records.read_text().splitlines()]
    found = next(one for one in told if one["kind"] == "time")
    assert row_of(text, "Synthetic3d", str(found["rounds"]))[2] == f"{found['seconds']:.1f}"
    split = [found[key] for key in ("first_round", "other_rounds", "server")]
    assert found["seconds"] > found["again"] > sum(split) > 0
    assert min(split) >= 0
    errors = [float(cell) for cell in row_of(text, "Synthetic3d", "client-1")[2:]]
    assert all(0.0 < error < 2.0 for error in errors)
    length = len(records.read_text())
    reproduce.main()  # all of it is there
    assert len(records.read_text()) == length
    assert page.read_text() == text
