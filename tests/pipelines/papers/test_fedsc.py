"""The program that reproduces the FedSC paper: tables from records, data, noise, clients, cells."""

import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import normalized_mutual_info_score

from daskfc.clustering.kernels import kernels
from pipelines.papers.fedsc import cells, epsilon, factors, reproduce
from pipelines.papers.fedsc.figures import draw
from pipelines.papers.fedsc.tables import render
from tests.conftest import DATA, needs_data
from tests.pipelines.papers.pages import row_of


def cell(acc, method="FedSC", **changed):
    record = {"kind": "cell", "data": "iris", "noise": 0.0, "seed": 0, "split": "equal"}
    if method == "FedSC":
        record["setting"] = "published"
    return {
        **record,
        "method": method,
        "acc": acc,
        "nmi": 0.7,
        "published_nmi": 0.6,
        "components": 1,
        "atoms": 7,
        **changed,
    }


def rendered(*records):
    return render(records)


def test_a_cell_shows_paper_here_difference_and_the_true_nmi():
    row = row_of(rendered(cell(0.91), cell(0.93)), "0", "FedSC, published")
    assert row[2:5] == ["0.900 ± 0.003", "0.920 ± 0.010", "+0.020"]
    assert row[5:9] == ["0.671 ± 0.014", "0.600 ± 0.000", "-0.071", "0.700 ± 0.000"]


def test_where_the_papers_nmi_is_one_it_is_compared_with_ours():
    row = row_of(rendered(cell(0.8, data="coil20")), "0", "FedSC, published")
    assert row[5:] == ["0.861 ± 0.014", "0.700 ± 0.000", "-0.161"]


@pytest.mark.parametrize(("acc", "text"), [(0.8969, "in 1 of 1"), (0.8968, "in 0 of 1")])
def test_within_the_papers_deviation_or_above(acc, text):
    assert f"FedSC, published: within the paper's ± or above it {text}" in rendered(cell(acc))


def test_a_graph_of_more_components_than_clusters_is_told():
    sc = cell(0.6, "SC", data="banknote", components=5)
    assert "graph of SC has 5 components, more than the 2 clusters" in rendered(sc)
    assert "components" not in rendered({**sc, "components": 2})


def test_seeds_that_are_far_apart_are_told():
    far = [cell(acc, data="banknote") for acc in (0.6, 0.9)]
    assert "reach from 0.600 to 0.900" in rendered(*far)
    assert "reach from" not in rendered(*far[:1])


def test_atoms_beside_the_mean_of_the_papers_trials():
    record = cell(0.8, kind="atoms", data="coil20", atoms=194, svd=194)
    row = row_of(rendered(record), "194 (SVD)")
    assert row[1:] == ["0.795 ± 0.009", "0.800 ± 0.000", "+0.005", "–", "–"]


def test_factors_tell_what_noise_on_the_coefficients_changes():
    found = [
        cell(acc, kind="factors", data="coil20", z=z, c=c)
        for (z, c), acc in {(0.0, 0.0): 0.8, (0.0, 0.15): 0.5, (0.15, 0.15): 0.6}.items()
    ]
    text = rendered(*found)
    assert row_of(text, "0.15", "0.15")[3:5] == ["0.600 ± 0.000", "+0.010"]
    assert "-0.300, and with α_z = 0.15 +0.100 on top (published)" in text


def test_an_attack_above_k_means_on_the_samples_is_told():
    record = cell(0.9, kind="attack", attack=0.7)
    text = rendered(record, cell(0.6, "k-means"))
    assert row_of(text, "iris", "published")[5:9] == [
        "0.636 ± 0.156",
        "0.700 ± 0.000",
        "+0.064",
        "0.600 ± 0.000",
    ]
    assert "above k-means on the samples for iris (published); the paper holds" in text


