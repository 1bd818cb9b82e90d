"""The contract of methods, held by toy methods on the shared federation."""

import math
import pickle
import re
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr
from sklearn import config_context, utils
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from daskfc import seeds
from daskfc.errors import InvalidInput, PrivacyError, StoreError
from daskfc.federation import FederatedClusterer, LabelledSamples, labels_array
from daskfc.federation.driver.contract import Contract
from daskfc.federation.messages.texts import text_arrays
from daskfc.testing.federation import stores_of
from tests.federation.methods import Above, AboveOfCaller, AboveOnce, FirstColumns, FitsOnly

FITTED = [0] * 6 + [0, 0, 0, 1, 1, 1] + [1] * 6  # by the mean over all clients
CLIENTS = ("client-1", "client-2", "client-3")
NEW = np.array([[0.0, 1.0], [5000.0, 1.0]])  # one below the mean, one above


def exactly(sentence):
    return f"^{re.escape(sentence)}$"


def ids(clients, n):
    return [f"{name}/{i}" for name in clients for i in range(n)]


@pytest.fixture
def new(tmp_path):
    """Stores of new samples, one of each client."""
    return stores_of(tmp_path / "new", dict.fromkeys(CLIENTS, NEW))


@pytest.fixture
def of_columns(federation, monkeypatch):
    """The shared federation as it would be with other columns at each client."""
    columns = {name: (f"{name}-x", f"{name}-y") for name in CLIENTS}
    contract = Contract(columns=columns, builds=federation.contract.builds)
    monkeypatch.setattr(federation, "_contract", contract)
    return federation, columns


# -- fit ------------------------------------------------------------------------------------------


def test_a_fit_keeps_labels_ledger_and_times(federation, monkeypatch):
    told = []
    monkeypatch.setattr(federation, "on_progress", lambda *stage: told.append(stage))
    before = federation.run_id
    method = Above(18)
    assert method.fit(federation) is method

    labels = method.labels_
    assert isinstance(labels, xr.DataArray)
    assert (labels.dims, labels.dtype, labels.name) == (("sample",), np.int64, "label")
    assert labels.values.tolist() == FITTED
    assert set(labels.coords) == {"client", "sample_id"}
    assert labels["client"].dims == labels["sample_id"].dims == ("sample",)
    assert labels["client"].values.tolist() == np.repeat(CLIENTS, 6).tolist()
    assert labels["sample_id"].values.tolist() == ids(CLIENTS, 6)

    assert told == [("sums", 0, 0), ("limit", 0, 0), ("labels", 0, 0)]
    assert set(method.timing_) == {"sums_s", "limit_s", "labels_s", "total_s"}
    parts = [seconds for name, seconds in method.timing_.items() if name != "total_s"]
    assert min(parts) > 0
    assert sum(parts) <= method.timing_["total_s"] < 60

    assert method.run_id_ == federation.run_id != before
    assert re.fullmatch("[0-9a-f]{32}", method.run_id_)
    assert {row.run for row in method.ledger_} == {method.run_id_}
    assert [row.step for row in method.ledger_].count("above") == 3


def test_each_fit_is_a_run_of_its_own_in_the_folder_of_the_federation(
    federation, tmp_path, monkeypatch
):
    monkeypatch.setattr(federation, "workspace", str(tmp_path / "runs"))
    method = Above(18).fit(federation)
    first = method.run_id_
    assert (tmp_path / "runs" / "server" / "ledger.jsonl").exists()
    method.timing_["labels_s"] = 1e9
    method.fit(federation)
    assert method.run_id_ != first
    assert method.timing_["labels_s"] < 60  # no stage of the fit before is counted


def test_the_seed_is_the_runs(federation):
    method = AboveOfCaller(18, random_state=7).fit(federation)
    assert method.limit_.values[-1] == seeds.generator(7, "server", 0, "mean_of").random()


