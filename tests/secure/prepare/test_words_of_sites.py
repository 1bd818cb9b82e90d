"""Four hospitals that write words in different ways, with patients of two kinds each.

The form is that of public heart disease data: hospitals of unlike size, one of which writes 1.0
where the others write 1. All patients are made up.
"""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler, normalize

from daskfc import OmniFC, Prepare
from daskfc.errors import InvalidInput, PolicyRefused
from daskfc.federation import Federation, Message, array
from daskfc.runs import run
from daskfc.secure.prepare import PreparationWarning
from daskfc.secure.prepare.holders import lone_words, own_words, words_held
from daskfc.secure.sums import Total
from daskfc.site import Smallest
from daskfc.stores import ClientStore, add_store, write_store
from tests.deploy.test_sites import Site, cluster_of

SIZES = {"cleveland": 90, "hungary": 80, "long-beach": 55, "switzerland": 35}
WORDS = ["sex", "cp", "slope", "thal"]
RECIPE = ["impute", "one-hot", "standardise"]


class Rows(Message, route="client → caller", reveals="all, for a test"):
    rows: np.ndarray = array("sample", "column", dtype="float64")


def all_rows(data) -> Rows:
    return Rows(data.rows(0, data.n_samples))


def tables():
    """Each hospital's patients: the kinds differ in measures and words, the hospitals do not."""
    found = {}
    for i, (name, n) in enumerate(SIZES.items()):
        random = np.random.default_rng(i)
        ill = random.random(n) < 0.5
        frame = pd.DataFrame({"age": random.normal(50 + 8 * ill, 8), "ill": ill.astype(int)})
        frame["rate"] = random.normal(150 - 20 * ill, 18)
        frame["drop"] = random.exponential(0.5 + ill)
        for column, n_words in zip(WORDS, (2, 4, 3, 3), strict=True):
            shares = 4.0 ** -np.arange(n_words)
            likely = random.choice(n_words, n, p=shares / shares.sum())
            frame[column] = np.where(ill, n_words - likely, 1 + likely)
        frame.loc[random.random(n) < 0.1, "rate"] = np.nan
        found[name] = frame
    return found


TABLES = tables()
TRUTH = np.concatenate([table["ill"] for table in TABLES.values()])
SITES = np.concatenate([[name] * n for name, n in SIZES.items()])


def written(folder, name, table, like="{}"):
    """Write a hospital's csv file, its words in a form."""
    text = table.drop(columns="ill").astype({column: str for column in WORDS})
    for column in WORDS:
        text[column] = text[column].map(like.format)
    path = folder / f"{name}.csv"
    text.to_csv(path, index=False)
    return str(path)


def stores(folder, **like):
    folder.mkdir(exist_ok=True)
    urls = {}
    for name, table in TABLES.items():
        urls[name] = f"{folder}/{name}.zarr"
        path = written(folder, name, table, like.get(name.replace("-", "_"), "{}"))
        source = {"categorical": WORDS, "missing": "keep"}
        add_store(name, [path], urls[name], source=source, dtype="float64", overwrite=True)
    return urls


@pytest.fixture(scope="module")
def alike(tmp_path_factory):
    with Federation.local(stores(tmp_path_factory.mktemp("alike"))) as federation:
        yield federation


@pytest.fixture(autouse=True)
def nothing_prepared(alike):
    alike.preparation = None
    yield
    alike.preparation = None


def in_two(federation, asked=RECIPE):
    federation.preparation = Prepare(asked).fit(federation)
    model = OmniFC(2, clusterer="k-means", n_colluding=1, random_state=0).fit(federation)
    return model.labels_.values, model


def rows_of(federation, asked):
    federation.preparation = prepared = Prepare(asked).fit(federation)
    federation.start_run("rows", random_state=0)
    told = federation.publish(all_rows, party="clients")
    return prepared, np.concatenate([told[name].rows for name in federation.clients])


@pytest.mark.long
@pytest.mark.slow
def test_clusters_are_no_sites_however_one_site_writes_numbers(alike, tmp_path):
    labels, _ = in_two(alike)
    assert adjusted_rand_score(TRUTH, labels) > 0.8
    assert abs(adjusted_rand_score(SITES, labels)) < 0.02
    urls = stores(tmp_path / "unlike", cleveland="{}.0", hungary=" {} ")
    with Federation.local(urls) as federation:
        found, model = in_two(federation)
        assert federation.preparation.warnings == ()
        new = f"{tmp_path}/new.zarr"
        path = written(tmp_path, "new", TABLES["hungary"][:20], "{}.00")
        add_store("cleveland", [path], new, source={"categorical": WORDS, "missing": "keep"})
        predicted = model.predict(federation, {"cleveland": new}).values
    np.testing.assert_array_equal(found, labels)
    np.testing.assert_array_equal(predicted, labels[SITES == "hungary"][:20])


CODES = {"1": "male", "2": "female"}


