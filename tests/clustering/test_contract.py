"""What all clusterers share: parameters, refusals, determinism, prediction, pooled twins."""

from importlib.util import find_spec

import numpy as np
import pytest
import sklearn.cluster
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning

from daskfc.clustering import (
    CLUSTERERS,
    DBSCAN,
    FullDistances,
    FuzzyCMeans,
    Hierarchical,
    KMeans,
    RadiusGraph,
    RowFactors,
    Spectral,
    make_clusterer,
)
from daskfc.clustering.clusterers.clusterer import Clustering, in_order_of_appearance
from daskfc.clustering.views.graphs import NeighbourGraph
from daskfc.clustering.views.nearest import (
    exact_squared_distances,
    nearest_of_matrix,
    within_radius_of_matrix,
)
from daskfc.errors import InvalidInput
from tests.oracles import clustering as oracle

UMAPS = [  # tests/clustering/test_umap.py skips with the reason
    {"umap": {"n_neighbors": 10, "then": "k-means"}},
    {"umap": {"n_neighbors": 10, "then": {"hdbscan": {"min_cluster_size": 12}}}},
] * (find_spec("umap") is not None)  # fmt: skip
SPECS = [
    "spectral",
    {"spectral": {"affinity": "gaussian"}},
    {"spectral": {"affinity": "radius", "eps": 2.0}},
    {"dbscan": {"eps": 2.0}},
    *({"hierarchical": {"linkage": name}} for name in ("single", "complete", "average", "ward")),
    "k-medoids",
    "k-means",
    {"k-means": {"rows": "distances"}},
    "reduced-k-means",
    {"reduced-k-means": {"n_components": 1}},
    "fuzzy-c-means",
    {"fuzzy-c-means": {"rows": "distances"}},
    "nmf",
    {"nmf": {"assignment": "argmax", "init": "nndsvda"}},
    "kernel-k-means",
    {"kernel-k-means": {"n_eigenvectors": 1, "kernel_width": 3.0}},
    {"nystroem-k-means": {"n_landmarks": 20}},
    {"landmark-spectral": {"n_landmarks": 30}},
    "gaussian-mixture",
    {"gaussian-mixture": {"covariance": "tied", "n_init": 5}},
    {"gaussian-mixture": {"covariance": "spherical"}},
    {"hdbscan": {"min_cluster_size": 12}},
    {"hdbscan": {"min_cluster_size": 12, "min_samples": 5, "n_neighbors": 10}},
    *UMAPS,
    {"optics": {"min_samples": 20, "xi": 0.2}},
    {"affinity-propagation": {"preference": -200.0}},
    {"scikit-learn": {"estimator": "Birch"}},
    {"scikit-learn": {"estimator": "AgglomerativeClustering", "on": "distances",
                      "options": {"linkage": "average"}}},
    {"scikit-learn": {"estimator": "MeanShift"}},
]  # fmt: skip


def blobs(n=120, d=4, seed=0):
    return make_blobs(n, n_features=d, centers=3, cluster_std=0.6, random_state=seed)


def view_for(clusterer, X):
    """What `needs` asks for, built from the data."""
    D = exact_squared_distances(X)
    kind = clusterer.needs(*X.shape)
    if kind == "neighbours":
        return nearest_of_matrix(D, clusterer.graph_neighbors)
    if kind == "radius":
        return within_radius_of_matrix(D, clusterer.radius2)
    return RowFactors(X) if kind in ("rows", "coordinates") else FullDistances(D)


def count_for(clusterer, k=3):
    return None if clusterer.finds_n_clusters else k


IN_UNITS = ("eps", "kernel_width", "preference", "estimator")