def test_a_stage_that_comes_again_is_added(federation):
    method = FitsOnly()
    method.timing_ = {"seen_s": 100.0}
    federation = SimpleNamespace(report_progress=lambda *_: None)
    for _ in range(2):
        with method._stage(federation, "seen"):
            before = method.timing_["seen_s"]
        assert before <= method.timing_["seen_s"] < before + 50


def test_a_stage_that_fails_is_not_timed():
    method = FitsOnly()
    method.timing_ = {}
    with (
        pytest.raises(KeyError),
        method._stage(SimpleNamespace(report_progress=lambda *_: None), "seen"),
    ):
        raise KeyError
    assert method.timing_ == {}


def test_only_a_federation_is_fitted():
    with pytest.raises(
        InvalidInput,
        match=exactly(
            "Above.fit needs a Federation; got ndarray. Open one with Federation.local(storage) or "
            "Federation.connect(cluster), or try it on data at hand: with daskfc.simulate({'a': "
            "table, 'b': table}) as federation."
        ),
    ):
        Above(18).fit(np.zeros((3, 2)))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"n_samples": 0},
            "the 'n_samples' parameter of Above must be a whole number of at least 1; got 0.",
        ),
        (
            {"n_samples": 18, "shift": math.inf},
            "the 'shift' parameter of Above must be a finite number; got inf.",
        ),
        (
            {"n_samples": 18, "random_state": -1},
            "the 'random_state' parameter of Above must be a whole number of at least 0, or None; "
            "got -1.",
        ),
    ],
)
def test_a_parameter_that_breaks_its_rule_starts_no_run(federation, given, sentence):
    before = federation.run_id
    with pytest.raises(InvalidInput, match=exactly(sentence)):
        Above(**given).fit(federation)
    with pytest.raises(InvalidInput, match=exactly(sentence)):
        Above(**given).check()
    assert federation.run_id == before
    assert Above(18).check(3) is None


def test_a_method_in_the_place_of_a_number_is_told_by_its_parameter():
    with pytest.raises(
        InvalidInput, match=r"^the 'n_samples' parameter of Above must be a whole number of"
    ):
        Above(FitsOnly()).check()


def test_a_method_may_have_a_rule_on_the_number_of_clients(federation):
    class AtMostTwo(Above):
        def check(self, n_clients=None):
            super().check(n_clients)
            if n_clients is not None and n_clients > 2:
                raise InvalidInput(f"two clients at most; got {n_clients}.")

    AtMostTwo(18).check()
    with pytest.raises(InvalidInput, match="at most; got 3"):
        AtMostTwo(18).fit(federation)


def test_columns_that_do_not_go_together_start_no_run(federation, of_columns):
    before = federation.run_id
    with pytest.raises(
        InvalidInput,
        match=exactly(
            "Above needs clients with the same columns in the same order; column 1 of client "
            "'client-1' is 'client-1-x', of client 'client-2' 'client-2-x'. Write one of the "
            "stores again with the columns of the other."
        ),
    ):
        Above(18).fit(federation)
    assert federation.run_id == before


def test_shared_columns_are_not_joined(federation):
    with pytest.raises(
        InvalidInput,
        match=r"^FirstColumns joins columns of the same samples, each of one client; clients "
        "'client-1' and 'client-2' both have a column 'x0'",
    ):
        FirstColumns(18).fit(federation)


# -- predict --------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [Above(18), AboveOfCaller(18)], ids=["there", "with the caller"])
def test_new_samples_of_some_clients_are_labelled_in_the_order_of_clients(federation, new, method):
    method.fit(federation)
    of_fit, fitted = method.run_id_, method.labels_
    found = method.predict(federation, {name: new[name] for name in ("client-3", "client-1")})
    assert found.values.tolist() == [0, 1, 0, 1]
    assert (found.dims, found.dtype) == (("sample",), np.int64)
    assert found["client"].values.tolist() == np.repeat(["client-1", "client-3"], 2).tolist()
    assert found["sample_id"].values.tolist() == ids(["client-1", "client-3"], 2)
    assert method.run_id_ == of_fit
    assert method.labels_ is fitted
    assert (federation.run_id == of_fit) == method.model_at_parties
    assert method.predict(federation, {"client-2": new["client-2"]}).values.tolist() == [0, 1]


