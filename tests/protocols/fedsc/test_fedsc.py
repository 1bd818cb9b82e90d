"""FedSC on real worker processes: against the same arithmetic in one process, and its ledger."""

import os
import signal
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.decomposition import KernelPCA
from sklearn.metrics.pairwise import rbf_kernel

from daskfc.errors import InvalidInput, PartyError, PrivacyError
from daskfc.federation import Federation
from daskfc.federation.methods.sample_map import map_of_points
from daskfc.metrics import accuracy
from daskfc.protocols import FedSC
from daskfc.protocols.fedsc.maths.kernel_dictionary import coefficients
from daskfc.stores import write_store
from daskfc.testing.federation import stores_of
from tests.protocols.fedsc.one_place import ROWS, TRUTH, K, in_one_place

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def urls(tmp_path_factory):
    return stores_of(tmp_path_factory.mktemp("stores"), ROWS)


@pytest.fixture(scope="module")
def federation(urls):
    with Federation.local(urls) as running:
        yield running


@pytest.fixture(scope="module")
def once(federation):
    """Return the fit with some parameters, made once."""
    return cache(lambda **params: FedSC(K, **params).fit(federation))


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("params", "same"),
    [
        ({}, {}),
        ({"averaging": "plain"}, {}),
        ({"averaging": "shared"}, {}),
        ({"weighting": "uniform", "rounds": 2}, {"uniform": True, "rounds": 2}),
        ({"rounds": 4, "local_steps": 5}, {"rounds": 4, "steps": 5}),
        ({"start": "normal", "stale_pair": True}, {"start": "normal", "stale": True}),
        ({"sparsify": False}, {"sparsify": False}),
    ],
)  # fmt: skip
def test_equals_the_arithmetic_in_one_place(once, urls, params, same):
    model = once(**params)
    np.testing.assert_array_equal(model.labels_.values, in_one_place(urls, **same))
    assert model.n_rounds_ == params.get("rounds", 5)
    assert accuracy(TRUTH, model.labels_.values) > (0.8 if params.get("rounds", 5) < 5 else 0.88)


def test_some_clients_in_a_round(federation, urls):
    model = FedSC(K, participation=0.5, rounds=3, allow_few=True).fit(federation)
    rounds = [
        sorted({row.sender for row in model.ledger_ if row.message == "MaskedPart"
                and row.round == number}) for number in (1, 2, 3)
    ]  # fmt: skip
    assert [len(who) for who in rounds] == [2, 2, 2]
    assert len({tuple(who) for who in rounds}) > 1
    found = in_one_place(urls, rounds=3, active=rounds)
    np.testing.assert_array_equal(model.labels_.values, found)


@pytest.mark.parametrize("averaging", ["plain", "masked"])
def test_what_leaves_a_client(federation, averaging):
    model = FedSC(K, n_atoms=7, rounds=3, averaging=averaging).fit(federation)
    part = "PlainPart" if averaging == "plain" else "MaskedPart"
    rows = [row for row in model.ledger_ if row.sender.startswith("client")]
    kinds = {
        "KeyOffer",
        "SealedDigestKey",
        "SampleDigests",
        "StoreContent",
        "KernelSummary",
        part,
        "SimilarityRows",
        "LabelledSamples",
    }
    assert {row.message for row in rows} == kinds | ({"PublicKeys"} if part[0] == "M" else set())
    sizes = 7 * 4 * 8  # d m numbers
    for number in (1, 2, 3):
        up = [row for row in rows if row.round == number and row.message == part]
        down = [r for r in model.ledger_ if r.round == number and r.message == "Dictionary"]
        assert len(up) == len(down) == len(ROWS)
        assert {row.receiver for row in down} == set(ROWS)
        assert sum(row.payload_bytes for row in down) == len(ROWS) * sizes
        assert all(sizes <= row.payload_bytes <= sizes + 128 for row in up)  # tag and digest
        if averaging == "plain":
            assert sum(row.payload_bytes for row in up) == len(ROWS) * sizes
    keys = [row for row in rows if row.message == "PublicKeys"]
    assert len(keys) == (12 if part[0] == "M" else 0)  # once a run


def test_the_same_again(federation):
    one, two = (FedSC(K, rounds=2).fit(federation).labels_ for _ in range(2))
    np.testing.assert_array_equal(one.values, two.values)