@pytest.mark.parametrize(
    "spec", [s for s in SPECS if not any(p in str(s) for p in IN_UNITS)], ids=str
)
@pytest.mark.parametrize("unit", [2.0**-100, 2.0**100])
def test_the_unit_of_the_data_does_not_matter(spec, unit):
    X, y = blobs()
    clusterer = make_clusterer(spec)
    found = clusterer.fit(view_for(clusterer, X * unit), count_for(clusterer), 0)
    if clusterer.params.get("assignment") != "argmax":  # the largest weight need not find blobs
        assert oracle.same_partition(found.labels, y)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_fit_finds_separate_groups_and_predict_repeats_its_labels(spec):
    X, y = blobs()
    clusterer = make_clusterer(spec)
    found = clusterer.fit(view_for(clusterer, X), count_for(clusterer), 0)
    assert found.labels.dtype == np.int64
    assert found.n_clusters == 3
    assert found.converged
    assert found.labels[0] == 0
    predicted = clusterer.predict(found, exact_squared_distances(X))
    assert predicted.dtype == np.int64
    assert np.array_equal(predicted, found.labels)
    if clusterer.params.get("assignment") == "argmax":  # the largest weight need not find blobs
        return
    assert oracle.same_partition(found.labels, y)
    new, new_y = blobs(150)  # the same centres
    distances = ((new[:, None] - X) ** 2).sum(2)
    both = np.concatenate([found.labels, clusterer.predict(found, distances)])
    assert oracle.same_partition(both, np.concatenate([y, new_y]))


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_pooled_finds_the_same_groups(spec):
    X, y = blobs()
    clusterer = make_clusterer(spec)
    found = clusterer.pooled(X, count_for(clusterer), 0)
    if clusterer.name != "nmf":  # factors of shifted samples find parts, not blobs
        assert oracle.same_partition(found.labels, y)
    if clusterer.name in ("k-means", "fuzzy-c-means", "nmf"):
        with pytest.raises(InvalidInput, match="must come from fit"):
            clusterer.predict(found, exact_squared_distances(X))
    else:
        fitted = clusterer.fit(view_for(clusterer, X), count_for(clusterer), 0)
        assert np.array_equal(found.labels, fitted.labels)


