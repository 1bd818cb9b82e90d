"""What a column of words weighs beside one of numbers, against a slow count of differences."""

import math
import tracemalloc
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.preprocessing import StandardScaler, normalize

from daskfc.errors import StoreError
from daskfc.federation.planning.rehearsal import Rehearsal
from daskfc.stores import ClientStore, write_store
from daskfc.stores.store.fitted_steps import HEIGHT
from daskfc.stores.store.prepared import PreparedStore, width_of

ONE_HOT = {"step": "one-hot", "height": HEIGHT}
OWN = {"own": True}


def prepared(table, steps, words=("stage",), url="memory://test/prepared.zarr"):
    """Rows of one client that prepares them by its own values."""
    table = table.drop(columns=[name for name in ("sex",) if name in table and name not in words])
    write_store(url, "a", table, categorical=words, dtype="float64", overwrite=True)
    return PreparedStore.of(ClientStore.open(url), steps)


def squared(rows):
    return {(i, j): ((rows[i] - rows[j]) ** 2).sum() for i, j in combinations(range(len(rows)), 2)}


def gower(table, words, numbers):
    """Gower's distances, one pair and one column at a time; of numbers squared, as k-means has."""
    found = {}
    for i, j in combinations(range(len(table)), 2):
        one, other = table.iloc[i], table.iloc[j]
        parts = [float(one[name] != other[name]) for name in words]
        for name in numbers:
            width = table[name].max() - table[name].min()
            parts.append(((one[name] - other[name]) / width) ** 2)
        found[i, j] = sum(parts)
    return found


def table_of(n_words, n=40, seed=0):
    random = np.random.default_rng(seed)
    shares = random.dirichlet(np.ones(n_words))
    return pd.DataFrame(
        {
            "age": random.normal(60, 10, n),
            "stage": random.choice([f"s{i}" for i in range(n_words)], n, p=shares),
            "sex": random.choice(["f", "m"], n, p=[0.2, 0.8]),
        }
    )


@pytest.mark.parametrize("n_words", [2, 3, 12])
@pytest.mark.parametrize("order", [["min-max", "one-hot"], ["one-hot", "min-max", "log", "clip"]])
def test_with_ranges_a_column_of_words_has_gowers_weight(n_words, order):
    table = table_of(n_words)
    steps = {"min-max": {"step": "min-max", **OWN}, "one-hot": ONE_HOT, "log": {"step": "log"},
             "clip": {"step": "clip", "low": 0.0, "high": 0.1}}  # fmt: skip
    rows = prepared(table, [steps[name] for name in order[:2]], ["stage", "sex"]).rows(0, 40)
    wanted = gower(table, ["stage", "sex"], ["age"])
    assert squared(rows) == pytest.approx(wanted)
    if len(order) > 2:  # words are left alone by what follows
        after = prepared(table, [steps[name] for name in order], ["stage", "sex"]).rows(0, 40)
        np.testing.assert_array_equal(after[:, 1:], rows[:, 1:])


@pytest.mark.parametrize("n_words", [2, 3, 12])
def test_standardised_a_column_of_words_weighs_as_one_of_numbers(n_words):
    table = table_of(n_words)
    steps = [ONE_HOT, {"step": "standardise", **OWN}]
    store = prepared(table, steps)
    rows = store.rows(0, 40)
    of_words = [i for i, name in enumerate(store.feature_names) if name.startswith("stage=")]
    shares = table["stage"].value_counts(normalize=True)
    for (i, j), apart in squared(rows[:, of_words]).items():
        same = table["stage"][i] == table["stage"][j]
        assert apart == pytest.approx(0.0 if same else 2.0 / (1.0 - (shares**2).sum()))
    for columns in ([0], of_words):  # over all pairs, each sample with itself as well
        mean = 2.0 * sum(squared(rows[:, columns]).values()) / 40**2
        assert mean == pytest.approx(2.0)


@given(
    st.lists(st.booleans(), min_size=4, max_size=12), st.sampled_from(["min-max", "standardise"])
)
@settings(max_examples=25)
def test_two_words_weigh_as_the_numbers_0_and_1(values, scaling):
    table = pd.DataFrame({"number": [*map(float, values)], "stage": [str(v) for v in values]})
    store = prepared(table, [ONE_HOT, {"step": scaling, **OWN}])
    rows = store.rows(0, len(values))
    assert squared(rows[:, 1:]) == pytest.approx(squared(rows[:, :1]), abs=1e-9)


def test_models_of_an_earlier_daskfc_read_words_as_before():
    rows = prepared(table_of(2), [{"step": "one-hot"}]).rows(0, 40)
    assert set(rows[:, 1:].ravel()) == {0.0, 1.0}