def test_what_the_caller_keeps_predicts_after_the_run(federation, new):
    method = AboveOfCaller(18).fit(federation)
    federation.start_run("another", random_state=0)
    assert method.predict(federation, new).values.tolist() == [0, 1] * 3


def test_a_model_of_a_run_that_is_over_is_gone(federation, new):
    method = Above(18).fit(federation)
    of_fit = method.run_id_
    federation.start_run("another", random_state=0)
    for options in ({}, {"refit": False}):
        with pytest.raises(
            InvalidInput,
            match=exactly(
                "the model of Above lies with the parties of the run of fit, which is over. Fit "
                "again, or give refit=True."
            ),
        ):
            method.predict(federation, new, **options)
    assert federation.run_id == "another"
    found = method.predict(federation, new, refit=True)
    assert found.values.tolist() == [0, 1] * 3
    assert method.run_id_ == federation.run_id != of_fit
    assert method.labels_.values.tolist() == FITTED


def test_a_refit_only_where_the_model_is_gone(federation, new):
    method = Above(18).fit(federation)
    of_fit = method.run_id_
    method.predict(federation, new, refit=True)
    assert federation.run_id == method.run_id_ == of_fit


def test_a_method_may_refuse_to_be_fitted_again(federation, new):
    method = AboveOnce(18).fit(federation)
    assert method.predict(federation, new).values.tolist() == [0, 1] * 3
    federation.start_run("another", random_state=0)
    for refit in (False, True):
        with pytest.raises(PrivacyError, match="the budget of this fit is spent"):
            method.predict(federation, new, refit=refit)
    assert federation.run_id == "another"
    assert Above(18)._check_refit() is None


def test_results_survive_a_pickle_and_the_model_at_the_parties_does_not(federation, new):
    method = Above(18).fit(federation)
    again = pickle.loads(pickle.dumps(method))
    assert again.get_params() == method.get_params()
    assert again.labels_.identical(method.labels_)
    assert len(again.ledger_) == len(method.ledger_)
    with pytest.raises(InvalidInput, match="which is over"):
        again.predict(federation, new)
    labels = again.predict(federation, new, refit=True)
    assert labels.identical(method.fit(federation).predict(federation, new))


def test_a_model_that_the_caller_has_survives_a_pickle(federation, new):
    method = AboveOfCaller(18).fit(federation)
    again = pickle.loads(pickle.dumps(method))
    assert again.predict(federation, new).identical(method.predict(federation, new))


def test_new_samples_are_no_array(federation):
    method = Above(18).fit(federation)
    with pytest.raises(InvalidInput, match=r"mapping of clients to tables, .* got ndarray"):
        method.predict(federation, NEW)


def test_predict_needs_a_fit(federation, new):
    with pytest.raises(NotFittedError, match="This Above instance is not fitted yet"):
        Above(18).predict(federation, new)
    assert not Above(18).__sklearn_is_fitted__()


@pytest.mark.parametrize(
    ("named", "got"),
    [
        ((), "none"),
        (("client-9",), "['client-9']"),
        (("client-9", "client-1", "client-4"), "['client-4', 'client-9']"),
    ],
)
def test_new_samples_belong_to_clients(named, got):
    method = Above(18)
    with pytest.raises(
        InvalidInput,
        match=exactly(
            "the stores given to predict must belong to clients, client-1, client-2, client-3; got "
            f"{got}. Name a client of the federation, or read labels_ for the samples of fit."
        ),
    ):
        method._check_clients(dict.fromkeys(named, "url"), SimpleNamespace(clients=CLIENTS))