def test_no_estimator_of_the_library_draws_a_seed_of_its_own():
    X = np.random.default_rng(0).normal(size=(60, 3))
    options = {"random_state": None, "init": "random", "n_init": 1}
    clusterer = make_clusterer({"scikit-learn": {"estimator": "KMeans", "options": options}})
    fits = [clusterer.fit(view_for(clusterer, X), 12, 7).labels.tolist() for _ in range(4)]
    assert fits[1:] == fits[:-1]


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_the_same_seed_gives_the_same_labels(spec):
    X = make_blobs(90, n_features=3, centers=5, cluster_std=2.0, random_state=0)[0]
    clusterer = make_clusterer(spec)
    view = view_for(clusterer, X)
    one, two = (clusterer.fit(view, count_for(clusterer, 5), 7) for _ in range(2))
    assert np.array_equal(one.labels, two.labels)
    assert one.score == two.score


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_one_cluster_and_one_sample(spec):
    clusterer = make_clusterer(spec)
    X = blobs(20)[0]
    found = clusterer.fit(view_for(clusterer, X), count_for(clusterer, 1), 0)
    if not clusterer.finds_n_clusters:
        assert not found.labels.any()
    if clusterer.needs(1, 4) != "neighbours":  # a graph of 2 neighbours needs 2 samples
        single = clusterer.pooled(X[:1], count_for(clusterer, 1), 0)
        noise = clusterer.name in ("dbscan", "hdbscan", "optics")
        assert single.labels.tolist() == [-1 if noise else 0]


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_more_clusters_than_samples_are_refused(spec):
    clusterer = make_clusterer(spec)
    X = blobs(12)[0]
    if clusterer.finds_n_clusters:
        with pytest.raises(InvalidInput, match="finds it by itself; got 13"):
            clusterer.fit(view_for(clusterer, X), 13, 0)
        return
    with pytest.raises(InvalidInput, match="at most the number of samples, 12; got 13"):
        clusterer.fit(view_for(clusterer, X), 13, 0)
    with pytest.raises(InvalidInput, match="must be given"):
        clusterer.pooled(X, None, 0)
    with pytest.raises(InvalidInput, match="'n_clusters' parameter"):
        clusterer.pooled(X, 0, 0)
    with pytest.raises(InvalidInput, match="'seed' parameter"):
        clusterer.pooled(X, 2, -1)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_wrong_views_data_and_distances_are_refused(spec):
    clusterer = make_clusterer(spec)
    X = blobs(30)[0]
    wrong = (
        RadiusGraph(lambda: [], 30, 1.0)
        if clusterer.radius2 is None
        else NeighbourGraph(np.zeros((30, 1), np.int32), np.zeros((30, 1)))
    )
    k = count_for(clusterer)
    wanted = f"(view given to {clusterer.name}|{clusterer.name} with affinity '.*') must be"
    with pytest.raises(InvalidInput, match=wanted):
        clusterer.fit(wrong, k, 0)
    with pytest.raises(InvalidInput, match="shape \\(n, d\\)"):
        clusterer.pooled(X[0], k, 0)
    with pytest.raises(InvalidInput, match="some of 30 rows hold NaN"):
        clusterer.pooled(np.where(X == X[3, 1], np.nan, X), k, 0)
    found = clusterer.fit(view_for(clusterer, X), k, 0)
    with pytest.raises(InvalidInput, match="shape \\(n_new, 30\\)"):
        clusterer.predict(found, np.zeros((30, 4)))


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("spectra", "no clusterer is named 'spectra'; there are spectral, landmark-spectral"),
        ({"dbscan": {"epsilon": 1}}, "dbscan has no parameter 'epsilon'; it has eps, min_samples"),
        ("dbscan", "'eps' parameter of dbscan must be given"),
        ({"dbscan": {"eps": 0}}, "'eps' parameter of dbscan must be a finite number in \\[1e-150"),
        ({"dbscan": {"eps": 1e200}}, r"in \[1e-150, 1e\+150\]; got 1e\+200"),
        ({"spectral": {"affinity": "radius", "eps": 1e-200}}, r"1e\+150\], or None; got 1e-200"),
        ({"spectral": {"gamma": 1.0}}, "'gamma' parameter of spectral must be left out"),
        ({"spectral": {"n_neighbors": 1}}, "a whole number of at least 2; got 1"),
        ({"spectral": {"affinity": "rbf"}}, "one of 'nearest_neighbors', 'radius', 'gaussian'"),
        ({"spectral": {"affinity": "radius"}}, "'eps' parameter of spectral must be given with"),
        ({"spectral": {"eps": 2.0}}, "with no other; got 2.0 with 'nearest_neighbors'"),
        ({"hierarchical": {"linkage": "median"}}, "'linkage' parameter of hierarchical"),
        ({"fuzzy-c-means": {"fuzziness": 1}}, "above 1; got 1"),
        ({"affinity-propagation": {"damping": "0.9"}}, r"in \[0.5, 1\); got '0.9'"),
        ({"nmf": {}, "dbscan": {}}, "a mapping of one name"),
        ({"nmf": [3]}, "parameters of nmf must be a mapping"),
        (3, "must be a name"),
    ],
)
def test_bad_specifications_are_refused(spec, text):
    with pytest.raises(InvalidInput, match=text):
        make_clusterer(spec)


# whole numbers that begin at 2: fewer neighbours than one other, or a cluster of one sample
FROM_2 = {
    ("spectral", "n_neighbors"), ("hdbscan", "min_cluster_size"), ("hdbscan", "n_neighbors"),
    ("umap", "n_neighbors"), ("optics", "min_samples"),
}  # fmt: skip


