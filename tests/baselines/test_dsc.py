import inspect
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.linalg
from sklearn.base import clone
from sklearn.cluster import KMeans, SpectralClustering

import daskfc.baselines.centers.dsc as module
from daskfc.baselines import DSC
from daskfc.baselines.centers.dsc import SharedSample, aligned_rows, embedded_centers, first_rows
from daskfc.errors import InvalidInput, PartyError, PrivacyError
from daskfc.federation import Federation, Message, check_message
from daskfc.metrics import kappa
from daskfc.seeds import generator
from daskfc.stores import write_store

K, D, NEIGHBORS, SCALE = 3, 2, 10, 2.0
HOW = {"n_clusters": K, "n_neighbors": NEIGHBORS, "kernel_scale": SCALE, "random_state": 0}
CUTS = (70, 150)  # clients of 70, 80 and 90 samples


def triangle():
    """Three groups that touch, of different sizes, so that no eigenvalue repeats."""
    rng = np.random.default_rng(7)
    centers = np.array([[0.0, 0.0], [4.0, 0.0], [1.0, 5.0]])
    truth = rng.permutation(np.repeat(np.arange(3), [100, 80, 60]))
    return centers[truth] + 0.9 * rng.standard_normal((len(truth), 2)), truth


ROWS, TRUTH = triangle()
PARTS = dict(zip(("a", "b", "c"), np.split(np.arange(len(ROWS)), CUTS), strict=True))


def slow_weights(X):
    n = len(X)
    distance = [[float(np.sqrt(((X[i] - X[j]) ** 2).sum())) for j in range(n)] for i in range(n)]
    W = np.zeros((n, n))
    for i in range(n):
        for j in sorted((j for j in range(n) if j != i), key=lambda j: distance[i][j])[:NEIGHBORS]:
            W[i, j] = W[j, i] = np.exp(-((distance[i][j] / SCALE) ** 2))
    return W


def slow_embedding(X):
    W = slow_weights(X)
    degrees = np.diag(W.sum(axis=0))
    values, vectors = scipy.linalg.eigh(degrees - W, degrees)
    assert np.diff(values[: K + 1]).min() > 1e-4, values[: K + 1]  # else V is not determined
    return vectors[:, :K] / np.linalg.norm(vectors[:, :K], axis=0)


def slow_centers(points):
    return KMeans(K, n_init=100, random_state=5).fit(points).cluster_centers_


def one_place(parts, seed):
    """DSC's arithmetic on a dict of arrays: labels by client, without steps and messages."""
    names = list(parts)
    node = names[int(generator(seed, "DSC", "coordinator").integers(len(names)))]
    i = int(generator(seed, "DSC", node, "sample").integers(len(parts[node])))
    V = {node: slow_embedding(parts[node])}
    d, v_d = parts[node][i], V[node][i]
    for name in names:
        if name == node:
            continue
        found = slow_embedding(np.vstack([parts[name], d]))
        for c in range(K):
            if np.sign(found[-1, c]) != np.sign(v_d[c]):
                found[:, c] = -found[:, c]
        V[name] = found[:-1]
    C = slow_centers(np.vstack([slow_centers(V[name]) for name in names]))
    nearest = {n: [int(((v - C) ** 2).sum(axis=1).argmin()) for v in V[n]] for n in names}
    return node, nearest


def same_partition(one, other):
    pairs = set(zip(map(int, one), map(int, other), strict=True))
    return len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})


def write(folder, parts):
    urls = {}
    for name, rows in parts.items():
        urls[name] = f"{folder}/{name}.zarr"
        ids = [f"{name}{i}" for i in range(len(rows))]
        write_store(urls[name], name, np.asarray(rows), ids, chunk_rows=16, dtype="float64")
    return urls


