"""Words and graphs: prepared features and labels are those of pooled columns."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import normalize

from daskfc import KCAGC, OmniFC, Prepare
from daskfc.baselines.maths.gcc import gcc_features
from daskfc.clustering import ReducedKMeans, filter_features
from daskfc.errors import InvalidInput, PartyError, PrivacyError
from daskfc.federation import Federation
from daskfc.federation.methods.one_budget import check_noise_beside
from daskfc.federation.steps.rules import Announced, broken_rule
from daskfc.metrics import ari
from daskfc.runs.execution.choice import _before_smoothing
from daskfc.secure.prepare import PreparationWarning
from daskfc.secure.prepare import steps as steps_
from daskfc.secure.prepare.declared import Declared, noisy_moments
from daskfc.secure.sums import Total
from daskfc.site import Smallest
from daskfc.stores import ClientStore, write_store
from daskfc.stores.store.prepared import PreparedStore
from daskfc.testing.federation import federation_of
from tests.secure.prepare.test_prepare import all_rows, close, prepared_rows

N, K = 90, 3
CUTS = {"a": slice(0, 7), "b": slice(7, 8), "c": slice(8, 20)}
STEPS = ["tf-idf", "normalise", {"smooth": {"order": 3, "filter": "gcc"}}]


def words_of_nodes():
    """Counts of words, nodes without any among them, and a graph whose groups share words."""
    random = np.random.default_rng(0)
    y = np.arange(N) % K
    A = np.triu(random.random((N, N)) < np.where(y[:, None] == y, 0.25, 0.01), 1).astype(float)
    X = random.poisson(np.where(np.arange(20) % K == y[:, None], 1.2, 0.3)).astype(float)
    X[[4, 50]] = 0.0
    return X, sparse.csr_array(A + A.T), y


X, A, Y = words_of_nodes()


def written(folder, ids=None):
    urls = {}
    for name, cut in CUTS.items():
        urls[name] = str(folder / f"{name}.zarr")
        own = [f"s{i}" for i in range(N)] if ids is None else ids[name]
        columns = [f"{name}{i}" for i in range(X[:, cut].shape[1])]
        write_store(urls[name], name, X[:, cut], own, feature_names=columns, graph=A)
    return urls


@pytest.fixture(scope="module")
def over_columns(tmp_path_factory):
    with Federation.local(written(tmp_path_factory.mktemp("columns"))) as running:
        yield running


@pytest.fixture(autouse=True)
def nothing_prepared(over_columns):
    over_columns.preparation = None
    yield
    over_columns.preparation = None


def prepared(federation, steps):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PreparationWarning)
        return Prepare(steps).fit(federation)


def pooled_rows(federation):
    """The clients' prepared columns side by side."""
    federation.start_run("columns", random_state=0)
    told = federation.publish(all_rows, party="clients")
    return np.hstack([told[name].rows for name in federation.clients])


@pytest.mark.parametrize(
    ("steps", "wanted"),
    [
        (["tf-idf"], TfidfTransformer(norm=None).fit_transform(X).toarray()),
        (["normalise"], normalize(X)),
        ([{"smooth": {"order": 2}}], filter_features(A, X, order=2)),
        (
            [{"smooth": {"order": 2, "filter": "laplacian"}}],
            filter_features(A, X, order=2, kind="laplacian"),
        ),
        (STEPS, gcc_features(sparse.csr_array(X), A, filter_order=3, tf_idf=True)),
    ],
)
def test_columns_are_prepared_as_pooled_ones(over_columns, steps, wanted, approved):
    over_columns.preparation = prepared(over_columns, steps)
    close(pooled_rows(over_columns), wanted)