def test_predict_of_the_same_samples(federation, tmp_path):
    model = FedSC(K).fit(federation)
    new = {name: ROWS[name] for name in ("client-2", "client-4")}
    found = model.predict(federation, stores_of(tmp_path, new))
    own = model.labels_.values[np.isin(model.labels_.client.values, list(new))]
    assert np.mean(found.values == own) > 0.95  # a few stand between two clusters
    assert set(found.client.values) == set(new)
    with pytest.raises(InvalidInput, match="got \\['client-9'\\]"):
        model.predict(federation, {"client-9": "x"})
    wide = str(tmp_path / "wide.zarr")
    write_store(wide, "client-1", np.ones((3, 5)), ["a", "b", "c"])
    with pytest.raises(InvalidInput, match="column 5 is missing there and 'x4' in the new"):
        model.predict(federation, {"client-1": wide})


def test_refusals(federation, tmp_path):
    with pytest.raises(PrivacyError, match="there are 1 clients"):
        FedSC(K, participation=0.25).fit(federation)
    with pytest.raises(InvalidInput, match="'ridge'"):
        FedSC(K, ridge=0.0).fit(federation)
    with pytest.raises(PartyError, match="at most the number of samples, 150; got 151"):
        FedSC(151).fit(federation)
    equal = {name: np.ones((4, 2)) for name in ("a", "b")}
    with Federation.local(stores_of(tmp_path, equal)) as other:
        with pytest.raises(PartyError, match="mean distance of the samples is 0"):
            FedSC(2).fit(other)


def test_an_interrupted_fit_goes_on_at_the_round_it_had_reached(federation, monkeypatch, tmp_path):
    whole = FedSC(K, stale_pair=True).fit(federation)
    monkeypatch.setattr(federation, "workspace", str(tmp_path))

    def interrupt(stage, done, total):
        if (stage, done) == ("averaging", 3):
            raise KeyboardInterrupt

    monkeypatch.setattr(federation, "on_progress", interrupt)
    with pytest.raises(KeyboardInterrupt):
        FedSC(K, stale_pair=True).fit(federation)
    monkeypatch.setattr(federation, "on_progress", None)
    resumed = FedSC(K, stale_pair=True).fit(federation)
    rounds = {row.round for row in resumed.ledger_ if row.message == "Dictionary"}
    assert len(rounds - {0}) == 2  # the fourth and the fifth
    assert resumed.n_rounds_ == 5
    np.testing.assert_array_equal(resumed.labels_, whole.labels_)
    other = FedSC(K, rounds=2).fit(federation)  # another fit begins at its own beginning
    assert len([row for row in other.ledger_ if row.message == "MaskedPart"]) == 3 * len(ROWS)


def test_the_dictionary_that_rests_ends_the_rounds_and_ends_them_again(
    federation, monkeypatch, tmp_path
):
    monkeypatch.setattr(federation, "workspace", str(tmp_path))
    first, again = (FedSC(K, rounds=50, tolerance=0.02).fit(federation) for _ in range(2))
    assert again.n_rounds_ == first.n_rounds_ < 50
    assert again.change_ == first.change_ < 0.02
    np.testing.assert_array_equal(again.labels_, first.labels_)


@pytest.mark.parametrize("averaging", ["recovering", "shared"])
def test_a_client_that_sleeps_through_a_round_is_left_out_of_it(
    federation, urls, monkeypatch, averaging
):
    pid = federation.processes.pid("client-3")

    def sleep_and_wake(stage, done, total):
        if (stage, done) == ("averaging", 1):
            os.kill(pid, signal.SIGSTOP)
        elif (stage, done) == ("averaging", 2):
            os.kill(pid, signal.SIGCONT)

    monkeypatch.setattr(federation, "on_progress", sleep_and_wake)
    how = {"rounds": 3, "tolerance": 1e-12}  # with a tolerance rounds wait for the last report
    try:
        model = FedSC(K, averaging=averaging, patience_s=2.0, **how).fit(federation)
    finally:
        os.kill(pid, signal.SIGCONT)
    sent = {(row.round, row.sender) for row in model.ledger_ if row.message == "MaskedPart"}
    others = [name for name in ROWS if name != "client-3"]
    active = [list(ROWS), others, list(ROWS)]
    for number, expected in enumerate(active, start=1):
        assert sorted(name for at, name in sent if at == number) == sorted(expected)
    found = in_one_place(urls, rounds=3, active=active)
    np.testing.assert_array_equal(model.labels_.values, found)
    assert (found != in_one_place(urls, rounds=3)).any()  # which a label tells


