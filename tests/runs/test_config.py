import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskfc.errors import InvalidInput, PrivacyError
from daskfc.runs import Pipeline, check_pipeline, estimator_of, load_pipeline

ROOT = Path(__file__).parents[2]


def write(folder, text):
    path = folder / "p.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def refused(folder, text, *, overrides=()):
    path = write(folder, text)
    with pytest.raises(InvalidInput) as caught:
        load_pipeline(path, overrides=overrides)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


def test_a_file_and_its_dictionary_are_the_same(tmp_path):
    path = write(tmp_path, "method: OmniFC\nparams: {n_clusters: 3}\nseeds: [4, 2]\n")
    assert load_pipeline(path) == load_pipeline(
        {"method": "OmniFC", "params": {"n_clusters": 3}, "seeds": [4, 2]}
    )


def test_unknown_key_names_file_key_and_way_out(tmp_path):
    sentence = refused(tmp_path, "method: OmniFC\nparmas: {}\n")
    assert "p.yaml" in sentence
    assert "'parmas'" in sentence
    assert "spelling" in sentence


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("params: {}\n", ["'method'", "missing"]),
        ("method: A\nseeds: []\n", ["'seeds'", "at least one"]),
        ("method: A\nseeds: [1, 1]\n", ["'seeds'", "twice"]),
        ("method: A\nseeds: [-1]\n", ["seeds.0", "-1"]),
        ("method: A\nseeds: [true]\n", ["seeds.0", "True"]),
        (f"method: A\nseeds: [{2**63}]\n", ["seeds.0", str(2**63)]),
        ("method: A\nseeds: 3\n", ["seeds", "3"]),
        ("method: A\nmetrics: [kapa]\n", ["'kapa'", "kappa, nmi, ari, acc, f1"]),
        ("method: A\nparams: 7\n", ["params", "7"]),
        ("method: A\ncompare: central\n", ["compare", "list"]),
        ("method: A\ncompare: [central, central]\n", ["'central'", "twice"]),
        ("method: A\ncompare: [3]\n", ["compare", "name"]),
    ],
)
def test_bad_files_are_refused_in_one_sentence(tmp_path, text, words):
    sentence = refused(tmp_path, text)
    assert "p.yaml" in sentence
    for word in words:
        assert word in sentence


def test_overrides_take_yaml_values():
    base = {"method": "OmniFC", "params": {"n_clusters": 3}}
    got = load_pipeline(
        base,
        overrides=[
            "params.n_clusters=7",
            "params.clusterer={spectral: {affinity: gaussian}}",
            "params.tolerance=1e-4",
            "seeds=[0, 5]",
            "compare=[central, {k-FED: {n_local_clusters: 2}}]",
        ],
    )
    assert got.params == {
        "n_clusters": 7,
        "clusterer": {"spectral": {"affinity": "gaussian"}},
        "tolerance": 1e-4,
    }
    assert got.seeds == (0, 5)
    assert got.compare == {"central": {}, "k-FED": {"n_local_clusters": 2}}
    assert base == {"method": "OmniFC", "params": {"n_clusters": 3}}  # the caller's own, untouched


@pytest.mark.parametrize("assignment", ["params", "=3", "params..a=1", "params.a.=1"])
def test_an_override_without_key_or_value_is_refused(assignment):
    with pytest.raises(InvalidInput, match="KEY=VALUE"):
        load_pipeline({"method": "A"}, overrides=[assignment])


def test_an_override_below_a_value_is_refused():
    with pytest.raises(InvalidInput, match="not a mapping"):
        load_pipeline({"method": "A", "params": {"a": 3}}, overrides=["params.a.b=1"])


def test_an_override_of_an_unknown_key_is_refused():
    with pytest.raises(InvalidInput, match="'sedes'"):
        load_pipeline({"method": "A"}, overrides=["sedes=[0]"])


def test_params_replace_single_parameters():
    got = load_pipeline(
        {"method": "A", "params": {"n_clusters": 3, "clusterer": "nmf"}}, params={"n_clusters": 5}
    )
    assert got.params == {"n_clusters": 5, "clusterer": "nmf"}