def model(**params):
    return DSC(K, **{"n_neighbors": NEIGHBORS, "kernel_scale": SCALE, "n_init": 50, **params})


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    urls = write(tmp_path_factory.mktemp("dsc"), {n: ROWS[own] for n, own in PARTS.items()})
    with Federation.local(urls, allow_raw=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def fitted(three):
    return model().fit(three)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_equals_the_same_arithmetic_in_one_place(three, seed):
    found = model(random_state=seed).fit(three)
    node, expected = one_place({n: ROWS[own] for n, own in PARTS.items()}, seed)
    assert found.coordinator_ == node
    assert same_partition(found.labels_.values, np.concatenate([*expected.values()]))
    assert Counter(found.labels_.client.values) == {n: len(own) for n, own in PARTS.items()}
    assert found.labels_.sample_id.values[:2].tolist() == ["a0", "a1"]


@pytest.mark.slow
def test_one_client_is_spectral_clustering_of_the_pooled_samples(tmp_path):
    with Federation.local(write(tmp_path, {"only": ROWS}), allow_raw=True) as federation:
        found = model().fit(federation)
    pooled = SpectralClustering(K, affinity="precomputed", n_init=100, random_state=0)
    expected = pooled.fit_predict(slow_weights(ROWS))
    assert kappa(TRUTH, expected) > 0.9
    assert kappa(found.labels_.values, expected) > 0.98  # scikit-learn's columns have other norms
    assert same_partition(found.labels_.values, one_place({"only": ROWS}, 0)[1]["only"])
    assert {row.message for row in found.ledger_} == {"LabelledSamples"}
    assert found.coordinator_ == "only"


@pytest.mark.slow
def test_the_ledger_holds_each_message_once_and_one_raw_sample(fitted):
    ledger, node = list(fitted.ledger_), fitted.coordinator_
    others = {name for name in PARTS if name != node}
    protections = {(row.message, row.protection) for row in ledger}
    assert protections == {
        ("SharedSample", "raw"),
        ("EmbeddedCenters", "plain"),
        ("CommonCenters", "plain"),
        ("LabelledSamples", "plain"),
    }
    sizes = {"SharedSample": D + K, "EmbeddedCenters": K * K, "CommonCenters": K * K}
    for message, numbers in sizes.items():
        sent = {(r.sender, r.receiver): r.payload_bytes for r in ledger if r.message == message}
        away = message != "EmbeddedCenters"
        assert sent == {((node, o) if away else (o, node)): 8 * numbers for o in others}
    assert "server" not in {name for row in ledger for name in (row.sender, row.receiver)}


@pytest.mark.slow
def test_the_seed_decides_everything(three, fitted):
    again = clone(model()).fit(three)
    np.testing.assert_array_equal(again.labels_.values, fitted.labels_.values)


@pytest.mark.slow
def test_refusals_name_client_and_way_out(three):
    with pytest.raises(PartyError, match="a sample for each of 75 clusters; client 'a' has 70"):
        DSC(75).fit(three)
    with pytest.raises(PartyError, match="'n_neighbors' parameter of DSC must be less than"):
        DSC(K, n_neighbors=79).fit(three)
    with pytest.raises(PartyError, match="'kernel_scale' parameter of DSC must leave some"):
        DSC(K, kernel_scale=1e-9).fit(three)


def step_parts(store, seed=0):
    stores = {name: store(ROWS[own], name=name) for name, own in PARTS.items()}
    how = {**HOW, "random_state": seed}
    V = first_rows(stores["a"], party="a", **how)
    return stores, how, V, SharedSample(ROWS[4].copy(), V[4].copy())


def test_steps_match_the_slow_embedding(store):
    stores, how, V, shared = step_parts(store)
    expected = slow_embedding(ROWS[PARTS["a"]])
    np.testing.assert_allclose(np.abs(V), np.abs(expected), atol=1e-7)
    found = aligned_rows(stores["b"], shared, party="b", **how)
    joined = slow_embedding(np.vstack([ROWS[PARTS["b"]], ROWS[4]]))
    joined *= np.where(np.sign(joined[-1]) == np.sign(V[4]), 1.0, -1.0)
    np.testing.assert_allclose(found, joined[:-1], atol=1e-7)


def test_messages_are_as_declared(store):
    stores, _, V, _ = step_parts(store)
    [(to, one)] = module.share_sample(
        stores["a"], V, random_state=0, party="a", others=["b"]
    ).items()
    assert to == "b"
    i = np.flatnonzero((ROWS[PARTS["a"]] == one.row).all(axis=1))
    np.testing.assert_array_equal(one.place, V[i[0]])
    check_message(one, {"n_features": D, "n_clusters": K})
    centers = embedded_centers(
        V, n_clusters=K, n_init=3, random_state=0, party="b", coordinator="a"
    )["a"]
    check_message(centers, {"n_clusters": K})


def test_equal_samples_send_fewer_centres():
    V = np.array([[0.5, 0.1], [0.5, 0.1], [0.5, 0.1]])
    how = {"n_init": 2, "random_state": 0, "party": "b", "coordinator": "a"}
    assert embedded_centers(V, n_clusters=2, **how)["a"].centers.shape == (1, 2)


def test_a_single_sample_is_a_cluster(store):
    how = {**HOW, "n_clusters": 1, "n_neighbors": None}
    V = first_rows(store([[3.0, 4.0]], name="a"), party="a", **how)
    assert V.tolist() == [[1.0]]


def test_raw_samples_need_a_federation_that_allows_them():
    assert DSC.needs_raw
    with pytest.raises(PrivacyError, match="one raw sample of a client to all others"):
        DSC(K)._fit(SimpleNamespace(allow_raw=False))


@pytest.mark.parametrize(
    ("params", "rule"),
    [
        ({"n_clusters": 0}, "'n_clusters' parameter of DSC must be a whole number of at least 1"),
        (
            {"n_clusters": 2, "n_neighbors": 0},
            "'n_neighbors' parameter of DSC must be a whole number",
        ),
        ({"n_clusters": 2, "kernel_scale": 0.0}, "'kernel_scale' parameter of DSC must be a finit"),
        ({"n_clusters": 2, "n_init": 0}, "'n_init' parameter of DSC"),
    ],
)
def test_bad_parameters_are_refused(params, rule):
    with pytest.raises(InvalidInput, match=rule):
        DSC(**params).check(n_clients=4)


def test_the_head_names_every_message():
    head = inspect.getdoc(module)
    own = [
        kind
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, Message) and kind.__module__ == module.__name__
    ]
    assert len(own) == 3
    for kind in own:
        assert kind.__name__ in head
