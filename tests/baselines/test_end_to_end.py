"""Every baseline on real worker processes: labels, messages, bytes, errors."""

import inspect
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import daskfc.baselines
from daskfc.baselines import CEPCA, FFCM, KFED, MUFC, Central, FedMAvg, RFKKMeans
from daskfc.baselines.pooled import central
from daskfc.clustering import make_clusterer
from daskfc.clustering.kernels.width import interpoint_width
from daskfc.errors import InvalidInput, PartyError, PrivacyError
from daskfc.federation import Message
from daskfc.federation.methods.sample_keys import order_of
from daskfc.metrics import kappa
from daskfc.seeds import integer_seed
from daskfc.stores import ClientStore, write_store

K, D, N, CLIENTS = 4, 5, 120, 3

AGREEMENT = {"KeyOffer", "SealedDigestKey"}
OF_WIDTH = {"PublicKeys", "Magnitude", "MaskedPart", "KernelWidth"}
OF_CORESET = {"LocalCost", "SampleSize", "CoresetPart", "KMeansCenters", "LabelledSamples"}
RAW = {"RawRows", "OwnRepresentatives", "Representatives"}

METHODS = {
    "k-FED": (KFED(K), {"LocalCenters", "GlobalGroups", "GlobalCenters", "LabelledSamples"}),
    "MUFC": (MUFC(K), {"Extent", "Grid", "BinCounts", "GlobalCenters", "LabelledSamples"}),
    "FFCM": (FFCM(K), {"FuzzyCenters", "GlobalCenters", "CenterShift", "LabelledSamples"}),
    "FedMAvg": (
        FedMAvg(K, random_state=1),
        {"GramMoments", "Basis", "LocalBasis", "BasisShift", "LabelledSamples"},
    ),
    "central": (
        Central(K, clusterer="k-means"),
        AGREEMENT | {"TableShape", "SampleDigests", "RawRows", "ClientLabels", "LabelledSamples"},
    ),
    "RFK-k-means": (RFKKMeans(K, n_features=300, coreset_size=50), OF_WIDTH | OF_CORESET),
    "CE-PCA": (
        CEPCA(K, n_representatives=20, sketch_size=35, coreset_size=50),
        {
            *{"PointSketch", "LeverageFactor", "ScoreTotal", "SampleShare", "ProjectedSketch"},
            *{"OwnRepresentatives", "Representatives", "Directions"},
            *OF_WIDTH,
            *OF_CORESET,
        },
    ),
}


def bytes_of(model, message):
    """Payload of one kind of message, each counted once however often it was fetched."""
    rows = {(row.task, row.receiver): row for row in model.ledger_ if row.message == message}
    return sum(row.payload_bytes for row in rows.values())


def truth_of(labels, easy):
    return easy[1][[int(name[1:]) for name in labels.sample_id.values]]


