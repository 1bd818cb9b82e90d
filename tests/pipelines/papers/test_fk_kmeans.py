"""The program that reproduces the FK k-means paper: values, uploads, errors, tables, runs."""

import sys

import numpy as np
import pytest
from sklearn.datasets import load_iris

from daskfc.clustering.kernels.features import Kernel
from daskfc.clustering.kernels.width import interpoint_width
from daskfc.federation import Ledger
from daskfc.protocols.fk_kmeans.features import FeatureSettings
from daskfc.protocols.fk_kmeans.maths.dspgd import Iteration
from pipelines.papers.fk_kmeans import attack, data, fits, quality, reproduce, uploads, values
from pipelines.papers.fk_kmeans.figures import draw
from pipelines.papers.fk_kmeans.recovery import exact_coordinates, recovery_errors
from pipelines.papers.fk_kmeans.tables import formula, largest_difference, render
from pipelines.papers.fk_kmeans.text import COLORS, interval
from tests.conftest import DATA, needs_data
from tests.pipelines.papers.pages import row_of

IRIS = data.Pool(*load_iris(return_X_y=True))


def curve(errors, version="CEM, one sum", seed=0, **changed):
    record = {"kind": "convergence", "data": "MNIST-small", "version": version, "seed": seed}
    told = {"values": [[5.0, 2.0]] * 2, "thresholds": [1.0, 1.0], "width": 2.0, "pooled_width": 2.0}
    return {**record, **told, "errors": errors, "n": 100, "nmi": 0.5, **changed}


def uploaded(version, floats, needed, asked, **changed):
    record = {"kind": "communication", "data": "mushrooms", "version": version, "n": 8124, "D": 15}
    ranks = [0, 3]
    return {**record, "clients": 5, "floats": floats, "needed": needed, "asked": asked,
            "ranks": ranks, "seed": 0, **changed}  # fmt: skip


def point(method, setting, floats, nmi, seed=0, **changed):
    record = {"kind": "quality", "data": "MNIST", "method": method, "setting": setting}
    return {**record, "floats": floats, "nmi": nmi, "seed": seed, **changed}


# -- values and data ------------------------------------------------------------------------------


def test_every_data_set_has_its_row_of_table_1():
    assert set(data.DATASETS) == set(values.TABLE_1)
    for name, dataset in data.DATASETS.items():
        assert dataset.setting is values.TABLE_1[name]
        assert dataset.params["n_features"] >= dataset.params["n_clusters"] + 2
    for figure in (values.RFK_FEATURES, values.RFK_CORESETS, values.CE_PCA):
        assert set(figure) == {"mushrooms", "MNIST"}
    assert values.ITERATIONS[-1] == 50


@needs_data
@pytest.mark.slow
def test_the_data_have_the_shape_of_table_1():
    for name in ("mushrooms", "MNIST-small", "MNIST"):
        setting, pool = values.TABLE_1[name], data.DATASETS[name].read(DATA)
        assert len(pool.y) == setting.n_samples
        assert pool.X.any(axis=0).sum() <= setting.n_columns <= pool.X.shape[1]
        assert len(set(pool.y)) == setting.n_clusters


def test_generated_data_are_repeated_and_of_several_classes():
    setting = values.TABLE_1["covtype"]
    pool, again = (data.generated(500, setting) for _ in range(2))
    np.testing.assert_array_equal(pool.X, again.X)
    assert set(pool.y) == set(range(7))


def test_a_part_of_a_pool_keeps_rows_and_classes_together():
    part = IRIS.drawn(20, "part")
    assert len(part.y) == 20
    for row, label in zip(part.X, part.y, strict=True):
        assert label in IRIS.y[(IRIS.X == row).all(axis=1)]
    assert IRIS.drawn(500, "part") is IRIS


# -- the ledger -----------------------------------------------------------------------------------


def row(message, number, shapes, sender="client-1", receiver="server", task="t", **changed):
    dtypes = {field: "uint8" if field == "public" else "uint64" for field in shapes}
    return {
        "run": "r", "round": number, "step": "s", "sender": sender, "receiver": receiver,
        "message": message, "protection": "masked", "shapes": shapes, "dtypes": dtypes,
        "payload_bytes": 100, "wire_bytes": 200, "time": float(number), "task": task, **changed,
    }  # fmt: skip


