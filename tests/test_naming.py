"""Names that people write otherwise."""

import pytest
from sklearn import cluster

import daskfc
from daskfc.clustering import CLUSTERERS, KMeans, KMedoids, make_clusterer
from daskfc.errors import InvalidInput
from daskfc.naming import correction, known_name
from daskfc.runs import check_pipeline, known_methods, load_pipeline, make_estimator
from daskfc.secure.prepare import STEPS, Prepare


@pytest.mark.parametrize("known", [known_methods(), CLUSTERERS, STEPS], ids=len)
def test_no_two_names_are_the_same_but_for_case_and_hyphens(known):
    """Otherwise what somebody gets would hang on the order of a dictionary."""
    for name in known:
        written = {name, name.upper(), name.lower(), name.replace("-", ""), name.replace("-", "_")}
        assert {known_name(one, known) for one in written} == {name}
    assert known_name("nothing of this", known) == "nothing of this"


def test_clusterers_are_found_however_they_are_written():
    for name in ("k-means", "kmeans", "KMeans", "K_Means", "k means"):
        assert make_clusterer(name) == KMeans()
    assert make_clusterer({"KMedoids": {"n_init": 3}}) == KMedoids(n_init=3)


def test_methods_of_a_pipeline_get_their_own_names():
    tree = {"method": "omnifc", "params": {"n_clusters": 3}, "compare": ["kfed", "CENTRAL"]}
    pipeline = check_pipeline(load_pipeline({**tree, "metrics": ["NMI", "Ari"]})).pipeline
    assert pipeline.method == "OmniFC"
    assert list(pipeline.compare) == ["k-FED", "central"]
    assert pipeline.metrics == ("nmi", "ari")
    assert make_estimator("fedsc", {"n_clusters": 3}, seed=0).n_clusters == 3
    with pytest.raises(InvalidInput, match="lists 'OmniFC', which is the run's own method"):
        check_pipeline(load_pipeline({**tree, "compare": ["Omni-FC"]}))


def test_steps_of_a_preparation_are_found_in_either_spelling():
    asked = ["standardize", "OneHot", {"minmax": {"low": 0, "high": 1}}]
    assert [name for name, _ in Prepare(asked).steps] == ["standardise", "one-hot", "min-max"]


@pytest.mark.parametrize(
    ("made", "meant"),
    [
        (lambda: make_estimator("OmniFD", {}, seed=0), "Did you mean 'OmniFC'?"),
        (lambda: make_estimator("OmniFC", {"n_cluster": 3}, seed=0), "Did you mean 'n_clusters'?"),
        (lambda: make_estimator("OmniFC", {"k": 3}, seed=0), "Did you mean 'n_clusters'?"),
        (lambda: make_clusterer("kmedoid"), "Did you mean 'k-medoids'?"),
        (lambda: make_clusterer("AgglomerativeClustering"), "Did you mean 'hierarchical'?"),
        (lambda: make_clusterer({"dbscan": {"ep": 1.0}}), "Did you mean 'eps'?"),
        (lambda: Prepare("scale"), "Did you mean 'standardise'?"),
        (lambda: Prepare("StandardScaler"), "Did you mean 'standardise'?"),
        (lambda: Prepare({"pca": {"ncomponent": 2}}), "Did you mean 'n_components'?"),
    ],
)
def test_what_may_have_been_meant_comes_last(made, meant):
    with pytest.raises(InvalidInput) as refused:
        made()
    assert str(refused.value).endswith(meant)


@pytest.mark.parametrize(
    ("made", "error", "words"),
    [
        (lambda: daskfc.FedSc, AttributeError, r"has no 'FedSc'\. Did you mean 'FedSC'\?"),
        (lambda: daskfc.zebra, AttributeError, r"has no 'zebra'\.$"),
        (lambda: daskfc.FederatedKMeans(n_cluster=3), TypeError, "unexpected .* 'n_cluster'"),
    ],
)
def test_names_of_the_front_door_and_of_parameters(made, error, words):
    with pytest.raises(error, match=words):
        made()


def test_a_clusterer_of_scikit_learn_is_named():
    with pytest.raises(InvalidInput, match=r"got KMeans\(.*Did you mean 'k-means'\?"):
        make_clusterer(cluster.KMeans(3))


def test_what_is_like_nothing_gets_no_guess():
    assert correction("zebra", ["OmniFC", "FedSC"]) == "Correct the name."
    assert correction("best", ["robust", "paper"], "Choose one.") == "Choose one."
    assert correction("seed", ["n_clusters"]) == "Correct the name."  # another's word for nothing
