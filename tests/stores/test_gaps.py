"""Tables with words, dates and empty cells, as stores and as prepared rows."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from daskfc.errors import StoreError
from daskfc.stores import ClientStore, load_storage, write_store
from daskfc.stores.building.write import add_store
from daskfc.stores.layout.spelling import renumbered
from daskfc.stores.store.fitted_steps import Columns, applied
from daskfc.stores.store.prepared import PreparedStore

CSV = """id,sex,age,visit,stage
p1,f,61,2024-05-06,2
p2, m ,,1970-01-02 12:00,
p3,,58,,1
p4,f,40.5,2024-05-06T00:00:00Z,10
"""
KINDS = {"ids": "id", "categorical": ["sex", "stage"], "dates": ["visit"], "missing": "keep"}
WANTED = np.array(
    [[0, 61, 19849, 2], [1, np.nan, 1.5, np.nan], [np.nan, 58, np.nan, 0], [0, 40.5, 19849, 1]]
)


def everything(store):
    return store.rows(0, store.n_samples)


def check_stored(store):
    assert store.feature_names == ("sex", "age", "visit", "stage")
    assert store.categories == {"sex": ("f", "m"), "stage": ("1", "10", "2")}
    assert store.missing
    assert store.unprepared == "column 'sex' holds words, and cells may be empty"
    assert store.attributes["version"] == 2
    np.testing.assert_array_equal(everything(store), WANTED)
    store.check()


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(CSV)
    return path


def test_a_csv_with_words_dates_and_gaps(csv, tmp_path):
    url = str(tmp_path / "a.zarr")
    row = add_store("a", [str(csv)], url, source=KINDS, dtype="float64")
    check_stored(ClientStore.open(url))
    assert row["to prepare"] == "column 'sex' holds words, and cells may be empty"


@pytest.mark.parametrize("kind", ["parquet", "feather"])
def test_a_table_with_words_dates_and_gaps(kind, csv, tmp_path):
    frame = pd.read_csv(csv, dtype={"stage": "Int64"}, skipinitialspace=True)
    frame["sex"] = frame["sex"].str.strip()
    getattr(frame, f"to_{kind}")(tmp_path / f"a.{kind}")
    url = str(tmp_path / "a.zarr")
    add_store("a", [str(tmp_path / f"a.{kind}")], url, source=KINDS, dtype="float64")
    check_stored(ClientStore.open(url))


def test_a_table_at_hand_knows_its_own_kinds(csv, tmp_path):
    frame = pd.read_csv(csv, skipinitialspace=True)
    frame["sex"] = frame["sex"].str.strip().astype("category")
    frame["visit"] = pd.to_datetime(frame["visit"], format="ISO8601", utc=True)
    url = str(tmp_path / "a.zarr")
    with pytest.raises(StoreError, match=r"row 2, column 'age': .* got a missing value"):
        write_store(url, "a", frame.drop(columns="stage"), "id")
    write_store(url, "a", frame, "id", categorical=["stage"], missing="keep", dtype="float64")
    check_stored(ClientStore.open(url))


def test_files_of_one_client_share_their_words(csv, tmp_path):
    other = tmp_path / "b.csv"
    other.write_text("id,sex,age,visit,stage\nq1,d,1,2024-05-06,2\n")
    url = str(tmp_path / "a.zarr")
    add_store("a", [str(csv), str(other)], url, source=KINDS, dtype="float64")
    store = ClientStore.open(url)
    assert store.categories["sex"] == ("d", "f", "m")
    np.testing.assert_array_equal(everything(store)[:, 0], [1, 2, np.nan, 1, 0])


def test_clients_of_a_split_table_have_the_words_of_their_columns(tmp_path):
    path = tmp_path / "all.csv"
    lines = [f"{i},{'fm'[i % 2]},{i / 2}" for i in range(8)]
    path.write_text("\n".join(["a,sex,b", *lines]))
    storage = {
        "source": {"path": str(path), "categorical": ["sex"]},
        "partition": {"scheme": "vertical", "clients": 2, "columns": "contiguous"},
        "root": str(tmp_path / "stores"),
    }
    stores = map(ClientStore.open, load_storage(storage).build().values())
    held = {store.feature_names: store.categories for store in stores}
    assert held == {("a", "sex"): {"sex": ("f", "m")}, ("b",): {}}


def test_words_of_another_list_are_other_content(tmp_path):
    frame = pd.DataFrame({"sex": ["f", "m"]})
    digests = set()
    for i, names in enumerate((["f", "m"], ["f", "n"])):
        url = str(tmp_path / f"{i}.zarr")
        write_store(url, "a", frame.assign(sex=names), categorical=["sex"])
        digests.add(ClientStore.open(url).digest)
    assert len(digests) == 2


@pytest.mark.parametrize(
    ("text", "keys", "match"),
    [
        (CSV, {**KINDS, "missing": None}, r"line 3, column 'age': .* source.missing: keep"),
        (CSV, {**KINDS, "dates": ["age"]}, r"line 2, column 'age': dates must be written as 2026"),
        (CSV, {**KINDS, "dates": ["day"]}, r"the column 'day' named by the source is not there"),
        (CSV, {**KINDS, "columns": ["age"]}, r"column 'sex' is categorical or a date, and not amo"),
        (CSV.replace("61", "inf"), KINDS, r"line 2, column 'age': .* got infinity\. Correct it"),
        (CSV.replace(" m ", 65 * "m"), KINDS, r"column 'sex': words of .* at most 64 bytes"),
    ],
)
def test_what_is_refused(tmp_path, text, keys, match):
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(StoreError, match=match):
        add_store("a", [str(path)], str(tmp_path / "a.zarr"), source=keys)


def test_scaling_and_graphs_are_for_numbers(csv):
    from daskfc.stores.dealing.config import SourceConfig
    from daskfc.stores.sources.readers import open_source

    for key in ({"scale": 2.0}, {"scaling": "standard"}, {"graph": {"neighbours": 1}}):
        source = SourceConfig.model_validate({"path": str(csv), **KINDS, **key})
        with pytest.raises(StoreError, match="are for numbers without gaps; column 'sex' holds"):
            open_source(source)


def test_whole_numbers_hold_no_gaps(tmp_path):
    with pytest.raises(StoreError, match="int64 cannot hold missing values"):
        write_store(
            str(tmp_path / "a.zarr"), "a", np.array([[np.nan]]), missing="keep", dtype="int64"
        )


@pytest.mark.parametrize("keys", [{"missing": "drop"}, {"categorical": ["x0"]}, {"dates": ["x0"]}])
def test_arrays_know_gaps_alone(tmp_path, keys):
    with pytest.raises(StoreError, match=r"missing must be 'keep'|an array has no columns"):
        write_store(str(tmp_path / "a.zarr"), "a", np.eye(2), **keys)


# -- what steps do -------------------------------------------------------------------------------


def test_steps_of_one_client_alone_are_of_its_own_samples(csv, tmp_path):
    url = str(tmp_path / "a.zarr")
    add_store("a", [str(csv)], url, source=KINDS, dtype="float64")
    store = ClientStore.open(url)
    steps = [
        {"step": "impute", "own": True, "strategy": "median"},
        {"step": "min-max", "own": True},
        {"step": "one-hot"},
    ]
    made = PreparedStore.of(store, steps)
    assert made.feature_names == ("sex=f", "sex=m", "age", "visit",
                                  "stage=1", "stage=10", "stage=2")  # fmt: skip
    assert (made.unprepared, made.n_features) == ("", 7)
    rows = everything(made)
    np.testing.assert_array_equal(rows[:, 0], [1, 0, 1, 1])
    np.testing.assert_allclose(rows[:, 2], (np.array([61, 58, 58, 40.5]) - 40.5) / 20.5)
    np.testing.assert_array_equal(rows[:, 4:].sum(axis=1), 1)


@pytest.mark.parametrize("step", [{"step": "log"}, {"step": "clip", "low": 0.5, "high": 0.75}])
def test_words_are_left_alone_until_they_are_one_hot(step):
    columns = Columns(("sex", "x"), {"sex": ("f", "m")}, True, "a")
    change, _ = applied(step, columns)
    found = change(np.array([[np.nan, 1.0], [1.0, np.nan]]), 0)
    np.testing.assert_array_equal(found[:, 0], [np.nan, 1.0])
    assert found[0, 1] in (np.log(2.0), 0.75)
    assert np.isnan(found[1, 1])


def test_a_word_that_was_not_agreed_on_has_no_column():
    columns = Columns(("sex",), {"sex": ("d", "f")}, False, "a")
    agree, columns = applied({"step": "categories", "words": {"sex": ["f", "m"]}}, columns)
    encode, columns = applied({"step": "one-hot"}, columns)
    assert columns.names == ("sex=f", "sex=m")
    np.testing.assert_array_equal(encode(agree(np.array([[0.0], [1.0]]), 0), 0), [[0, 0], [1, 0]])


def test_numbers_of_the_same_words_stay():
    block = np.array([[1.0, np.nan]])
    assert renumbered(block, ["a", "b"], {"a": ["x"]}, {"a": ("x",)}) is block


def test_directions_of_words_are_refused():
    columns = Columns(("sex",), {"sex": ("d", "f")}, False, "a")
    with pytest.raises(StoreError, match="the step 'pca' needs numbers without gaps; column 'sex'"):
        applied({"step": "pca", "mean": [0.0], "components": [[1.0]]}, columns)


def test_a_store_of_ours_as_a_source_keeps_its_words_and_gaps(csv, tmp_path):
    url, again = str(tmp_path / "a.zarr"), str(tmp_path / "again.zarr")
    add_store("a", [str(csv)], url, source=KINDS, dtype="float64")
    storage = load_storage(
        {"clients": {"b": {"source": {"path": url}}}, "layout": {"dtype": "float64"}}
    )
    (built,) = storage.build(again).values()
    check_stored(ClientStore.open(built))


@pytest.mark.parametrize("kind", ["csr_matrix", "csr_array", "coo_array", "csc_array", "lil_array"])
def test_sparse_matrices_are_stored_as_they_are_meant(tmp_path, kind):
    X = np.array([[0.0, 2.5, 0.0], [1.0, 0.0, 0.0]])
    url = str(tmp_path / "a.zarr")
    write_store(url, "a", getattr(sparse, kind)(X), ["1", "2"])
    np.testing.assert_array_equal(everything(ClientStore.open(url)), X)