def test_all_learn_lengths_and_nobody_rows(over_columns, approved):
    found = prepared(over_columns, ["normalise"])
    np.testing.assert_allclose(
        found.steps["b"][0]["lengths"], np.linalg.norm(X, axis=1), rtol=1e-12, atol=1e-12
    )
    frame = found.ledger.to_frame()
    to_server = set(frame[frame["receiver"] == "server"]["message"])
    assert to_server == {"Magnitude", "MaskedPart", "SampleDigests"}
    assert set(frame[frame["receiver"] == "caller"]["message"]) == {"Magnitude", "RowLengths"}
    with pytest.warns(PreparationWarning, match="2 samples have zeros alone"):
        Prepare("normalise").fit(over_columns)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:kCAGC compares directions:UserWarning")  # of b's one column
def test_labels_over_columns_are_those_of_the_pooled_graph(over_columns, tmp_path, approved):
    over_columns.preparation = prepared(over_columns, STEPS)
    model = OmniFC(K, clusterer="reduced-k-means", split="columns", random_state=0)
    found = model.fit(over_columns).labels_.values
    features = gcc_features(sparse.csr_array(X), A, filter_order=3, tf_idf=True)
    assert ari(found, ReducedKMeans().pooled_labels(features, K, 0)) == 1.0
    assert ari(found, Y) > 0.9
    # lengths are known of the fit's samples alone
    few = {name: str(tmp_path / f"{name}.zarr") for name in CUTS}  # as many as those of the fit
    for name, cut in CUTS.items():
        columns = [f"{name}{i}" for i in range(X[:, cut].shape[1])]
        ids = [f"new{i}" for i in range(N)]
        write_store(few[name], name, X[:, cut] / 2, ids, feature_names=columns)
    with pytest.raises(PartyError, match="a sample's length over the columns of all clients"):
        model.predict(over_columns, few)
    again = KCAGC(K, filter_order=0, random_state=0).fit(over_columns).labels_.values
    assert ari(again, Y) > 0.9


@pytest.mark.parametrize(
    ("step", "so_far", "allowed"),
    [
        (steps_.squared_lengths, [{"step": "tf-idf", "own": True}, {"step": "log"}], True),
        (steps_.squared_lengths, [{"step": "min-max", "low": {"a": 0}, "width": {"a": 1}}], False),
        (steps_.squared_lengths, [{"step": "clip", "low": 5.0}], False),
        (steps_.squared_lengths, [{"step": "normalise", "lengths": [1.0]}], False),
        (steps_.sums, [{"step": "clip", "low": 5.0}], True),
        (steps_.sums, [{"step": "normalise", "lengths": [1.0, 1e300]}], False),
        (noisy_moments, [{"step": "log"}, {"step": "clip", "low": 0.0}], True),
        (noisy_moments, [{"step": "min-max", "own": True}], False),
        (noisy_moments, [{"step": "smooth", "order": 1}], False),
    ],
)
def test_what_a_site_prepares_before_a_sum(step, so_far, allowed):
    noised = {"n_shares": 1, "declared": Declared((0.0,), (1.0,), 1.0)}
    given = {"so_far": so_far, **(noised if step is noisy_moments else {})}
    assert (broken_rule(step, given, Announced(clients=("a", "b"))) is None) == allowed


def test_lengths_that_the_sum_cannot_tell_are_refused():
    total = Total(np.array([[4.0], [1e-7], [0.0], [4.0]]), 1e-12, ("a", "b"))
    with pytest.raises(InvalidInput, match="too few digits for the shortest"):
        steps_.row_lengths(total)
    whole = Total(np.array([[4.0], [1e-12], [0.0], [4.0]]), 1e-12, ("a", "b"))
    np.testing.assert_array_equal(steps_.row_lengths(whole).lengths, [2.0, 0.0, 0.0, 2.0])


def test_features_are_shifted_before_they_are_smoothed(tmp_path):
    store = ClientStore.open(written(tmp_path)["a"])
    smooth, shift = (
        {"step": "smooth", "order": 1, "filter": "agc"},
        {"step": "jitter", "share": 0.1},
    )
    steps = _before_smoothing([{"step": "log"}, smooth], {**shift, "seed": 0})
    assert [one["step"] for one in steps] == ["log", "jitter", "smooth"]
    found = PreparedStore.of(store, steps)
    plain = PreparedStore.of(store, [{"step": "log"}, smooth])
    apart = np.abs(found.rows(0, N) - plain.rows(0, N)).max()
    assert 0.0 < apart < 0.5
    assert _before_smoothing([], shift) == [shift]
    plain.rows(0, 9)[:] = 7.0  # whoever writes to rows that were read writes to none that are kept
    assert (plain.rows(0, 9) != 7.0).any()


