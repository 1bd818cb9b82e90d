"""The pure parts of the program that reproduces the OmniFC paper: tables from records, error."""

import numpy as np
import pytest

from pipelines.papers.omnifc import tables, values
from pipelines.papers.omnifc.distances import true_error
from pipelines.papers.omnifc.reproduce import radius_at
from tests.pipelines.papers.pages import row_of


def fit(dataset, method, p, kappa, nmi=0.5, labels="a"):
    return {"kind": "fit", "dataset": dataset, "method": method, "p": p, "kappa": kappa,
            "nmi": nmi, "labels": labels}  # fmt: skip


@pytest.mark.parametrize("metric", ["kappa", "nmi"])
def test_values_of_the_paper_are_complete(metric):
    for data in ("Iris", "MNIST", "COIL-20"):
        assert set(values.CENTRAL[metric][data]) == set(values.OMNIFC[metric][data])
        for levels in values.BASELINES[metric][data].values():
            assert tuple(levels) == values.P
            assert all(0 < value < 1 for value in levels.values())


def test_agreement_shows_paper_here_and_difference():
    fits = tables.Fits([
        fit("iris", "OmniFC HC", 0.0, 0.84), fit("iris", "OmniFC HC", 1.0, 0.84),
        fit("iris", "OmniFC KM", 0.0, 0.85), fit("iris", "OmniFC KM", 1.0, 0.95),
        fit("iris", "Central HC", 0.0, 0.93),
    ])  # fmt: skip
    table = tables.agreement(fits, "kappa")
    assert row_of(table, "iris", "HC")[2:] == ["0.94", "0.93", "-0.01", "0.95", "0.84", "-0.11"]
    assert row_of(table, "iris", "KM")[5:] == ["0.95", "0.85 to 0.95", "-0.10"]


def test_equality_counts_labels_and_finds_the_largest_gap():
    fits = tables.Fits([
        fit("digits", "OmniFC SC", 0.0, 0.75, labels="a"),
        fit("digits", "Central SC", 0.0, 0.75, labels="a"),
        fit("digits", "OmniFC SC", 0.5, 0.75, labels="a"),
        fit("digits", "Central SC", 0.5, 0.5, labels="b"),
        fit("digits", "OmniFC SC", 1.0, 0.75, labels="a"),  # without its twin
    ])  # fmt: skip
    row = row_of(tables.equality(fits), "digits", "SC")[2:]
    assert row == ["0.2500", "0.0000", "1 of 2", "yes", "as left"]
    assert "0.25" in tables.verdict(fits)
    assert "1 of 2" in tables.verdict(fits)


def test_baselines_stand_beside_the_papers_value():
    fits = tables.Fits([fit("mnist-1000", "k-FED, √k", 0.5, 0.3, 0.4)])
    row = row_of(tables.baselines(fits, "mnist-1000"), "k-FED, √k", "0.50")[2:]
    assert row == ["0.29", "0.30", "+0.01", "0.39", "0.40", "+0.01"]


def test_ffcm_is_said_to_be_ahead_where_it_is():
    ahead = zip(values.P, (0.3, 0.7, 0.9, 0.8, 0.8), strict=True)
    records = [fit("digits", "FFCM", p, kappa) for p, kappa in ahead]
    records += [fit("iris", "FFCM", p, 0.8) for p in values.P]  # skew or none
    records += [fit(data, "OmniFC HC", 0.0, 0.75) for data in ("digits", "iris")]
    told = tables.ahead(tables.Fits(records))
    assert "on digits κ is 0.70 to 0.90 for p of 0.25 and more, 0.30 for p = 0, and 0.75" in told
    assert "iris" not in told
    assert tables.ahead(tables.Fits(records[5:])) == ""
    records.append(fit("digits", "OmniFC SC", 0.0, 0.95))
    assert tables.ahead(tables.Fits(records)) == ""


def test_codes_show_errors_and_refusals():
    common = {"kind": "code", "n_segments": 2, "n_colluding": 2, "n_spares": 0}
    table = tables.codes([
        {**common, "data": "pixels", "m": 5, "refused": "too few"},
        {**common, "data": "pixels", "m": 7, "relative": 0.0},
        {**common, "data": "z-scored", "m": 7, "relative": 8.5e-5},
    ])  # fmt: skip
    assert row_of(table, "2", "2")[2:] == ["7", "refused", "0 / 8.5e-05"]


def test_sections_without_records_are_left_out():
    text = tables.render([])
    assert "Central" in text
    assert "|" not in text


def test_true_error_is_zero_for_the_distances_themselves_and_not_for_others():
    X = np.random.default_rng(0).integers(0, 256, (7, 3)) / 255
    D = (np.rint(X * 255)[:, None] - np.rint(X * 255)) ** 2
    D = D.sum(axis=2) / 255**2
    exact = true_error([(0, D[:4]), (4, D[4:])], X, 255)
    assert exact["rmse"] == 0
    assert exact["zero_diagonal"]
    assert exact["scale"] == pytest.approx(D.mean())
    assert true_error([(0, D)], X, None)["rmse"] == pytest.approx(0, abs=1e-15)
    shifted = true_error([(0, D + 0.5)], X, 255)
    assert shifted["rmse"] == pytest.approx(0.5)
    assert not shifted["zero_diagonal"]


def test_radius_lies_between_distances():
    distances = np.sort(np.random.default_rng(1).random(500))
    for level in (0.0, 0.3, 1.0):
        radius = radius_at(distances, level)
        assert distances[0] < radius < distances[-1]
        assert not np.isclose(distances, radius, rtol=0, atol=1e-9).any()