@pytest.mark.slow
def test_what_only_one_site_writes_is_told_and_mended(alike, tmp_path):
    labels, _ = in_two(alike)
    folder = tmp_path / "coded"
    urls = stores(folder)
    own = TABLES["cleveland"].drop(columns="ill")
    own["sex"] = own["sex"].astype(str).map(CODES)
    own["cp"] = own["cp"].map({1: "Typical", 2: "2", 3: "3", 4: "4"})
    kinds = {"categorical": WORDS, "missing": "keep", "dtype": "float64"}
    write_store(urls["cleveland"], "cleveland", own, **kinds, overwrite=True)
    with Federation.local(urls) as federation:
        with pytest.warns(PreparationWarning) as told:
            prepared = Prepare(RECIPE).fit(federation)
        assert prepared.warnings == tuple(str(one.message) for one in told)
        of_sex, of_cp = prepared.warnings[:2]
        assert "column 'sex': 'female', 'male' (cleveland)" in of_sex
        assert "'words' in the storage file" in of_cp
        assert "column 'cp': 'Typical' (cleveland)" in of_cp
        back = {"sex": {word: code for code, word in CODES.items()}, "Typical": 1}
    write_store(urls["cleveland"], "cleveland", own, **kinds, words=back, overwrite=True)
    with Federation.local(urls) as federation:
        found, model = in_two(federation)
        np.testing.assert_array_equal(found, labels)
        # a file that nobody mapped, of the site that has mapped its own before
        new = f"{tmp_path}/new.zarr"
        write_store(new, "cleveland", own[:30], **kinds)
        predicted = model.predict(federation, {"cleveland": new}).values
    np.testing.assert_array_equal(predicted, labels[SITES == "cleveland"][:30])


