"""The number of clusters of every registered method: one of the range, or refused at the start."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_blobs

from daskfc.errors import InvalidInput
from daskfc.federation import Federation
from daskfc.runs import check_pipeline, known_methods, load_pipeline, make_estimator, run
from daskfc.runs.execution.choice import choose_n_clusters
from daskfc.stores import ClientStore, load_storage, write_store

METHODS = sorted(known_methods())
FEW = {  # parameters that keep fits short
    "kCAGC": {"filter_order": 2},
    "ESFMC": {"rounds": 2, "local_epochs": 3, "pretraining_epochs": 3, "tolerance": 0.0},
    "FederatedKernelKMeans": {"n_features": 30, "iterations": 3},
    "RFK-k-means": {"n_features": 30},
    "CE-PCA": {"n_features": 30},
    "FedMAvg": {"max_rounds": 5},
}
SEEDS = (0, 1)


def model_of(method, **params):
    return make_estimator(method, {"n_clusters": 2, **FEW.get(method, {}), **params}, seed=0)


def methods_of(split):
    return [name for name in METHODS if known_methods()[name].split == split]


def rows(d=4, spread=0.5):
    return make_blobs(60, d, centers=3, cluster_std=spread, center_box=(-6, 6), random_state=1)[0]


def of_samples(folder):
    X = rows()
    return {
        name: written(folder, name, X[i::3], [f"{name}/{j}" for j in range(len(X[i::3]))])
        for i, name in enumerate("abc")
    }


def written(folder, name, features, ids, **options):
    url = str(folder / f"{name}.zarr")
    write_store(url, name, features, ids, **options)
    return url


def of_columns(folder):
    """Bits, as words of a text, and a graph that only its first client has."""
    X = rows(12, 4.0)  # parts that touch: chance does not move the graph that tells clear ones
    bits = (X > np.median(X, axis=0)).astype(float)
    near = ((X[:, None] - X) ** 2).sum(2).argsort(axis=1)[:, 1:5]
    graph = np.zeros((len(X), len(X)))
    np.put_along_axis(graph, near, 1.0, axis=1)
    graph = np.maximum(graph, graph.T)
    ids = [f"all/{i}" for i in range(len(X))]
    return {
        name: written(
            folder, name, bits[:, 4 * i : 4 * i + 4], ids, graph=graph,
            feature_names=[f"{name}{j}" for j in range(4)],
        )
        for i, name in enumerate("abc")
    }  # fmt: skip


def of_views(folder):
    storage = {
        "source": {
            "dataset": "digits-views", "scaling": "min-max", "subsample": {"n": 60, "seed": 0},
        },
        "partition": {"scheme": "views", "overlap": 0.7, "seed": 0},
        "root": str(folder),
    }  # fmt: skip
    return load_storage(storage).ensure()


OF = {"samples": of_samples, "columns": of_columns, "views": of_views}


def test_every_method_has_stores():
    assert {known_methods()[name].split for name in METHODS} <= set(OF)


def pipeline_of(method, **more):
    params = {"n_clusters": [2, 4], **FEW.get(method, {})}
    choose = {"by": "stability", "seeds": list(SEEDS)}
    return {"method": method, "params": params, "choose": choose, **more}


def storage_of(urls):
    return {"clients": {name: {"store": url} for name, url in urls.items()}}


@pytest.mark.parametrize("method", METHODS)
def test_what_every_method_is_asked_before_the_start(method, tmp_path):
    """A range that may be chosen from is let pass, and one that may not is refused."""
    urls = OF[known_methods()[method].split](tmp_path)
    stores = {name: ClientStore.open(url) for name, url in urls.items()}
    about = {"n_clients": len(stores), "n_samples": 60, "stores": stores}
    check_pipeline(load_pipeline(pipeline_of(method)), **about)
    wrong = pipeline_of(method)
    wrong["params"]["n_clusters"] = [2, 60]
    with pytest.raises(InvalidInput, match="must end below the number of samples, 60"):
        check_pipeline(load_pipeline(wrong), **about)
    unknown = load_pipeline(pipeline_of(method, choose="nonsense"))
    with pytest.raises(InvalidInput, match="cannot be chosen by 'nonsense'; it can be by "):
        check_pipeline(unknown, **about)


@pytest.fixture(scope="module", params=list(OF))
def place(request, tmp_path_factory):
    urls = OF[request.param](tmp_path_factory.mktemp(request.param))
    with Federation.local(urls, allow_raw=True) as federation:
        yield request.param, federation


@pytest.mark.long
@pytest.mark.timeout(1800)  # four fits of every method
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_method_chooses_by_stability(place):
    split, federation = place
    chosen = []
    for method in methods_of(split):
        try:
            choice = choose_n_clusters(
                federation, model_of(method), (3, 4), by="stability", seeds=SEEDS
            )
        except InvalidInput as refusal:  # where chance moves no sample
            if "are as stable over seeds as each other" not in str(refusal):
                raise
            continue
        chosen.append(method)
        assert choice.n_clusters in (3, 4), method
        assert set(choice.scores) == {3, 4}, method
        assert all(-1 <= score <= 1 for score in choice.scores.values()), method
        if split == "samples":
            assert choice.scores[3] == max(choice.scores.values()), method
        assert federation.preparation is None, method
    assert 2 * len(chosen) >= len(methods_of(split))


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("method", ["kCAGC", "ESFMC", "central"])
def test_runs_from_files_choose(method, tmp_path):
    (tmp_path / "stores").mkdir()
    urls = OF[known_methods()[method].split](tmp_path / "stores")
    done = run(pipeline_of(method), storage=storage_of(urls), runs_dir=tmp_path / "runs")
    choice = done.summary["n_clusters_choice"]
    assert choice["n_clusters"] in (2, 3, 4)
    assert len(np.unique(done.labels)) <= choice["n_clusters"]
    assert (done.ledger["method"] == "choice").any()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_words_and_gaps_are_prepared_before_chance_moves_them(tmp_path):
    X = rows(spread=2.5)  # else all numbers are as stable
    (tmp_path / "stores").mkdir()
    urls = {}
    for i, name in enumerate("abc"):
        own = pd.DataFrame(X[i::3], columns=list("wxyz"))
        own["site"] = np.where(own["w"] > own["w"].median(), "left", "right")
        own.loc[2, "x"] = np.nan
        urls[name] = written(
            tmp_path / "stores", name, own, [f"{name}/{j}" for j in range(len(own))],
            categorical=["site"], missing="keep",
        )  # fmt: skip
    with pytest.raises(InvalidInput, match="Prepare the features"):
        run(pipeline_of("k-FED"), storage=storage_of(urls), runs_dir=tmp_path / "runs")
    steps = ["impute", "one-hot", "standardise"]
    pipeline = pipeline_of("k-FED", prepare=steps)
    done = run(pipeline, storage=storage_of(urls), runs_dir=tmp_path / "runs")
    assert done.summary["n_clusters_choice"]["n_clusters"] in (2, 3, 4)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_declared_bound_holds_while_chance_moves_features(tmp_path):
    X = rows()
    with Federation.local(of_samples(tmp_path)) as federation:
        most = float(np.abs(X.astype("float32")).max())
        model = model_of("OmniFC", max_abs=most, n_colluding=1)
        choice = choose_n_clusters(federation, model, range(2, 5), by="stability", seeds=SEEDS)
    assert choice.scores[3] == max(choice.scores.values())
