"""What the caller may give a step: types that are declared, and rules of what was announced."""

import importlib
import inspect
import typing
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from daskfc.baselines.centers.centers import nearest_of_new
from daskfc.baselines.centers.k_fed import local_clustering
from daskfc.baselines.kernels import ce_pca
from daskfc.coding import FixedPoint, LagrangeCode
from daskfc.federation.driver.agreement import wrapped_id_key
from daskfc.federation.identity.pseudonyms import Pseudonyms
from daskfc.federation.steps.rules import Announced, as_announced, broken_rule, takes
from daskfc.protocols.esfmc.noise import FeatureNoise
from daskfc.protocols.esfmc.party import tell_features
from daskfc.protocols.federated_kmeans.party import labelled_new
from daskfc.protocols.federated_kmeans.priors import labelled_new_by_priors
from daskfc.protocols.federated_mixture import party as mixture
from daskfc.protocols.fedsc.party import rows_of, samples_of, weighted_update
from daskfc.protocols.fedsc.privacy.noise import DataNoise, RelativeNoise, noise_of
from daskfc.protocols.fk_kmeans import party as fk_party
from daskfc.protocols.fk_kmeans.features import FeatureSettings
from daskfc.protocols.fk_kmeans.noise import GramNoise
from daskfc.protocols.fk_kmeans.party import noisy_gram
from daskfc.secure.distances.parties.party import encode_rows
from daskfc.secure.kmeans import KMeansPlan
from daskfc.secure.kmeans.coreset import local_solution
from daskfc.secure.kmeans.messages import KMeansCenters
from daskfc.secure.kmeans.noise import LloydNoise, noisy_sums
from daskfc.secure.kmeans.private.noise import StartedNoise, noisy_offsets
from daskfc.secure.kmeans.private.noise import noisy_moments as noisy_products
from daskfc.secure.prepare.declared import noisy_moments
from daskfc.secure.profiles.steps import own_groups
from daskfc.secure.sums.masked import agree
from daskfc.site import approved
from daskfc.site.approved import PLACE, ROUTE, Protocol

CLIENTS = tuple("abcde")
MODELS = {
    "k-means": (labelled_new, {"centers": np.zeros((3, 2))}),
    "priors": (labelled_new_by_priors, {"centers": np.zeros((3, 2)), "shares": np.ones(3),
                                        "overdispersion": 0.0, "temperature": 1.0}),
    "centres": (nearest_of_new, {"centers": np.zeros((3, 2))}),
    "mixture": (mixture.labelled_new, {"means": np.zeros((3, 2))}),
    "kernel": (fk_party.labelled_new, {"centers": np.zeros((3, 2))}),
    "CE-PCA": (ce_pca._labelled_new, {"centers": KMeansCenters(np.zeros((3, 2)), 0.0)}),
}  # fmt: skip
DATA = {"kind": "data", "epsilon": 1.0, "delta": 1e-5, "clip": 2.0}
FACTORS = {"kind": "factors", "epsilon": 1.0, "delta": 1e-5, "clip": 2.0}
SUMS = {"epsilon": 2.0, "delta": 1e-5, "rounds": 4}
LABELLED = Announced(pseudonyms=Pseudonyms("5f0c").as_dict())
LEAST = noise_of(DATA, rounds=5, ridge=1e-3)
BOTH = noise_of(FACTORS, rounds=5, ridge=1e-3)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("told", "holds"), [(3, True), (2, False), (None, False)])
def test_new_samples_are_labelled_by_no_more_clusters_than_were_announced(model, told, holds):
    step, given = MODELS[model]
    broken = broken_rule(step, given, Announced({"n_clusters": told}, CLIENTS))
    assert (broken is None) == holds, broken


KFED = {"n_clusters": 3, "n_local_clusters": None, "max_iterations": 300}
SEEN = FeatureSettings("gaussian", 2, 100, 0)


def k_fed(**more):
    return Announced({**KFED, **more}, CLIENTS)


def fedsc(noise):
    return Announced({"noise": noise, "rounds": 5, "ridge": 1e-3}, CLIENTS)


def fk(noise=SUMS, **more):
    return Announced({"noise": noise, "iterations": 5, **more}, CLIENTS)


def changed(noise, **fields):
    return type(noise)(**{**vars(noise), **fields})