def test_uploads_count_numbers_once_and_no_keys():
    part = {"values": [18, 2], "public": [1, 32]}
    ledger = Ledger([
        row("MaskedPart", 1, part, task="a"),
        row("MaskedPart", 1, part, task="a"),  # fetched twice
        row("MaskedPart", 1, part, task="b"),
        row("MaskedPart", 1, part, "client-2", task="c"),
        row("Eigenpairs", 1, {"values": [3]}, "server", "client-1", task="d"),
        row("LabelledSamples", 2, {"labels": [9]}, receiver="caller", task="e"),
        row("CoresetPart", 2, {"points": [4, 3], "weights": [4]}, task="f"),
    ])  # fmt: skip
    found = uploads.uploads_by_round(ledger)
    assert found[1] == uploads.Upload(floats=108, payload_bytes=300, messages=3, products=4)
    assert found[2].floats == 16
    assert set(found) == {1, 2}


def test_section_5_2_counts_products_of_both_versions_and_the_triangle():
    how = {"needed": [10, 20], "asked": [10, 25], "floats": [0, 0]}
    assert formula(uploaded("CEM, Lanczos", **how)) == [10 * 5 * 15, 20 * 5 * 18]
    assert formula(uploaded("without CEM", **how)) == [10 * (8124 + 75), 20 * (8124 + 75)]
    assert formula(uploaded("CEM, one sum", **how)) == [5 * 15 * 16 / 2, 5 * 18 * 19 / 2]


# -- Fig. 1 ---------------------------------------------------------------------------------------


def test_the_error_of_every_prefix_is_that_of_whole_matrices():
    X, s, D = IRIS.X[::3], 2, 12
    width = interpoint_width(X)
    settings = FeatureSettings("gaussian", 3, D, 0)
    past, B, wanted = [], np.empty((len(X), 0)), []
    K = Kernel("gaussian", width).values(X, X)
    spectrum, basis = np.linalg.eigh(K)
    best = (basis[:, -s:] * spectrum[-s:]) @ basis[:, -s:].T
    for t in (1, 2, 3):
        phi = settings.drawn(width, t, 4).of(X)
        W = np.hstack([np.sqrt(1 / t) * phi, np.sqrt(1 - 1 / t) * B])
        found, vectors = np.linalg.eigh(W.T @ W)
        past.append(Iteration(found[::-1][:6], vectors[:, ::-1][:, :6], found[-5], t))
        threshold = past[0].threshold
        past[-1] = Iteration(past[-1].values, past[-1].vectors, threshold, t)
        H = W @ past[-1].to_embedding(s)
        wanted.append(np.sum((H @ H.T - best) ** 2) / len(X) ** 2)
        B = W @ past[-1].to_basis()
    exact, converged = exact_coordinates(X, width, s)
    assert converged
    np.testing.assert_allclose(exact @ exact.T, best, atol=1e-10)
    np.testing.assert_allclose(recovery_errors(X, exact, past, settings, width), wanted, rtol=1e-7)


def test_convergence_counts_what_is_below_both_readings_of_the_axis():
    text = render([curve([0.02, 0.016], seed=0), curve([0.01, 0.0001], seed=1)])
    found = row_of(text, "MNIST-small", "CEM, one sum")
    assert found[2:4] == ["2", "1.50e-02 ± 5e-03"]
    assert found[4:6] == ["–", "–"]
    assert found[6:] == ["0.03", "0.0320", "+0.0020", "3 of 4", "1 of 4"]


def test_eigenvalues_with_and_without_cem_are_compared():
    with_cem = curve([0.02, 0.01], "CEM, Lanczos", values=[[5.0, 2.0], [4.0, 1.0]])
    without = curve([], "without CEM", values=[[5.0, 2.0], [4.0, 1.4]])
    gap, iterations = largest_difference(with_cem, without)
    assert gap == pytest.approx(0.1)
    assert iterations == 2
    assert "by at most 1.0e-01 (MNIST-small, CEM, Lanczos, t ≤ 2)" in render([with_cem, without])


# -- tables ---------------------------------------------------------------------------------------


def test_savings_stand_beside_the_papers():
    whole = uploaded("without CEM", [90_000, 100_000], [10, 12], [10, 12])
    ours = uploaded("CEM, Lanczos", [900, 1_000], [10, 12], [12, 14])
    text = render([ours, whole])
    saving = 1 - (10 * 75 + 12 * 90) / (22 * 8199)
    rows = [line for line in text.splitlines() if line.startswith("| mushrooms | CEM, Lanczos |")]
    told = [cell.strip() for cell in rows[1].strip("|").split("|")]
    assert told[2:] == ["> 98%", f"{saving:.2%}", "99.00%", "+1.00 points"]
    assert [cell.strip() for cell in rows[0].strip("|").split("|")][4:6] == ["11.0", "13.0"]


