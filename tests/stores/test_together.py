"""Which stores go together: the same columns, columns of the same samples, or several views."""

import re

import numpy as np
import pytest

from daskfc.errors import InvalidInput, StoreError
from daskfc.federation.driver.contract import Contract
from daskfc.runs import prepare
from daskfc.stores import ClientStore, load_storage, write_store
from daskfc.stores.store.together import (
    check_columns,
    check_samples,
    check_together,
    number_of_samples,
)

BLOOD, IMAGE, GENES = ["b.0", "b.1"], ["i.0"], ["g.0", "g.1", "g.2"]


def exactly(sentence):
    return f"^{re.escape(sentence)}$"


@pytest.fixture
def stores(tmp_path):
    """From a client's columns and ids, as words in one string, to opened stores."""

    def made(**clients):
        for name, (columns, ids) in clients.items():
            rows = np.ones((len(ids.split()), len(columns)))
            write_store(f"{tmp_path}/{name}.zarr", name, rows, ids.split(), feature_names=columns)
        return {name: ClientStore.open(f"{tmp_path}/{name}.zarr") for name in clients}

    return made


def storage_of(stores):
    return {"clients": {name: {"store": store.url} for name, store in stores.items()}}


@pytest.mark.parametrize(
    ("clients", "split", "count"),
    [
        ({"a": (BLOOD, "1 2"), "b": (BLOOD, "3 4")}, "samples", 4),
        ({"a": (BLOOD, "1 2")}, "samples", 2),
        ({"a": (BLOOD, "1 2 3"), "b": (IMAGE, "1 2 3")}, "columns", 3),
        ({"a": (BLOOD, "1 2 3"), "b": (IMAGE, "1 3 2")}, "views", 3),
        ({"a": (BLOOD, "1 2 3"), "b": (IMAGE, "3 10")}, "views", 4),
        ({"a": (BLOOD, "1 2"), "b": (IMAGE, "2 1"), "c": (BLOOD, "3")}, "views", 3),
        ({"a": (BLOOD, "1 2"), "b": (GENES, "3 4"), "c": (IMAGE, "2 3")}, "views", 4),
    ],
    ids=["samples", "alone", "columns", "another order", "missing", "two of a view", "by a third"],
)
def test_what_differs_between_clients(stores, clients, split, count):
    opened = stores(**clients)
    assert check_together(opened) == split
    assert number_of_samples(opened) == count
    storage = load_storage(storage_of(opened))
    storage.check()
    assert [row["samples"] for row in storage.inspect()] == [
        len(ids.split()) for _, ids in clients.values()
    ]


@pytest.mark.parametrize(
    ("clients", "sentence"),
    [
        (
            {"a": (BLOOD, "1 2"), "b": (IMAGE, "3 4")},
            "clients of different views must have samples in common; nothing links the view of "
            "client 'b' to that of client 'a', directly or through another view. See that sample "
            "ids mean the same at both, and link the records first.",
        ),
        (
            {"a": (BLOOD, "1 2"), "b": (IMAGE, "2 3"), "c": (GENES, "4"), "d": (GENES, "5")},
            "clients of different views must have samples in common; nothing links the view of "
            "client 'c' to that of client 'a', directly or through another view. See that sample "
            "ids mean the same at both, and link the records first.",
        ),
        (
            {"a": (BLOOD, "1 2"), "b": (IMAGE, "1"), "c": (IMAGE, "2 4 1"), "d": (IMAGE, "5")},
            "clients of one view must hold different samples; clients 'b' and 'c' have the same "
            "columns and share 1 of 3 samples. Drop the copies, or give the columns of another "
            "view other names.",
        ),
        (
            {"a": (BLOOD, "1 2"), "b": (IMAGE, "1 2"), "c": (["b.0", "b.2"], "1 2")},
            "every two clients have the same columns in the same order, or no column in common; "
            "clients 'a' and 'c' both have a column 'b.0', and column 2 of client 'a' is 'b.1', "
            "of client 'c' 'b.2'. Write one of the stores again.",
        ),
        (
            {"a": (BLOOD, "1"), "b": (IMAGE, "1"), "c": (BLOOD[::-1], "2")},
            "every two clients have the same columns in the same order, or no column in common; "
            "clients 'a' and 'c' both have a column 'b.1', and column 1 of client 'a' is 'b.0', "
            "of client 'c' 'b.1'. Write one of the stores again.",
        ),
    ],
    ids=["unlinked", "one of three", "copies", "some columns", "another order"],
)
def test_stores_that_do_not_go_together(stores, clients, sentence):
    opened = stores(**clients)
    with pytest.raises(InvalidInput, match=exactly(sentence)):
        check_together(opened)
    for use in ("open", "check", "inspect", "ensure"):
        with pytest.raises(InvalidInput, match=exactly(sentence)):
            getattr(load_storage(storage_of(opened)), use)()