@pytest.mark.parametrize("name", CLUSTERERS)
def test_whole_numbers_begin_at_1_or_2(name):
    """The least is taken, and what is below it, or none whole, is refused."""
    for parameter, constraint in CLUSTERERS[name].constraints.items():
        if constraint.rule.startswith("a whole number"):
            least = 2 if (name, parameter) in FROM_2 else 1
            assert [constraint.holds(n) for n in (least - 1, least, 10**6)] == [False, True, True]
            assert not constraint.holds(least + 0.5), parameter


def test_specifications_are_names_mappings_or_clusterers():
    assert make_clusterer("k-means") == KMeans()
    assert make_clusterer({"dbscan": {"eps": 0.5}}) == DBSCAN(eps=0.5)
    assert make_clusterer({"spectral": None}) == Spectral()
    clusterer = FuzzyCMeans(fuzziness=1.5)
    assert make_clusterer(clusterer) is clusterer
    assert [kind.name for kind in CLUSTERERS.values()] == list(CLUSTERERS)


def test_what_is_needed():
    assert Spectral().needs(70_000, 784) == "neighbours"
    assert Spectral(affinity="gaussian").needs(100, 4) == "full"
    assert Spectral(affinity="radius", eps=3).needs(100, 4) == "radius"
    assert (Spectral(affinity="radius", eps=3).radius2, Spectral().radius2) == (9.0, None)
    assert DBSCAN(eps=1).needs(70_000, 784) == "radius"
    assert Hierarchical("complete").needs(70_000, 784) == "full"
    assert Hierarchical("ward").needs(70_000, 784) == "rows"
    assert KMeans().needs(70_000, 784) == FuzzyCMeans().needs(9, 4) == "coordinates"
    paper = KMeans(rows="distances")
    assert paper.needs(1000, 784) == "full"
    assert paper.needs(70_000, 784) == "rows"
    assert paper.needs(20_000, 10_000) == "full"


def test_renumbering_keeps_empty_clusters_last():
    number = in_order_of_appearance(np.array([4, 1, 4, 2]), 5)
    assert number[[4, 1, 4, 2]].tolist() == [0, 1, 0, 2]
    assert sorted(number.tolist()) == [0, 1, 2, 3, 4]


def test_a_clustering_needs_no_model():
    assert Clustering(np.zeros(1, np.int64), 1).model == {}


def test_a_mixture_does_not_depend_on_how_samples_are_turned():
    X = make_blobs(200, n_features=5, centers=4, cluster_std=2.0, random_state=1)[0]
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 5)))[0]
    for covariance in ("full", "tied", "spherical"):
        clusterer = make_clusterer({"gaussian-mixture": {"covariance": covariance}})
        pooled = clusterer.pooled(X, 4, 0)
        found = clusterer.fit(RowFactors(X @ turn + 7.0), 4, 0)
        np.testing.assert_array_equal(found.labels, pooled.labels)
        assert found.score == pytest.approx(pooled.score, rel=1e-6)
        library = clusterer._mixture(4, 0).fit(X)
        assert oracle.same_partition(found.labels, library.predict(X))
        new = X[:50] + 0.3
        distances = ((new[:, None] - X) ** 2).sum(2)
        both = np.concatenate([found.labels, clusterer.predict(found, distances)])
        assert oracle.same_partition(both, library.predict(np.concatenate([X, new])))


@pytest.mark.parametrize("spec", ["hdbscan", "optics", "affinity-propagation"])
def test_those_that_find_clusters_are_the_library_on_the_samples(spec):
    X = make_blobs(150, n_features=3, centers=4, cluster_std=0.9, random_state=3)[0]
    clusterer = make_clusterer(spec)
    kinds = {
        "hdbscan": lambda: sklearn.cluster.HDBSCAN(copy=True),
        "optics": lambda: sklearn.cluster.OPTICS(min_samples=5),
        "affinity-propagation": lambda: sklearn.cluster.AffinityPropagation(random_state=0),
    }
    expected = kinds[spec]().fit_predict(X)
    found = clusterer.fit(view_for(clusterer, X - 5.0), None, 0)
    assert oracle.same_partition(found.labels, expected)
    np.testing.assert_array_equal(found.labels == -1, expected == -1)
    assert found.n_clusters == expected.max() + 1 > 1