@pytest.fixture(scope="session")
def fitted(federation):
    return {name: clone(model).fit(federation) for name, (model, _) in METHODS.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_equals_pooled_on_easy_data(fitted, easy, name):
    labels = fitted[name].labels_
    assert labels.dims == ("sample",)
    assert Counter(labels.client.values) == {"client-1": 30, "client-2": 40, "client-3": 50}
    assert sorted(labels.sample_id.values) == sorted(f"s{i}" for i in range(N))
    assert kappa(truth_of(labels, easy), labels.values) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_the_ledger_holds_the_declared_messages_and_no_others(fitted, name):
    model = fitted[name]
    assert {row.message for row in model.ledger_} == METHODS[name][1]
    for protection, messages in (("raw", RAW), ("masked", {"MaskedPart"})):
        found = {row.message for row in model.ledger_ if row.protection == protection}
        assert found == METHODS[name][1] & messages
    assert model.needs_raw == bool(METHODS[name][1] & RAW)


@pytest.mark.slow
def test_k_fed_uploads_its_centres_once(fitted):
    assert bytes_of(fitted["k-FED"], "LocalCenters") == CLIENTS * K * D * 8  # Σ_z k^(z) d floats
    assert bytes_of(fitted["k-FED"], "GlobalGroups") == CLIENTS * K * 8


@pytest.mark.slow
def test_mufc_uploads_bins_and_counts_once(fitted):
    assert bytes_of(fitted["MUFC"], "BinCounts") == CLIENTS * K * (D + 1) * 8


@pytest.mark.slow
def test_ffcm_uploads_centres_and_supports_every_round(fitted):
    model = fitted["FFCM"]
    rounds = model.n_rounds_ + 1  # the first centres are round 0
    assert bytes_of(model, "FuzzyCenters") == rounds * CLIENTS * K * (D + 1) * 8
    assert {row.round for row in model.ledger_} == set(range(rounds))


@pytest.mark.slow
def test_fedmavg_uploads_a_basis_every_round(fitted):
    model = fitted["FedMAvg"]
    assert bytes_of(model, "LocalBasis") == model.n_rounds_ * CLIENTS * K * D * 8
    assert bytes_of(model, "GramMoments") == CLIENTS * (8 + D * (8 + 8 + 1))
    assert model.basis_.shape == (K, D)


@pytest.mark.slow
def test_rfk_uploads_a_coreset_of_random_features(fitted, easy):
    model = fitted["RFK-k-means"]
    points = 50 + CLIENTS * K  # sampled, and the clients' own centres
    assert bytes_of(model, "CoresetPart") == points * (300 + 1) * 8
    assert model.cluster_centers_.shape == (K, 300)
    assert [name for name, *_ in model.stages_] == ["features", "k-means", "labels"]
    assert model.kernel_width_ == pytest.approx(interpoint_width(easy[0]))


@pytest.mark.slow
def test_ce_pca_uploads_sketches_and_representatives(fitted):
    model = fitted["CE-PCA"]
    assert bytes_of(model, "PointSketch") == 50 * (30 + 35 + 35) * 8  # of 30, 40 and 50 samples
    assert bytes_of(model, "LeverageFactor") == CLIENTS * 50 * 50 * 8
    assert bytes_of(model, "OwnRepresentatives") == 20 * D * 8
    assert bytes_of(model, "Representatives") == CLIENTS * (10 + 20) * D * 8
    assert bytes_of(model, "ProjectedSketch") == CLIENTS * 20 * 20 * 8
    assert bytes_of(model, "Directions") == CLIENTS * 20 * K * 8
    assert bytes_of(model, "CoresetPart") == (50 + CLIENTS * K) * (K + 1) * 8


@pytest.mark.slow
def test_central_moves_all_the_data(fitted, urls):
    model = fitted["central"]
    assert bytes_of(model, "RawRows") == N * D * 8
    stores = {name: ClientStore.open(url) for name, url in urls.items()}
    positions, X = order_of(stores), np.empty((N, D))
    for name, data in stores.items():
        X[positions[name]] = data.rows(0, data.n_samples)
    seed = integer_seed(model.random_state, "k-means")
    expected = make_clusterer("k-means").pooled_labels(X, K, seed)
    for name in stores:
        found = model.labels_.values[model.labels_.client.values == name]
        np.testing.assert_array_equal(found, expected[positions[name]])


@pytest.mark.slow
def test_central_in_many_blocks(federation, fitted, easy, monkeypatch):
    monkeypatch.setattr(central, "BLOCK_BYTES", 7 * D * 8)
    model = Central(K, clusterer="k-means").fit(federation)
    sent = [row for row in model.ledger_ if row.message == "RawRows"]
    assert max(row.shapes["rows"][0] for row in sent) == 7
    assert bytes_of(model, "RawRows") == N * D * 8
    assert kappa(fitted["central"].labels_.values, model.labels_.values) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["k-FED", "MUFC", "FFCM", "FedMAvg", "RFK-k-means", "CE-PCA"])
