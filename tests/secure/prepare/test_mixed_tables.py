"""Tables with words and gaps: prepared as scikit-learn would prepare the pooled ones."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, RobustScaler, StandardScaler

from daskfc import OmniFC, Prepare
from daskfc.errors import InvalidInput
from daskfc.federation import Federation, Message, array
from daskfc.stores import write_store

# 'four' is at one hospital alone, and every preparation of these tables says so
pytestmark = pytest.mark.filterwarnings("ignore::daskfc.secure.prepare.PreparationWarning")

SITES = ("a", "b", "c")
NUMBERS, WORDS = ["age", "creatinine", "visits"], ["sex", "stage"]


def table():
    """Sixty patients of each of three hospitals; stage 4 is at one alone, stage 5 is rare."""
    random = np.random.default_rng(7)
    n = 60 * len(SITES)
    frame = pd.DataFrame(
        {
            "age": random.normal(60, 12, n),
            "sex": random.choice(["f", "m"], n),
            "creatinine": random.lognormal(0, 1, n) * 1e-6,
            "stage": random.choice(["one", "two", "three"], n, p=[0.5, 0.3, 0.2]),
            "visits": random.integers(0, 6, n).astype(float),
        }
    )
    frame.loc[:6, "stage"] = "four"
    frame.loc[[70, 150], "stage"] = "five"
    for name, share in {"age": 0.2, "creatinine": 0.1, "stage": 0.15, "sex": 0.05}.items():
        frame.loc[random.random(n) < share, name] = np.nan
    frame.loc[:6, "stage"] = "four"
    return frame


TABLE = table()


class Rows(Message, route="client → caller", reveals="all, for a test"):
    rows: np.ndarray = array("sample", "column", dtype="float64")


def all_rows(data) -> Rows:
    return Rows(data.rows(0, data.n_samples))


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stores")
    urls = {}
    for i, name in enumerate(SITES):
        urls[name] = str(folder / f"{name}.zarr")
        write_store(
            urls[name], name, TABLE[60 * i : 60 * (i + 1)].reset_index(drop=True),
            categorical=WORDS, missing="keep", dtype="float64", chunk_rows=16,
        )  # fmt: skip
    with Federation.local(urls) as running:
        yield running


@pytest.fixture(autouse=True)
def nothing_prepared(federation):
    federation.preparation = None
    yield
    federation.preparation = None


def prepared_rows(federation, asked):
    federation.preparation = prepared = Prepare(asked).fit(federation)
    federation.start_run("rows", random_state=0)
    told = federation.publish(all_rows, party="clients")
    return prepared, np.concatenate([told[name].rows for name in SITES])


def filled(strategy):
    return ColumnTransformer(
        [
            ("numbers", SimpleImputer(strategy=strategy), NUMBERS),
            ("words", SimpleImputer(strategy="most_frequent"), WORDS),
        ]
    )


def in_order(numbers, sex, stage):
    """Put columns where the table has them."""
    return np.column_stack([numbers[:, 0], sex, numbers[:, 1], stage, numbers[:, 2]])


@pytest.mark.slow
def test_imputed_one_hot_and_standardised_are_scikit_learns(federation):
    prepared, found = prepared_rows(federation, ["impute", "one-hot", "standardise"])
    plain = filled("mean").fit_transform(TABLE)
    kept = [["f", "m"], ["four", "one", "three", "two"]]
    encoder = OneHotEncoder(categories=kept, handle_unknown="ignore", sparse_output=False)
    hot = encoder.fit_transform(plain[:, 3:])
    numbers = StandardScaler().fit_transform(plain[:, :3].astype(float))
    sex, stage = (words - words.mean(0) for words in (hot[:, :2], hot[:, 2:]))
    wanted = in_order(numbers, *(words / np.sqrt(words.var(0).sum()) for words in (sex, stage)))
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9 * np.abs(wanted).max())
    steps = prepared.steps["a"]
    assert [step["step"] for step in steps] == ["categories", "impute", "one-hot", "standardise"]
    assert steps[0]["words"] == {"sex": ["f", "m"], "stage": ["four", "one", "three", "two"]}


@pytest.mark.slow
def test_nobody_is_told_a_rare_word_or_who_has_which(federation):
    prepared, _ = prepared_rows(federation, ["impute", "one-hot"])
    assert "five" not in str(prepared.steps)
    plain = {
        row.message
        for row in prepared.ledger
        if row.protection == "plain" and row.sender in SITES and row.receiver == "server"
    }
    assert plain == {"ColumnMagnitudes", "Magnitude"}  # powers of two
    to_clients = {row.message for row in prepared.ledger if row.receiver in SITES}
    keys = [row for row in prepared.ledger if row.message == "HashKey"]
    assert {row.sender for row in keys} == {"a"}
    assert {row.receiver for row in keys} <= set(SITES)
    assert "FittedWords" not in to_clients


@pytest.mark.slow
def test_gaps_are_filled_by_medians_as_scikit_learns(federation):
    _, found = prepared_rows(federation, [{"impute": {"strategy": "median"}}, "one-hot"])
    wanted = filled("median").fit_transform(TABLE)[:, :3].astype(float)
    np.testing.assert_array_equal(found[:, [0, 3, 8]], wanted)


@pytest.mark.slow
def test_the_most_frequent_value_must_be_shared(federation, tmp_path):
    random = np.random.default_rng(3)
    rows = {name: random.integers(0, 4, (40, 3)) - 0.5 for name in SITES}
    for own in rows.values():
        own[random.random(own.shape) < 0.2] = np.nan
    urls = {name: str(tmp_path / f"{name}.zarr") for name in SITES}
    for name, own in rows.items():
        write_store(urls[name], name, own, missing="keep", dtype="float64")
    most_frequent = {"impute": {"strategy": "most-frequent"}}
    with Federation.local(urls) as counts:
        _, found = prepared_rows(counts, most_frequent)
        wanted = SimpleImputer(strategy="most_frequent").fit_transform(np.vstack([*rows.values()]))
        np.testing.assert_array_equal(found, wanted)
    with pytest.raises(InvalidInput, match="column 'age' has no value that at least 5 samples"):
        Prepare(most_frequent).fit(federation)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "scaler"), [("min-max", MinMaxScaler()), ("robust", RobustScaler())]
)
def test_scalings_by_quantiles_are_scikit_learns(federation, step, scaler):
    """Gaps stay gaps, and words are left alone, until they are prepared."""
    _, found = prepared_rows(federation, [step, {"impute": {"strategy": "median"}}, "one-hot"])
    wanted = make_pipeline(scaler, SimpleImputer(strategy="median")).fit_transform(TABLE[NUMBERS])
    np.testing.assert_allclose(found[:, [0, 3, 8]], wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_a_mixed_table_is_clustered_and_new_samples_too(federation, tmp_path):
    federation.preparation = Prepare(["impute", "one-hot", "standardise"]).fit(federation)
    model = OmniFC(3, clusterer="k-means", n_colluding=1).fit(federation)
    new = TABLE[60:70].reset_index(drop=True)
    new.loc[0, "stage"] = "unheard of"
    url = str(tmp_path / "new.zarr")
    write_store(url, "b", new, categorical=WORDS, missing="keep", dtype="float64")
    found = model.predict(federation, {"b": url}).values
    fitted = model.labels_.values[model.labels_.client.values == "b"][:10]
    np.testing.assert_array_equal(found[1:], fitted[1:])


@pytest.mark.slow
def test_what_is_not_prepared_is_refused_before_anything_runs(federation):
    with pytest.raises(InvalidInput, match=r"column 'sex' of client 'a' holds words"):
        OmniFC(3, n_colluding=1).fit(federation)
    with pytest.raises(InvalidInput, match=r"the step 'pca' needs numbers without gaps; column"):
        Prepare({"pca": {"n_components": 2}}).fit(federation)
    federation.preparation = Prepare("one-hot").fit(federation)
    with pytest.raises(InvalidInput, match=r"values of client 'a' may be missing"):
        OmniFC(3, n_colluding=1).fit(federation)


@pytest.mark.slow
def test_words_that_nobody_shares_are_refused(federation):
    with pytest.raises(InvalidInput, match="column 'sex' has no value that at least 500 samples"):
        Prepare([{"one-hot": {"smallest": 500}}]).fit(federation)


@pytest.mark.slow
def test_declared_ranges_of_a_client_with_words_of_its_own(tmp_path):
    """Only the client knows how many columns its words make."""
    ids = [str(i) for i in range(30)]
    own = {"a": TABLE[["visits", "sex"]][:30].fillna({"sex": "f"}), "b": TABLE[["visits"]][:30]}
    own["b"] = own["b"].rename(columns={"visits": "calls"})
    urls = {name: str(tmp_path / f"{name}.zarr") for name in own}
    for name, part in own.items():
        of_words = ["sex"] if name == "a" else []
        write_store(urls[name], name, part, ids, categorical=of_words, dtype="float64")
    with Federation.local(urls) as running:
        asked = ["one-hot", {"min-max": {"low": 1.0, "high": 5.0}}]
        running.preparation = Prepare(asked).fit(running)
        running.start_run("rows", random_state=0)
        told = running.publish(all_rows, party="clients")
    visits = (own["a"][["visits"]].to_numpy() - 1.0) / 4.0
    words = (own["a"][["sex"]].to_numpy() == np.array([["f", "m"]])) * 0.5**0.5
    np.testing.assert_allclose(told["a"].rows, np.hstack([visits, words]))
    np.testing.assert_allclose(told["b"].rows, visits)