def test_columns_of_new_samples_are_needed_of_every_client():
    there = SimpleNamespace(clients=CLIENTS)
    with pytest.raises(
        InvalidInput,
        match=exactly(
            "FirstColumns.predict needs the columns of every client; those of client-1, client-3 "
            "are missing. Give each its columns of the new samples."
        ),
    ):
        FirstColumns(18)._check_clients({"client-2": "url"}, there)
    FirstColumns(18)._check_clients(dict.fromkeys(CLIENTS, "url"), there)
    Above(18)._check_clients({"client-2": "url"}, there)


def test_predict_refuses_such_stores(federation, new):
    method = Above(18).fit(federation)
    for stores in ({}, {**new, "client-4": "url"}):
        with pytest.raises(InvalidInput, match="must belong to clients, client-1, client-2, clie"):
            method.predict(federation, stores)


def test_columns_of_every_client_are_predicted(of_columns, tmp_path):
    federation, columns = of_columns
    method = FirstColumns(18).fit(federation)
    new = stores_of(tmp_path / "new", dict.fromkeys(CLIENTS, NEW), columns=columns)
    assert method.predict(federation, new).values.tolist() == [0, 1] * 3
    with pytest.raises(InvalidInput, match="those of client-2 are missing"):
        method.predict(federation, {name: new[name] for name in ("client-1", "client-3")})


def test_new_samples_have_their_owner_and_the_columns_of_fit(federation, new, tmp_path):
    method = Above(18).fit(federation)
    with pytest.raises(
        StoreError,
        match=exactly(
            "client 'client-2' must bring a store of its own; its store of new samples was written "
            "for client 'client-1'. Correct the URL, or call the client 'client-1'."
        ),
    ):
        method.predict(federation, {"client-2": new["client-1"]})
    turned = stores_of(tmp_path / "other", {"client-3": NEW}, columns={"client-3": ["x0", "z"]})
    with pytest.raises(
        InvalidInput,
        match=exactly(
            "new samples of client 'client-3' must have the columns of the clustered ones in the "
            "same order; column 2 is 'x1' there and 'z' in the new store. Write it again with "
            "those columns."
        ),
    ):
        method.predict(federation, turned)


def test_only_a_method_that_implements_it_has_predict():
    assert not hasattr(FitsOnly(), "predict")
    assert hasattr(Above(18), "predict")
    with pytest.raises(AttributeError, match="'FitsOnly' has no attribute 'predict'"):
        _ = FitsOnly().predict
    with pytest.raises(NotImplementedError):
        FitsOnly()._predict(None, None)


# -- scikit-learn ---------------------------------------------------------------------------------


def test_parameters_are_scikit_learns():
    method = Above(3, shift=0.5)
    assert method.get_params() == {"n_samples": 3, "shift": 0.5, "random_state": 0}
    assert clone(method).get_params() == method.get_params()
    assert method.set_params(shift=1.0, random_state=4) is method
    assert (method.shift, method.random_state) == (1.0, 4)
    assert repr(method) == "Above(n_samples=3, random_state=4, shift=1.0)"
    assert FitsOnly().get_params() == {"random_state": 0}


@pytest.mark.skipif(not hasattr(utils, "get_tags"), reason="scikit-learn before 1.6 has no tags")
def test_tags_say_that_it_clusters_what_is_no_array():
    tags = utils.get_tags(Above(18))
    assert tags.estimator_type == "clusterer"
    assert tags.input_tags.two_d_array is False


def test_what_is_fitted_has_labels():
    method = FitsOnly()
    assert method.__sklearn_is_fitted__() is False
    method.labels_ = None
    assert method.__sklearn_is_fitted__() is True