def test_columns_for_methods_of_views():
    views = {"a": BLOOD, "b": IMAGE, "c": BLOOD}
    check_columns(views, "views", "ESFMC")
    check_columns({"a": BLOOD, "b": IMAGE}, "views", "ESFMC")
    with pytest.raises(InvalidInput, match=r"^kCAGC joins .* 'a' and 'c' both have a column 'b.0'"):
        check_columns(views, "columns", "kCAGC")
    with pytest.raises(InvalidInput, match=r"^FedSC needs clients with the same columns in the"):
        check_columns(views, "samples", "FedSC")
    sentence = (
        "ESFMC needs at least two views, clients without a column in common; all have the same "
        "columns, 2 of them. Give clients of another view columns of other names (partition scheme "
        "'views'), or choose a method for clients that hold different samples."
    )
    with pytest.raises(InvalidInput, match=exactly(sentence)):
        check_columns({"a": BLOOD, "b": BLOOD}, "views", "ESFMC")
    sentence = (
        "ESFMC needs views, so that every two clients have the same columns in the same order or "
        "no column in common; clients 'a' and 'b' both have a column 'b.1', and column 1 of client "
        "'a' is 'b.0', of client 'b' 'b.1'. Write one of the stores again."
    )
    with pytest.raises(InvalidInput, match=exactly(sentence)):
        check_columns({"a": BLOOD, "b": ["b.1", "b.9"]}, "views", "ESFMC")


UNLIKE = [
    ("1 2 4", "client 'b' has columns of its own and must have the samples of client 'a'; it lacks "
     "1 of 3 and has 1 others. Link the records first."),
    ("2 1 3", "client 'b' must have the samples of client 'a' in the same order; 2 stand "
     "elsewhere. Sort both by id."),
]  # fmt: skip


@pytest.mark.parametrize(("ids", "sentence"), UNLIKE, ids=["others", "moved"])
def test_a_method_for_columns_refuses_views_before_work_starts(stores, tmp_path, ids, sentence):
    opened = stores(a=(BLOOD, "1 2 3"), b=(IMAGE, ids))
    assert check_together(opened) == "views"
    with pytest.raises(StoreError, match=exactly(sentence)):
        check_samples(opened, "columns")
    params = {"n_clusters": 2, "filter_order": 0}
    with pytest.raises(StoreError, match=exactly(sentence)):
        prepare(
            {"method": "kCAGC", "params": params, "seeds": [0]},
            storage=storage_of(opened),
            runs_dir=tmp_path / "runs",
        )
    assert not (tmp_path / "runs").exists()
    columns = {name: store.feature_names for name, store in opened.items()}
    with pytest.raises(StoreError, match=exactly(sentence)):
        Contract(columns, {}, opened).check_split("columns", "kCAGC")
    Contract(columns, {}, opened).check_split("views", "ESFMC")
    Contract(columns, {}).check_split("columns", "kCAGC")  # nothing to be read: its server checks


def test_a_compared_method_for_columns_refuses_views_too(stores, tmp_path):
    opened = stores(a=(BLOOD, "1 2 3"), b=(IMAGE, "1 2 4"))
    pipeline = {"method": "kCAGC", "params": {"n_clusters": 2}, "compare": ["AGC"], "seeds": [0]}
    with pytest.raises(StoreError, match="lacks 1 of 3"):
        prepare(pipeline, storage=storage_of(opened), runs_dir=tmp_path / "runs")