def test_one_client_beside_eight_of_the_tables():
    text = rendered(cell(0.9, kind="single"), cell(0.8), cell(0.1, noise=0.1))
    assert row_of(text, "iris", "1")[3] == "0.900 ± 0.000"
    assert row_of(text, "iris", "8")[3] == "0.800 ± 0.000"


def test_bounds_that_fail_or_say_something_are_counted():
    about = {"kind": "bounds", "data": "iris", "theorem": "3.1", "noise": 0.1}
    found = [{**about, "error": 0.5, "bound": bound} for bound in (0.4, 2.0)]
    text = rendered(*found)
    assert row_of(text, "iris", "3.1", "0.1")[3:] == ["0.5000", "1.2000", "2.4"]
    assert "held in 1 of 2 runs" in text
    assert "and 1 of the bounds are below" in text


def test_the_figure_tells_what_one_atom_and_its_graph_give():
    named = {"published for this figure, its graph": 0.95, "published for this figure": 0.51}
    named |= {"published for the tables": 0.52, "defaults": 0.53}
    shared = {"kind": "figure", "data": "circles", "atoms": 1}
    found = [cell(acc, setting=s, noisy=True, **shared) for s, acc in named.items()]
    text = rendered(*found, cell(0.54, "SC", noisy=True, **shared))
    row = row_of(text, "FedSC, published for this figure, its graph")
    assert row[1:] == ["1", "–", "0.950 ± 0.000"]
    assert "With noise this gives 0.950; the same similarities" in text
    assert "give 0.510, the documented 0.99 of the eigenvalues gives 0.520, and SC 0.540" in text


def test_run_times_are_summed_by_part():
    found = [{"kind": "seconds", "of": of, "seconds": s} for of, s in (("iris", 2), ("iris", 3))]
    assert "5 s in all" in rendered(*found)


def test_nothing_found_yet_is_a_page_without_tables():
    assert "##" not in rendered()


def test_the_papers_nmi_leaves_out_class_0():
    """Against scikit-learn's on what is left, where no sample crosses the border of class 0."""
    y = np.array([0] * 10 + [1] * 6 + [2] * 4)
    labels = np.array([0] * 10 + [1] * 5 + [2] * 5)
    rest = slice(10, None)
    n, own = len(y), len(y) - 10
    # with n in place of the rest's own size, I and H grow by known terms: solve for both
    p = own / n

    def entropy(v):
        shares = np.bincount(v)[1:] / own
        return -(shares[shares > 0] * np.log(shares[shares > 0])).sum()

    h = [entropy(v[rest]) for v in (y, labels)]
    inside = normalized_mutual_info_score(y[rest], labels[rest]) * sum(h) / 2
    wanted = 2 * (p * inside - p * np.log(p)) / (p * sum(h) - 2 * p * np.log(p))
    assert cells.published_nmi(y, labels) == pytest.approx(wanted, rel=1e-12)
    assert cells.published_nmi(y, labels) != pytest.approx(normalized_mutual_info_score(y, labels))


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize(("name", "k", "wanted"), [("iris", 3, 0.6356), ("banknote", 2, 0.148)])
def test_the_papers_nmi_is_table_3s_of_k_means(name, k, wanted):
    pool = cells.DATASETS[name].read(DATA, 0)
    [k_means, _] = cells.pooled(pool, k, 0)
    assert round(k_means["published_nmi"], 4) == wanted


@needs_data
def test_spectral_clustering_of_iris_is_table_1s():
    pool = cells.DATASETS["iris"].read(DATA, 0)
    labels, components = cells.spectral(pool.X, 3, 0)
    assert cells.scores(pool.y, labels)["acc"] == pytest.approx(0.9)
    assert components <= 3


@needs_data
@pytest.mark.slow
def test_the_pooled_atoms_of_coil20_are_table_4s():
    assert cells.atoms_holding(cells.DATASETS["coil20"].read(DATA, 0).X) == 194


