"""Coded similarities: against the plain rows, against integers, and what leaves a client."""

import functools
import os
import signal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.stats import chisquare
from sklearn.datasets import load_iris

from daskfc.clustering.kernels.low_rank_similarity import (
    dictionary_root,
    similarity_graph,
    similarity_rows,
)
from daskfc.coding import SecretKey, choose_residues
from daskfc.errors import InvalidInput, OverflowRefused, PartyError
from daskfc.federation import Federation, Message, array
from daskfc.federation.methods.sample_keys import order_of
from daskfc.pairwise import DistanceTiles, SymmetricGrid
from daskfc.privacy import Noised
from daskfc.protocols.fedsc.maths.dictionary_start import count_atoms, first_dictionary
from daskfc.protocols.fedsc.maths.kernel_dictionary import coefficients, local_update
from daskfc.protocols.fedsc.maths.similarity_spectral import cluster_graph
from daskfc.protocols.fedsc.similarity import coded, coded_rows
from daskfc.protocols.fedsc.similarity.coded import choose_coded, coded_predict, coded_similarity
from daskfc.protocols.fedsc.similarity.coded_rows import SquaredNorms
from daskfc.secure.distances.parties.party import share_of
from daskfc.secure.distances.routes import rows as secure_rows
from daskfc.secure.distances.routes.rows import RowSummary
from daskfc.stores import ClientStore
from daskfc.testing.distances import positions_of
from daskfc.testing.federation import stores_of
from tests.protocols.fedsc.one_place import moments_of

CUTS = [10, 50, 75, 100]  # five clients of different sizes
WIDTH, RIDGE, K = 2.5, 1e-3, 3


@functools.cache
def factors():
    """A dictionary of iris, and one root of its kernel."""
    X = load_iris().data
    Z = first_dictionary(moments_of(X), count_atoms(X, WIDTH), 0)
    for _ in range(3):
        Z = local_update(X, Z, WIDTH, RIDGE)
    return Z, dictionary_root(Z, WIDTH)


@functools.cache
def dealt():
    """Rows of iris by client."""
    order = np.random.default_rng(1).permutation(150)
    return {f"client-{i}": load_iris().data[own] for i, own in enumerate(np.split(order, CUTS), 1)}


def rows_of(X, Z, root):
    return similarity_rows(coefficients(X, Z, WIDTH, RIDGE), root)


def all_rows(urls):
    """The rows of all clients in one place, in canonical order."""
    stores = {name: ClientStore.open(url) for name, url in urls.items()}
    positions = order_of(stores)
    B = np.empty((150, len(factors()[0])))
    for name, own in positions.items():
        B[own] = rows_of(dealt()[name], *factors())
    return B, positions


# -- steps of the tests, which worker processes import --------------------------------------------


class ToldGraph(Message, route="server → caller", reveals="the graph, to the test"):
    data: np.ndarray = array("edge", dtype="float64")
    indices: np.ndarray = array("edge", dtype="int64")
    ends: np.ndarray = array("row", dtype="int64")


class ToldLabels(
    Message, route=("server → caller", "client → caller"), reveals="labels, to the test"
):
    labels: np.ndarray = array("sample", dtype="int64")


def own_rows(data):
    return rows_of(data.rows(0, data.n_samples), *factors())


def long_noisy_rows(data):
    return Noised(3.0 * own_rows(data), 0.5)


def tell_graph(similar) -> ToldGraph:
    graph = similar.graph
    return ToldGraph(graph.data, graph.indices.astype(np.int64), graph.indptr.astype(np.int64))


def labels_of(similar):
    return cluster_graph(similar.graph, K, seed=3, n_init=20).labels


def tell_labels(labels) -> ToldLabels:
    return ToldLabels(labels)


def tell_own_labels(own) -> ToldLabels:
    return ToldLabels(own.labels)


# -- the steps, without a cluster -----------------------------------------------------------------


def code_and_system(n_clients, d, *, n_segments=None, n_colluding=0, radius=1.0):
    code = choose_coded(n_clients, n_segments, n_colluding)
    system = choose_residues(
        radius=radius,
        n_features=d,
        tolerance=coded.TOLERANCE,
        grids=0,
        n_columns=code.n_columns(d),
        n_points=code.n_points,
        mean_square=radius**2,
    )
    return code, system


def unit_rows(n, d, seed=0):
    B = np.random.default_rng(seed).normal(size=(n, d))
    return B / np.linalg.norm(B, axis=1, keepdims=True)


