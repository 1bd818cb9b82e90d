"""What every fit relies on: stores of their own clients, columns that go together."""

import re

import numpy as np
import pytest

from daskfc.errors import InvalidInput, StoreError
from daskfc.federation.driver.contract import Contract, StoreSummary, store_summary, summary_of_new
from daskfc.federation.messages.texts import text_arrays, texts_in
from daskfc.stores import ClientStore, write_store
from daskfc.testing.federation import stores_of


def summary(owner, *columns, build="build", words=(), missing=0):
    of_words = np.array([name in words for name in columns], dtype=bool)
    return StoreSummary(owner, build, *text_arrays(columns), of_words, missing)


AGREED = Contract(
    columns={"a": ("age", "größe"), "b": ("age", "weight", "pulse")}, builds={"a": "1", "b": "2"}
)


def test_a_store_is_described_by_owner_build_and_columns(tmp_path):
    store = ClientStore.open(stores_of(tmp_path, {"a": np.eye(2)}, columns={"a": ["é", "x1"]})["a"])
    for describe in (store_summary, summary_of_new):
        found = describe(store)
        assert (found.owner, found.build_id) == ("a", store.build_id)
        assert found.columns() == ("é", "x1")


def test_a_contract_is_made_of_every_clients_store():
    stores = {
        "a": summary("a", "x", "y", build="1", words=["y"]),
        "b": summary("b", build="2", missing=1),
    }
    assert Contract.of(stores) == Contract(
        columns={"a": ("x", "y"), "b": ()},
        builds={"a": "1", "b": "2"},
        categorical={"a": ("y",), "b": ()},
        missing={"a": False, "b": True},
    )


def test_words_and_gaps_are_refused_until_they_are_prepared():
    of_words = Contract.of({"a": summary("a", "x", "sex", words=["sex"]), "b": summary("b", "x")})
    with pytest.raises(InvalidInput, match=r"^column 'sex' of client 'a' holds words, and methods"):
        of_words.check_prepared({"a": [{"step": "impute"}]})
    of_words.check_prepared({"a": [{"step": "one-hot"}]})
    gaps = Contract.of({"a": summary("a", "x"), "b": summary("b", "x", missing=1)})
    with pytest.raises(InvalidInput, match=r"^values of client 'b' may be missing, and methods"):
        gaps.check_prepared({"a": [{"step": "impute"}], "b": [{"step": "standardise"}]})
    gaps.check_prepared({"b": [{"step": "impute"}]})


def test_new_samples_may_have_gaps_only_where_they_are_filled():
    agreed = Contract.of({"a": summary("a", "x")})
    new = summary("a", "x", missing=1)
    with pytest.raises(InvalidInput, match=r"^values of client 'a' may be missing"):
        agreed.check_new("a", new)
    agreed.check_new("a", new, [{"step": "impute"}])


def test_a_client_brings_its_own_store():
    sentence = (
        "client 'b' must bring a store of its own; its store was written for client 'a'. Correct "
        "the URL, or call the client 'a'."
    )
    with pytest.raises(StoreError, match=f"^{re.escape(sentence)}$"):
        Contract.of({"a": summary("a"), "b": summary("a")})


def test_columns_go_together_as_the_method_needs():
    same = Contract(columns={"a": ("x", "y"), "b": ("x", "y")}, builds={})
    apart = Contract(columns={"a": ("x",), "b": ("y",)}, builds={})
    same.check_split("samples", "Means")
    apart.check_split("columns", "Means")
    with pytest.raises(InvalidInput, match=r"^Means joins .* 'a' and 'b' both have a column 'x'"):
        same.check_split("columns", "Means")
    with pytest.raises(InvalidInput, match=r"^Means needs clients with the same columns in the"):
        apart.check_split("samples", "Means")


def test_samples_that_can_be_read_are_held_to_the_split(tmp_path):
    stores = {}
    for name, ids in {"a": ["p1", "p2"], "b": ["p2", "p3"]}.items():
        url = str(tmp_path / f"{name}.zarr")
        write_store(url, name, np.eye(2), ids, feature_names=[f"{name}.0", f"{name}.1"])
        stores[name] = ClientStore.open(url)
    told = {name: store_summary(store) for name, store in stores.items()}
    contract = Contract.of(told, stores)
    assert dict(contract.readable) == stores
    contract.check_split("views", "Means")
    with pytest.raises(StoreError, match="must have the samples of client 'a'; it lacks 1 of 2"):
        contract.check_split("columns", "Means")
    Contract.of(told).check_split("columns", "Means")  # from afar only names can be compared


@pytest.mark.parametrize(
    ("columns", "at", "here", "there"),
    [
        (("größe", "age"), 1, "'age'", "'größe'"),
        (("age", "x"), 2, "'größe'", "'x'"),
        (("age",), 2, "'größe'", "missing"),
        (("age", "größe", "z"), 3, "missing", "'z'"),
        ((), 1, "'age'", "missing"),
    ],
)
def test_new_samples_have_the_columns_of_their_client(columns, at, here, there):
    AGREED.check_new("a", summary("a", "age", "größe"))
    sentence = (
        "new samples of client 'a' must have the columns of the clustered ones in the same order; "
        f"column {at} is {here} there and {there} in the new store. Write it again with those "
        "columns."
    )
    with pytest.raises(InvalidInput, match=f"^{re.escape(sentence)}$"):
        AGREED.check_new("a", summary("a", *columns))


def test_each_client_has_its_own_and_a_new_one_those_of_the_first():
    AGREED.check_new("b", summary("b", "age", "weight", "pulse"))
    AGREED.check_new("c", summary("c", "age", "größe"))
    with pytest.raises(InvalidInput, match=r"of client 'b' .* column 2 is 'weight' there and 'grö"):
        AGREED.check_new("b", summary("b", "age", "größe"))
    with pytest.raises(InvalidInput, match=r"of client 'c' .* column 2 is 'größe' there and 'wei"):
        AGREED.check_new("c", summary("c", "age", "weight", "pulse"))


def test_new_samples_are_their_clients_own():
    sentence = (
        "client 'b' must bring a store of its own; its store of new samples was written for client "
        "'a'. Correct the URL, or call the client 'a'."
    )
    with pytest.raises(StoreError, match=f"^{re.escape(sentence)}$"):
        AGREED.check_new("b", summary("a", "age", "größe"))


@pytest.mark.parametrize("words", [[], [""], ["", "a", ""], ["age", "größe", "年齢"], ["a" * 999]])
def test_words_come_back_from_their_bytes(words):
    content, ends = text_arrays(words)
    assert (content.dtype, ends.dtype) == (np.uint8, np.int64)
    assert content.tobytes() == "".join(words).encode()
    assert len(ends) == len(words)
    assert texts_in(content, ends) == words
    assert texts_in(*text_arrays(iter(words))) == words


def test_words_are_taken_as_text():
    assert texts_in(*text_arrays([3, 1.5])) == ["3", "1.5"]
