"""What is suggested for a storage: methods that can run on it, for reasons that hold."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from daskfc.errors import InvalidInput, StoreError
from daskfc.runs import RunFailed, check_pipeline, load_pipeline, suggest, try_out
from daskfc.runs.execution import trying
from daskfc.runs.planning import suggestion as module
from daskfc.runs.planning.suggestion import Proposal, Suggestion
from daskfc.stores import load_storage, write_store

IRIS = {"source": {"dataset": "iris"}, "partition": {"scheme": "iid", "clients": 3}}
COLUMNS = {"source": {"dataset": "iris"}, "partition": {"scheme": "vertical", "clients": 3}}
GRAPH = {
    "source": {"dataset": "digits", "graph": {"neighbours": 10}},
    "partition": {"scheme": "vertical", "clients": 4},
}
VIEWS = {
    "source": {"dataset": "digits-views"},
    "partition": {"scheme": "views", "overlap": 0.5, "clients_per_view": 1},
}


SPLITS = {"iid": "samples", "vertical": "columns", "views": "views"}


def at(storage, folder, **changes):
    return {**storage, "root": str(folder / "stores"), **changes}


def names(found):
    return [one.name for one in found.proposals]


@pytest.mark.parametrize(
    ("storage", "asked", "proposed", "left_out"),
    [
        (IRIS, {}, ["spectral", "k-means", "hdbscan"], []),
        (IRIS, {"n_clusters": 3}, ["spectral", "k-means"], []),
        (IRIS, {"server_learns": "sums"}, ["k-means", "kernel-k-means", "gaussian-mixture"], []),
        (IRIS, {"server_learns": "nothing"}, [], ["k-means on shares"]),
        (IRIS, {"server_learns": "nothing", "n_clusters": 3}, ["k-means on shares"], []),
        (COLUMNS, {}, ["spectral", "k-means", "hdbscan"], []),
        (COLUMNS, {"server_learns": "sums"}, [], ["methods of columns and views"]),
        (GRAPH, {"n_clusters": 10}, ["kCAGC", "smoothed columns"], []),
        (GRAPH, {}, [], ["kCAGC"]),
        (VIEWS, {"n_clusters": 10}, ["ESFMC"], []),
        (VIEWS, {}, [], ["ESFMC"]),
    ],
)
def test_what_is_proposed_can_run(storage, asked, proposed, left_out, tmp_path):
    """A run checks the same again, with the stores in its hands."""
    storage = at(storage, tmp_path)
    found = suggest(storage, **asked)
    assert names(found) == proposed
    assert list(found.left_out) == left_out
    stores = load_storage(storage).open()
    for one in found.proposals:
        assert one.why.endswith(".")
        checked = check_pipeline(load_pipeline(one.pipeline), n_clients=len(stores), stores=stores)
        assert checked.own.split == SPLITS[storage["partition"]["scheme"]]
        wanted = asked.get("n_clusters")
        told = one.pipeline["params"].get("n_clusters")
        assert told == (wanted or (None if one.name == "hdbscan" else "auto"))


def test_who_is_too_few_for_exact_distances_hears_why(tmp_path):
    two = at(IRIS, tmp_path, partition={"scheme": "iid", "clients": 2})
    found = suggest(two)
    assert set(found.left_out) == {"spectral", "k-means", "hdbscan"}
    assert all("3 clients" in why or "at least 3" in why for why in found.left_out.values())
    assert names(found) == names(suggest(two, server_learns="sums"))  # which tell less
    nothing = suggest(two, server_learns="nothing", n_clusters=3)
    assert names(nothing) == []
    with pytest.raises(InvalidInput, match="nothing is suggested for this storage"):
        try_out(nothing, storage=two)


def test_a_grid_is_told_from_views(tmp_path):
    """Where the clients of each view have all samples between them."""
    X = np.arange(96.0).reshape(24, 4)
    cells = {"a": (slice(0, 12), [0, 1]), "b": (slice(12, 24), [0, 1]),
             "c": (slice(0, 16), [2, 3]), "d": (slice(16, 24), [2, 3])}  # fmt: skip
    held = {}
    for name, (rows, columns) in cells.items():
        url, ids = f"{tmp_path}/{name}.zarr", [f"s{i}" for i in range(24)[rows]]
        write_store(url, name, X[rows][:, columns], ids, feature_names=[f"x{i}" for i in columns])
        held[name] = {"store": url}
    found = suggest({"clients": held})
    assert found.storage.startswith("4 clients hold some columns of some samples: 24 samples, 4")
    assert names(found) == ["spectral", "k-means", "hdbscan"]
    assert {one.pipeline["params"]["split"] for one in found.proposals} == {"grid"}
    assert list(found.left_out) == ["ESFMC"]  # for want of a number of clusters


def test_each_clients_own_graph_is_none_that_joins_them(tmp_path):
    graph = np.ones((20, 20))
    found = suggest(clients(tmp_path, lambda: np.arange(60.0).reshape(20, 3) / 7, graph=graph))
    assert "graph" not in found.storage
    assert found.proposals[0].pipeline["prepare"] == ["standardise"]


def store(folder, name, X, **more):
    ids = [f"{name}{i}" for i in range(len(X))]
    write_store(f"{folder}/{name}.zarr", name, X, ids, **more)
    return {"store": f"{folder}/{name}.zarr"}


def clients(folder, make, **more):
    return {"clients": {name: store(folder, name, make(), **more) for name in "abc"}}


@pytest.mark.parametrize(
    ("make", "more", "steps"),
    [
        (lambda: np.arange(60.0).reshape(20, 3) / 7, {}, ["standardise"]),
        (lambda: np.arange(60).reshape(20, 3) % 9, {"dtype": "uint8"}, ["standardise"]),
        (lambda: np.arange(1000).reshape(20, 50) % 9, {"dtype": "uint8"}, []),
        (  # 49 diagnoses and an age, and no pixels
            lambda: np.arange(1000).reshape(20, 50) % 2,
            {"feature_names": [*(f"dx{i}" for i in range(49)), "age"]},
            ["standardise"],
        ),
        (
            lambda: np.where(np.eye(20, 3) > 0, np.nan, np.arange(60.0).reshape(20, 3)),
            {"missing": "keep"},
            ["impute", "standardise"],
        ),
        (
            lambda: pd.DataFrame({"x": np.arange(20.0), "w": ["no", "yes"] * 10}),
            {"categorical": ["w"]},
            ["one-hot", "standardise"],
        ),
    ],
)
def test_features_are_prepared_by_what_stores_say_of_them(make, more, steps, tmp_path):
    found = suggest(clients(tmp_path, make, **more))
    assert [one.pipeline.get("prepare", []) for one in found.proposals] == [steps] * 3


def test_many_samples_get_methods_that_bear_them(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_MANY", 100)
    monkeypatch.setattr(module, "_MOST_OF_TREE", 100)
    found = suggest(at(IRIS, tmp_path))
    assert names(found) == ["landmark-spectral", "k-means", "hdbscan"]
    assert found.proposals[2].pipeline["params"]["clusterer"]["hdbscan"]["n_neighbors"] == 30


@pytest.mark.parametrize(
    ("asked", "match"),
    [
        ({"server_learns": "labels"}, "must be 'distances', 'sums' or 'nothing'; got 'labels'"),
        ({"n_clusters": 1}, "must be a whole number of at least 2; got 1"),
        ({"n_clusters": True}, "must be a whole number of at least 2; got True"),
    ],
)
def test_questions_that_cannot_be_answered(asked, match, tmp_path):
    with pytest.raises(InvalidInput, match=match):
        suggest(at(IRIS, tmp_path), **asked)
    assert not (tmp_path / "stores").exists()


def test_stores_that_do_not_fit_together_are_refused(tmp_path):
    held = {"a": store(tmp_path, "a", np.ones((5, 2)), feature_names=("x", "y")),
            "b": store(tmp_path, "b", np.ones((5, 2)), feature_names=("y", "z"))}  # fmt: skip
    with pytest.raises((InvalidInput, StoreError), match="no column in common"):
        suggest({"clients": held})


# -- trying ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("qualities", "taken", "why"),
    [
        ([{"modularity": 0.5}, {"modularity": 0.6}], 1, "in their own cluster"),
        ([{"modularity": 0.59}, {"modularity": 0.6}], 0, "modularity: a 0.590, b 0.600"),
        ([{"modularity": 0.9, "stability": 0.1}, {"stability": 0.8}], 1, "other seeds agree most"),
        ([{"modularity": None}, {"stability": 1.0}], 0, "no figure is known of all"),
        ([None, {"modularity": 0.1}], 1, "modularity: b 0.100"),
        ([{"modularity": None, "sizes": {"0": 9}}, {"modularity": 0.1}], 1, "b 0.100"),
    ],
)
def test_which_proposal_is_taken(qualities, taken, why):
    """A run that failed, or found fewer than two clusters, keeps no other from being taken."""
    told = [one and {"sizes": {"0": 5, "1": 4}, **one} for one in qualities]
    found, said = trying._taken(["a", "b"], told)
    assert found == taken
    assert why in said
    assert said.startswith(f"{'ab'[taken]}: ")


def test_where_no_run_found_clusters_none_is_taken():
    assert trying._taken(["a", "b"], [None, {"sizes": {"0": 9}}])[0] is None


@pytest.fixture
def running(monkeypatch):
    """Runs that keep what they were asked for, and fail where it is said."""
    asked, failing = [], set()

    def run(pipeline, *, name, **where):
        asked.append((pipeline.get("seeds"), name.rsplit("-", 3)[0], where["storage"]))
        if pipeline["method"] in failing:
            raise RunFailed(Path("r"), "a party died.", False)
        return SimpleNamespace(summary={"quality": {"sizes": {"0": 1, "1": 1},
                                                    "stability": len(asked)}})  # fmt: skip

    monkeypatch.setattr(trying, "run", run)
    return asked, failing


def proposed(*methods, **params):
    return Suggestion("", tuple(
        Proposal(f"By {name}", {"method": name, "params": params}, "") for name in methods
    ))  # fmt: skip


def test_all_are_fitted_three_times_where_one_has_no_distances(running):
    asked, _ = running
    tried = try_out(proposed("FederatedKMeans", "OmniFC"), storage="s.yaml")
    assert asked == [
        ([0, 1, 2], "by-federatedkmeans", "s.yaml"), ([0, 1, 2], "by-omnifc", "s.yaml")
    ]  # fmt: skip
    assert (tried.taken, len(tried.runs)) == (1, 2)
    asked.clear()
    try_out(proposed("OmniFC"), storage="s.yaml")
    try_out(proposed("OmniFC", reveal="labels"), storage="s.yaml")
    assert [seeds for seeds, *_ in asked] == [None, [0, 1, 2]]


def test_a_run_that_breaks_off_leaves_the_others(running):
    _, failing = running
    failing.add("FedSC")
    tried = try_out(proposed("FedSC", "FederatedKMeans"), storage="s.yaml")
    assert tried.runs[0] is None
    assert tried.taken == 1
    assert "By FedSC failed: a party died" in tried.why


@pytest.mark.slow
def test_rings_are_taken_from_the_clusterer_that_sees_them(tmp_path):
    """Clusters that are no clouds: k-means cuts both rings, and its modularity says so."""
    angles = np.random.default_rng(0).uniform(0, 2 * np.pi, (3, 60))
    held = {}
    for i, name in enumerate("abc"):
        radius = np.repeat([1.0, 4.0], 30)[:, None]
        X = radius * np.column_stack([np.cos(angles[i]), np.sin(angles[i])])
        held[name] = store(tmp_path, name, X, labels=np.repeat([0, 1], 30), dtype="float64")
    storage = {"clients": held}
    found = suggest(storage, n_clusters=2)
    tried = try_out(found, storage=storage, runs_dir=tmp_path / "runs")
    assert names(found)[tried.taken] == "spectral"
    first, second = (one.summary["metrics"]["OmniFC"]["ari"]["mean"] for one in tried.runs)
    assert first == 1.0
    assert second < 0.1
    assert tried.runs[0].summary["quality"]["modularity"] == pytest.approx(0.5, abs=1e-3)
