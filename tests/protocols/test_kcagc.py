"""kCAGC on real worker processes: against the same protocol without masks, in one process."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from daskfc import seeds
from daskfc.clustering import (
    LloydSettings,
    intersect,
    lloyd_on_sums,
    local_clusters,
    virtual_nodes,
)
from daskfc.errors import InvalidInput, PartyError, PrivacyError
from daskfc.federation import Federation
from daskfc.linalg import divide_rows, singular_coordinates, squared_row_norms
from daskfc.protocols import KCAGC
from daskfc.stores import write_store

pytestmark = pytest.mark.slow

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
        write_store(urls[name], name, X, own.astype(str), dtype="float64")
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
    own = [
        local_clusters(part, n_local, seed=seeds.integer_seed(0, "local clusters", name), n_init=50)
        for name, part in zip(names, rows, strict=True)
    ]
    if variant == "tree":  # of three: the first two, then their cluster and the third
        ids, sizes = intersect(own[0], own[1])
        inner = LloydSettings(min(n_local, len(sizes)), settings.seed, n_init=n_init)
        nodes = [virtual_nodes(part, ids) for part in rows[:2]]
        own = [lloyd_on_sums(nodes, sizes.astype(float), inner).labels[ids], own[2]]
    if variant == "basic":
        return lloyd_on_sums(rows, np.ones(N), settings).labels
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
def test_equals_the_protocol_without_masks(federation, columns, options):
    model = KCAGC(K, filter_order=0, n_init=5, **options).fit(federation)
    renamed = {"n_local_clusters": "n_local", "n_refine": "refine"}
    expected = unmasked(columns, **{renamed.get(key, key): v for key, v in options.items()})
    found = model.labels_.values[np.argsort(model.labels_.sample_id.values.astype(int))]
    np.testing.assert_array_equal(found, expected)
    assert model.n_secure_sums_ >= K
    assert set(model.labels_.client.values) == {"client-1"}


def test_only_declared_messages_leave(federation, columns):
    model = KCAGC(K, filter_order=0, n_init=3).fit(federation)
    rows = [row for row in model.ledger_ if row.sender.startswith("client")]
    assert {row.message: row.protection for row in rows} == {
        "SampleDigests": "plain",
        "PublicKeys": "plain",
        "Magnitude": "plain",
        "MaskedPart": "masked",
        "LocalClusters": "plain",
        "LabelledSamples": "plain",
    }
    masked = [row for row in rows if row.message == "MaskedPart"]
    assert len(masked) == L * (model.n_secure_sums_ + 1)  # and the norms
    scalars = sum(row.shapes["values"][0] * row.shapes["values"][1] for row in masked)
    assert scalars == L * (model.n_secure_scalars_ + N)


def test_the_same_again(federation):
    one, two = (KCAGC(K, filter_order=0, n_init=3).fit(federation).labels_ for _ in range(2))
    np.testing.assert_array_equal(one.values, two.values)


def test_refusals(federation):
    with pytest.raises(PrivacyError, match="3 clients, 2 of which may collude"):
        KCAGC(K, n_colluding=2).fit(federation)
    with pytest.raises(PartyError, match="its store has none"):
        KCAGC(K, filter_order=2).fit(federation)
    with pytest.raises(PrivacyError, match="2 clients, 1 of which may collude"):
        KCAGC(K, variant="tree", n_colluding=1).fit(federation)
    with pytest.raises(InvalidInput, match="must be 'intersection' with variant='tree'"):
        KCAGC(K, variant="tree", virtual_node="local-centre").fit(federation)
    with pytest.raises(InvalidInput, match="'basis'"):
        KCAGC(K, basis="V").fit(federation)


def test_samples_that_are_not_the_same(tmp_path, columns):
    ids = {name: np.arange(N) for name in columns}
    ids["client-3"] = np.append(np.arange(1, N), 999)
    with Federation.local(vertical(tmp_path, columns, ids)) as federation:
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
    with pytest.raises(InvalidInput, match="wrong or missing: client-2"):
        model.predict(federation, {name: new[name] for name in ("client-1", "client-3")})


def test_predict_with_other_columns(federation, columns, tmp_path):
    model = KCAGC(K, filter_order=0, n_init=1).fit(federation)
    new = vertical(tmp_path, {**columns, "client-2": columns["client-2"][:, 1:]})
    with pytest.raises(PartyError, match="must have its 21 features"):
        model.predict(federation, new)