def test_noise_has_its_share_of_the_spread_and_is_repeated():
    pool = cells.Pool(np.arange(8000.0).reshape(4000, 2), np.zeros(4000, dtype=np.int64))
    noisy = pool.noisy(0.3, "x", 1)
    assert (noisy.X - pool.X).std() == pytest.approx(0.3 * pool.X.std(), rel=0.03)
    np.testing.assert_array_equal(noisy.X, pool.noisy(0.3, "x", 1).X)
    for other in (pool.noisy(0.1, "x", 1), pool.noisy(0.3, "x", 2), pool.noisy(0.3, "y", 1)):
        share = np.corrcoef((other.X - pool.X).ravel(), (noisy.X - pool.X).ravel())[0, 1]
        assert abs(share) < 0.05


def test_circles_are_those_of_equation_37():
    pool = cells.circles(Path(), 0)
    assert pool.X.shape == (1258, 2)
    radius = np.linalg.norm(pool.X, axis=1)
    assert radius[pool.y == 0].mean() == pytest.approx(2.0, abs=0.05)
    assert radius[pool.y == 1].mean() == pytest.approx(4.0, abs=0.05)
    assert radius[pool.y == 1].std() == pytest.approx(0.1 * np.sqrt(5.0), rel=0.1)
    assert (cells.circles(Path(), 1).X != pool.X).all()


@pytest.mark.parametrize("seed", range(5))
def test_random_cuts_deal_every_row_once(seed):
    parts = cells.random_cuts(30, 8, seed)
    assert len(parts) == 8
    assert min(map(len, parts)) >= 1
    assert sorted(np.concatenate(parts)) == list(range(30))


def test_the_projection_is_what_too_few_atoms_leave():
    """Two atoms in the plane: of samples in space only what lies on their line is found."""
    Z = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    X = np.array([[0.3, 0.4, 0.0], [0.6, 0.0, 0.8]])
    K = kernels.atom_kernel(Z, 1.0) + 1e-3 * np.eye(2)
    C = np.linalg.solve(K, kernels.gaussian_kernel(Z, X, 1.0))
    found = factors.reconstruction(factors.FactorsSeen(Z, C, X, X, 1.0, 1e-3), 2)
    assert found["projected"] < 1e-6
    assert found["error"] == pytest.approx(0.8, abs=1e-6)


@needs_data
@pytest.mark.slow
def test_one_atom_separates_the_published_circles_in_the_published_graph_only():
    """The authors' Fig. 3(f): accuracy 0.95 or so on the noisy circles."""
    with np.load(DATA / "concentric_circles.npz") as file:
        X, y = file["X_noisy"].astype(np.float64), file["y"].astype(np.int64)
    Z = np.zeros((1, 2))
    C = kernels.gaussian_kernel(Z, X, 4.0) / (1 + 1e-4)
    seen = factors.FactorsSeen(Z, C, X, X, 4.0, 1e-4)
    assert cells.scores(y, factors.cluster_largest(seen, 2, 0, 10))["acc"] > 0.94
    assert cells.scores(y, cells.spectral(X, 2, 0)[0])["acc"] < 0.6


def test_the_similarity_of_as_many_atoms_as_samples_is_true():
    X = np.array([[0.0], [1.0], [3.0]])
    seen = factors.FactorsSeen(X, np.eye(3), X, X, 1.0, 1e-3)
    assert factors.similarity_error(seen) == pytest.approx(
        {"relative": 0.0, "largest": 0.0}, abs=1e-15
    )
    assert factors.bound_of_data(seen, 0.0)["bound"] == pytest.approx(0.0, abs=1e-7)
    noisy = factors.bound_of_factors(seen, 0.1, 0)
    assert 0.0 < noisy["error"] <= noisy["bound"]