def test_predict_labels_new_samples_of_any_client(federation, fitted, easy, folder, name):
    rows, _ = easy
    url = f"{folder}/new-{name}.zarr"
    write_store(url, "client-2", rows[:40] + 0.01, [f"n{i}" for i in range(40)])
    model = fitted[name]
    if model.model_at_parties:  # of the last run only
        model = clone(METHODS[name][0]).fit(federation)
    found = model.predict(federation, {"client-2": url})
    assert set(found.client.values) == {"client-2"}
    assert found.sample_id.values.tolist() == [f"n{i}" for i in range(40)]
    old = fitted[name].labels_
    known = dict(zip(old.sample_id.values, old.values, strict=True))
    assert found.values.tolist() == [known[f"s{i}"] for i in range(40)]
    told = {row.message for row in federation.ledger}
    assert told - METHODS[name][1] <= {"StoreSummary"}
    assert model.model_at_parties or told == {"LabelledSamples", "StoreSummary"}


@pytest.mark.slow
def test_predict_refuses_another_width_and_unknown_clients(federation, fitted, folder):
    url = f"{folder}/narrow.zarr"
    write_store(url, "client-1", np.ones((3, 2)), ["a", "b", "c"])
    with pytest.raises(InvalidInput, match=r"'client-1' must have .*; column 3 is 'x2' there and"):
        fitted["k-FED"].predict(federation, {"client-1": url})
    with pytest.raises(InvalidInput, match=r"got \['client-9'\]"):
        fitted["FedMAvg"].predict(federation, {"client-9": url})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["k-FED", "MUFC", "FFCM"])
def test_the_seed_decides_everything(federation, fitted, name):
    again = clone(METHODS[name][0]).fit(federation)
    np.testing.assert_array_equal(again.labels_.values, fitted[name].labels_.values)
    np.testing.assert_array_equal(again.cluster_centers_, fitted[name].cluster_centers_)


@pytest.mark.slow
def test_more_clusters_than_centres_is_one_sentence_of_the_server(federation):
    with pytest.raises(PartyError, match="KFED needs at least one for each of 200 clusters"):
        KFED(200).fit(federation)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "what"),
    [
        (FFCM(K, max_rounds=1, tolerance=0), "centres still moved"),
        (FedMAvg(K, max_rounds=1), "basis still moved by .* of its norm"),
    ],
)
def test_rounds_that_run_out_warn(federation, model, what):
    with pytest.warns(ConvergenceWarning, match=f"{what}.* in round 1, more than the tolerance"):
        model.fit(federation)


@pytest.mark.parametrize("model", [Central(K), CEPCA(K)])
def test_raw_rows_are_refused_without_allow_raw(model):
    with pytest.raises(PrivacyError, match="started without allow_raw"):
        model._fit(SimpleNamespace(allow_raw=False))


def test_every_message_is_named_in_the_head_of_its_file():
    modules = [inspect.getmodule(kind) for kind in (KFED, MUFC, FFCM, FedMAvg, Central, CEPCA)]
    for module in modules:
        head = inspect.getdoc(module)
        for block in ("Paper  ", "Notation  ", "Messages  ", "Departures  "):
            assert block in head, (module.__name__, block)
        own = [
            kind
            for _, kind in inspect.getmembers(module, inspect.isclass)
            if issubclass(kind, Message) and kind.__module__ == module.__name__
        ]
        assert own
        for kind in own:
            assert kind.__name__ in head


@pytest.mark.parametrize("name", METHODS)
def test_scikit_learns_contract(name):
    model = METHODS[name][0]
    assert clone(model).get_params() == model.get_params()
    with pytest.raises(InvalidInput, match="needs a Federation; got list"):
        clone(model).fit([[1.0]])
    assert type(model).__name__ in daskfc.baselines.__all__