names = st.sampled_from(["central", "k-FED", "MUFC", "FFCM"])
values = st.one_of(st.integers(-5, 5), st.text("abc", max_size=3), st.booleans(), st.none())
params = st.dictionaries(st.text("xyz", min_size=1, max_size=3), values, max_size=3)


@given(
    params=params,
    compare=st.dictionaries(names, params, max_size=3),
    seeds=st.lists(st.integers(0, 99), min_size=1, unique=True),
)
def test_a_pipeline_survives_its_own_dictionary(params, compare, seeds):
    pipeline = Pipeline(method="OmniFC", params=params, compare=compare, seeds=seeds)
    assert load_pipeline(pipeline.as_dict()) == pipeline
    assert load_pipeline(pipeline) == pipeline


def test_an_unknown_method_lists_what_exists(fake):
    with pytest.raises(InvalidInput, match=r"'OmniFD'; there are FederatedKMeans, .*central"):
        check_pipeline(Pipeline(method="OmniFD"))


def test_an_unknown_compared_method_is_refused(fake):
    with pytest.raises(InvalidInput, match="'k-FET'"):
        check_pipeline(Pipeline(method="Fake", params={"n_clusters": 3}, compare=["k-FET"]))


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, "needs the parameter 'n_clusters'"),
        (
            {"n_clusters": 0},
            "'n_clusters' parameter of Fake must be a whole number of at least 1; got 0",
        ),
        ({"n_clusters": 3, "clusterer": "ward"}, "one of 'spectral', 'dbscan'; got 'ward'"),
        ({"n_clusters": 3, "k": 2}, "no parameter 'k'; it has n_clusters, clusterer"),
        ({"n_clusters": 3, "random_state": 1}, "'seeds'"),
    ],
)
def test_parameters_are_held_against_the_estimator(fake, params, words):
    with pytest.raises(InvalidInput, match=re.escape(words)):
        check_pipeline(Pipeline(method="Fake", params=params))


def test_more_clusters_than_samples(fake):
    with pytest.raises(InvalidInput, match=r"151 clusters and the clients hold 150 samples"):
        check_pipeline(Pipeline(method="Fake", params={"n_clusters": 151}), n_samples=150)


@pytest.mark.parametrize(
    ("categories", "missing", "words"),
    [
        ({"sex": ("f", "m")}, False, "column 'sex' of client 'b' holds words"),
        ({}, True, "values of client 'b' may be missing"),
    ],
)
def test_a_store_that_no_step_prepares_is_named(fake, categories, missing, words):
    plain = SimpleNamespace(feature_names=("age", "sex"), categories={}, missing=False)
    other = SimpleNamespace(feature_names=("age", "sex"), categories=categories, missing=missing)
    asked = Pipeline(method="Fake", params={"n_clusters": 3})
    with pytest.raises(InvalidInput, match=words):
        check_pipeline(asked, stores={"a": plain, "b": other})


def test_the_own_method_is_not_compared_with_itself(fake):
    with pytest.raises(InvalidInput, match="own method"):
        check_pipeline(Pipeline(method="Fake", params={"n_clusters": 3}, compare=["Fake"]))


def test_compared_methods_take_over_clusters_and_clusterer(fake):
    pipeline = Pipeline(
        method="Fake",
        params={"n_clusters": 3, "clusterer": "dbscan"},
        compare={"FakeRaw": {}, "central": {"clusterer": "nmf"}},
    )
    raw = estimator_of(pipeline, "FakeRaw", 5)
    assert (raw.n_clusters, raw.clusterer, raw.random_state) == (3, "dbscan", 5)
    assert estimator_of(pipeline, "central", 5).clusterer == "nmf"


def test_what_yaml_cannot_say_is_refused(fake):
    with pytest.raises(InvalidInput, match="what YAML can say"):
        check_pipeline(Pipeline(method="Fake", params={"n_clusters": 3, "clusterer": object()}))


