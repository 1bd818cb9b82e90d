"""OmniFC from the last fit's distances: new samples alone are shared, labels are the full fit's."""

import os
import shutil
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from daskfc import Federation, Prepare
from daskfc.coding import LagrangeCode, ResidueSystem, SecretKey
from daskfc.errors import InvalidInput, PartyError, StoreError
from daskfc.federation import CALLER
from daskfc.federation.planning.rehearsal import Rehearsal
from daskfc.protocols import OmniFC
from daskfc.protocols.omnifc import clusters
from daskfc.runs.planning.rehearse import STAND_INS
from daskfc.secure.distances import Columns, RowPlan
from daskfc.secure.distances.parties.messages import KeptRows, RowTags
from daskfc.secure.distances.routes import last_fit
from daskfc.secure.distances.routes.last_fit import KeptFit
from daskfc.secure.distances.routes.rows import encode_quantised
from daskfc.secure.sums import Centre
from daskfc.site import Policy, RunRequest
from daskfc.site.approved import Protocol, StepUse
from daskfc.stores import ClientStore, append_samples
from daskfc.testing.federation import stores_of

pytestmark = pytest.mark.slow

N_CLIENTS, N_FEATURES = 4, 5
NEW, SPAN = "samples since the last fit, where start is last", "dimensions that the samples span"
SPECS = {
    "dbscan": {"clusterer": {"dbscan": {"eps": 1.2, "min_samples": 5}}},
    "k-means": {"n_clusters": 3, "clusterer": "k-means"},
    "spectral": {"n_clusters": 3, "clusterer": "spectral"},
}
KEPT = "the distances of the last fit like this one, and {} new samples"


def some_rows(n, seed, n_features=N_FEATURES):
    random = np.random.default_rng(seed)
    centres = 4 * np.eye(3, n_features)
    return centres[random.integers(0, 3, n)] + random.normal(size=(n, n_features)) / 2


def rows_of(n, **options):
    return {f"client-{i}": some_rows(n, i, **options) for i in range(N_CLIENTS)}


def night(stores, kept, *models, **options):
    """Fit with what earlier nights kept, on new processes; return the models as they are then."""
    with Federation.local(stores, **options) as federation:
        federation.results = str(kept)
        return [model.fit(federation) for model in models]


def last(**spec):
    return OmniFC(**spec, start="last")


def fits(spec):
    """The fit that goes on, and the one that begins anew."""
    return last(**spec), OmniFC(**spec)


def grow(folder, base, new, night=0):
    """Copy stores, and append rows to some."""
    for client, url in base.items():
        shutil.copytree(url, Path(folder) / f"{client}.zarr")
    stores = {client: str(Path(folder) / f"{client}.zarr") for client in base}
    for client, X in new.items():
        append_samples(
            stores[client], X, sample_ids=[f"{client}/{night}/{i}" for i in range(len(X))]
        )
    return stores


def shared(model):
    """How many rows of each client an evaluator got, that is sent residues and no key."""
    found = Counter()
    for row in model.ledger_:
        if row.message == "CodedRows":
            found[row.sender, row.receiver] += row.shapes["residues"][1]
    of_client = Counter()
    for (sender, _), n in found.items():
        of_client[sender] = max(of_client[sender], n)
    return of_client


def equal(a, b):
    np.testing.assert_array_equal(a.labels_.values, b.labels_.values)
    assert list(a.labels_.sample_id.values) == list(b.labels_.sample_id.values)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """Stores, and what a first night of every kind keeps of them."""
    folder, kept = (tmp_path_factory.mktemp(name) for name in ("first", "kept"))
    stores = stores_of(folder, rows_of(60))
    models = night(stores, kept, *(last(**spec) for spec in SPECS.values()))
    assert {model.choices["start"] for model in models} == {
        "all anew: the server kept none of a fit like this one"
    }
    return stores, kept


@pytest.fixture
def kept(first, tmp_path):
    return shutil.copytree(first[1], tmp_path / "kept")