def test_a_method_says_how_data_are_split():
    for namespace in ({}, {"split": "rows"}):
        with pytest.raises(
            TypeError, match=exactly("Nowhere.split must be one of samples, columns, views, grid.")
        ):
            type("Nowhere", (FederatedClusterer,), namespace)
    for split in ("samples", "columns", "views", "grid"):
        assert type("Here", (FederatedClusterer,), {"split": split}).split == split
    assert type("Below", (FirstColumns,), {}).split == "columns"  # inherited


def test_a_fit_may_start_again_and_releases_nothing_unless_a_method_says_so():
    method = Above(18)
    assert method.can_start_again() is True
    assert (method.released, method.released_before) == ((), ())
    assert method.remember([1.0]) is None
    assert (Above.resumable, Above.needs_raw, Above.model_at_parties) == (False, False, True)


def test_the_server_view_is_gone_with_the_run():
    method = Above(18)
    method.run_id_ = "of the fit"
    assert method._still_running(SimpleNamespace(run_id="of the fit")) is None
    with pytest.raises(
        InvalidInput,
        match=exactly(
            "server_view needs the federation in the run of fit, as what the server saw is gone "
            "with it. Fit again."
        ),
    ):
        method._still_running(SimpleNamespace(run_id="another"))
    with pytest.raises(InvalidInput, match="sample_map needs the federation in the run of fit"):
        method._still_running(SimpleNamespace(run_id="another"), "sample_map")


def test_a_notebook_shows_the_clusters_of_a_fitted_method():
    method = Above(18)
    plain = method._repr_html_()
    assert "Above" in plain  # scikit-learn's own
    method.labels_ = xr.DataArray(
        [0, 0, 1, -1], dims="sample", coords={"client": ("sample", ["a", "b", "b", "<c>"])}
    )
    page = method._repr_html_()
    assert page == method._repr_mimebundle_()["text/html"]
    for words in ("Above(n_samples=18)", ">noise<", "&lt;c&gt;", ">2</td>"):
        assert words in page
    with config_context(display="text"):
        assert "text/html" not in method._repr_mimebundle_()


def test_a_method_whose_server_knows_nothing_of_samples_has_no_map():
    assert not hasattr(Above(18), "sample_map")


# -- labels ---------------------------------------------------------------------------------------


def labelled(labels, names):
    return LabelledSamples(np.array(labels, dtype=np.int64), *text_arrays(names))


def test_labels_of_clients_are_joined():
    found = labels_array({"b": labelled([3, 1], ["x", "größe"]), "a": labelled([2], ["ab"])})
    expected = xr.DataArray(
        np.array([3, 1, 2]),
        dims="sample",
        coords={
            "client": ("sample", ["b", "b", "a"]),
            "sample_id": ("sample", ["x", "größe", "ab"]),
        },
        name="label",
    )
    xr.testing.assert_identical(found, expected)
    assert found.dtype == np.int64
    assert found["sample_id"].dtype.kind == "U"


def test_a_client_without_samples_has_no_labels():
    found = labels_array({"a": labelled([], []), "b": labelled([5], ["x"])})
    assert found.values.tolist() == [5]
    assert found["client"].values.tolist() == ["b"]
    assert found["sample_id"].dtype.kind == "U"


def test_views_tell_every_sample_once_with_its_first_client():
    told = {"b": labelled([3, 1], ["x", "y"]), "a": labelled([2, 0, 4], ["y", "z", "w"])}
    federation = SimpleNamespace(fetch_all=lambda sent: [one.told for one in sent])
    sent = {name: SimpleNamespace(federation=federation, told=own) for name, own in told.items()}

    def told_by(split):
        method = SimpleNamespace(split=split)
        return FederatedClusterer._told_labels(method, sent)

    found = told_by("views")
    assert found["sample_id"].values.tolist() == ["x", "y", "z", "w"]
    assert found["client"].values.tolist() == ["b", "b", "a", "a"]
    assert found.values.tolist() == [3, 1, 0, 4]
    assert len(told_by("samples")) == 5