def test_words_that_no_sample_has_weigh_nothing():
    """As where a source was dealt: a client's store lists words of all clients."""
    table = pd.DataFrame({"age": [1.0, 2.0, 3.0, 4.0], "stage": list("aabb")})
    agreed = {"step": "categories", "words": {"stage": ["a", "b", "nobody's", "nobody's either"]}}
    steps = [agreed, ONE_HOT, {"step": "standardise", **OWN}]
    rows = prepared(table, steps).rows(0, 4)
    assert squared(rows[:, 1:])[0, 2] == pytest.approx(2.0 / (1.0 - 2 * 0.5**2))


def test_within_a_site_words_are_left_to_all_sites():
    table = table_of(3)
    steps = [ONE_HOT, {"step": "standardise", "within": "site", **OWN}]
    rows = prepared(table, steps).rows(0, 40)
    np.testing.assert_allclose(rows[:, :1], StandardScaler().fit_transform(table[["age"]]))
    assert set(np.unique(rows[:, 1:4])) == {0.0, HEIGHT}


def test_rows_of_length_1_are_scikit_learns():
    random = np.random.default_rng(1)
    rows = random.normal(size=(20, 3)) * 10.0 ** random.integers(-200, 200, (20, 1))
    rows[7] = 0.0
    table = pd.DataFrame(rows, columns=["x", "y", "z"])
    found = prepared(table, [{"step": "normalise"}], ()).rows(0, 20)
    tame = rows / np.maximum(np.abs(rows).max(1, keepdims=True), 1e-300)  # whose squares are finite
    np.testing.assert_allclose(found, normalize(tame), rtol=1e-14)
    assert not found[7].any()
    one, other = found[0], found[1]
    cosine = one @ other / math.sqrt((one @ one) * (other @ other))
    assert ((one - other) ** 2).sum() == pytest.approx(2 * (1 - cosine))


def test_new_samples_are_written_as_the_clustered_ones():
    """A site's own words, in a step that its party puts first."""
    table = pd.DataFrame({"age": [1.0, 2.0, 3.0], "stage": ["M", "male", "f"]})
    steps = [
        {"step": "words", "words": {"M": "male"}},
        {"step": "categories", "words": {"stage": ["f", "male"]}},
        ONE_HOT,
    ]
    store = prepared(table, steps)
    assert (store.rows(0, 3)[:, 1:] > 0).tolist() == [[False, True], [False, True], [True, False]]


@pytest.mark.parametrize("step", [{"step": "clip", "low": 0.0, "high": 120.0}, {"step": "log"}])
def test_a_code_of_the_largest_number_is_refused_where_no_step_takes_it(step):
    table = table_of(2)
    table.loc[3, "age"] = np.finfo(np.float64).max
    largest = table["age"].max()
    with pytest.raises(StoreError, match=r"column 'age' has values above 2\*\*480") as refused:
        prepared(table, [ONE_HOT]).rows(0, 40)
    assert str(largest) not in str(refused.value)
    found = prepared(table, [ONE_HOT, step]).rows(0, 40)
    assert np.isfinite(found).all()
    assert found.max() <= max(120.0, np.log(largest))


@pytest.mark.parametrize(("n", "d", "neighbours"), [(3000, 200, 8), (3000, 20, 60)])
def test_what_filtering_over_the_graph_takes_is_foreseen(n, d, neighbours, tmp_path):
    """The more of columns in one store, and of edges in the other."""
    url, X = f"{tmp_path}/a.zarr", np.random.default_rng(0).normal(size=(n, d))
    edges = sparse.random_array((n, n), density=neighbours / n, rng=0)
    write_store(url, "a", X, [f"s{i}" for i in range(n)], graph=edges + edges.T, dtype="float64")
    store = ClientStore.open(url)
    smooth = {"step": "smooth", "order": 3, "filter": "agc"}
    PreparedStore.of(store, [smooth]).rows(0, 10)  # once all modules are imported
    found = PreparedStore.of(store, [smooth])
    tracemalloc.start()
    found.rows(0, 10)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    table = 8 * n * d  # which a plan counts for every store
    assert peak <= table + found.smoothing_bytes <= 2 * peak
    assert PreparedStore.of(store, []).smoothing_bytes == 0
    plain, planned = Rehearsal({"a": store}, {}), Rehearsal({"a": found}, {})
    for one in (plain, planned):
        one.foresee({"a": 7, "server": 5}, "a step")
    assert planned.memory["a"][0] - plain.memory["a"][0] == found.smoothing_bytes
    assert planned.memory["server"] == plain.memory["server"] == (5, "a step")


@pytest.mark.parametrize("unit", [1e-300, 1e-16, 1.0, 1e300])
def test_the_unit_of_a_column_does_not_matter_to_its_width(unit):
    """As moles a litre, whose columns vanished beside others without a word."""
    width = np.array([0.0, 0.5, 2.0]) * unit
    assert (width / width_of(width)).tolist() == [0.0, 1.0, 1.0]