def test_nothing_of_it_without_being_asked():
    assert OmniFC(3).start == "anew"


def test_labels_are_those_of_a_full_fit(first, kept, tmp_path):
    """New samples at one client, and in the next night at all."""
    stores, landmarks = first[0], set()
    for clients in (["client-2"], [f"client-{i}" for i in range(N_CLIENTS)]):
        folder = tmp_path / str(len(clients))
        folder.mkdir()
        new = {c: some_rows(2, 50 + i) for i, c in enumerate(clients)}
        stores = grow(folder, stores, new, night=len(clients))
        models = night(stores, kept, *(m for spec in SPECS.values() for m in fits(spec)))
        for going_on, anew in zip(models[::2], models[1::2], strict=True):
            equal(going_on, anew)
            assert going_on.choices["start"] == KEPT.format(2 * len(clients))
            assert "start" not in anew.choices
            landmarks.add(sum(shared(going_on).values()) - 2 * len(clients))
            assert sum(shared(anew).values()) == len(anew.labels_)
        told = {row.message for row in models[0].ledger_ if row.receiver == CALLER}
        assert told == {
            "ClusterReport", "DecodedBlock", "LabelledSamples", "LandmarkStatus", "LastFit",
            "PointsStatus", "PublicPlan",
        }  # fmt: skip
        (row,) = (row for row in models[0].ledger_ if row.message == "LastFit")
        assert row.shapes["samples"] == [N_CLIENTS]
        assert row.shapes["rounds"][0] < 5
    assert N_FEATURES < min(landmarks)
    assert max(landmarks) < 40
    assert all(path.stat().st_mode & 0o077 == 0 for path in Path(kept).iterdir())


@pytest.mark.usefixtures("approved")
@pytest.mark.parametrize(("mean", "workers"), [(0, 1), (1000, 2)])
def test_graphs_grow_with_the_samples(tmp_path, monkeypatch, mean, workers):
    """Where samples are too many for all distances, which are a few here."""
    monkeypatch.setattr(clusters, "FEW", 50)
    specs = [SPECS["dbscan"], SPECS["spectral"]]
    if workers > 1:  # neighbours of which no list is kept
        specs[1] = {"n_clusters": 3, "clusterer": {"spectral": {"n_neighbors": 30}}}
    cluster = {"cluster": "local", "server": {"workers": workers}}
    stores = stores_of(tmp_path, {name: X + mean for name, X in rows_of(60).items()})
    # of others the mean would be another
    some = {"client-1": 1, "client-2": 3} if mean == 0 else {}
    for number, new in enumerate([{}, some]):
        folder = tmp_path / f"night-{number}"
        folder.mkdir()
        more = {client: some_rows(n, 50) + mean for client, n in new.items()}
        stores = grow(folder, stores, more, number)
        models = night(
            stores, tmp_path / "kept", *(m for s in specs for m in fits(s)), cluster=cluster
        )
        for going_on, anew in zip(models[::2], models[1::2], strict=True):
            equal(going_on, anew)
            if number:
                assert going_on.choices["start"] == KEPT.format(sum(some.values()))
        kept = sorted((tmp_path / "kept").glob("*/graph/*"))
        assert len(kept) == (3 - workers) * (number + 1)


def test_rows_that_changed_or_went_are_noticed(first, kept, tmp_path):
    rows = rows_of(60)
    rows["client-1"][7, 2] += 0.25
    rows["client-3"] = rows["client-3"][:-1]
    models = night(stores_of(tmp_path, rows), kept, *fits(SPECS["dbscan"]))
    equal(*models)
    said = "all anew: the first samples of client-1, client-3 are not those of the last fit"
    assert models[0].choices["start"].startswith(said)
    assert shared(models[0]) == shared(models[1])


