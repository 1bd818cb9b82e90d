"""Fitted methods in folders: the same when they are read again, refused when they are not whole."""

import json
from dataclasses import dataclass

import numpy as np
import pytest
import xarray as xr

from daskfc.errors import InvalidInput
from daskfc.federation import Ledger
from daskfc.federation.driver.contract import Contract
from daskfc.federation.methods.saving import read_model, write_model
from tests.federation.methods import Above, AboveOfCaller

ROW = {
    "run": "r", "round": 0, "step": "s", "sender": "a", "receiver": "server", "message": "Mean",
    "protection": "plain", "shapes": {"x": [2]}, "dtypes": {"x": "float64"}, "payload_bytes": 16,
    "wire_bytes": 300, "time": 1.5, "task": "t", "noise_multiplier": None,
}  # fmt: skip


def labels():
    coords = {"client": ("sample", ["a", "b"]), "sample_id": ("sample", ["é", "y"])}
    return xr.DataArray(np.array([1, -1]), coords, ("sample",), name="label")


def fitted(kind=AboveOfCaller, **params):
    model = kind(2, **params)
    model.labels_ = labels()
    model.limit_ = np.array([0.1, np.nan, -np.inf])
    model.ledger_ = Ledger([ROW])
    model.timing_ = {"total_s": float("inf")}
    model.seed_ = 3
    model._contract = Contract({"a": ("x", "y")}, {"a": "build"}, readable={"a": object()})
    model._prepared = {"a": [{"step": "log"}]}
    model.told_ = [(1, "two"), {3: None, "x": True}]
    return model


def test_a_model_comes_back_as_it_was(tmp_path):
    model = fitted(shift=0.25, random_state=None)
    model.save(tmp_path / "new" / "model")
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == ["model"]
    back = AboveOfCaller.load(tmp_path / "new" / "model")
    assert type(back) is AboveOfCaller
    assert back.get_params() == model.get_params()
    assert back.labels_.identical(model.labels_)
    np.testing.assert_array_equal(back.limit_, model.limit_)
    assert back.ledger_.rows == model.ledger_.rows
    assert (back.timing_, back.seed_, back.told_) == (model.timing_, 3, model.told_)
    assert back._contract == Contract({"a": ("x", "y")}, {"a": "build"})
    assert back._prepared == model._prepared
    assert model._contract.readable  # left as it was
    assert (tmp_path / "new" / "model").stat().st_mode & 0o077 == 0


def test_no_pickle_is_in_it_and_json_is_standard(tmp_path):
    fitted().save(tmp_path / "model")
    files = sorted(p.name for p in (tmp_path / "model").iterdir())
    assert files == ["arrays.npz", "model.json"]

    def no_constant(text):
        raise AssertionError(text)

    text = (tmp_path / "model" / "model.json").read_text()
    assert json.loads(text, parse_constant=no_constant)["format"] == "daskfc-model"
    with np.load(tmp_path / "model" / "arrays.npz", allow_pickle=False) as arrays:
        assert all(arrays[name].dtype.kind != "O" for name in arrays)


def test_what_lies_with_the_parties_is_not_in_it(tmp_path):
    fitted(Above).save(tmp_path / "model")
    back = Above.load(tmp_path / "model")
    assert back.labels_.identical(labels())
    assert not hasattr(back, "_contract")


def test_a_folder_that_is_there_is_not_written_over(tmp_path):
    fitted().save(tmp_path / "model")
    before = (tmp_path / "model" / "model.json").read_bytes()
    with pytest.raises(InvalidInput, match="is there and is not written over"):
        fitted().save(tmp_path / "model")
    assert (tmp_path / "model" / "model.json").read_bytes() == before
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="cannot be written there"):
        fitted().save(tmp_path / "file" / "model")


class Anything:
    """Has no plain form."""


@pytest.mark.parametrize("value", [Anything(), {"deep": [Anything()]}, np.array([b"x"]), {1}])
def test_what_has_no_plain_form_is_refused_by_name(tmp_path, value):
    model = fitted()
    model.limit_ = value
    with pytest.raises(InvalidInput, match="the attribute 'limit_' of AboveOfCaller holds a "):
        model.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_a_model_of_another_class_is_refused(tmp_path):
    fitted().save(tmp_path / "model")
    with pytest.raises(InvalidInput, match=r"holds a AboveOfCaller; asked for was Above\."):
        Above.load(tmp_path / "model")


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="no model is there"):
        Above.load(tmp_path)
    for text in ("", "[]", "{}", '{"format": "other"}'):
        (tmp_path / "model.json").write_text(text)
        with pytest.raises(InvalidInput, match="the model is damaged"):
            Above.load(tmp_path)


def spoilt(tmp_path, change):
    fitted().save(tmp_path / "model")
    path = tmp_path / "model" / "model.json"
    about = json.loads(path.read_text())
    change(about)
    path.write_text(json.dumps(about))
    return tmp_path / "model"


def test_a_model_whose_files_changed_is_refused(tmp_path):
    fitted().save(tmp_path / "model")
    (tmp_path / "model" / "arrays.npz").write_bytes(b"PK")
    with pytest.raises(InvalidInput, match="damaged"):
        AboveOfCaller.load(tmp_path / "model")
    missing = spoilt(tmp_path / "b", lambda about: about["state"]["limit_"].update(name="a99"))
    with pytest.raises(InvalidInput, match="damaged"):
        AboveOfCaller.load(missing)


@pytest.mark.parametrize("name", ["os:system", "subprocess:Popen", "daskfc.seeds:generator"])
def test_a_model_imports_nothing_but_dataclasses_of_its_packages(tmp_path, name):
    def ask(about):
        about["state"]["limit_"] = {"$kind": "dataclass", "class": name, "fields": {}}

    with pytest.raises(InvalidInput, match="damaged"):
        AboveOfCaller.load(spoilt(tmp_path, ask))


@dataclass(frozen=True)
class Plan:
    """A dataclass of the method's own package."""

    size: int
    rows: np.ndarray


def test_dataclasses_of_a_methods_package_come_back(tmp_path):
    write_model(Above, {"plan": Plan(3, np.eye(2))}, tmp_path / "model")
    name = f"{Above.__module__}:Above"
    kind, state = read_model(tmp_path / "model", {name: Above})
    assert kind is Above
    assert type(state["plan"]) is Plan
    assert state["plan"].size == 3
    np.testing.assert_array_equal(state["plan"].rows, np.eye(2))
