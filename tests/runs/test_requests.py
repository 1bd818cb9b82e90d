"""What a pipeline asks of the sites, method by method."""

import pytest

from daskfc.baselines import KFED
from daskfc.federation.driver import requests as told
from daskfc.runs import known_methods, load_pipeline
from daskfc.runs.pipeline.requests import requests_of
from daskfc.site import RunRequest

PARAMS = {"n_clusters": 3}


def asked(*, submitter=None, n_clients=None, **keys):
    pipeline = load_pipeline({"method": "OmniFC", "params": PARAMS, **keys})
    return requests_of(pipeline, submitter=submitter, n_clients=n_clients)


@pytest.mark.parametrize("method", list(known_methods()))
def test_every_method_can_be_asked_for(method):
    params = {"CE-PCA": {"n_components": 2}}.get(method, {})
    (one,) = asked(method=method, params={**PARAMS, **params})
    assert RunRequest.of_json(one.as_json()) == one
    assert (one.method, one.parameters["n_clusters"]) == (method, 3)
    assert "random_state" not in one.parameters
    assert one.allow_raw == known_methods()[method].needs_raw
    assert (one.package, one.clear_ids, one.stores) == ("daskfc", False, ())


def test_parameters_that_are_left_out_are_told_too():
    (fedsc,) = asked(method="FedSC")
    assert fedsc.parameters["noise"] is None
    assert fedsc.parameters["allow_few"] is False


def test_compared_methods_ask_for_themselves():
    own, central, kfed = asked(compare=["central", {"k-FED": {}}], ids="clear", seeds=[0, 1])
    assert [one.method for one in (own, central, kfed)] == ["OmniFC", "central", "k-FED"]
    assert [one.allow_raw for one in (own, central, kfed)] == [False, True, False]
    assert all(one.clear_ids for one in (own, central, kfed))
    assert central.parameters["n_clusters"] == 3  # taken over


def test_every_number_of_clusters_that_is_tried_is_asked_for():
    found = asked(params={"n_clusters": [2, 5]}, compare=["k-FED"])
    numbers = [(one.method, one.parameters["n_clusters"]) for one in found]
    assert numbers == [(name, k) for name in ("OmniFC", "k-FED") for k in (2, 3, 4, 5)]


@pytest.mark.parametrize(
    ("keys", "masked"),
    [
        ({}, False),
        ({"method": "FedSC"}, True),
        ({"prepare": ["standardise"]}, True),
        ({"prepare": ["log", {"clip": {"low": 0}}]}, False),
        ({"profiles": True}, True),
    ],
)
def test_masked_sums_are_told(keys, masked):
    assert all(one.masked == masked for one in asked(**keys))


def test_tasks_that_compute_with_samples_are_asked_for():
    noisy = {"standardise": {"low": 0, "high": 9, "epsilon": 1, "delta": 1e-5}}
    found = asked(prepare=["log", noisy], profiles=True)
    assert [(one.method, one.parameters) for one in found[1:]] == [
        ("preparation", {"noised": True}),
        ("profiles", {}),
    ]
    for bare in (
        ["standardise"],
        ["one-hot", noisy],
        [noisy, "normalise"],
        [{"standardise": {"within": "site"}}],
    ):
        assert asked(prepare=bare)[-1].parameters == {"noised": False}


def test_what_the_caller_knows_is_in_it():
    (one,) = asked(prepare=["log"], submitter="alice", n_clients=4)
    assert (one.submitter, one.n_clients, one.columns) == ("alice", 4, None)
    assert one.preparation == ({"log": {}},)


class Other(KFED):
    """A method of another package."""


def test_a_method_of_another_package_names_it(monkeypatch):
    monkeypatch.setattr(told, "package_of", lambda module: (f"of {module}", "1.4"))
    one = told.request_for(Other, {"n_clusters": 3, "random_state": 0})
    assert (one.package, one.version) == (f"of {__name__}", "1.4")
    assert one.parameters == {"n_clusters": 3}