def test_what_is_not_alike_uses_nothing(first, kept):
    """Other parameters, another seed, other preparation."""
    k_means = SPECS["k-means"]
    with Federation.local(first[0]) as federation:
        federation.results = str(kept)
        for other in ({**k_means, "n_clusters": 4}, {**k_means, "random_state": 1}):
            said = last(**other).fit(federation).choices["start"]
            assert "kept none of a fit like this one" in said
        federation.preparation = Prepare("standardise").fit(federation)
        models = [model.fit(federation) for model in fits(k_means)]
        equal(*models)
        assert models[0].choices["start"].endswith("or are prepared or centred otherwise")
        again = last(**k_means).fit(federation)
        assert again.choices["start"] == KEPT.format(0)
        federation.results = None
        with pytest.raises(PartyError, match="no folder in which a result outlives its run"):
            last(**k_means).fit(federation)


def test_another_client_begins_anew(first, kept, tmp_path):
    stores = {**first[0], **stores_of(tmp_path, {"client-9": some_rows(3, 9)})}
    models = night(stores, kept, *fits(SPECS["k-means"]))
    equal(*models)
    assert "kept none of a fit like this one" in models[0].choices["start"]


@pytest.mark.long
def test_samples_beyond_the_range_begin_anew(first, kept, tmp_path):
    stores = grow(tmp_path, first[0], {"client-0": some_rows(1, 3) + 40})
    models = night(stores, kept, *fits(SPECS["dbscan"]))
    equal(*models)
    assert models[0].choices["start"].startswith("all anew: the samples' range or grid")


def test_samples_outside_of_the_landmarks_span_have_all_shared_out(tmp_path):
    """A column that was constant before: landmarks lie in the others alone."""
    rows = rows_of(40)
    for X in rows.values():
        X[:, -1] = 1.0
    (tmp_path / "before").mkdir()
    stores = stores_of(tmp_path / "before", rows)
    two = SPECS["dbscan"], SPECS["k-means"]
    night(stores, tmp_path / "kept", *(last(**spec) for spec in two))
    grown = grow(tmp_path, stores, {"client-3": some_rows(2, 5)})
    models = night(grown, tmp_path / "kept", *(m for spec in two for m in fits(spec)))
    for going_on, anew in zip(models[::2], models[1::2], strict=True):
        equal(going_on, anew)
        assert going_on.choices["start"].endswith("of the landmarks: all were shared out")


def test_a_finer_grid_is_taken_at_once(tmp_path):
    """Where labels depend on small distances, the next night begins on the grid that tells them."""
    rows = rows_of(40)
    for X in rows.values():
        X[::2] = X[1::2] + 1e-7 * np.random.default_rng(0).normal(size=X[1::2].shape)
    spec = {"n_clusters": 40, "clusterer": {"hierarchical": {"linkage": "single"}}}
    (tmp_path / "before").mkdir()
    stores = stores_of(tmp_path / "before", rows)
    before = night(stores, tmp_path / "kept", last(**spec))[0]
    finer = before._fitted.distances
    assert finer.since.resolved > 0
    assert "smaller distances" not in before.choices["start"]
    grown = grow(tmp_path, stores, {"client-3": some_rows(2, 5)})
    models = night(grown, tmp_path / "kept", *fits(spec))
    equal(*models)
    assert models[0].choices["start"] == KEPT.format(2)
    assert models[0]._fitted.distances.system == finer.system


