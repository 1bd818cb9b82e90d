"""OmniFC from the last fit's distances: new samples alone are shared, labels are the full fit's."""

import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

from daskfc import Federation
from daskfc.errors import InvalidInput, PartyError
from daskfc.federation import CALLER
from daskfc.protocols import OmniFC
from daskfc.secure.distances.routes import last_fit
from daskfc.secure.distances.routes.last_fit import KeptFit
from daskfc.site import Policy, RunRequest
from daskfc.stores import append_samples
from daskfc.testing.federation import stores_of

pytestmark = pytest.mark.slow

N_CLIENTS, N_FEATURES = 4, 5
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


def ids(client, n):
    return [f"{client}/new-{i}" for i in range(n)]


def night(stores, kept, *models):
    """Fit with what earlier nights kept, on new processes; return the models as they are then."""
    with Federation.local(stores) as federation:
        federation.results = str(kept)
        return [model.fit(federation) for model in models]


def last(**spec):
    return OmniFC(**spec, start="last")


def fits(spec):
    """The fit that goes on, and the one that begins anew."""
    return last(**spec), OmniFC(**spec)


def grow(folder, base, new):
    """Copy stores, and append rows to some."""
    for client, url in base.items():
        shutil.copytree(url, Path(folder) / f"{client}.zarr")
    stores = {client: str(Path(folder) / f"{client}.zarr") for client in base}
    for client, X in new.items():
        append_samples(stores[client], X, sample_ids=ids(client, len(X)))
    return stores


def shared(model):
    """How many rows of each client the evaluators got."""
    found = dict.fromkeys(model._contract.clients, 0)
    for row in model.ledger_:
        if row.message == "CodedRows" and row.shapes["residues"][1]:
            found[row.sender] += row.shapes["residues"][1]
    return found


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


@pytest.mark.parametrize("clients", [["client-2"], [f"client-{i}" for i in range(N_CLIENTS)]])
def test_labels_are_those_of_a_full_fit(first, kept, tmp_path, clients):
    stores = grow(tmp_path, first[0], {c: some_rows(1, 50 + i) for i, c in enumerate(clients)})
    models = night(stores, kept, *(m for spec in SPECS.values() for m in fits(spec)))
    for going_on, anew in zip(models[::2], models[1::2], strict=True):
        equal(going_on, anew)
        assert going_on.choices["start"] == KEPT.format(len(clients))
        assert "start" not in anew.choices
        some = shared(going_on)
        landmarks = sum(some.values()) // evaluators(going_on) - len(clients)
        assert N_FEATURES < landmarks < 40
        assert sum(shared(anew).values()) == evaluators(anew) * (4 * 60 + len(clients))


def evaluators(model):
    """How many evaluators get whole shares, and no key of a stream in their place."""
    return model._fitted.distances.code.n_evaluators - model._fitted.distances.code.n_colluding


def test_night_after_night(first, kept, tmp_path):
    stores, spec = first[0], SPECS["dbscan"]
    for n in range(3):
        folder = tmp_path / str(n)
        folder.mkdir()
        new = {f"client-{n}": some_rows(2, 70 + n)} if n < 2 else {}
        stores = grow(folder, stores, new)
        models = night(stores, kept, *fits(spec))
        equal(*models)
        assert models[0].choices["start"] == KEPT.format(2 * len(new))


def test_a_row_that_changed_is_noticed(first, kept, tmp_path):
    rows = rows_of(60)
    rows["client-1"][7, 2] += 0.25
    models = night(stores_of(tmp_path, rows), kept, *fits(SPECS["dbscan"]))
    equal(*models)
    said = models[0].choices["start"]
    assert said.startswith("all anew: the first samples of client-1 are not those of the last fit")
    assert shared(models[0]) == shared(models[1])


def test_a_row_that_went_is_noticed(first, kept, tmp_path):
    rows = rows_of(60)
    rows["client-1"] = rows["client-1"][:-1]
    models = night(stores_of(tmp_path, rows), kept, *fits(SPECS["k-means"]))
    equal(*models)
    assert "the first samples of client-1 are" in models[0].choices["start"]


