"""kCAGC on real worker processes: against the same protocol without masks, in one process."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits

from daskfc import seeds
from daskfc.errors import EgressRefused, InvalidInput, PartyError, PrivacyError, StoreError
from daskfc.federation import Federation
from daskfc.linalg import divide_rows, singular_coordinates, squared_row_norms
from daskfc.protocols import KCAGC
from daskfc.protocols.kcagc import party
from daskfc.protocols.kcagc.maths.intersections import intersect, local_clusters, virtual_nodes
from daskfc.protocols.kcagc.maths.weighted_lloyd import LloydSettings
from daskfc.stores import ClientStore, write_store
from daskfc.stores.layout.graph import neighbour_graph
from tests.protocols.kcagc.one_place import lloyd_on_sums

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::daskfc.errors.PrivacyWarning"),
]

N, K, L = 300, 10, 3


@pytest.fixture(scope="module")
def columns():
    X = load_digits().data[:N]
    return {f"client-{i + 1}": part for i, part in enumerate(np.array_split(X, L, axis=1))}


def vertical(folder, columns, ids=None):
    urls = {}
    for name, X in columns.items():
        urls[name] = str(folder / f"{name}.zarr")
        own = np.arange(N) if ids is None else ids[name]
        names = [f"{name}/{i}" for i in range(X.shape[1])]
        write_store(urls[name], name, X, own.astype(str), feature_names=names, dtype="float64")
    return urls


@pytest.fixture(scope="module")
def federation(tmp_path_factory, columns):
    with Federation.local(vertical(tmp_path_factory.mktemp("stores"), columns)) as running:
        yield running


def unmasked(
    columns, *, basis, variant, n_local=K, virtual_node="intersection", refine=1, n_init=5
):
    """The protocol's arithmetic with everything in one place."""
    names = list(columns)
    kept = "scaled" if basis == "global-norm" else basis
    rows = [singular_coordinates(columns[name], K, kept) for name in names]
    if basis == "global-norm":
        norms = np.sum([squared_row_norms(part) for part in rows], axis=0)
        rows = [divide_rows(part, norms) for part in rows]
    settings = LloydSettings(K, seeds.integer_seed(0, "kCAGC"), n_init=n_init)
    if basis == "global-norm":
        alone = [divide_rows(part, squared_row_norms(part)) for part in rows]
    else:
        alone = rows
    own = [
        local_clusters(part, n_local, seed=seeds.integer_seed(0, "local clusters", name), n_init=10)
        for name, part in zip(names, alone, strict=True)
    ]
    if variant == "tree":  # of three: the first two, then their cluster and the third
        ids, sizes = intersect(own[0], own[1])
        inner = LloydSettings(min(n_local, len(sizes)), settings.seed, n_init=n_init)
        nodes = [virtual_nodes(part, ids) for part in rows[:2]]
        own = [lloyd_on_sums(nodes, sizes.astype(float), inner).labels[ids], own[2]]
    if variant == "basic":
        return lloyd_on_sums(rows, np.ones(N), replace(settings, ordered=False)).labels
    ids, sizes = intersect(*own)
    local = own if virtual_node == "local-centre" else [None] * L
    nodes = [
        virtual_nodes(part, ids, kind=virtual_node, labels=labels)
        for part, labels in zip(rows, local, strict=True)
    ]
    labels = lloyd_on_sums(nodes, sizes.astype(float), settings).labels[ids]
    if refine:
        one = LloydSettings(K, settings.seed, n_init=1, max_iter=refine)
        labels = lloyd_on_sums(rows, np.ones(N), one, labels=labels[None]).labels
    return labels


@pytest.mark.few(5)
@pytest.mark.parametrize(
    "options",
    [
        {"basis": "global-norm", "variant": "optimised"},
        {"basis": "U", "variant": "optimised", "virtual_node": "local-centre"},
        {"basis": "row-normalised", "variant": "optimised", "n_local_clusters": 5, "n_refine": 0},
        {"basis": "global-norm", "variant": "basic"},
        {"basis": "global-norm", "variant": "tree", "n_local_clusters": 6},
    ],
    ids=lambda o: f"{o['basis']}-{o['variant']}",
)
@pytest.mark.parametrize("distances", ["landmarks", "centres"])
def test_equals_the_protocol_without_masks(federation, columns, options, distances):
    model = KCAGC(K, filter_order=0, n_init=5, distances=distances, **options).fit(federation)
    renamed = {"n_local_clusters": "n_local", "n_refine": "refine"}
    expected = unmasked(columns, **{renamed.get(key, key): v for key, v in options.items()})
    found = model.labels_.values[np.argsort(model.labels_.sample_id.values.astype(int))]
    np.testing.assert_array_equal(found, expected)
    trees = {"tree": L - 1, "basic": 1, "optimised": 1}[options["variant"]]
    if distances == "centres":
        assert model.n_secure_sums_ >= K
    else:  # a refinement, and at most two sums for each time that nodes are clustered
        assert trees <= model.n_secure_sums_ <= 1 + 2 * trees
    assert set(model.labels_.client.values) == {"client-1"}