def test_one_per_cent_more_rows_cost_few_bytes(tmp_path):
    """Of samples that are seen from their mean."""
    rows = {name: X + 1000 for name, X in rows_of(1200, n_features=90).items()}
    (tmp_path / "before").mkdir()
    stores = stores_of(tmp_path / "before", rows, chunk_rows=512)
    night(stores, tmp_path / "kept", last(**SPECS["k-means"]))
    grown = grow(tmp_path, stores, {"client-3": some_rows(48, 5, 90) + 1000})
    models = night(grown, tmp_path / "kept", *fits(SPECS["k-means"]))
    equal(*models)
    assert models[0].choices["start"] == KEPT.format(48)
    assert "Centre" in {row.message for row in models[0].ledger_}
    going_on, anew = (sum(row.wire_bytes for row in model.ledger_) for model in models)
    assert going_on < 0.04 * anew
    # a plan of that night, which is told how many samples there are since the last
    stores = {name: ClientStore.open(url) for name, url in grown.items()}
    planned = Rehearsal(stores, STAND_INS, assumed={NEW: 48, SPAN: 90})
    last(**SPECS["k-means"]).rehearse(planned)
    found = models[0].ledger_
    sent = [{(r.message, r.sender, r.receiver) for r in one} for one in (planned.ledger, found)]
    assert sent[0] == sent[1]
    assert planned.ledger.wire_bytes == pytest.approx(found.wire_bytes, rel=0.1)
    first_night = Rehearsal(stores, STAND_INS, assumed={SPAN: 90})
    last(**SPECS["k-means"]).rehearse(first_night)
    assert first_night.ledger.wire_bytes == pytest.approx(anew, rel=0.1)


def test_a_fit_that_is_begun_again_goes_on_from_where_it_did(first, kept, tmp_path):
    stores = grow(tmp_path, first[0], {"client-0": some_rows(2, 3)})
    killed = []
    with Federation.local(stores) as federation:
        federation.results, federation.workspace = str(kept), str(tmp_path / "run")
        anew = OmniFC(**SPECS["dbscan"]).fit(federation)

        def kill_once(stage, done, total):
            if stage == "landmarks" and done and not killed:
                killed.append(federation.processes.pid("server"))
                os.kill(killed[0], signal.SIGKILL)

        federation.on_progress = kill_once
        going_on = last(**SPECS["dbscan"]).fit(federation)
        federation.on_progress = None
        # what this fit kept meanwhile is for the next run
        again = last(**SPECS["dbscan"]).fit(federation)
        federation.workspace = str(tmp_path / "next")
        then = last(**SPECS["dbscan"]).fit(federation)
    assert killed
    for model, n_new in ((going_on, 2), (again, 2), (then, 0)):
        equal(model, anew)
        assert model.choices["start"] == KEPT.format(n_new)


def test_what_is_not_the_last_fits_is_told_or_refused():
    """A server whose folder was mixed up gives no wrong labels."""
    X = np.arange(8.0)[:, None] ** 2
    D = np.square(X - X[[0, 3]].T).astype(np.uint32)
    system = ResidueSystem((251, 241, 239), 1.0, 10_000)
    plan = RowPlan({"a": np.arange(4), "b": np.arange(4, 8)}, 1, 50.0, 50.0, 1, 0)
    kept = KeptFit(
        clients=np.array(["a", "b"]),
        n_rows=np.array([4, 3]),
        tags=np.zeros(2, np.int64),
        landmarks=np.array([[0, 0], [0, 3]]),
        rounds=np.array([2]),
        near=D[:7],
        rest=np.empty((0, 0)),
        grid=np.array(repr(system)),
        **dict.fromkeys(("resolved", "radius", "grids"), np.array(0.0)),
    )
    again = last_fit.shared_again(kept, plan)
    assert {name: own.tolist() for name, own in again.positions.items()} == {"a": [1, 2], "b": [0]}
    tags = {"a": RowTags(0, 1), "b": RowTags(1, 1)}
    assert last_fit.last_fit(kept, tags, plan).samples.tolist() == [4, -1]
    today = [Columns(D[[7, 0]].astype(float), np.empty(0, np.int64))]
    how = {"turn": 0, "system": system}
    found = last_fit.columns_of_round(kept, plan, again, today, **how)
    np.testing.assert_array_equal(found.distances, D)
    for changes in ({"near": D[:7] + np.uint32(1)}, {"grid": np.array("another")}):
        with pytest.raises(StoreError, match="are not those of its landmarks today"):
            last_fit.columns_of_round(replace(kept, **changes), plan, again, today, **how)