def test_quality_tells_the_goals():
    records = [
        point("FK k-means, Lanczos", "T = 10", 3e5, 0.49, T=10),
        point("FK k-means, Lanczos", "T = 20", 5e5, 0.50, T=20),
        point("RFK k-means", "C = 100", 4e5, 0.47),
        point("RFK k-means", "C = 900", 1e6, 0.485),
        point("CK k-means", "pooled rows", 4e7, 0.505),
    ]
    text = render(records)
    assert row_of(text, "FK k-means, Lanczos", "T = 10")[2:] == ["1", "3.00", "0.490 ± 0.000"]
    assert "at the best NMI of RFK k-means, 0.485, it uploads 30% of its floats" in text
    assert "NMI 0.490 after 10 iterations (goal: 0.48)" in " ".join(text.split())
    assert "difference -0.005 (goal: within 0.01)" in text
    worse = render([point("FK k-means, Lanczos", "T = 10", 3e5, 0.4, T=10), *records[2:4]])
    assert "it is not there; its own best is 0.400" in worse


def test_the_interval_of_a_mean_is_students():
    assert interval([0.5]) == 0.0
    assert interval([0.4, 0.6]) == pytest.approx(12.7062 * 0.1, rel=1e-4)


def test_noise_attack_scale_speed_and_rounds_have_their_tables():
    noise = {"kind": "noise", "data": "mushrooms", "n": 8124, "iterations": 5, "multiplier": 3.0}
    hit = {"kind": "attack", "data": "iris", "columns": 4, "D": 40, "size": 5, "seed": 0}
    records = [
        {**noise, "epsilon": 1.0, "nmi": 0.4, "seed": 0},
        {**noise, "epsilon": None, "multiplier": 0.0, "nmi": 0.5, "seed": 0},
        {**hit, "masked": False, "rank": 5, "share": 1.0},
        {**hit, "masked": True, "rank": 25, "share": 0.4},
        {"kind": "scale", "n": 1000, "iterations": 5, "iterating": 10.0, "seconds": 12.0,
         "client": 3e8, "server": 2e8, "bytes": [10, 20], "all_bytes": 50, "nmi": 1.0},
        {"kind": "speed", "n": 60000, "seed": 0, "iterations": 10, "clients": 5, "ours": 30.0,
         "iterating": 20.0, "clustering": 5.0, "nystroem": 5.0, "kmeans": 15.0, "nmi": 0.5,
         "pooled_nmi": 0.4, "threads": "openblas (2 threads)"},
        {"kind": "rounds", "data": "mushrooms", "D": 15, "block": 4, "clients": 5, "needed": [10],
         "asked": [12], "bytes": [7400], "ranks": [0], "rounds": 3, "messages_a_round": 10.0,
         "median_ms": 4.0, "mean_ms": 9.0},
    ]  # fmt: skip
    text = render(records)
    assert row_of(text, "mushrooms", "1")[2:] == ["8,124", "3.00", "1", "0.400 ± 0.000", "-0.100"]
    assert row_of(text, "iris", "40", "5")[3:] == ["5", "100%", "25", "40%"]
    assert row_of(text, "1,000")[1:] == ["30.0", "12.0", "300", "200", "15", "50", "1.000"]
    assert "The largest ratio is 1.50 (goal: at most 2)" in text
    found = row_of(text, "15", "Lanczos, 4")
    assert found[2:] == ["3.0", "10.0", "7,200", "7,400", "+2.8%", "10", "4.0", "9.0"]
    assert "A first look only" not in text


def test_a_page_of_a_first_look_says_so():
    limits = {"samples": 200, "iterations": 3}
    text = render([{**curve([0.02]), "limits": limits}])
    assert "A first look only" in text
    assert "at most 200 samples and 3 iterations" in text


def test_nothing_found_yet_is_a_page_without_tables():
    assert "##" not in render([])


def test_figures_show_what_the_records_hold(tmp_path):
    assert draw([], tmp_path) == []
    noise = {"kind": "noise", "data": "mushrooms", "nmi": 0.4, "seed": 0}
    records = [
        curve([0.02, 0.01]),
        uploaded("CEM, Lanczos", [900, 1_000], [10, 12], [12, 14]),
        point("FK k-means, Lanczos", "T = 10", 3e5, 0.49, T=10),
        point("CK k-means", "pooled rows", 4e7, 0.505),
        {**noise, "epsilon": 1.0},
        {**noise, "epsilon": None, "nmi": 0.5},
        {"kind": "attack", "data": "iris", "D": 40, "size": 5, "masked": True, "share": 0.4},
    ]
    drawn = draw(records, tmp_path)
    names = ["convergence", "uploads", "quality", "noise", "attack"]
    assert [file.name for file in drawn] == [f"fk-kmeans-{name}.svg" for name in names]
    texts = [file.read_text(encoding="utf-8") for file in drawn]
    for word, text in zip(
        ["c = 0.03", "mushrooms", "MNIST", "without", "D = 40"], texts, strict=True
    ):
        assert word in text
    draw(records, tmp_path)
    assert [file.read_text(encoding="utf-8") for file in drawn] == texts  # the same bytes again