def test_figures_show_what_the_records_hold(tmp_path):
    assert draw([], tmp_path) == []
    found = [cell(acc, noise=noise) for noise in (0.0, 0.5) for acc in (0.8, 0.9)]
    rounds = [
        {"kind": "rounds", "data": "iris", "setting": setting, "rounds": n, "relative": 0.1 / n}
        for setting in ("published", "defaults")
        for n in (1, 5)
    ]
    drawn = draw([*found, cell(0.7, "SC"), *rounds], tmp_path)
    assert [file.name for file in drawn] == ["fedsc-noise.svg", "fedsc-rounds.svg"]
    noise, errors = (file.read_text(encoding="utf-8") for file in drawn)
    for word in ("iris", "accuracy", "FedSC, published", "FedSC, paper", ">SC<"):
        assert word in noise
    assert "DSC" not in noise  # no record, no line
    assert "relative error of similarities" in errors
    draw([*found, cell(0.7, "SC"), *rounds], tmp_path)
    assert drawn[0].read_text(encoding="utf-8") == noise  # the same bytes again


def test_the_page_shows_the_figures_that_are_drawn():
    page = rendered(cell(0.9))
    assert "](figures/fedsc-noise.svg)" in page
    assert "fedsc-rounds.svg" not in page


@pytest.mark.long
@pytest.mark.slow
def test_a_cell_runs_every_method_and_a_second_start_runs_nothing(tmp_path, monkeypatch):
    rows = np.concatenate([np.arange(12.0) / 10, 5 + np.arange(12.0) / 10])
    pool = cells.Pool(np.stack([rows, -rows], axis=1), np.repeat(np.array([0, 1]), 12))
    tiny = cells.Dataset(2, lambda folder, seed: pool, n_seeds=1, noise=(0.1,), n_clients=3)
    monkeypatch.setitem(cells.DATASETS, "iris", tiny)
    page, records = tmp_path / "results.md", tmp_path / "records.jsonl"
    arguments = ["--data", tmp_path, "--only", "iris", "--out", page, "--records", records]
    monkeypatch.setattr(sys, "argv", ["reproduce.py", *map(str, arguments)])
    reproduce.main()
    text, kept = page.read_text(encoding="utf-8"), records.read_text(encoding="utf-8")
    assert (tmp_path / "figures" / "fedsc-noise.svg").exists()
    for method in ("k-means", "SC", "DSC", "FedSC, published", "FedSC, defaults"):
        assert row_of(text, "0.1", method)[3].endswith("± 0.000")
    assert row_of(text, "0.1", "FedSC, defaults")[3] == "1.000 ± 0.000"
    monkeypatch.setattr(reproduce, "opened", None)  # a second start opens no federation
    reproduce.main()
    assert records.read_text(encoding="utf-8") == kept


@pytest.mark.slow
def test_accuracy_by_epsilon_is_of_fits_with_that_noise(monkeypatch):
    X = np.concatenate([np.zeros((30, 2)), np.full((30, 2), 6.0)])
    X += np.random.default_rng(0).normal(size=X.shape)
    monkeypatch.setattr(epsilon, "SETS", {"two": lambda: (X, np.repeat([0, 1], 30))})
    monkeypatch.setattr(epsilon, "EPSILONS", (1e4, 0.5))
    monkeypatch.setattr(epsilon, "SEEDS", (0,))
    records = list(epsilon.piece("two"))
    told = {(one["noise"], one["epsilon"]): one["acc"] for one in records}
    assert [*told] == [("none", None), *((kind, e) for kind in epsilon.KINDS for e in (1e4, 0.5))]
    assert told["none", None] == told["data", 1e4] == 1.0
    assert told["data", 0.5] < 0.9
    row = row_of(epsilon.render(records), "two", "60", "2", "0.500", "1.000 ± 0.000", "data")
    assert row[6:] == ["1.000 ± 0.000", f"{told['data', 0.5]:.3f} ± 0.000"]
    about = epsilon.settings(X - X.mean(axis=0))
    assert (
        np.linalg.norm(X - X.mean(axis=0), axis=1) <= about["data"]["noise"]["clip"]
    ).sum() == 57