@pytest.mark.long
@pytest.mark.slow
def test_a_run_lists_words_of_one_site_in_its_report(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    clients = {
        name: {
            "source": {
                "path": written(tmp_path, name, table, "{}x" if name == "hungary" else "{}"),
                "categorical": WORDS,
                "missing": "keep",
            }
        }
        for name, table in TABLES.items()
    }
    method = {"method": "OmniFC", "params": {"n_clusters": 2, "clusterer": "k-means"}}
    pipeline = {**method, "prepare": RECIPE, "metrics": []}
    found = run(pipeline, storage={"clients": clients}, name="coded")
    told = [one for one in found.summary["quality"]["warnings"] if "'thal'" in one]
    assert "'1x', '2x', '3x' (hungary)" in told[0]
    report = (tmp_path / "runs" / "coded" / "report.html").read_text(encoding="utf-8")
    assert "1x" in report
    for config in clients.values():
        config["source"]["words"] = {"1x": 1, "2x": 2, "3x": 3, "4x": 4}
    mended = run(pipeline, storage={"clients": clients}, name="mended").summary["quality"]
    assert not [one for one in mended["warnings"] if "word" in one]


# -- what a site's policy lets be told -----------------------------------------------------------


@pytest.mark.slow
def test_who_has_a_word_is_told_only_if_all_sites_let_it(tmp_path):
    urls = stores(tmp_path, cleveland="{}x")
    del urls["switzerland"]
    site = Site(tmp_path)
    address = site.scheduler("127.0.0.1")
    try:
        for name in (*urls, "server"):
            policy = tmp_path / f"{name}.yaml"
            words = "never" if name == "hungary" else "allow"
            policy.write_text(f"words: {words}\ngroups: {{clients: 1}}\n")
            store = {"store": urls[name]} if name in urls else {}
            site.party(name, address, policy=str(policy), workspace=f"{tmp_path}/{name}", **store)
        with Federation.connect(cluster_of(address), clients=list(urls)) as federation:
            with pytest.warns(PreparationWarning):
                few = Prepare("one-hot").fit(federation)
            told = [step["words"] for step in few.steps["hungary"] if "words" in step]
            assert list(told[0]["cp"]) == ["1", "2", "3", "4"]
            said = "4 words of column 'cp' are of too few clients, as sites ask for"
            assert said in " ".join(few.warnings)
            federation.smallest = Smallest(samples=5)
            with pytest.warns(PreparationWarning):
                prepared = Prepare("one-hot").fit(federation)
            told = " ".join(prepared.warnings)
            assert "one client alone has 4 of the 8 words of column 'cp'" in told
            assert not any(name in told for name in urls)
            assert "1x" not in told
            sent = {row.message for row in prepared.ledger}
            assert "LoneWords" in sent
            assert "OwnWords" not in sent
            # asked anyway, in the start in which enough samples were found to have these words
            steps = [step for step in prepared.steps["hungary"] if step["step"] == "categories"]
            with pytest.raises(PolicyRefused, match="'hungary' refuses this by its rule 'words'"):
                federation.publish(own_words, steps, party=["hungary"])
    finally:
        site.end()


def test_words_of_one_client_are_counted_by_column(tmp_path):
    url = f"{tmp_path}/a.zarr"
    table = pd.DataFrame({"age": [1.0, 2.0, 3.0], "sex": ["f", "m", None], "cp": ["2", "2", "x"]})
    write_store(url, "a", table, categorical=["sex", "cp"], missing="keep")
    agreed = [{"step": "categories", "words": {"sex": ["f", "m", "u"], "cp": ["1", "2"]}}]
    held = words_held(ClientStore.open(url), agreed)
    assert held.tolist() == [[1, 1, -1, -1, 1]]  # of one magnitude, whoever has which
    assert own_words(ClientStore.open(url), agreed).held.tolist() == (held[0] == 1).tolist()
    others = np.array([[1, -1, -1, 1, 1], [-1, -1, -1, -1, 1]])
    total = Total(held + others.sum(axis=0), 0.0, ("a", "b", "c"))
    assert lone_words(total, (3, 2)).counts.tolist() == [1, 1]


# -- what sites add, and directions --------------------------------------------------------------


@pytest.mark.long
@pytest.mark.slow
def test_within_sites_each_takes_off_what_is_its_own(alike, tmp_path):
    asked = ["impute", "one-hot", {"standardise": {"within": "site"}}]
    prepared, found = rows_of(alike, asked)
    assert "FittedScales" in {row.message for row in prepared.ledger}  # of words
    mean = np.nanmean(np.concatenate([table["rate"] for table in TABLES.values()]))
    numbers = [table[["age", "rate"]].fillna(mean) for table in TABLES.values()]
    wanted = np.concatenate([StandardScaler().fit_transform(own) for own in numbers])
    np.testing.assert_allclose(found[:, :2], wanted, atol=1e-9)
    sexes = np.concatenate(
        [pd.get_dummies(table["sex"]).to_numpy(float) for table in TABLES.values()]
    )
    sexes = (sexes - sexes.mean(0)) / np.sqrt(sexes.var(0).sum())
    np.testing.assert_allclose(found[:, 3:5], sexes, atol=1e-9)

    labels, model = in_two(alike, asked)
    url = f"{tmp_path}/new.zarr"
    of_one_kind = TABLES["switzerland"]["ill"] == 1  # which have a mean of their own
    new = TABLES["switzerland"].drop(columns="ill")[of_one_kind].reset_index(drop=True)
    write_store(url, "switzerland", new, categorical=WORDS, missing="keep", dtype="float64")
    predicted = model.predict(alike, {"switzerland": url}).values
    np.testing.assert_array_equal(predicted, labels[SITES == "switzerland"][of_one_kind])


@pytest.mark.slow
def test_what_sites_measure_differently_does_not_make_clusters(tmp_path):
    """Two kinds of samples at each of three sites, whose instruments are far apart."""
    random = np.random.default_rng(0)
    kinds = {name: np.arange(30) % 2 for name in "abc"}
    urls = {name: f"{tmp_path}/{name}.zarr" for name in kinds}
    for i, (name, kind) in enumerate(kinds.items()):
        rows = random.normal(3.0 * kind[:, None], 0.3, (30, 2)) * (i + 1) + 100.0 * i
        write_store(urls[name], name, rows, dtype="float64")
    truth = np.concatenate(list(kinds.values()))
    with Federation.local(urls) as federation:
        labels, _ = in_two(federation, ["standardise"])
        assert adjusted_rand_score(truth, labels) < 0.1
        labels, _ = in_two(federation, [{"standardise": {"within": "site"}}])
        assert adjusted_rand_score(truth, labels) == 1.0


@pytest.mark.slow
def test_rows_of_length_1_are_those_of_pooled_rows(tmp_path):
    random = np.random.default_rng(0)
    rows = {name: random.normal(size=(12, 3)) for name in "abc"}
    rows["b"][[2, 5]] = 0.0
    urls = {name: f"{tmp_path}/{name}.zarr" for name in rows}
    for name, own in rows.items():
        write_store(urls[name], name, own, dtype="float64")
    with Federation.local(urls) as federation:
        with pytest.warns(PreparationWarning, match="2 samples have zeros alone"):
            _, found = rows_of(federation, "normalise")
        np.testing.assert_allclose(found, normalize(np.concatenate(list(rows.values()))))
        federation.preparation = None
        _, found = rows_of(federation, ["standardise", "normalise"])
        assert federation.preparation.warnings == ()
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0)


@pytest.mark.slow
def test_directions_need_all_columns_as_numbers(alike, tmp_path):
    with pytest.raises(InvalidInput, match="'normalise' needs numbers without gaps; column 'sex'"):
        Prepare("normalise").fit(alike)
    urls = {}
    for i, name in enumerate("abc"):
        urls[name] = f"{tmp_path}/{name}.zarr"
        ids = [str(j) for j in range(6)]
        write_store(urls[name], name, np.eye(6)[:, :2], ids, feature_names=[f"{i}x", f"{i}y"])
    with (
        Federation.local(urls) as federation,
        pytest.raises(InvalidInput, match="'pca' is for clients with the same columns"),
    ):
        Prepare({"pca": {"n_components": 1}}).fit(federation)


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"within": "client"}, "within"),
        ({"within": "site", "low": 0, "high": 1}, "has 'within' alone"),
    ],
)
def test_within_is_a_site_and_goes_alone(params, told):
    with pytest.raises(InvalidInput, match=told):
        Prepare({"standardise": params})