@pytest.mark.parametrize("spec", ["hdbscan", "optics"])
def test_those_that_find_clusters_find_copies(spec):
    X = np.repeat(np.arange(4.0)[:, None] ** 2, 10, axis=0)
    clusterer = make_clusterer(spec)
    found = clusterer.fit(view_for(clusterer, X), None, 0)
    assert oracle.same_partition(found.labels, np.repeat(np.arange(4), 10))


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({}, "'estimator' parameter of scikit-learn must be the name of a clusterer"),
        ({"estimator": "PCA"}, "must be the name of a clusterer of sklearn.cluster; got 'PCA'"),
        ({"estimator": "FeatureAgglomeration"}, "must be the name of a clusterer"),
        ({"estimator": "Birch", "options": {"radius": 1}}, "Birch .* has no parameter 'radius'"),
        ({"estimator": "KMeans", "options": {"n_clusters": 5}}, "must leave 'n_clusters' to the"),
        ({"estimator": "AgglomerativeClustering", "on": "distances"}, "with linkage 'ward'"),
        ({"estimator": "Birch", "on": "distances"}, "takes no precomputed distances"),
        ({"estimator": "Birch", "options": 3}, "'options' parameter of scikit-learn must be a map"),
    ],
)
def test_clusterers_of_the_library_are_checked(params, text):
    with pytest.raises(InvalidInput, match=text):
        make_clusterer({"scikit-learn": params})


def test_distances_of_the_library_need_all_of_them():
    params = {"estimator": "DBSCAN", "on": "distances", "options": {"eps": 1.0}}
    clusterer = make_clusterer({"scikit-learn": params})
    assert clusterer.needs(10, 2) == "full"
    assert clusterer.finds_n_clusters
    with pytest.raises(InvalidInput, match="must be FullDistances with on='distances'"):
        clusterer.fit(RowFactors(np.zeros((4, 1))), None, 0)


def test_messages_that_do_not_settle_are_told():
    X = blobs(40)[0]
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        found = make_clusterer({"affinity-propagation": {"max_iter": 1}}).pooled(X, None, 0)
    assert found.notes
    assert not found.converged


@pytest.mark.parametrize("row", [[0.0, 0.0], [3.0, -1.0]])
@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"spectral": {"n_neighbors": 4}}, "every sample has 3 others, or more, with the same"),
        ({"spectral": {"affinity": "gaussian"}}, "all samples have the same features"),
        ("k-means", "all samples have the same features"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_samples_that_are_all_alike_are_told(spec, words, row):
    X = np.tile(row, (12, 1))
    D = exact_squared_distances(X)
    clusterer = make_clusterer(spec)
    views = {
        "neighbours": lambda: nearest_of_matrix(D, 3),
        "full": lambda: FullDistances(D),
        "coordinates": lambda: RowFactors(X, 2),
    }
    view = views[clusterer.needs(12, 2)]()
    found = clusterer.fit(view, 2, seed=0)
    assert words in " ".join(found.notes)
    X[5] += 1.0  # one other row is enough to say nothing of coordinates
    if clusterer.needs(12, 2) == "coordinates":
        assert words not in " ".join(clusterer.fit(RowFactors(X, 2), 2, seed=0).notes)


@pytest.mark.parametrize("spec", ["k-means", "fuzzy-c-means", "gaussian-mixture"])
@pytest.mark.filterwarnings("ignore")
def test_samples_that_are_all_alike_have_no_coordinates(spec):
    """Exact distances of one row give points of no column; all samples are one cluster."""
    found = make_clusterer(spec).fit(RowFactors(np.zeros((9, 0)), 3), 2, seed=0)
    assert np.unique(found.labels).size == 1
    assert make_clusterer(spec).predict(found, np.zeros((1, 9))).tolist() == [found.labels[0]]