def test_samples_in_another_order_are_refused(tmp_path):
    ids = {name: [f"s{i}" for i in range(N)] for name in CUTS}
    ids["c"] = ids["c"][::-1]
    with Federation.local(written(tmp_path, ids)) as federation:
        with pytest.raises(PartyError, match="same samples in the same order"):
            Prepare("normalise").fit(federation)


def test_lengths_follow_steps_that_are_the_same_at_all(over_columns):
    steps = [{"min-max": {"low": 0, "high": 9}}, "normalise"]
    with pytest.raises(InvalidInput, match="can follow steps without numbers"):
        Prepare(steps).fit(over_columns)


def test_words_count_over_all_clients_that_hold_samples(tmp_path):
    alone = X.copy()
    alone[20:, 0] = 0.0  # a word that one client has
    rows = dict(zip("abc", np.split(alone, [20, 60]), strict=True))
    pooled = np.vstack(list(rows.values()))
    with federation_of(tmp_path, rows) as federation:
        federation.smallest = Smallest(1, 1)
        federation.preparation = prepared(federation, "tf-idf")
        wanted = TfidfTransformer(norm=None).fit_transform(pooled).toarray()
        close(prepared_rows(federation), wanted)
        federation.preparation = None
        often = int((pooled > 0)[:, 0].sum())
        federation.smallest = Smallest(often, 2)
        idf = np.array(prepared(federation, "tf-idf").steps["a"][0]["idf"])
        counts = (pooled > 0).sum(axis=0)
        often_enough = (counts >= often) & (np.arange(20) > 0)
        known = np.where(often_enough, counts, 0)  # of rarer words nobody learns how rare
        assert 0 < often < counts[1:].min()
        np.testing.assert_allclose(idf, np.log((1 + N) / (1 + known)) + 1)
        federation.preparation = prepared(federation, {"smooth": {"order": 1}})
        with pytest.raises(PartyError, match="the store has none"):
            prepared_rows(federation)


def test_noise_and_a_grid_are_refused(over_columns, tmp_path):
    bare = prepared(over_columns, {"smooth": {"order": 1}}).bare
    with pytest.raises(PrivacyError, match="prepared by 'smooth'"):
        check_noise_beside("FederatedKMeans", bare)
    halves = {"a": X[:40, :8], "b": X[40:, :8], "c": X[:40, 8:], "d": X[40:, 8:]}
    urls = {}
    for name, rows in halves.items():
        urls[name] = str(tmp_path / f"{name}.zarr")
        first = 0 if name in "ac" else 40
        columns = [f"{'left' if name in 'ab' else 'right'}{i}" for i in range(rows.shape[1])]
        ids = [f"s{i}" for i in range(first, first + len(rows))]
        write_store(urls[name], name, rows, ids, feature_names=columns)
    with Federation.local(urls) as federation:
        for step in ("normalise", {"pca": {"n_components": 2}}):
            with pytest.raises(InvalidInput, match="'a' and others have some of them alone"):
                Prepare(step).fit(federation)


@pytest.mark.parametrize(
    ("steps", "match"),
    [
        ([{"smooth": {"order": 0}}], "'order' parameter of step 'smooth'"),
        ([{"smooth": {"order": 2, "filter": "x"}}], "'filter' parameter of step 'smooth'"),
        (["smooth"], "the step 'smooth' needs the parameter 'order'"),
        ([{"smooth": {"order": 2}}, "log"], "'smooth' must be the last step"),
    ],
)
def test_wrong_steps_are_refused_where_they_are_written(steps, match):
    with pytest.raises(InvalidInput, match=match):
        Prepare(steps)