def test_tags_are_of_rows_as_they_are_seen_under_the_clients_key(tmp_path):
    rows = {"a": some_rows(40, 1), "b": some_rows(40, 1), "c": some_rows(40, 1)[:-1]}
    rows["b"][3, 1] += 1e-9
    stores = {name: ClientStore.open(url) for name, url in stores_of(tmp_path, rows).items()}

    def tags(name="a", n=30, centre=None, key=0):
        kept = KeptRows(n, np.empty(0, np.int64))
        centre = None if centre is None else Centre(np.full(N_FEATURES, centre))
        return last_fit.row_tags(stores[name], kept, centre, SecretKey(bytes([key] * 32)))

    own = tags()
    assert own.first != own.every
    assert tags("c").first == own.first
    assert tags("c").every != own.every
    assert tags("c", n=40).first != tags(n=40).first == own.every
    for other in (tags("b"), tags(centre=1.0), tags(key=1)):
        assert other.first != own.first


def test_shares_of_a_row_are_others_in_each_run(tmp_path):
    """Landmarks are shared out every night: under one mask, two grids would tell their rows."""
    store = ClientStore.open(stores_of(tmp_path, {"a": some_rows(40, 1)})["a"])
    system, code = ResidueSystem((251, 241, 239), 10.0, 10_000), LagrangeCode(1, 1, 3)
    kept = KeptRows(38, np.array([3, 20]))
    rows = last_fit.landmarks_and_new(store, kept, None, system=system)
    np.testing.assert_array_equal(
        rows.rows, np.rint(10 * store.rows(0, 40)[[3, 20, 38, 39]]).astype(int)
    )
    how = {"start": 0, "stop": 4, "code": code, "system": system, "evaluators": list("abc")}
    nights = [encode_quantised(rows, SecretKey(bytes([n] * 32)), **how) for n in range(2)]
    for name in "bc":
        one, other = (night[name] for night in nights)
        assert one.fingerprint != other.fingerprint
        assert (one.residues != other.residues).mean() > 0.9


def test_a_run_that_is_announced_anew_has_nothing_kept():
    """Nor has one that announces labels alone: its rows are not shared out for distances."""
    step = "daskfc.secure.distances.routes.last_fit."
    uses = [
        StepUse(f"{step}keep", "server", frozenset(), {}),
        StepUse(f"{step}kept_fit", "server", frozenset(), {}),
        StepUse(f"{step}landmarks_and_new", "client", frozenset(), {}),
    ]
    for use in uses:
        refused = [
            Protocol.of("OmniFC").refusal(use, {"reveal": reveal, "start": start}) is not None
            for reveal, start in (("distances", "last"), ("distances", "anew"), ("labels", "last"))
        ]
        assert refused == [False, True, True]


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"split": "columns"}, "clients of OmniFC hold samples"),
        ({"reveal": "labels", "n_colluding": 1}, "clients of OmniFC hold samples"),
        ({"distances": "blocks"}, "distances='blocks' has none"),
    ],
)
def test_where_nothing_is_kept_it_is_refused(params, match):
    with pytest.raises(InvalidInput, match=match):
        last(n_clusters=3, clusterer="k-means", **params).check(4)


def test_a_site_can_refuse_it():
    policy = Policy(methods={"OmniFC": {"start": ["anew"]}})
    asked = [
        RunRequest("OmniFC", parameters=OmniFC(3, start=start).get_params(deep=False))
        for start in ("anew", "last")
    ]
    said = [
        policy.refusals(one, now=None, runs_before=None, n_samples=None, columns=None)
        for one in asked
    ]
    assert [[one.rule for one in each] for each in said] == [[], ["methods.OmniFC.start"]]


def test_what_another_version_kept_is_none():
    class Other:
        def start(self):
            return {"centers": np.ones((2, 2))}

    assert last_fit.kept_fit(Other()) is None
    assert {"near", "landmarks"} <= set(KeptFit.__dataclass_fields__)