def test_only_declared_messages_leave(federation, columns):
    model = KCAGC(K, filter_order=0, n_init=3).fit(federation)
    rows = [row for row in model.ledger_ if row.sender.startswith("client")]
    assert {row.message: row.protection for row in rows} == {
        "KeyOffer": "plain",
        "SealedDigestKey": "coded",
        "SampleDigests": "plain",
        "PublicKeys": "plain",
        "Magnitude": "plain",
        "MaskedPart": "masked",
        "LocalClusters": "plain",
        "LabelledSamples": "plain",
    }
    masked = [row for row in rows if row.message == "MaskedPart"]
    # and the norms; and the round that was under way when the caller heard that all are at rest
    assert len(masked) == L * (model.n_secure_sums_ + 2)
    assert sum(not row.shapes["values"][1] for row in masked) == L
    scalars = sum(row.shapes["values"][0] * row.shapes["values"][1] for row in masked)
    assert scalars == L * (model.n_secure_scalars_ + N)


def test_landmarks_where_the_starts_tell_as_much(federation):
    for n_init, like in ((50, "landmarks"), (1, "centres")):
        auto = KCAGC(K, filter_order=0, n_init=n_init).fit(federation)
        same = KCAGC(K, filter_order=0, n_init=n_init, distances=like).fit(federation)
        assert auto.n_secure_scalars_ == same.n_secure_scalars_
        np.testing.assert_array_equal(auto.labels_.values, same.labels_.values)


def test_participants_hear_of_no_round_with_landmarks(federation):
    model = KCAGC(K, filter_order=0, n_refine=0, distances="landmarks").fit(federation)
    heard = [row.shapes for row in model.ledger_ if row.message == "Measure"]
    assert heard
    assert not any(np.prod(shapes["labels"]) for shapes in heard)


def test_the_same_again(federation):
    one, two = (KCAGC(K, filter_order=0, n_init=3).fit(federation).labels_ for _ in range(2))
    np.testing.assert_array_equal(one.values, two.values)


@pytest.mark.parametrize("graph_filter", ["agc", "laplacian"])
@pytest.mark.parametrize("basis", ["global-norm", "U", "row-normalised"])
def test_columns_that_are_never_held_as_a_whole(tmp_path, monkeypatch, basis, graph_filter):
    X = load_digits().data[:N, :40]
    graph = neighbour_graph(X, 8, "digits")
    url = str(tmp_path / "a.zarr")
    write_store(url, "a", X, np.arange(N).astype(str), dtype="float64", chunk_rows=64, graph=graph)
    projection = party.Projection(K, basis, 3, graph_filter)
    whole = party.project(ClientStore.open(url), projection)
    monkeypatch.setattr(party, "_HELD", 0)
    monkeypatch.setattr(party.streamed_coordinates, "__kwdefaults__", {"block_entries": 7 * N})
    streamed = party.project(ClientStore.open(url), projection)
    np.testing.assert_allclose(streamed, whole, atol=1e-7 * np.abs(whole).max())


def test_refusals(federation):
    with pytest.raises(PrivacyError, match="3 clients, 2 of which may collude"):
        KCAGC(K, n_colluding=2).fit(federation)
    with pytest.raises(InvalidInput, match="its store has none"):
        KCAGC(K, filter_order=2).fit(federation)
    with pytest.raises(PrivacyError, match="2 clients, 1 of which may collude"):
        KCAGC(K, variant="tree", n_colluding=1).fit(federation)
    with pytest.raises(InvalidInput, match="must be 'intersection' with variant='tree'"):
        KCAGC(K, variant="tree", virtual_node="local-centre").fit(federation)
    with pytest.raises(InvalidInput, match="'basis'"):
        KCAGC(K, basis="V").fit(federation)


def test_samples_that_are_not_the_same(tmp_path, columns, monkeypatch):
    ids = {name: np.arange(N) for name in columns}
    ids["client-3"] = np.append(np.arange(1, N), 999)
    with Federation.local(vertical(tmp_path, columns, ids)) as federation:
        with pytest.raises(StoreError, match=r"'client-3' .* lacks 1 of 300 and has 1 others"):
            KCAGC(K, filter_order=0).fit(federation)
        assert federation.run_id is None  # nothing began
        unread = replace(federation.contract, readable={})  # as at a running cluster
        monkeypatch.setattr(federation, "_contract", unread)
        with pytest.raises(PartyError, match=r"'client-3' lacks 1 of the 300 .* has 1 others"):
            KCAGC(K, filter_order=0).fit(federation)