@pytest.mark.parametrize(
    ("step", "given", "announced", "broken"),
    [
        (samples_of, {"noise": LEAST}, fedsc(DATA), None),
        (samples_of, {"noise": changed(LEAST, sigma=2 * LEAST.sigma)}, fedsc(DATA), None),
        (samples_of, {"noise": changed(LEAST, sigma=0.99 * LEAST.sigma)}, fedsc(DATA), "noise"),
        (samples_of, {"noise": changed(LEAST, clip=20.0)}, fedsc(DATA), "noise"),
        (samples_of, {"noise": DataNoise(1e-4)}, fedsc(DATA), "noise"),
        (samples_of, {"noise": RelativeNoise(0.0, 0.0)}, fedsc(DATA), "noise"),
        (samples_of, {"noise": None}, fedsc(DATA), "noise"),
        (samples_of, {}, fedsc(DATA), "noise"),
        (samples_of, {"noise": None}, fedsc(None), None),
        (samples_of, {"noise": LEAST}, fedsc(None), "noise"),
        (rows_of, {"noise": BOTH, "ridge": 1e-3}, fedsc(FACTORS), None),
        (rows_of, {"noise": BOTH, "ridge": 1e-12}, fedsc(FACTORS), "ridge"),
        (rows_of, {"noise": BOTH}, fedsc(FACTORS), "ridge"),
        (rows_of, {"noise": changed(BOTH, ridge=1e12), "ridge": 1e-3}, fedsc(FACTORS), "noise"),
        (
            weighted_update,
            {"noise": changed(BOTH, sigma_dictionary=1e-6), "ridge": 1e-3},
            fedsc(FACTORS),
            "noise",
        ),
        (noisy_gram, {"noise": GramNoise(5.99), "n_shares": 5}, fk(), None),
        (noisy_gram, {"noise": GramNoise(5.9), "n_shares": 5}, fk(), "noise"),
        (noisy_gram, {"noise": GramNoise(5.99), "n_shares": 6}, fk(), "n_shares"),
        (noisy_gram, {"noise": GramNoise(5.99), "n_shares": 10**18}, fk(), "n_shares"),
        (noisy_gram, {"noise": GramNoise(5.99), "n_shares": 0}, fk(), "n_shares"),
        (noisy_gram, {"noise": GramNoise(5.99), "n_shares": 4}, fk(n_colluding=2), "n_shares"),
        (noisy_gram, {"noise": GramNoise(5.99), "n_shares": 1}, fk(None), "noise"),
        (noisy_sums, {"noise": LloydNoise(3.0, 1.0), "n_shares": 5}, fk(), None),
        (
            noisy_sums,
            {"noise": LloydNoise(3.0, 1.0), "n_shares": 5},
            fk({"multiplier": 4.0, "delta": 1e-5}),
            "noise",
        ),
        (noisy_sums, {"noise": LloydNoise(3.0, 1.0), "n_shares": 50}, fk(), "n_shares"),
        (noisy_products, {"noise": StartedNoise(2.0, 1.0), "n_shares": 5}, fk(), None),
        (
            noisy_products,
            {"noise": StartedNoise(2.0, 1.0), "n_shares": 5},
            fk({"multiplier": 4.0, "delta": 1e-5}),
            "noise",
        ),
        (noisy_products, {"noise": StartedNoise(2.0, 1.0), "n_shares": 6}, fk(), "n_shares"),
        (
            noisy_offsets,
            {"noise": StartedNoise(3.9, 1.0), "n_shares": 5},
            fk({"multiplier": 4.0, "delta": 1e-5}),
            "noise",
        ),
        (noisy_offsets, {"noise": StartedNoise(2.0, 1.0), "n_shares": 50}, fk(), "n_shares"),
        (noisy_moments, {"n_shares": 10**9}, Announced({}, CLIENTS), "n_shares"),
        (
            tell_features,
            {"noise": FeatureNoise(0.01, 1e-5)},
            Announced({"noise": {"epsilon": 8.0, "delta": 1e-5}, "rounds": 3}, CLIENTS),
            "noise",
        ),
        (
            encode_rows,
            {"code": LagrangeCode(1, 2, 5), "evaluators": CLIENTS},
            Announced({"n_colluding": None}, CLIENTS),
            None,
        ),
        (
            encode_rows,
            {"code": LagrangeCode(1, 1, 5), "evaluators": CLIENTS},
            Announced({"n_colluding": None}, CLIENTS),
            "code",
        ),
        (
            encode_rows,
            {"code": LagrangeCode(1, 2, 5), "evaluators": (*CLIENTS[:4], "a")},
            Announced({}, CLIENTS),
            "evaluators",
        ),
        (agree, {"members": ("a", "b", "b"), "n_colluding": 0}, Announced({}, CLIENTS), "members"),
        (agree, {"members": ("a", "b", "x"), "n_colluding": 0}, Announced({}, CLIENTS), "members"),
        (agree, {"members": CLIENTS, "n_colluding": 0}, Announced({}, CLIENTS), None),
        (local_clustering, {"n_local_clusters": 3, "max_iterations": 300}, k_fed(), None),
        (local_clustering, {"n_local_clusters": 60}, k_fed(), "n_local_clusters"),
        (ce_pca._labelled_new, {}, k_fed(), None),  # centres that the server told
        (local_clustering, {"n_local_clusters": 2}, k_fed(n_local_clusters=2), None),
        (local_clustering, {"n_local_clusters": 3}, k_fed(n_local_clusters=2), "n_local_clusters"),
        (
            local_clustering,  # of a parameter that no step has a rule for
            {"n_local_clusters": 3, "max_iterations": np.int64(1)},
            k_fed(),
            "max_iterations",
        ),
        (local_solution, {"plan": KMeansPlan(3, 0, tolerance=0.1)}, k_fed(tolerance=0.0), None),
        (local_solution, {"plan": KMeansPlan(60, 0)}, k_fed(), "plan"),
        (local_solution, {}, k_fed(), "plan"),
        (fk_party.iterate, {"settings": SEEN}, fk(kernel="gaussian", n_features=100), None),
        (fk_party.iterate, {"settings": SEEN}, fk(n_features=None), None),
        (fk_party.iterate, {"settings": SEEN}, fk(kernel="laplacian", n_features=100), "settings"),
        (fk_party.iterate, {"settings": SEEN}, fk(n_features=50), "settings"),
        (wrapped_id_key, {"label": "5f0c"}, LABELLED, None),
        (wrapped_id_key, {"label": "a3b1"}, LABELLED, "label"),
        (wrapped_id_key, {"label": "5f0c"}, Announced(), "label"),
        (own_groups, {"names": Pseudonyms("5f0c")}, LABELLED, None),
        (own_groups, {"names": None}, Announced(), None),
        (own_groups, {"names": Pseudonyms("a3b1")}, LABELLED, "names"),
        (own_groups, {"names": Pseudonyms("5f0c", {"a": "00"})}, LABELLED, "names"),
        (own_groups, {"names": None}, LABELLED, "names"),
        (own_groups, {"names": Pseudonyms("5f0c")}, Announced(), "names"),
    ],
)
def test_what_is_not_as_announced_is_told(step, given, announced, broken):
    found = broken_rule(step, given, announced)
    assert found is None if broken is None else found.startswith(f"{broken!r} must be ")


