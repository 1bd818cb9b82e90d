"""OmniFC where samples lack columns: distances over what two share, scaled."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics import silhouette_score
from sklearn.metrics.pairwise import nan_euclidean_distances

from daskfc import Federation, OmniFC
from daskfc.clustering import FullDistances, Hierarchical, make_clusterer
from daskfc.clustering.clusterers.library import placed
from daskfc.coding import LagrangeCode, ResidueSystem
from daskfc.errors import DecodingError, InvalidInput, PartyError
from daskfc.federation.planning.rehearsal import Rehearsal
from daskfc.federation.steps.rules import Announced, broken_rule
from daskfc.pairwise import SymmetricGrid
from daskfc.runs.planning.rehearse import STAND_INS
from daskfc.secure.distances import own_modularity
from daskfc.secure.distances.parties import party
from daskfc.secure.distances.parties.by_columns import plan_of_columns
from daskfc.secure.distances.parties.gaps import allow_gaps, gaps_of
from daskfc.secure.distances.parties.messages import (
    CodedRows,
    GapReport,
    GapsAllowed,
    HidingKey,
    Landmarks,
    PublicPlan,
    RowPositions,
    SampleSummary,
)
from daskfc.secure.distances.routes import grids
from daskfc.secure.distances.sizing.memory import Workload, needs
from daskfc.seeds import integer_seed
from daskfc.site.approved import Protocol, StepUse
from daskfc.stores import ClientStore, write_store
from daskfc.stores.dealing.views import draw_holders
from tests.protocols.conftest import by_id

IRIS, DIGITS = load_iris().data, load_digits().data[:240]
OWN = [[0], [1, 3], [2]]
FIND_CLUSTERS = ("dbscan", "hdbscan", "affinity-propagation")


def with_gaps(X, own, share=0.75, seed=0):
    """Return X with NaN for the columns that samples lack: all have those of the last client."""
    random, holed = np.random.default_rng(seed), X.astype(float)
    for columns in own[:-1]:
        holed[np.ix_(random.random(len(X)) > share, columns)] = np.nan
    return holed


def dealt(folder, holed, cells, seed=1):
    """Write the columns of each cell, of its samples that have them, in an order of its own."""
    urls, random = {}, np.random.default_rng(seed)
    for number, (rows, columns) in enumerate(cells, start=1):
        there = rows[~np.isnan(holed[np.ix_(rows, columns)]).any(axis=1)]
        rows = random.permutation(there)
        name = f"client-{number}"
        urls[name] = str(folder / f"{name}.zarr")
        write_store(
            urls[name], name, holed[np.ix_(rows, columns)], [str(row) for row in rows],
            feature_names=[f"x{c}" for c in columns], dtype="float64",
        )  # fmt: skip
    return urls


def of_columns(X, own):
    return [(np.arange(len(X)), columns) for columns in own]


def shared(X, steps=1.0):
    """Return squared distances of whole steps that two samples share, scaled to all columns.

    As scikit-learn's, but for rounding, which would tell equal distances apart.
    """
    whole = np.rint(X * steps)
    squares, common = np.zeros((len(X), len(X))), np.zeros((len(X), len(X)))
    for column in whole.T:
        apart = np.square(column[:, None] - column)
        squares += np.nan_to_num(apart)
        common += ~np.isnan(apart)
    D = squares / steps**2 * (X.shape[1] / common)
    np.testing.assert_allclose(D, nan_euclidean_distances(X, squared=True), atol=1e-9)
    return D


def oracle(D, clusterer, n_clusters, seed=0):
    """Return the labels of a clusterer on a matrix of squared distances."""
    made = make_clusterer(clusterer)
    view = FullDistances.in_order(D.copy())
    found = made.fit(view, n_clusters, integer_seed(seed, made.name))
    return view.order.back(view.order.alike(found.labels))


@pytest.fixture(scope="module")
def holed(tmp_path_factory):
    """Return iris with gaps, and a federation on it."""
    X = with_gaps(IRIS, OWN)
    folder = tmp_path_factory.mktemp("holed")
    with Federation.local(dealt(folder, X, of_columns(X, OWN))) as federation:
        yield X, federation


CLUSTERERS = {
    "spectral": "spectral",
    "gaussian": {"spectral": {"affinity": "gaussian"}},
    "k-medoids": "k-medoids",
    "average": {"hierarchical": {"linkage": "average"}},
    "dbscan": {"dbscan": {"eps": 0.6}},
    "hdbscan": {"hdbscan": {"n_neighbors": 10}},
    "affinity-propagation": "affinity-propagation",
    "library": {
        "scikit-learn": {
            "estimator": "AgglomerativeClustering",
            "options": {"linkage": "complete", "metric": "precomputed"},
            "on": "distances",
        }
    },
}


@pytest.mark.few(5)
@pytest.mark.parametrize("name", CLUSTERERS)
def test_labels_are_those_of_distances_that_know_gaps(holed, approved, name):
    X, federation = holed
    n_clusters = None if name in FIND_CLUSTERS else 3
    model = OmniFC(n_clusters, clusterer=CLUSTERERS[name], split="grid", gaps="scale")
    model.fit(federation)
    D = shared(X, 10)
    np.testing.assert_array_equal(by_id(model.labels_), oracle(D, CLUSTERERS[name], n_clusters))
    assert len(model.labels_) == len(X)  # each sample once
    lacks = np.isnan(X)
    assert model.gaps_.lacking == lacks.any(axis=1).sum() > 0
    common = 4 - (lacks[:, None] | lacks).sum(axis=2)[np.triu_indices(len(X), 1)]
    assert (model.gaps_.scaled, model.gaps_.apart) == ((common < 4).sum(), 0)
    assert model.gaps_.share == common.min() / 4
    told = model.choices["columns in common"]
    assert f"{model.gaps_.lacking} samples lack some: {model.gaps_.scaled:,} pairs scaled" in told
    assert model.choices["distances"].startswith("blocks: samples lack columns")
    assert model.sample_map(federation) is not None


def test_tiles_and_graphs_of_neighbours_are_the_same(holed, approved, monkeypatch):
    """As many samples have: the server keeps graphs, and no matrix."""
    X, federation = holed
    D = shared(X, 10)
    monkeypatch.setattr("daskfc.protocols.omnifc.clusters.FEW", 20)
    spec = {"dbscan": {"eps": 0.6}}
    how = {"split": "grid", "gaps": "scale", "tile": 64, "distances": "blocks"}
    model = OmniFC(None, clusterer=spec, **how).fit(federation)
    found, wanted = by_id(model.labels_), oracle(D, spec, None)
    core = (D <= 0.36).sum(axis=1) >= 5  # whose clusters do not hang on the order of samples
    np.testing.assert_array_equal(found < 0, wanted < 0)
    same = found[core, None] == found[core]
    np.testing.assert_array_equal(same, wanted[core, None] == wanted[core])


def test_clusters_of_many_samples_by_single_linkage_take_all_distances(
    holed, approved, monkeypatch
):
    """Where it takes coordinates of others, and none of these."""
    X, federation = holed
    monkeypatch.setattr(Hierarchical, "needs", lambda self, n, d: "rows")
    spec = {"hierarchical": {"linkage": "single"}}
    model = OmniFC(3, clusterer=spec, split="grid", gaps="scale").fit(federation)
    monkeypatch.undo()
    np.testing.assert_array_equal(by_id(model.labels_), oracle(shared(X, 10), spec, 3))


def test_a_fit_goes_on_with_the_blocks_that_are_there(holed, approved, monkeypatch, tmp_path):
    _, federation = holed
    monkeypatch.setattr(federation, "workspace", str(tmp_path))
    given = {"clusterer": "k-medoids", "split": "grid", "gaps": "scale", "tile": 70}
    fits = [OmniFC(3, **given).fit(federation) for _ in range(2)]
    counts = [[row.message for row in fit.ledger_].count("CodedDistances") for fit in fits]
    assert counts == [6 * 3, 0]
    np.testing.assert_array_equal(*(by_id(fit.labels_) for fit in fits))


def test_a_grid_with_gaps_has_the_labels_of_what_samples_share(tmp_path, approved):
    """Three times three clients; whole numbers, of which distances are exact."""
    rows = np.array_split(np.random.default_rng(0).permutation(len(DIGITS)), 3)
    columns = np.array_split(np.arange(64), 3)
    X = with_gaps(DIGITS, columns, 0.9)
    spec = {"hierarchical": {"linkage": "average"}}
    cells = [(part, own) for part in rows for own in columns]
    workers = {"cluster": "local", "server": {"workers": 2}}  # who do not know who lacks what
    with Federation.local(dealt(tmp_path, X, cells), cluster=workers) as federation:
        model = OmniFC(10, tile=100, split="grid", gaps="scale", clusterer=spec).fit(federation)
        assert model.dropped_evaluators_ == {}
    wanted = oracle(shared(X), spec, 10)
    np.testing.assert_array_equal(by_id(model.labels_), wanted)
    assert len(model.labels_) == len(DIGITS)


@pytest.mark.parametrize("balance", [True, "modularity"])
def test_views_of_which_half_the_samples_have_one(tmp_path, approved, balance):
    """In units of their own, counted by weight; samples without a common column are apart."""
    units, own = np.array([1.0, 1e3, 1e-2, 1e3]), [[0], [1, 3], [2]]
    held = draw_holders(len(IRIS), 2, overlap=0.5, seed=3)
    X = IRIS * units
    X[np.ix_(~held[:, 0], [0, 1, 3])] = np.nan
    X[~held[:, 1], 2] = np.nan
    given = {"clusterer": "spectral", "split": "grid", "balance": balance}
    weights = [1.0, 1.0, 1.0]
    with Federation.local(urls := dealt(tmp_path, X, of_columns(X, own))) as federation:
        model = OmniFC(3, gaps="apart", **given).fit(federation)
        alone = held.sum(axis=1) == 1
        n_apart = int((alone & held[:, 0]).sum() * (alone & held[:, 1]).sum())
        assert model.gaps_.apart == n_apart > 0
        with pytest.raises(PartyError, match=f"{n_apart:,} pairs have none, so that nothing tells"):
            OmniFC(3, gaps="scale", **given).fit(federation)
        sent = {row.message for row in federation.ledger}
        assert "SampleSummary" in sent
        assert "CodedRows" not in sent  # it is refused before any work
    D, weight = np.zeros((len(X), len(X))), np.zeros((len(X), len(X)))
    if balance == "modularity":
        how = {"n_clusters": 3, "seed": integer_seed(0, "own columns")}
        weights = [own_modularity(ClientStore.open(url), **how) for url in urls.values()]
        assert list(model.weights_.values()) == pytest.approx(np.divide(weights, sum(weights)))
    for columns, own_weight in zip(own, weights, strict=True):
        part = X[:, columns]
        there = np.flatnonzero(~np.isnan(part[:, 0]))
        part = part[there] * np.sqrt(own_weight / (2 * part[there].var(axis=0).sum()))
        D[np.ix_(there, there)] += np.square(part[:, None] - part).sum(axis=2)
        weight[np.ix_(there, there)] += own_weight
    assert model.gaps_.share == pytest.approx(weight[weight > 0].min() / sum(weights))
    D = np.where(weight > 0, sum(weights) * D / np.where(weight > 0, weight, 1), model.gaps_.far)
    assert D.max() == model.gaps_.far
    np.testing.assert_array_equal(by_id(model.labels_), oracle(D, "spectral", 3))
    assert "share none and are apart" in model.choices["columns in common"]


def test_without_gaps_labels_and_messages_are_those_of_today(tmp_path, approved):
    with Federation.local(dealt(tmp_path, IRIS, of_columns(IRIS, OWN))) as federation:
        for spec in ("spectral", "k-medoids"):
            today = OmniFC(3, clusterer=spec, split="grid").fit(federation)
            model = OmniFC(3, clusterer=spec, split="grid", gaps="scale").fit(federation)
            np.testing.assert_array_equal(by_id(model.labels_), by_id(today.labels_))
            assert model.route_ == today.route_ == "columns"
            assert "columns in common" not in model.choices
            assert model.gaps_ is None
            told, before = ([row.message for row in one.ledger_] for one in (model, today))
            told.remove("GapReport")
            assert sorted(told) == sorted(before)


def test_numbers_of_clusters_are_chosen_beside_gaps(holed, approved):
    X, federation = holed
    model = OmniFC(2, clusterer="k-medoids", split="grid", gaps="scale")
    scores = model.scores_of(federation, [2, 3], by="silhouette")
    D = shared(X, 10)
    for k, score in scores.items():
        labels = oracle(D, "k-medoids", k)
        wanted = silhouette_score(np.sqrt(D), labels, metric="precomputed")
        assert score == pytest.approx(wanted)


def test_what_the_server_learns_of_one_clients_columns():
    """The attack of docs/attacks.md, on the distances that the server has."""
    X, lacks = IRIS.copy(), np.random.default_rng(0).random(len(IRIS)) < 0.25
    X[np.ix_(lacks, [1, 3])] = np.nan
    D = shared(X, 10)
    D[lacks | lacks[:, None]] /= 2  # it knows that these share two of four columns
    found = FullDistances(D[np.ix_(lacks, lacks)]).coordinates()
    places = placed(found, D[:, lacks])
    others = np.square(places[:, None] - places).sum(axis=2)
    kept = np.ix_(~lacks, ~lacks)
    wanted = np.square(IRIS[:, None, [1, 3]] - IRIS[:, [1, 3]]).sum(axis=2)[kept]
    assert np.abs((D - others)[kept] - wanted).max() < 1e-6 * wanted.max()


def test_a_plan_is_what_the_ledger_says(holed, approved):
    _, federation = holed
    model = OmniFC(3, split="grid", gaps="scale", tile=64).fit(federation)
    plan = Rehearsal(federation.contract.readable, STAND_INS, limits=federation.limits())
    clone(model).rehearse(plan)
    sent = [
        Counter((row.message, row.sender, row.receiver) for row in ledger)
        for ledger in (plan.ledger, model.ledger_)
    ]
    assert sent[0] == sent[1]
    assert plan.ledger.payload_bytes == model.ledger_.payload_bytes


REFUSED = [
    ({"clusterer": "k-means"}, "k-means with these parameters needs points"),
    ({"clusterer": "reduced-k-means"}, "needs points. Use spectral"),
    ({"clusterer": "hierarchical"}, "another linkage than 'ward'"),
    ({"clusterer": "landmark-spectral"}, "landmark-spectral with these parameters needs points"),
    ({"clusterer": "hdbscan", "n_clusters": None}, "HDBSCAN with 'n_neighbors'"),
    ({"clusterer": "optics", "n_clusters": None}, "optics with these parameters needs points"),
    ({"clusterer": {"scikit-learn": {"estimator": "Birch"}}}, "needs points"),
    ({"split": "columns"}, "got split='columns' and distances='exact'. Use split='grid'"),
    ({"split": "samples"}, "got split='samples'"),
    ({"distances": "landmark"}, "distances='landmark'"),
    ({"gaps": "fill"}, "'gaps' parameter of OmniFC"),
]


@pytest.mark.parametrize(("given", "match"), REFUSED, ids=str)
def test_what_gaps_cannot_do_is_refused(given, match):
    with pytest.raises(InvalidInput, match=match):
        OmniFC(**{"n_clusters": 3, "split": "grid", "gaps": "scale", **given}).check()


def test_gaps_are_refused_without_the_parameter_and_predict_with_it(holed):
    _, federation = holed
    with pytest.raises(PartyError, match="leave these samples out, or give split='grid' and gaps"):
        OmniFC(3, split="grid").fit(federation)
    model = OmniFC(3, split="grid", gaps="scale").fit(federation)
    with pytest.raises(InvalidInput, match=r"new samples have no labels .* as \d+ do. Fit again"):
        model.predict(federation)


def test_columns_of_two_clients_have_no_two_units(tmp_path):
    rows = np.array_split(np.arange(len(IRIS)), 2)
    cells = [(part, own) for part in rows for own in ([0, 1], [2, 3])]
    with (
        Federation.local(dealt(tmp_path, IRIS, cells)) as federation,
        pytest.raises(InvalidInput, match="client-1, client-2, client-3, client-4 have some"),
    ):
        OmniFC(3, split="grid", gaps="scale", balance=True).fit(federation)
    with pytest.raises(InvalidInput, match="'balance' parameter of OmniFC is for split='columns'"):
        OmniFC(3, split="grid", balance=True).check()


# -- what is told of what samples share -----------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_factors_are_those_of_each_pair(data):
    n, groups = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 4))
    bits = st.lists(st.booleans(), min_size=groups, max_size=groups).filter(any)
    held = np.array(data.draw(st.lists(bits, min_size=n, max_size=n)))
    sizes = np.array(data.draw(st.lists(st.integers(1, 5), min_size=groups, max_size=groups)))
    weights = sizes * data.draw(st.sampled_from([1.0, 0.25]))
    found = gaps_of(held, sizes, weights, 3.0, "apart")
    if held.all():
        assert found is None
        return
    squares = np.arange(1.0, n * n + 1).reshape(n, n)
    seen = found.scaled(squares, slice(0, n), slice(0, n))
    part = found.scaled(squares[1:3, :2], slice(1, 3), slice(0, 2))
    np.testing.assert_array_equal(part, seen[1:3, :2])
    scaled = apart = 0
    share = 1.0
    for i in range(n):
        for j in range(n):
            common = weights[held[i] & held[j]].sum()
            wanted = squares[i, j] * weights.sum() / common if common else found.report.far
            assert seen[i, j] == pytest.approx(wanted, rel=1e-15)
            if i < j:
                apart += common == 0
                scaled += 0 < common < weights.sum()
                share = min(share, common / weights.sum() or 1.0)
    report = found.report
    assert (report.lacking, report.scaled, report.apart) == ((~held.all(1)).sum(), scaled, apart)
    assert report.share == pytest.approx(share, rel=1e-15)
    assert report.far == pytest.approx(
        36.0 / share, rel=1e-12
    )  # farther than any scaled distance of norms up to 3
    assert report.stretch == pytest.approx(1.0)  # by columns errors scale as distances do
    if apart:
        with pytest.raises(InvalidInput, match=f"{apart} pairs have none"):
            gaps_of(held, sizes, weights, 3.0, "scale")


def test_by_weight_the_grid_is_finer():
    """Samples that share many columns of little weight: their errors are scaled up."""
    held = np.array([[True, True], [True, False]])
    found = gaps_of(held, np.array([90, 10]), np.array([1.0, 9.0]), 1.0, "scale")
    assert found.report.stretch == pytest.approx(10 * 90 / 100)


def test_scaled_distances_are_as_exact_as_whole_ones():
    """Errors of distances that are multiplied are multiplied: the grid is as much finer."""
    report = GapReport(lacking=1, scaled=1, apart=0, share=0.1, far=0.0, stretch=9.0)
    public = PublicPlan(np.array([9]), 9, 5, 8.0, 8.0, 0, 1)
    whole, scaled = (grids.Place(None, public, gaps=gaps) for gaps in (None, report))
    how = {"tolerance": 0.5, "resolve": 0.09}
    coarse, fine = (grids.choose_grid(None, CODE, place, **how) for place in (whole, scaled))
    assert whole.error_of(0.09, coarse) <= 1e-3 * 0.09 < scaled.error_of(0.09, coarse)
    assert scaled.error_of(0.09, fine) <= 1e-3 * 0.09
    # of 5 columns with nine times the share: (√(D / 9) + δ)² - D / 9, nine times
    delta = np.sqrt(5) / fine.scale
    assert scaled.error_of(0.09, fine) == pytest.approx(9 * ((0.1 + delta) ** 2 - 0.01))


def test_evaluators_need_room_for_a_part_beside_the_sum():
    sizes = {"n_samples": 5000, "n_features": 9, "n_segments": 1, "n_primes": 4, "n_answers": 4}
    whole, parts = (
        needs(Workload(**sizes, mode="full", in_parts=gaps), 2048) for gaps in (False, True)
    )
    block = 2048**2
    assert parts.evaluator_bytes - whole.evaluator_bytes == 4 * block + 8 * block
    assert parts.server_bytes == whole.server_bytes


def summary(digests, columns, n_features=2, far=3.0):
    share = int(np.sum(digests) % 97)
    return SampleSummary(np.array(digests, "uint64"), share, n_features, columns, 0, far, 1.5, -1)


def test_another_lack_is_another_problem():
    """Blocks of one are none of the other, which a run that is resumed would read."""
    parts = {"a": summary([1, 2, 3], 7), "b": summary([3, 2], 8), "c": summary([1, 2, 3], 9)}
    plan = plan_of_columns(parts, gaps="scale")
    assert plan.gaps.report.lacking == 1
    weighed = plan_of_columns(parts, gaps="scale", weights={"a": 0.5, "b": 0.3, "c": 0.2})
    assert weighed.gaps.report.share == pytest.approx(0.7)
    assert plan.gaps.report.share == pytest.approx(4 / 6)
    assert plan.problem != weighed.problem


def test_pairs_are_put_apart_by_no_far_origin():
    parts = {"a": summary([1, 2], 7), "b": summary([2, 3], 8)}
    assert plan_of_columns(parts, gaps="apart").gaps.report.apart == 1
    with pytest.raises(InvalidInput, match="not lie farther from 0 than 16 times their range"):
        plan_of_columns({**parts, "a": summary([1, 2], 7, far=1000.0)}, gaps="apart")


# -- evaluators -----------------------------------------------------------------------------------

SYSTEM = ResidueSystem((251, 241), 1.0, 251 * 241 - 1)
CODE = LagrangeCode(1, 1, 3)


def evaluators_part(gaps="ab", positions=(0, 1, 1, 2), groups=(0, 1), code=CODE, hiding=None):
    """Return shares of two clients with two samples and columns each, and what is made of them."""
    told = RowPositions(np.array(positions), np.array([2, 4]), np.array(groups))
    values = np.random.default_rng(0).integers(0, 241, (2, 2, 2, 2)).astype(np.uint8)
    parts = {
        name: [CodedRows(rows, np.empty(0, "uint8"), 0, 2, 2, 7)]
        for name, rows in zip("ab", values, strict=True)
    }
    allowed = {name: GapsAllowed(1) for name in gaps} if gaps is not None else None
    return values, party.assemble(parts, told, hiding, allowed, code=code, system=SYSTEM)


@pytest.mark.parametrize("tile", [2, 3])
def test_an_evaluator_answers_by_what_two_samples_share(tile):
    """An absent group's zeros must not tell how long the other sample's share is."""
    values, coded = evaluators_part()
    a, b = values.astype(int)
    assert [held.tolist() for _, held in coded.parts] == [[True, True, False], [False, True, True]]
    grid = SymmetricGrid(3, tile)
    how = {"grid": grid, "code": CODE, "system": SYSTEM, "evaluators": ["a", "b", "c"]}
    for engine in ("auto", "f64"):
        whole = np.zeros((2, 3, 3), dtype=int)
        for i, j in grid.blocks():
            told = party.answer_block(coded, "a", i=i, j=j, engine=engine, **how)
            whole[:, grid.panel(i), grid.panel(j)] = told.residues
        for r, p in enumerate(SYSTEM.primes):
            assert whole[r, 0, 1] == np.square(a[r, 0] - a[r, 1]).sum() % p  # of client a's alone
            assert whole[r, 1, 2] == np.square(b[r, 0] - b[r, 1]).sum() % p
            assert whole[r, 0, 2] == whole[r, 0, 0] == whole[r, 1, 1] == whole[r, 2, 2] == 0


def test_evaluators_take_gaps_that_every_client_was_told_of_alone():
    """A driver that announces them to some has no step by which the others allow them."""
    for gaps in (None, "", "a", "b", "ac"):
        with pytest.raises(DecodingError, match="columns must be shared by one client each"):
            evaluators_part(gaps)
    with pytest.raises(DecodingError, match="columns must be shared by one client each"):
        evaluators_part("ab", (0, 1, 1, 1))  # twice
    with pytest.raises(DecodingError, match="must be shared out in one segment; the run asks for"):
        evaluators_part(code=LagrangeCode(2, 1, 5))
    with pytest.raises(DecodingError, match="must be shared out in one segment"):
        evaluators_part(hiding=HidingKey(np.zeros(32, "uint8")))
    assert evaluators_part("ab", (0, 1, 1, 0))[1].parts == ()  # there are none
    step = f"{allow_gaps.__module__}.{allow_gaps.__name__}"
    sends = frozenset({"client → client"})
    use = StepUse(step, "client", sends, {"evaluators": frozenset({"caller"})})
    for gaps, refused in (("refuse", True), (None, True), ("scale", False), ("apart", False)):
        said = Protocol.of("OmniFC").refusal(use, {"split": "grid", "gaps": gaps})
        assert (said is not None) == refused
    names = {"evaluators": ["a", "z"]}
    assert broken_rule(allow_gaps, names, Announced(clients=("a", "b"))) is not None


def test_columns_and_new_samples_are_refused_beside_gaps():
    """Their distances to zeros would be lengths."""
    _, coded = evaluators_part()
    _, full = evaluators_part("ab", (0, 1, 1, 0))
    how = {"start": 0, "stop": 2, "code": CODE, "system": SYSTEM, "evaluators": ["a", "b", "c"]}
    how["engine"] = "auto"
    with pytest.raises(DecodingError, match="have distances to each other in blocks of pairs"):
        party.answer_columns(coded, Landmarks(np.array([1])), "a", turn=0, **how)
    for fitted, new in ((coded, full), (full, coded)):
        with pytest.raises(DecodingError, match="have distances to each other in blocks of pairs"):
            party.answer_new(fitted, new, "a", panel="p", **how)