def exact_similarities(Q, scale):
    """Inner products of integer rows, in Python's integers."""
    rows = [[int(v) for v in row] for row in Q]
    whole = [[sum(a * b for a, b in zip(x, y, strict=True)) for y in rows] for x in rows]
    return np.array([[float(v) for v in row] for row in whole]) / (scale * scale)


@settings(max_examples=10)
@given(
    n=st.integers(2, 17),
    d=st.integers(1, 6),
    tile=st.integers(1, 9),
    k=st.integers(1, 4),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_graph_of_distances_is_that_of_exact_inner_products(
    tmp_path_factory, n, d, tile, k, seed
):
    random = np.random.default_rng(seed)
    B = unit_rows(n, d, seed) * random.uniform(0.1, 1.0, size=(n, 1))
    B = B[random.integers(0, n, n)]  # some are equal
    _, system = code_and_system(5, d)
    cut = random.integers(1, n)
    moved = random.permutation(n)
    parts = {"a": B[:cut], "b": B[cut:]}
    positions = {"a": moved[:cut], "b": moved[cut:]}
    quantised = {
        name: secure_rows.quantised_rows(own, system=system, purpose="x")
        for name, own in parts.items()
    }
    Q = np.empty((n, d), dtype=np.int64)
    for name, own in quantised.items():
        Q[positions[name]] = own.rows
    grid = SymmetricGrid(n, tile)
    tiles = DistanceTiles.create(str(tmp_path_factory.mktemp("coded")), grid)
    D = ((Q[:, None] - Q) ** 2).sum(-1)  # below 2**46
    for i, j in grid.blocks():
        tiles.write(i, j, system.to_real(D[grid.panel(i), grid.panel(j)]))
    summary = {
        name: secure_rows.summarise_rows(own, SecretKey.from_os(), radius=1.0)
        for name, own in parts.items()
    }
    plan = secure_rows.plan_rows(summary, positions)
    norms = {name: coded_rows.squared_norms(own) for name, own in quantised.items()}
    similar = coded_rows.graph_of_distances(
        tiles, norms, plan, system=system, n_neighbors=min(k, n)
    )
    graph, order = similar.graph, similar.order
    sums = D.sum(axis=1)[order.places]
    assert (np.diff(sums) >= -1e-9 * sums.max()).all()
    same = order.equal[:, None] == order.equal
    np.testing.assert_array_equal(same, D[np.ix_(order.places, order.places)] == 0)
    exact = exact_similarities(Q, system.scale)
    low, high = exact.min(), exact.max()
    kept = np.zeros((n, n), dtype=bool)
    for i in range(n):
        ranked = sorted(range(n), key=lambda j: (-exact[i, j], j * 2654435761 % 2**32))
        others = [j for j in ranked if j != i]
        kept[i, [i, *others[: min(k, n) - 1]]] = True
    scaled = (exact - low) / (high - low) if high > low else np.ones((n, n))
    np.testing.assert_allclose(graph.toarray(), np.where(kept | kept.T, scaled, 0.0), atol=1e-14)


@pytest.mark.parametrize("d", [3, 40])
def test_rounding_changes_similarities_by_a_tenth_of_a_millionth(d):
    _, system = code_and_system(7, d)
    B = unit_rows(200, d)
    Q = secure_rows.quantised_rows(B, system=system, purpose="x").rows / system.scale
    error = np.abs(Q @ Q.T - B @ B.T)
    assert np.sqrt(np.mean(error**2)) < 1e-7 * 1.05
    assert error.max() <= np.sqrt(d) / system.scale + d / (4 * system.scale**2)


@pytest.mark.parametrize("t", [1, 2])
def test_what_colluding_clients_see_is_uniform(t):
    """Every linear combination of their shares is, which is to be jointly uniform."""
    code, system = code_and_system(2 * t + 3, 6, n_colluding=t)
    assert code.n_colluding == t
    rows = np.tile(unit_rows(1, 6), (4000, 1))
    own = secure_rows.quantised_rows(rows, system=system, purpose="x")
    names = [f"client-{j}" for j in range(code.n_evaluators)]
    shares = secure_rows.encode_quantised(
        own, SecretKey.from_os(), start=0, stop=4000, code=code, system=system, evaluators=names
    )
    random = np.random.default_rng(0)
    for a, p in enumerate(system.primes):
        assert len(np.unique(own.rows[:, 0] % p)) == 1  # what stands behind is anything but uniform
        for seen in ([names[0], names[-1]][:t], names[1 : 1 + t]):
            weights = random.integers(1, p, size=t)
            view = sum(
                w * share_of(shares[name], code, system)[a].astype(np.int64)
                for w, name in zip(weights, seen, strict=True)
            )
            counts = np.bincount(view.ravel() % p, minlength=p)
            assert chisquare(counts).pvalue > 1e-6


def shares_of(B, secret, *, purpose="clustered", start=0):
    code, system = code_and_system(5, B.shape[1])
    own = secure_rows.quantised_rows(B, system=system, purpose=purpose)
    public = {"code": code, "system": system, "evaluators": tuple("abcde")[: code.n_evaluators]}
    return secure_rows.encode_quantised(own, secret, start=start, stop=len(B), **public)["b"]


def test_the_same_rows_give_the_same_shares_and_no_others_get_their_noise():
    B, secret = unit_rows(60, 8), SecretKey.from_os()
    first = shares_of(B, secret)
    again = shares_of(B * (1 + 2.0**-52), secret)  # as another order of summation rounds
    np.testing.assert_array_equal(first.residues, again.residues)
    assert first.fingerprint == again.fingerprint
    moved = B.copy()
    moved[17, 3] += 1e-6
    for other in (
        shares_of(moved, secret),
        shares_of(B, SecretKey.from_os()),
        shares_of(B, secret, purpose="new"),
    ):
        assert other.fingerprint != first.fingerprint
        assert (other.residues != first.residues).mean() > 0.98  # in rows that are the same, too


def test_a_summary_tells_no_norm_under_a_public_bound():
    B, secret = unit_rows(9, 4), SecretKey.from_os()
    bounded = secure_rows.summarise_rows(B / 3, secret, radius=1.0)
    assert (bounded.n_samples, bounded.n_atoms, bounded.radius) == (9, 4, 1.0)
    told = secure_rows.summarise_rows(B * 3, secret, radius=None)
    assert 3 <= told.radius <= 3 * 2 ** (1 / 8)
    assert told.content != bounded.content
    assert told.content == secure_rows.summarise_rows(B * 3, secret, radius=1.0).content
    other = secure_rows.summarise_rows(B * 3, SecretKey.from_os(), radius=None)
    assert told.content != other.content


def test_rows_that_do_not_fit_are_refused():
    _, system = code_and_system(5, 4)
    rows = unit_rows(9, 4)
    rows[2] *= 1.01
    with pytest.raises(OverflowRefused, match="some of 9 rows lie outside the radius"):
        secure_rows.quantised_rows(rows, system=system, purpose="x")
    summaries = {"a": RowSummary(3, 4, 1.0, 1), "b": RowSummary(2, 5, 1.0, 2)}
    positions = {"a": np.arange(3), "b": np.arange(3, 5)}
    with pytest.raises(
        InvalidInput, match=r"client 'b' must have the shape \(2, 4\).*got \(2, 5\)"
    ):
        secure_rows.plan_rows(summaries, positions)
    with pytest.raises(InvalidInput, match=r"client 'a' must have the shape \(2, 4\)"):
        secure_rows.plan_rows(summaries, {"a": np.arange(2), "b": np.arange(2, 4)})


def test_plans_of_other_rows_have_other_names():
    positions = {"a": np.arange(2), "b": np.arange(2, 3)}
    parts = {"a": RowSummary(2, 4, 1.0, 7), "b": RowSummary(1, 4, 1.5, 8)}
    plan = secure_rows.plan_rows(parts, positions)
    assert (plan.radius, plan.n_features, plan.n_samples) == (1.5, 4, 3)
    assert plan.problem == secure_rows.plan_rows(parts, positions).problem
    other = secure_rows.plan_rows({**parts, "b": RowSummary(1, 4, 1.5, 9)}, positions)
    swapped = secure_rows.plan_rows(parts, {"a": np.array([1, 0]), "b": np.arange(2, 3)})
    assert len({plan.problem, other.problem, swapped.problem}) == 3


@pytest.mark.parametrize(
    ("n_clients", "n_segments", "n_colluding", "expected"),
    [
        (3, None, 0, (1, 1, 3)), (5, None, 0, (1, 1, 4)), (5, None, 2, (1, 2, 5)),
        (7, None, 2, (1, 2, 6)), (12, 3, 1, (3, 1, 8)),
    ],
)  # fmt: skip
def test_codes(n_clients, n_segments, n_colluding, expected):
    code = choose_coded(n_clients, n_segments, n_colluding)
    assert (code.n_segments, code.n_colluding, code.n_evaluators) == expected


@pytest.mark.parametrize("given_", [(2, None, 0), (4, None, 2), (4, 2, 0)])
def test_too_few_clients_are_refused_in_a_sentence(given_):
    with pytest.raises(
        InvalidInput, match=r"needs 2l \+ 2t - 1 = \d clients .* the federation has"
    ):
        choose_coded(*given_)


def test_new_samples_vote_like_the_plain_rows():
    _, system = code_and_system(5, 5)
    B, new = unit_rows(40, 5), unit_rows(12, 5, seed=1)
    labels = np.arange(40) % 4
    plan = secure_rows.plan_rows(
        {"a": RowSummary(40, 5, 1.0, 0)}, {"a": np.random.default_rng(2).permutation(40)}
    )
    own, other = (secure_rows.quantised_rows(X, system=system, purpose="x") for X in (B, new))
    Q = np.empty_like(own.rows)
    Q[plan.positions["a"]] = own.rows
    D = system.to_real(((Q[:, None] - other.rows[3:10]) ** 2).sum(-1))
    columns = [coded_rows.Columns(block, np.empty(0)) for block in (D[:15], D[15:])]
    found = coded_rows.votes_of_panel(
        columns, coded_rows.squared_norms(other), {"a": coded_rows.squared_norms(own)}, plan,
        labels, start=3, stop=10, system=system, n_clusters=4, n_neighbors=6,
    )  # fmt: skip
    S = new[3:10] @ B[np.argsort(plan.positions["a"])].T
    expected = []
    for row in S:
        votes = np.zeros(4)
        for j in np.argsort(-row)[:6]:
            votes[labels[j]] += max(row[j], 0.0)
        expected.append(votes.argmax())
    assert found.tolist() == expected


# -- on worker processes --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def urls(tmp_path_factory):
    return stores_of(tmp_path_factory.mktemp("stores"), dealt())


@pytest.fixture(scope="module")
def federation(urls):
    with Federation.local(urls) as running:
        yield running


def begun(federation, step, tmp_path, **options):
    """Run everything up to the graph."""
    federation.start_run(os.urandom(8).hex(), random_state=0, workspace=str(tmp_path))
    positions = positions_of(federation)
    rows = federation.on_clients(step)
    return coded_similarity(federation, rows, positions, **options)


def told(federation, graph):
    message = federation.publish(tell_graph, graph)
    n = len(message.ends) - 1
    return sparse.csr_array((message.data, message.indices, message.ends), shape=(n, n))


@pytest.mark.slow
def test_graph_and_labels_are_those_of_the_plain_rows(federation, urls, tmp_path):
    similarity = begun(federation, own_rows, tmp_path, tile=64)
    graph = told(federation, similarity.graph)
    plain = similarity_graph(all_rows(urls)[0])
    np.testing.assert_array_equal(graph.indptr, plain.indptr)
    np.testing.assert_array_equal(graph.indices, plain.indices)
    np.testing.assert_allclose(graph.data, plain.data, atol=1e-6, rtol=0)
    assert np.abs(graph.data - plain.data).max() > 0  # it did go over the grid
    labels = federation.publish(tell_labels, federation.on_server(labels_of, similarity.graph))
    np.testing.assert_array_equal(labels.labels, cluster_graph(plain, K, seed=3, n_init=20).labels)
    assert similarity.distances.dropped == {}


@pytest.mark.slow
def test_what_leaves_a_client(federation, urls, tmp_path):
    similarity = begun(federation, own_rows, tmp_path, n_segments=2)
    federation.wait(similarity.graph)
    frame = federation.ledger.to_frame()
    sent = frame[frame["sender"].str.startswith("client")]
    ways = {(row.message, row.protection, row.receiver == "server") for row in sent.itertuples()}
    assert ways == {
        ("KeyOffer", "plain", False),
        ("SealedDigestKey", "coded", False),
        ("SampleDigests", "plain", True),
        ("RowSummary", "plain", True),
        ("SquaredNorms", "plain", True),
        ("HidingKey", "plain", False),
        ("CodedRows", "coded", False),
        ("CodedDistances", "coded", True),
    }
    n, r = 150, 6
    norms = sent[sent["message"] == "SquaredNorms"]
    assert norms["payload_bytes"].sum() == 8 * n
    assert norms["noise_multiplier"].isna().all()
    answers = sent[sent["message"] == "CodedDistances"]["payload_bytes"].sum()
    told_of = frame[(frame["message"] == "Landmarks") & (frame["receiver"] == "client-1")]
    asked = told_of["payload_bytes"].sum() // 8
    assert 0 < asked < n / 5
    assert answers == 5 * (r * n * asked + 8 * len(told_of))  # all five are needed
    assert similarity.distances.route == "columns"
    assert "residues modulo" in similarity.distances.reason
    columns = -(-len(factors()[0]) // 2)
    shares = sent[sent["message"] == "CodedRows"]
    assert len(shares) == 5 * 4  # own shares stay
    # rows of others go to all evaluators but the first, which is sent keys
    travelled = 3 * n + ClientStore.open(urls["client-1"]).n_samples
    assert shares["payload_bytes"].sum() == travelled * r * columns + 32 * len(shares) + 32 * 4


@pytest.mark.slow
def test_noisy_rows_of_any_length(federation, urls, tmp_path):
    with pytest.raises(PartyError, match="lie outside the radius agreed for this run"):
        told(federation, begun(federation, long_noisy_rows, tmp_path).graph)
    similarity = begun(federation, long_noisy_rows, tmp_path, radius=None)
    graph, plain = told(federation, similarity.graph), similarity_graph(3 * all_rows(urls)[0])
    np.testing.assert_array_equal(graph.indices, plain.indices)
    np.testing.assert_allclose(graph.data, plain.data, atol=1e-6, rtol=0)
    frame = federation.ledger.to_frame()
    assert set(frame.loc[frame["message"] == "SquaredNorms", "noise_multiplier"]) == {0.5}


@pytest.mark.slow
def test_predict_of_the_same_samples(federation, urls, tmp_path):
    similarity = begun(federation, own_rows, tmp_path, tile=64)
    labels = federation.on_server(labels_of, similarity.graph)
    new = federation.on_clients(own_rows, clients=["client-2", "client-5"])
    found = coded_predict(similarity, new, labels, n_clusters=K)
    clustered = federation.publish(tell_labels, labels).labels
    B, positions = all_rows(urls)
    for name in new:
        votes = np.zeros((len(positions[name]), K))
        S = B[positions[name]] @ B.T
        for i, row in enumerate(S):
            for j in np.argsort(-row)[:6]:  # ceil(log 150)
                votes[i, clustered[j]] += max(row[j], 0.0)
        own = federation.publish(tell_own_labels, found[name], party=name).labels
        assert np.mean(own == votes.argmax(axis=1)) > 0.98  # but for ties of the last neighbour
    frame = federation.ledger.to_frame()
    assert "SimilarityRows" not in set(frame["message"])


@pytest.mark.slow
def test_a_killed_client_sends_the_same_again(federation, tmp_path):
    whole = told(federation, begun(federation, own_rows, tmp_path / "a", tile=64).graph)
    killed = []

    def kill_once(stage, done, total):
        if stage == "landmarks" and done and not killed:
            killed.append(federation.processes.pid("client-1"))
            os.kill(killed[0], signal.SIGKILL)

    federation.on_progress = kill_once
    try:
        found = told(federation, begun(federation, own_rows, tmp_path / "b", tile=64).graph)
    finally:
        federation.on_progress = None
    assert killed
    assert federation.processes.pid("client-1") != killed[0]
    np.testing.assert_array_equal(found.toarray(), whole.toarray())


@pytest.mark.slow
def test_too_few_clients_start_nothing(federation, tmp_path):
    with pytest.raises(InvalidInput, match="needs 2l \\+ 2t - 1 = 7 clients"):
        begun(federation, own_rows, tmp_path, n_colluding=3)
    assert set(federation.ledger.to_frame()["message"]) <= {
        "KeyOffer",
        "SealedDigestKey",
        "SampleDigests",
    }


def test_norms_are_whole_numbers():
    _, system = code_and_system(5, 3)
    own = secure_rows.quantised_rows(np.eye(3) / 2, system=system, purpose="x")
    told_ = coded_rows.squared_norms(own)
    assert isinstance(told_, SquaredNorms)
    assert told_.norms.tolist() == [round(system.scale / 2) ** 2] * 3
