"""What holds for every registered method, in every way of opening a federation.

A method that is registered is covered. The ways: a run from files, its resume, `Federation.local`
with a storage file or with URLs, a running cluster, a run on it, and `predict`.
"""

import shutil
import time

import numpy as np
import pytest

from daskfc.errors import ClusterError, InvalidInput, StoreError
from daskfc.federation import Federation, serve_party
from daskfc.federation.methods.estimator import FederatedClusterer
from daskfc.runs import check_pipeline, known_methods, load, load_pipeline, make_estimator, prepare
from daskfc.runs.pipeline.parties import open_federation
from daskfc.stores import write_store
from daskfc.stores.store.together import SPLITS
from tests.deploy.test_sites import Site, cluster_of

METHODS = sorted(known_methods())
PREDICTING = [
    name
    for name, kind in sorted(known_methods().items())
    if kind._predict is not FederatedClusterer._predict
]
CLIENTS = ("a", "b", "c")
NAMES = ["age", "weight", "height", "pulse"]
# What client b has in place of the others' columns, and what the refusal must say.
FAULTS = {
    "order": (["age", "height", "weight", "pulse"], "column 2 of client 'a' is 'weight', of client "
              "'b' 'height'"),
    "names": (["age", "weight", "size", "pulse"], "column 3 of client 'a' is 'height', of client "
              "'b' 'size'"),
    "number": (["age", "weight", "height"], "column 4 of client 'a' is 'pulse', of client 'b' "
               "missing"),
    "more": ([*NAMES, "sex"], "column 5 of client 'a' is missing, of client 'b' 'sex'"),
}  # fmt: skip
AT_SITE = "order"  # it takes processes of its own; what runs refuse, and local federations, is all


pytestmark = pytest.mark.usefixtures("approved")


def split_of(method):
    return known_methods()[method].split


def model_of(method):
    params = {"n_clusters": 2, **({"filter_order": 0} if method == "kCAGC" else {})}
    return make_estimator(method, params, seed=0)


def rows_of(client, n_columns, n=12):
    generator = np.random.default_rng([ord(client), n_columns])
    return generator.normal(size=(n, n_columns)) + 4 * (np.arange(n) % 2)[:, None]


def ids_of(client, split, n=12):
    """Clients with columns of their own hold the same samples, others different ones."""
    return [f"{client if split == 'samples' else 'all'}/{i}" for i in range(n)]


def columns_of(client, split):
    return NAMES if split == "samples" else [f"{name} at {client}" for name in NAMES]


def write(folder, split, client, columns=None, *, owner=None, **options):
    names = columns_of(client, split) if columns is None else columns
    url = str(folder / f"{client}.zarr")
    write_store(
        url,
        owner or client,
        rows_of(client, len(names)),
        ids_of(client, split),
        feature_names=names,
        **options,
    )
    return url


def stores(folder, split, fault=None):
    """Write the stores of three clients; one of b's names is wrong."""
    folder.mkdir()
    if split != "samples" and fault is not None:
        wrong = [*columns_of("b", split)[:3], columns_of("a", split)[1]]
        return {c: write(folder, split, c, wrong if c == "b" else None) for c in CLIENTS}
    wrong = None if fault is None else FAULTS[fault][0]
    return {c: write(folder, split, c, wrong if c == "b" else None) for c in CLIENTS}


def refusal(split, fault):
    if split != "samples":
        return "clients 'a' and 'b' both have a column 'weight at a'"
    return FAULTS[fault][1]


def faults_of(split):
    return list(FAULTS) if split == "samples" else ["shared"]


CASES = [(method, fault) for method in METHODS for fault in faults_of(split_of(method))]


def test_a_method_says_how_data_lie_with_clients():
    with pytest.raises(TypeError, match="split must be one of samples, columns, views"):
        type("Undecided", (FederatedClusterer,), {})
    assert {split_of(method) for method in METHODS} >= {"samples", "columns"}
    assert {split_of(method) for method in METHODS} <= set(SPLITS)


# -- runs from files: refused before a worker starts ----------------------------------------------


def storage_of(urls):
    return {"clients": {name: {"store": url} for name, url in urls.items()}}


def pipeline_of(method):
    model = model_of(method)
    params = {"n_clusters": 2, **({"filter_order": 0} if method == "kCAGC" else {})}
    assert model.n_clusters == 2
    return {"method": method, "params": params, "seeds": [0]}


