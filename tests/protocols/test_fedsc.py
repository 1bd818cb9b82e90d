"""FedSC on real worker processes: against the same arithmetic in one process, and its ledger."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from daskfc import seeds
from daskfc.clustering.dictionary_start import (
    count_atoms,
    first_dictionary,
    mean_distance,
    moments_of,
)
from daskfc.clustering.kernel_dictionary import coefficients, local_update
from daskfc.clustering.low_rank_similarity import dictionary_root, similarity_graph, similarity_rows
from daskfc.clustering.similarity_spectral import cluster_graph
from daskfc.errors import InvalidInput, PartyError, PrivacyError
from daskfc.federation import Federation
from daskfc.federation.samples import canonical_positions, sample_digests
from daskfc.metrics import accuracy
from daskfc.protocols import FedSC
from daskfc.stores import ClientStore, write_store
from daskfc.testing.federation import stores_of

pytestmark = pytest.mark.slow

K = 3
IRIS = load_iris()
ORDER = np.random.default_rng(0).permutation(150)
CUTS = np.split(ORDER, [30, 70, 105])  # clients of different sizes
ROWS = {f"client-{i + 1}": IRIS.data[own] for i, own in enumerate(CUTS)}
TRUTH = np.concatenate([IRIS.target[own] for own in CUTS])


@pytest.fixture(scope="module")
def urls(tmp_path_factory):
    return stores_of(tmp_path_factory.mktemp("stores"), ROWS)


@pytest.fixture(scope="module")
def federation(urls):
    with Federation.local(urls) as running:
        yield running


def in_one_place(urls, *, rounds=5, kind="preconditioned", steps=1, uniform=False, active=None):
    """Compute the same without messages."""
    width = np.mean([mean_distance(X) for X in ROWS.values()])
    atoms = max(count_atoms(X, mean_distance(X)) for X in ROWS.values())
    moments = sum((moments_of(X) for X in list(ROWS.values())[1:]), moments_of(ROWS["client-1"]))
    seed = seeds.integer_seed(0, "FedSC")
    Z = first_dictionary(moments, atoms, seed)
    for number in range(rounds):
        who = list(ROWS) if active is None else active[number]
        weights = [1.0 if uniform else len(ROWS[name]) for name in who]
        own = [local_update(ROWS[name], Z, width, 1e-3, steps=steps, kind=kind) for name in who]
        Z = np.average(own, axis=0, weights=weights)
    root = dictionary_root(Z, width)
    positions = canonical_positions(
        {name: sample_digests(ClientStore.open(url)) for name, url in urls.items()}
    )
    B = np.empty((150, atoms))
    for name, X in ROWS.items():
        B[positions[name]] = similarity_rows(coefficients(X, Z, width, 1e-3), root)
    labels = cluster_graph(similarity_graph(B), K, seed=seed, n_init=50).labels
    return np.concatenate([labels[positions[name]] for name in ROWS])


@pytest.mark.parametrize(
    ("params", "same"),
    [
        ({}, {}),
        ({"averaging": "plain"}, {}),
        ({"weighting": "uniform", "rounds": 2}, {"uniform": True, "rounds": 2}),
        ({"step": "gradient", "rounds": 4, "local_steps": 5},
         {"kind": "gradient", "rounds": 4, "steps": 5}),
    ],
)  # fmt: skip
def test_equals_the_arithmetic_in_one_place(federation, urls, params, same):
    model = FedSC(K, **params).fit(federation)
    np.testing.assert_array_equal(model.labels_.values, in_one_place(urls, **same))
    assert model.n_rounds_ == params.get("rounds", 5)
    assert accuracy(TRUTH, model.labels_.values) > (0.8 if params.get("rounds", 5) < 5 else 0.88)


def test_some_clients_in_a_round(federation, urls):
    model = FedSC(K, participation=0.5, rounds=3).fit(federation)
    rounds = [
        sorted({row.sender for row in model.ledger_ if row.message == "MaskedPart"
                and row.round == number}) for number in (1, 2, 3)
    ]  # fmt: skip
    assert [len(who) for who in rounds] == [2, 2, 2]
    assert len({tuple(who) for who in rounds}) > 1
    found = in_one_place(urls, rounds=3, active=rounds)
    np.testing.assert_array_equal(model.labels_.values, found)


def test_the_dictionary_that_rests_ends_the_rounds(federation):
    model = FedSC(K, rounds=50, tolerance=0.02).fit(federation)
    assert model.n_rounds_ < 50
    assert model.change_ < 0.02


@pytest.mark.parametrize("averaging", ["plain", "masked"])
def test_what_leaves_a_client(federation, averaging):
    model = FedSC(K, n_atoms=7, rounds=3, averaging=averaging).fit(federation)
    part = "PlainPart" if averaging == "plain" else "MaskedPart"
    rows = [row for row in model.ledger_ if row.sender.startswith("client")]
    kinds = {"SampleDigests", "ClientSummary", part, "SimilarityRows", "LabelledSamples"}
    assert {row.message for row in rows} == kinds | ({"PublicKeys"} if part[0] == "M" else set())
    sizes = 7 * 4 * 8  # d m numbers
    for number in (1, 2, 3):
        up = [row for row in rows if row.round == number and row.message == part]
        down = [r for r in model.ledger_ if r.round == number and r.message == "Dictionary"]
        assert len(up) == len(down) == len(ROWS)
        assert {row.receiver for row in down} == set(ROWS)
        assert sum(row.payload_bytes for row in down) == len(ROWS) * sizes
        assert all(sizes <= row.payload_bytes <= sizes + 64 for row in up)  # a tag, if masked
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
    with pytest.raises(PartyError, match="must have its 4 features"):
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