@takes(ridge=as_announced("ridge"))
def typed(
    ridge: float,
    number: int,
    kind: Literal["one", "other"],
    names: Sequence[str],
    pair: tuple[int, str],
    values: NDArray[np.float64],
    ring: FixedPoint | None,
    words: Mapping[str, Sequence[str]],
    whatever,
) -> None: ...


RING = FixedPoint.for_bound(1.0, n_terms=2)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("number", [1, np.int64(3)], [1.5, True, "1", None]),
        ("ridge", [1e-3], ["x", None, True, np.ones(2)]),
        ("kind", ["one"], ["a third", None]),
        ("names", [("a", "b"), ["a"], ()], [(1, 2), None]),
        ("pair", [(1, "a")], [(1,), (1, 2), [1, "a"]]),
        ("values", [np.ones(3)], [[1.0], None]),
        ("ring", [RING, None], [3, "ring"]),
        ("words", [{"a": ["b"]}, {}], [{"a": [1]}, {1: ["b"]}, ["a"]]),
        ("whatever", [], [1, None]),  # a parameter without an annotation takes nothing
        ("unknown", [], [1]),
    ],
)
def test_arguments_are_of_the_declared_type(name, good, bad):
    for value in (*good, *bad):
        found = broken_rule(typed, {"ridge": 1e-3, name: value}, Announced({"ridge": 1e-3}))
        assert (found is None) == any(value is one for one in good), (name, value)


def test_at_the_server_types_hold_and_names_do_not():
    announced = Announced({"ridge": 1e-3, "number": 3})
    assert broken_rule(typed, {"ridge": 1e-3, "number": 4}, announced) is not None
    assert broken_rule(typed, {"ridge": 1e-3, "number": 4}, announced, "server") is None
    assert broken_rule(typed, {"ridge": 1e-3, "number": "4"}, announced, "server") is not None


def test_every_argument_that_a_party_takes_of_the_caller_has_a_type():
    """A step without rules is not approved."""
    checked = 0
    for path in approved.resources.files("daskfc.site").joinpath("protocols").iterdir():
        for step, entry in Protocol.of(path.name.removesuffix(".yaml")).steps.items():
            module, _, name = step.partition(" ")[0].rpartition(".")
            if not module.startswith("daskfc."):
                continue
            function = getattr(importlib.import_module(module), name)
            if not inspect.isroutine(function) or "(made before)" in step:
                continue
            declared = inspect.signature(function).parameters
            for argument, sources in entry.items():
                if argument in (PLACE, ROUTE) or "caller" not in sources:
                    continue
                kind = declared[argument].annotation
                assert kind not in (typing.Any, inspect.Parameter.empty), (step, argument)
                assert not isinstance(kind, str), (step, argument)
                checked += 1
    assert checked > 150