@pytest.mark.few(17)
@pytest.mark.parametrize(("method", "fault"), CASES)
def test_columns_of_a_run(tmp_path, method, fault):
    split = split_of(method)
    urls = stores(tmp_path / "stores", split, fault)
    with pytest.raises(InvalidInput, match=refusal(split, fault)):
        prepare(pipeline_of(method), storage=storage_of(urls), runs_dir=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


@pytest.mark.few(6)
@pytest.mark.parametrize("method", METHODS)
def test_a_run_for_the_other_split(tmp_path, method):
    """Stores that go together, but not in the way that the method needs."""
    split = split_of(method)
    other = "columns" if split == "samples" else "samples"
    urls = stores(tmp_path / "stores", other)
    match = {
        "samples": "needs clients with the",
        "columns": "joins columns of the same samples",
        "views": "needs at least two views",
    }[split]
    with pytest.raises(InvalidInput, match=f"{method} {match}"):
        prepare(pipeline_of(method), storage=storage_of(urls), runs_dir=tmp_path / "runs")


@pytest.mark.parametrize("method", METHODS)
def test_swapped_stores_of_a_run(tmp_path, method):
    urls = stores(tmp_path / "stores", split_of(method))
    swapped = {**urls, "a": urls["b"], "b": urls["a"]}
    match = "client 'a' must bring a store of its own; .* was written for client 'b'"
    with pytest.raises(StoreError, match=match):
        prepare(pipeline_of(method), storage=storage_of(swapped), runs_dir=tmp_path / "runs")


@pytest.mark.few(17)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("changed", ["columns", "owner", "content"])
def test_resume_with_other_stores(tmp_path, method, changed):
    split = split_of(method)
    urls = stores(tmp_path / "stores", split)
    run = prepare(pipeline_of(method), storage=storage_of(urls), runs_dir=tmp_path / "runs")
    if changed == "columns":
        write(tmp_path / "stores", split, "b", [f"n{i}" for i in range(4)], overwrite=True)
    elif changed == "owner":
        write(tmp_path / "stores", split, "b", owner="elsewhere", overwrite=True)
    else:
        names = columns_of("b", split)
        ids = ids_of("b", split)
        write_store(urls["b"], "b", np.eye(12)[:, :4], ids, feature_names=names, overwrite=True)
    with pytest.raises(InvalidInput, match="'b'"):
        run.resume()


# -- federations of local processes ---------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("fault", [*FAULTS, "shared"])
def test_columns_of_a_local_federation(tmp_path, fault):
    split = "columns" if fault == "shared" else "samples"
    urls = stores(tmp_path / "stores", split, fault)
    with Federation.local(urls, allow_raw=True) as federation:
        for method in METHODS:
            if (split_of(method) == "samples") == (split == "samples"):
                with pytest.raises(InvalidInput, match=refusal(split, fault)):
                    model_of(method).fit(federation)
        assert federation.run_id is None  # nothing began, nothing was sent
        assert len(federation.ledger) == 0


def test_swapped_stores_of_a_local_federation(tmp_path):
    urls = stores(tmp_path / "stores", "samples")
    match = "client 'a' must bring a store of its own; its store was written for client 'b'"
    with pytest.raises(StoreError, match=match):
        Federation.local({**urls, "a": urls["b"], "b": urls["a"]})
    with pytest.raises(StoreError, match=r"'a'.* was written for client 'b'"):
        Federation.local(storage_of({**urls, "a": urls["b"], "b": urls["a"]}))


@pytest.mark.slow
def test_a_store_that_was_written_again_is_noticed_by_the_next_fit(tmp_path):
    urls = stores(tmp_path / "stores", "samples")
    with Federation.local(urls) as federation:
        first = model_of("FedSC").fit(federation)
        write(tmp_path / "stores", "samples", "b", NAMES[::-1], overwrite=True)
        with pytest.raises(Exception, match="of client 'b' was written again since the federation"):
            model_of("FedSC").fit(federation)
        assert first.labels_.sizes["sample"] == 36


# -- running clusters -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A scheduler with the parties a, c, server, and a party b of two kinds of fault."""
    folder = tmp_path_factory.mktemp("sites")
    site = Site(folder)
    address = site.scheduler("127.0.0.1")
    (folder / "stores").mkdir()
    for client in ("a", "c"):
        site.party(client, address, store=write(folder / "stores", "samples", client))
    name, names = f"b-{AT_SITE}", FAULTS[AT_SITE][0]
    url = str(folder / "stores" / f"{name}.zarr")
    write_store(url, name, rows_of("b", len(names)), ids_of("b", "samples"), feature_names=names)
    site.party(name, address, store=url)
    site.party("server", address)
    yield cluster_of(address, startup="300s")
    site.end()


@pytest.mark.slow
def test_columns_at_a_running_cluster(cluster, tmp_path):
    names = ["a", f"b-{AT_SITE}", "c"]
    match = refusal("samples", AT_SITE).replace("'b'", f"'b-{AT_SITE}'")
    with Federation.connect(cluster, clients=names, allow_raw=True) as federation:
        told = federation.opening_ledger
        assert {row.message for row in told} == {"StoreSummary"}
        assert {row.sender for row in told} == set(names)
        for method in METHODS:
            wanted = match if split_of(method) == "samples" else "both have a column 'age'"
            with pytest.raises(InvalidInput, match=wanted):
                model_of(method).fit(federation)
        assert federation.run_id is None
    for method in METHODS:
        run = prepare(
            pipeline_of(method), storage={"clients": names}, cluster=cluster, runs_dir=tmp_path
        )
        with pytest.raises(InvalidInput, match="column"):
            run.resume()
        assert not run.folder.exists()  # nothing was started


@pytest.mark.long
def test_resume_at_a_running_cluster_with_a_store_written_again(cluster):
    checked = check_pipeline(load_pipeline(pipeline_of("k-FED")))
    record = {
        "cluster": cluster, "storage": {"clients": ["a", "c"]}, "contents": {},
        "builds": {"a": "another"}, "run_id": "r",
    }  # fmt: skip
    with pytest.raises(InvalidInput, match="client 'a': its store was written again since the run"):
        open_federation(record, checked)
    with open_federation({**record, "builds": {}}, checked) as federation:
        assert federation.clients == ("a", "c")


@pytest.mark.slow
def test_who_takes_part_is_named(cluster):
    with pytest.raises(InvalidInput, match=r"nothing says which clients of tcp://.* take part"):
        Federation.connect(cluster)
    with Federation.connect({**cluster, "expect": ["c", "a"]}) as federation:
        assert federation.clients == ("c", "a")
    with pytest.raises(InvalidInput, match="file expects a, b, and a, c were named"):
        Federation.connect({**cluster, "expect": ["a", "b"]}, clients=["a", "c"])
    waiting = {key: value for key, value in cluster.items() if key != "startup"}
    began = time.monotonic()
    match = r"party 'still-starting' is not at tcp://.* after 1 s; there is 'a', 'b-order'.*--store"
    with pytest.raises(ClusterError, match=match):
        Federation.connect({**waiting, "deadline": "1s"}, clients=["a", "still-starting", "c"])
    assert time.monotonic() - began < 20


def test_a_party_with_the_store_of_another(tmp_path):
    url = write(tmp_path, "samples", "a")
    match = "client 'b' must bring a store of its own; .*a.zarr was written for client 'a'"
    with pytest.raises(StoreError, match=match):
        serve_party("b", scheduler="tcp://127.0.0.1:9", store=url)


# -- seeds -----------------------------------------------------------------------------------------


OF_GRAPHS = ("AGC", "GCC")  # their stores need a graph


@pytest.mark.long
@pytest.mark.timeout(900)  # two fits of every method
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("split", SPLITS)
def test_a_fit_without_a_seed_tells_the_one_that_makes_it_again(split, tmp_path, monkeypatch):
    drawn = iter(range(7, 1000))
    monkeypatch.setattr("daskfc.federation.methods.estimator.fresh_seed", lambda: next(drawn))
    with Federation.local(stores(tmp_path / "stores", split), allow_raw=True) as federation:
        for method in METHODS:
            if split_of(method) != split or method in OF_GRAPHS:
                continue
            found = model_of(method).set_params(random_state=None).fit(federation)
            assert found.random_state is None, method
            assert found.seed_ >= 7, method
            again = model_of(method).set_params(random_state=np.int64(found.seed_)).fit(federation)
            assert again.seed_ == found.seed_, method
            assert again.labels_.identical(found.labels_), method


# -- predict --------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=SPLITS)
def fitted(request, tmp_path_factory):
    """A federation and every method of its split that predicts, fitted."""
    split = request.param
    folder = tmp_path_factory.mktemp(split)
    with Federation.local(stores(folder / "stores", split), allow_raw=True) as federation:
        methods = [method for method in PREDICTING if split_of(method) == split]
        yield split, federation, methods


@pytest.mark.few(1)
@pytest.mark.slow
def test_new_samples_for_predict(fitted, tmp_path):
    split, federation, methods = fitted
    new = stores(tmp_path / "new", split)
    names = columns_of("b", split)
    wrong = {
        "order": [names[1], names[0], *names[2:]],
        "names": [*names[:3], "size"],
        "number": names[:3],
    }
    for method in methods:
        model = model_of(method).fit(federation)
        found = model.predict(federation, new)
        model.save(tmp_path / "models" / method)
        back = load(tmp_path / "models" / method)
        assert back.labels_.identical(model.labels_), method
        assert back.get_params() == model.get_params(), method
        if model.model_at_parties:
            with pytest.raises(InvalidInput, match="lies with the parties of the run of fit"):
                back.predict(federation, new)
        else:
            assert back.predict(federation, new).identical(found), method
        assert found.sizes["sample"] == (36 if split == "samples" else 12), method
        for fault, columns in wrong.items():
            folder = tmp_path / f"{method}-{fault}"
            folder.mkdir()
            bad = {**new, "b": write(folder, split, "b", columns)}
            with pytest.raises(InvalidInput, match="new samples of client 'b' must have the col"):
                model.predict(federation, bad)
            shutil.rmtree(folder)
        with pytest.raises(StoreError, match=r"'b' must bring .* was written for client 'a'"):
            model.predict(federation, {**new, "b": new["a"]})
        with pytest.raises(InvalidInput, match="stranger"):
            model.predict(federation, {**new, "stranger": new["a"]})