@pytest.mark.parametrize("basis", ["global-norm", "U", "row-normalised"])
def test_predict_of_the_same_samples(federation, columns, tmp_path, basis):
    """Clustered samples, given as new ones, fall to their nearest centre: their own, at rest."""
    model = KCAGC(K, filter_order=0, n_init=5, basis=basis, variant="basic").fit(federation)
    own = model.labels_
    new = vertical(tmp_path, columns, {name: np.arange(N) + 5000 for name in columns})
    found = model.predict(federation, new)
    assert found.sample_id.values.tolist() == [str(i + 5000) for i in range(N)]
    np.testing.assert_array_equal(found.values, own.values)
    with pytest.raises(InvalidInput, match="those of client-2 are missing"):
        model.predict(federation, {name: new[name] for name in ("client-1", "client-3")})


@pytest.mark.parametrize("variant", ["optimised", "basic", "tree"])
def test_masks_that_two_hold_change_no_label(federation, columns, tmp_path, variant, approved):
    how = {"filter_order": 0, "n_init": 2, "variant": variant, "distances": "landmarks"}
    new = vertical(tmp_path, columns, {name: np.arange(N) + 5000 for name in columns})
    labels, told = {}, {}
    for averaging in ("masked", "shared"):
        model = KCAGC(K, averaging=averaging, **how).fit(federation)
        labels[averaging] = model.labels_.values, model.predict(federation, new).values
        told[averaging] = {row.message for row in federation.ledger}
    np.testing.assert_array_equal(labels["masked"], labels["shared"])
    assert told["shared"] == told["masked"] | {"Arrivals", "MaskSum"}


def test_what_the_server_saw_under_latency(columns, tmp_path):
    two = dict(list(columns.items())[:2])
    slow = {"cluster": "local", "latency": 0.02}
    with Federation.local(vertical(tmp_path, two), cluster=slow, allow_raw=True) as federation:
        model = KCAGC(K, filter_order=0, n_init=1, variant="basic").fit(federation)
        seen = model.server_view(federation)
        assert model.timing_["clustering_s"] >= 2 * model.n_secure_sums_ * 0.02  # there and back
        KCAGC(K, filter_order=0, n_init=1).fit(federation)
        with pytest.raises(InvalidInput, match="needs the federation in the run of fit"):
            model.server_view(federation)
    rows = [singular_coordinates(X, K, "scaled") for X in two.values()]
    norms = np.sum([squared_row_norms(part) for part in rows], axis=0)
    Y = np.hstack([divide_rows(part, norms) for part in rows])
    Y = Y[model.labels_.sample_id.values.astype(int)]
    means = np.array([Y[model.labels_.values == c].mean(axis=0) for c in range(K)])
    wanted = ((Y[:, None] - means) ** 2).sum(axis=2)
    seen, wanted = np.sort(seen, axis=1), np.sort(wanted, axis=1)  # clusters have other numbers
    np.testing.assert_allclose(seen, wanted, atol=1e-9)  # they rest at their means


def test_only_a_federation_for_raw_data_shows_the_sums(federation):
    model = KCAGC(K, filter_order=0, n_init=1).fit(federation)
    with pytest.raises(EgressRefused, match="DistanceView, which is raw data"):
        model.server_view(federation)


def test_the_log_says_when_the_basic_protocol_is_cheaper(federation, caplog):
    caplog.set_level("INFO", logger="daskfc")
    model = KCAGC(K, filter_order=0, n_init=1, n_local_clusters=5).fit(federation)
    assert model.secure_scalars_a_round_ == {"basic": 3000, "optimised": 1250, "tree": 375}
    assert "the basic one hides" not in caplog.text
    KCAGC(K, filter_order=0, n_init=1).fit(federation)
    assert "sums at most 3000 numbers a round, variant 'optimised' up to 3000" in caplog.text


def test_predict_with_other_columns(federation, columns, tmp_path):
    model = KCAGC(K, filter_order=0, n_init=1).fit(federation)
    new = vertical(tmp_path, {**columns, "client-2": columns["client-2"][:, 1:]})
    with pytest.raises(InvalidInput, match="column 21 is 'client-2/20' there and missing"):
        model.predict(federation, new)


def test_who_holds_a_single_column_is_told_that_it_counts_for_little(tmp_path):
    random = np.random.default_rng(0)
    rows = {"a": random.normal(size=(30, 2)), "b": random.normal(10.0, size=(30, 1)),
            "c": random.normal(size=(30, 2))}  # fmt: skip
    ids = [str(i) for i in range(30)]
    for name, own in rows.items():
        names = [f"{name}{i}" for i in range(own.shape[1])]
        write_store(str(tmp_path / name), name, own, ids, feature_names=names)
    stores = {name: str(tmp_path / name) for name in rows}
    with (
        Federation.local(stores) as federation,
        pytest.warns(UserWarning, match=r"the sign where there is one: that of 'b' counts"),
    ):
        KCAGC(2, filter_order=0, n_init=2).fit(federation)