def test_a_parameter_that_is_set_at_the_top_is_told_where_it_belongs():
    with pytest.raises(InvalidInput) as refusal:
        load_pipeline({"method": "OmniFC"}, overrides=["n_clusters=3"])
    assert str(refusal.value) == (
        "--set 'n_clusters=3': a pipeline has no key 'n_clusters'; it has method, params, compare, "
        "prepare, metrics, map, seeds, ids, profiles, smallest, choose. Write "
        "--set params.n_clusters=3 for a parameter of the method."
    )


def test_a_seed_that_is_not_given_is_drawn_and_told():
    drawn = load_pipeline({"method": "OmniFC", "seeds": [None, 3, None]})
    assert drawn.seeds[1] == 3
    assert len(set(drawn.seeds)) == 3
    assert all(0 <= seed < 2**31 for seed in drawn.seeds)
    assert load_pipeline(drawn.as_dict()).seeds == drawn.seeds
    again = load_pipeline({"method": "OmniFC"}, overrides=["seeds=[null]"])
    assert again.seeds[0] not in drawn.seeds


@pytest.mark.parametrize(
    ("pipeline", "n_clients", "match"),
    [
        ({"method": "kCAGC", "profiles": True}, 3, "each client of kCAGC has columns or views"),
        ({"method": "ESFMC", "profiles": True}, 3, "each client of ESFMC has columns or views"),
        ({"method": "OmniFC", "profiles": {"least": 3}}, 3, "'profiles' has no key 'least'; it"),
        ({"method": "OmniFC", "profiles": {"smallest": 0}}, 3, "'smallest' parameter of Profile"),
        ({"method": "central", "profiles": True}, 1, "need two clients or more"),
        (
            {
                "method": "FedSC",
                "profiles": True,
                "params": {
                    "n_clusters": 3,
                    "noise": {"kind": "data", "clip": 1.0, "epsilon": 1.0, "delta": 1e-5},
                },
            },
            3,
            "'profiles' bear no noise, and FedSC is asked for some",
        ),
    ],
)
def test_profiles_that_cannot_be_made(pipeline, n_clients, match):
    given = load_pipeline({"params": {"n_clusters": 3}, **pipeline})
    with pytest.raises(InvalidInput, match=match):
        check_pipeline(given, n_clients=n_clients)


@pytest.mark.parametrize(("n_colluding", "step"), [(1, "standardise"), (0, "standardise"),
                                                   (1, "min-max")])  # fmt: skip
def test_colluding_clients_know_their_shares_of_a_preparations_noise(n_colluding, step):
    """Who prepares does not know who may collude with whom later."""
    bounds = {"low": 0, "high": 1}
    noised = {"epsilon": 1.0, "delta": 1e-5, **bounds} if step == "standardise" else bounds
    given = load_pipeline({
        "method": "FederatedKMeans",
        "params": {"n_clusters": 3, "n_colluding": n_colluding,
                   "noise": {"epsilon": 1.0, "delta": 1e-5, "largest_norm": 1.0}},
        "prepare": [{step: noised}],
    })  # fmt: skip
    if n_colluding and step == "standardise":
        with pytest.raises(PrivacyError, match="n_colluding=1 cannot read features prepared with"):
            check_pipeline(given, n_clients=5)
    else:
        check_pipeline(given, n_clients=5)


def test_profiles_of_another_kind_are_refused():
    with pytest.raises(InvalidInput, match="'profiles': must be true or false, or a mapping"):
        load_pipeline({"method": "OmniFC", "profiles": 5})


def test_profiles_are_read_back_as_they_were_asked_for():
    base = {"method": "OmniFC", "params": {"n_clusters": 3}}
    for asked, kept in [(True, {}), ({"smallest": 9}, {"smallest": 9}), (False, None)]:
        pipeline = load_pipeline({**base, "profiles": asked})
        assert pipeline.profiles == kept
        assert load_pipeline(pipeline.as_dict()) == pipeline