def test_the_view_of_the_server_holds_the_factors(urls):
    with Federation.local(urls, allow_raw=True) as running:
        model = FedSC(K, n_atoms=9).fit(running)
        view = model.server_view(running)
        assert view.dictionary.shape == (9, 4)
        X = np.concatenate(list(ROWS.values()))
        expected = coefficients(X, view.dictionary, model.kernel_width_, 1e-3)
        np.testing.assert_allclose(view.coefficients, expected, rtol=1e-6, atol=1e-6)
        FedSC(K, rounds=1).fit(running)
        with pytest.raises(InvalidInput, match="in the run of fit"):
            model.server_view(running)


def test_the_map_of_the_server_is_that_of_the_similarities(federation):
    model = FedSC(K).fit(federation)
    told = model.sample_map(federation)
    assert np.bincount(told.labels).tolist() == np.bincount(model.labels_.values).tolist()
    kernel = rbf_kernel(np.concatenate(list(ROWS.values())), gamma=0.5 / model.kernel_width_**2)
    true = map_of_points(
        KernelPCA(2, kernel="precomputed").fit_transform(kernel), model.labels_.values
    )
    found, expected = (pdist(one.positions.astype(float)) for one in (told, true))
    assert np.corrcoef(np.sort(found), np.sort(expected))[0, 1] > 0.99
    FedSC(K, rounds=1).fit(federation)
    with pytest.raises(InvalidInput, match="sample_map needs the federation in the run of fit"):
        model.sample_map(federation)


def test_without_coefficients_at_the_server(federation, once, tmp_path):
    plain, coded = once(), FedSC(K, similarity="coded").fit(federation)
    np.testing.assert_array_equal(coded.labels_, plain.labels_)
    from_clients = {row.message for row in coded.ledger_ if row.sender != "server"}
    assert "SimilarityRows" not in from_clients
    assert from_clients == {
        "KeyOffer", "SealedDigestKey",
        "SampleDigests", "StoreContent", "KernelSummary", "PublicKeys", "MaskedPart", "RowSummary",
        "SquaredNorms", "CodedRows", "CodedDistances", "LabelledSamples",
    }  # fmt: skip
    assert coded.sample_map(federation) is None
    with pytest.raises(InvalidInput, match="the similarity was coded"):
        coded.server_view(federation)
    new = {"client-2": ROWS["client-2"]}
    found = coded.predict(federation, stores_of(tmp_path, new))
    own = coded.labels_.values[coded.labels_.client.values == "client-2"]
    assert np.mean(found.values == own) > 0.95
    with pytest.raises(InvalidInput, match="needs 2l \\+ 2t - 1 = 5 clients"):
        FedSC(K, similarity="coded", n_colluding=2).fit(federation)
    with pytest.raises(InvalidInput, match="needs sparsify=True"):
        FedSC(K, similarity="coded", sparsify=False).fit(federation)


def test_coded_similarities_by_blocks_of_pairs_are_approved(tmp_path, approved):
    """For few samples these are fewer than distances to columns: a site takes both."""
    rows = {name: part[:12] for name, part in ROWS.items()}
    with Federation.local(stores_of(tmp_path, rows)) as federation:
        plain, coded = (
            FedSC(K, similarity=one, rounds=1, n_atoms=48).fit(federation).labels_
            for one in ("rows", "coded")
        )
    np.testing.assert_array_equal(coded, plain)


def test_changed_samples_begin_a_fit_anew(tmp_path):
    rows = {name: ROWS[name].copy() for name in ("client-1", "client-2")}
    finished = []
    for scale in (1.0, 2.0, 2.0):
        folder = tmp_path / str(len(finished))
        folder.mkdir()
        urls = stores_of(folder, {name: scale * X for name, X in rows.items()})
        with Federation.local(urls) as running:
            running.workspace = str(tmp_path / "work")
            model = FedSC(K, rounds=2).fit(running)
            finished.append(len({r.round for r in model.ledger_ if r.message == "Dictionary"}))
    assert finished == [2, 2, 0]


@pytest.mark.parametrize("params", [{"n_atoms": 10**6}, {"neighbors": 10**6}])
def test_more_than_there_are_samples_is_refused_at_once(federation, params, monkeypatch):
    (name,) = params
    refused = f"the '{name}' parameter of FedSC must be at most the nu"
    with pytest.raises(InvalidInput, match=refused):  # before anything runs
        FedSC(K, **params).fit(federation)
    unread = replace(federation.contract, readable={})  # as at a running cluster
    monkeypatch.setattr(federation, "_contract", unread)
    with pytest.raises(PartyError, match=refused):
        FedSC(K, **params).fit(federation)
    assert "Dictionary" not in {row.message for row in federation.ledger}
