"""What a run tells of its clusters without true labels."""

from io import StringIO

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from rich.console import Console
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score

from daskfc.runs.outcome.fits import Fit
from daskfc.runs.outcome.quality import quality_of, told_by_one_column
from daskfc.runs.report.table import summary_tables


def fit(labels, clients=None, seed=0):
    clients = ["a", "b"] * (len(labels) // 2) if clients is None else clients
    array = xr.DataArray(
        np.array(labels), dims="sample", coords={"client": ("sample", np.array(clients, object))}
    )
    return Fit("OmniFC", seed, array, pd.DataFrame(), {})


def warnings(labels, clients=None, **params):
    return quality_of([fit(labels, clients)], params)["warnings"]


def test_sizes_noise_and_sites():
    found = quality_of([fit([0, 0, 2, -1, 2, 2], list("aabbab"))], {"n_clusters": 2})
    assert found["sizes"] == {"0": 2, "2": 3}
    assert found["by_client"] == {"a": {"0": 2, "2": 1}, "b": {"0": 0, "2": 2}}
    assert found["noise"] == pytest.approx(1 / 6)
    assert found["stability"] is None


def test_clusters_that_are_sites_are_told():
    """Four hospitals of which one writes differently: its samples are one cluster."""
    clients = np.repeat(list("abcd"), [303, 294, 123, 200])
    found = quality_of([fit((clients == "a").astype(int), clients)], {"n_clusters": 2})
    expected = adjusted_mutual_info_score(clients, clients == "a")
    assert found["sites"] == pytest.approx(expected)
    (sentence,) = [line for line in found["warnings"] if "nearly sites" in line]
    assert "100% is which client has a sample" in sentence
    columns = quality_of([fit((clients == "a").astype(int), clients)], {}, by_rows=False)
    assert columns["sites"] is None


@pytest.mark.parametrize(("skew", "warned"), [(0.0, False), (0.75, False), (0.97, True)])
def test_skewed_clients_are_no_sites_until_labels_are_theirs_alone(skew, warned):
    random = np.random.default_rng(0)
    clients = np.repeat(np.arange(10), 180)
    labels = np.where(random.random(1800) < skew, clients, random.integers(0, 10, 1800))
    found = quality_of([fit(labels, clients.astype(str))], {"n_clusters": 10})
    assert any("nearly sites" in line for line in found["warnings"]) == warned
    if skew == 0.0:
        assert abs(found["sites"]) < 0.01


def test_clusters_of_one_client_have_nothing_to_do_with_sites():
    assert quality_of([fit([0, 0, 1, 1], list("aaaa"))], {})["sites"] is None
    assert not any("sites" in line for line in warnings([0, 1, 2, 3], list("abcd")))


@pytest.mark.parametrize(
    ("separation", "named"),
    [([1.0, 0.02, None], True), ([1.0, 0.7, 0.1], False), ([0.6, 0.1, 0.1], False),
     ([1.0, None, None], False), ([0.02, 0.95, 0.3], True)],
)  # fmt: skip
def test_a_column_that_alone_makes_the_clusters_is_named(separation, named):
    columns = ["sex", "age", "bmi"]
    told = told_by_one_column({"columns": columns, "clusters": [0, 1], "separation": separation})
    assert bool(told) == named
    if named:
        best = max(zip(separation, columns, strict=False), key=lambda pair: pair[0] or 0)[1]
        assert told[0].startswith(f"column '{best}' alone makes the clusters: ")
    assert told_by_one_column({}) == []
    assert told_by_one_column({"columns": [], "clusters": [], "separation": []}) == []


@pytest.mark.parametrize(("sigma", "warned"), [(59.0, False), (2e5, True)])
def test_noise_that_drowns_the_data_is_told(sigma, warned):
    noisy = fit([0, 0, 1, 1])
    noisy.facts["noise"] = {"kind": "data", "sigma": sigma, "clip": 60.0, "epsilon": 1e-3}
    told = quality_of([noisy], {})["warnings"]
    assert [line.startswith("the noise has deviation 2e+05") for line in told] == [True] * warned


def test_stability_is_between_all_pairs_of_seeds():
    several = [[0, 0, 1, 1, 2, 2], [1, 1, 0, 0, 0, 2], [0, 1, 0, 1, 0, 1]]
    found = quality_of([fit(labels, seed=i) for i, labels in enumerate(several)], {})
    pairs = [(0, 1), (0, 2), (1, 2)]
    expected = np.mean([adjusted_rand_score(several[i], several[j]) for i, j in pairs])
    assert found["stability"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("labels", "clients", "params", "words"),
    [
        ([0, 1, 2, 3], None, {"n_clusters": 4}, ["every sample is a cluster of its own"]),
        ([0, 0, 0, 0], None, {"n_clusters": 2}, ["1 of the 2 clusters", "all samples are in one"]),
        (
            [0, 0, 1, 1],
            list("aabb"),
            {},
            ["clusters 0, 1 have samples of one client", "nearly sites"],
        ),
        ([0, 0, 0, 1, 1, 1], list("abaaaa"), {}, ["cluster 1 has samples of one client only"]),
        ([0] * 5 + [1], None, {}, ["cluster 1 has less than 2 samples", "one client only"]),
        ([0] * 239 + [1] * 239 + [2] * 2, None, {}, ["cluster 2 has less than 3 samples"]),
        (list(range(20)), None, {}, ["every sample is a cluster of its own"]),
        (
            [0, 0, *range(1, 8)],
            list("abababaab"),
            {},
            ["have less than 2 samples", "have samples of one client only"],
        ),
        (
            [-1] * 7 + [0, 0, 0],
            None,
            {},
            ["all samples are in one", "70% of the samples are noise"],
        ),
        ([0, 0, 1, 1], None, {"n_clusters": 2}, []),
        ([0, 0, 1, 1], ["a"] * 4, {}, []),  # there is one client
        ([0, 0, 0, 0], None, {"n_clusters": 1}, []),
    ],
)
def test_what_one_is_warned_of(labels, clients, params, words):
    found = warnings(labels, clients, **params)
    assert len(found) == len(words)
    for word, sentence in zip(words, found, strict=True):
        assert word in sentence


def test_the_terminal_shows_the_clusters():
    labels = [*range(30)] * 4
    quality = quality_of([fit(labels, seed=i) for i in range(2)], {})
    summary = {
        "method": "OmniFC", "n_samples": 120, "n_clients": 2, "metrics": {}, "quality": quality,
        "timing": {"total_s": 1}, "peak_memory_bytes": {}, "privacy": {},
        "communication": {"by_message": {}, "messages": 0, "payload_bytes": 0, "wire_bytes": 0},
    }  # fmt: skip
    console = Console(width=90, record=True, file=StringIO())
    console.print(summary_tables(summary, "runs/r", 90))
    text = console.export_text()
    assert "and 10 more clusters" in text
    assert "adjusted Rand index 1.000 between seeds" in text
    first = next(line for line in text.splitlines() if line.split()[:1] == ["0"])
    assert first.split() == ["0", "4", "3.3%", "4", "0"]