# -- runs -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_few_samples_are_found_in_their_own_matrix_and_many_in_none(monkeypatch):
    monkeypatch.setattr(attack, "STARTS", 6)
    own, _ = attack.attacks("iris", 30, 3, seed=0)
    assert (own["rank"], own["masked"]) == (3, False)
    assert own["share"] == 1.0
    monkeypatch.setattr(attack, "STARTS", 1)
    _, masked = attack.attacks("iris", 30, 10, seed=0)
    assert masked["share"] == 0.0


@pytest.fixture
def tiny(monkeypatch):
    """Iris for mushrooms, with two iterations."""
    monkeypatch.setitem(
        values.TABLE_1, "mushrooms", values.Setting(150, 4, 3, n_features=12, n_eigenvectors=2)
    )
    iris = data.Dataset("mushrooms", lambda folder: IRIS)
    monkeypatch.setitem(data.DATASETS, "mushrooms", iris)
    return iris


@pytest.mark.slow
def test_a_prefix_is_a_fit_of_fewer_iterations(tiny):
    with data.opened(IRIS, seed=0) as federation:
        shorter = fits.fitted(federation, tiny, 0, 2, solver="gram")
        model = fits.fitted(federation, tiny, 0, 3, solver="gram")
        [(number, labels)] = quality.clusters_of_prefixes(model, federation, [2])
        own, cut = (
            uploads.uploads_by_round(ledger) for ledger in (shorter.ledger_, federation.ledger)
        )
    np.testing.assert_array_equal(labels, shorter.labels_)
    assert [cut[i].floats for i in (0, 1, 2, number)] == [own[i].floats for i in range(4)]


@pytest.mark.long
def test_the_versions_agree_and_the_ledger_holds_what_a_fit_says(tiny):
    exact, _ = exact_coordinates(IRIS.X, interpoint_width(IRIS.X), 2)
    found = {}
    with data.opened(IRIS, seed=0) as federation:
        for version in fits.VERSIONS:
            one = fits.convergence(federation, IRIS, tiny, version, 0, 2, exact)
            assert one["floats"] == one["counted"]
            assert all(a >= n for a, n in zip(one["asked"], one["needed"], strict=True))
            found[version] = one
    mine = found["CEM, one sum"]
    assert mine["errors"] == pytest.approx(found["CEM, Lanczos"]["errors"], rel=1e-6)
    assert found["without CEM"]["errors"] == []
    for version in ("CEM, Lanczos", "without CEM"):
        assert largest_difference(mine, found[version])[0] < 1e-9


@pytest.mark.long
@pytest.mark.slow
def test_parts_run_and_a_second_start_runs_nothing(tiny, tmp_path, monkeypatch):
    page, records = tmp_path / "results.md", tmp_path / "records.jsonl"
    pipeline = tmp_path / "cell.yaml"
    pipeline.write_text("method: FederatedKernelKMeans\nparams: {n_clusters: 3}\nseeds: [0]\n")
    options = {"--data": tmp_path, "--only": "noise,rounds", "--out": page, "--records": records}
    options |= {"--samples": 100, "--iterations": 2}
    arguments = [str(part) for option in options.items() for part in option]
    monkeypatch.setattr(sys, "argv", ["reproduce.py", str(pipeline), *arguments])
    monkeypatch.setattr(reproduce, "NOISY", ("mushrooms",))
    monkeypatch.setattr(reproduce, "EPSILONS", (8.0, None))
    monkeypatch.setattr(reproduce, "ROUND_FEATURES", (12,))
    monkeypatch.setattr(reproduce, "BLOCKS", (4, 0))
    reproduce.main()
    text, kept = page.read_text(encoding="utf-8"), records.read_text(encoding="utf-8")
    assert row_of(text, "mushrooms", "∞")[2] == "100"
    assert row_of(text, "12", "one sum")[2] == "1.0"
    assert "at most 100 samples and 2 iterations" in " ".join(text.split())
    assert (tmp_path / "figures" / "fk-kmeans-noise.svg").exists()
    monkeypatch.setattr(reproduce, "opened", None)  # a second start opens no federation
    reproduce.main()
    assert records.read_text(encoding="utf-8") == kept


def test_every_method_has_a_colour():
    assert set(quality.METHODS) <= set(COLORS)