def test_another_clients_or_parameters_use_nothing(first, kept, tmp_path):
    stores = dict(first[0])
    others = last(n_clusters=4, clusterer="k-means"), last(**SPECS["k-means"], random_state=1)
    for model in night(stores, kept, *others):
        assert "kept none of a fit like this one" in model.choices["start"]
    stores.update(stores_of(tmp_path, {"client-9": some_rows(3, 9)}))
    models = night(stores, kept, *fits(SPECS["k-means"]))
    equal(*models)
    assert "kept none of a fit like this one" in models[0].choices["start"]


def test_samples_beyond_the_range_begin_anew(first, kept, tmp_path):
    stores = grow(tmp_path, first[0], {"client-0": some_rows(1, 3) + 40})
    models = night(stores, kept, *fits(SPECS["dbscan"]))
    equal(*models)
    assert models[0].choices["start"].startswith("all anew: the samples' range or grid")


@pytest.mark.parametrize("name", ["dbscan", "k-means"])
def test_samples_outside_of_the_landmarks_span_have_all_shared_out(tmp_path, name):
    """A column that was constant before: landmarks lie in the others alone."""
    rows = rows_of(40)
    for X in rows.values():
        X[:, -1] = 1.0
    (tmp_path / "before").mkdir()
    stores = stores_of(tmp_path / "before", rows)
    night(stores, tmp_path / "kept", last(**SPECS[name]))
    grown = grow(tmp_path, stores, {"client-3": some_rows(2, 5)})
    models = night(grown, tmp_path / "kept", *fits(SPECS[name]))
    equal(*models)
    assert models[0].choices["start"].endswith("mixture of the landmarks: all were shared out")
    again = night(grown, tmp_path / "kept", last(**SPECS[name]))
    assert again[0].choices["start"] == KEPT.format(0)


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
    (tmp_path / "before").mkdir()
    stores = stores_of(tmp_path / "before", rows_of(1500, n_features=40), chunk_rows=512)
    spec = SPECS["k-means"]
    night(stores, tmp_path / "kept", last(**spec))
    grown = grow(tmp_path, stores, {"client-3": some_rows(60, 5, 40)})
    models = night(grown, tmp_path / "kept", *fits(spec))
    equal(*models)
    going_on, anew = (sum(row.wire_bytes for row in model.ledger_) for model in models)
    assert going_on < 0.05 * anew


def test_what_the_caller_is_told(first, kept, tmp_path):
    stores = grow(tmp_path, first[0], {"client-0": some_rows(2, 3)})
    (model,) = night(stores, kept, last(**SPECS["dbscan"]))
    told = {row.message for row in model.ledger_ if row.receiver == CALLER}
    assert told == {
        "ClusterReport", "DecodedBlock", "LabelledSamples", "LandmarkStatus", "LastFit",
        "PointsStatus", "PublicPlan",
    }  # fmt: skip
    for row in model.ledger_:
        if row.message == "LastFit":
            assert row.shapes == {"samples": [N_CLIENTS], "rounds": [row.shapes["rounds"][0]]}
    for path in [kept, *Path(kept).rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0 or not path.is_dir()


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


def test_distances_that_are_not_the_last_fits_are_refused(first, kept, tmp_path):
    """A server whose folder was mixed up does not give wrong labels."""
    for file in Path(kept).rglob("round-*.npz"):
        with np.load(file) as archive:
            state = {name: archive[name] for name in archive.files}
        state["near"] = state["near"] + state["near"].dtype.type(1)
        np.savez(file, **state)
    stores = grow(tmp_path, first[0], {"client-0": some_rows(2, 3)})
    with pytest.raises(PartyError, match="are not those of its landmarks today"):
        night(stores, kept, last(**SPECS["dbscan"]))


def test_prepared_features_that_moved_begin_anew(first, kept, tmp_path):
    from daskfc import Prepare

    stores = grow(tmp_path, first[0], {"client-0": some_rows(20, 3)})
    told = []
    for own in (first[0], stores):
        with Federation.local(own) as federation:
            federation.results = str(kept)
            for steps in (["standardise"], ["log"]):
                Prepare(steps).fit(federation)
                told.append(last(**SPECS["k-means"]).fit(federation).choices["start"])
    assert "are prepared or centred otherwise" in told[2]


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
