"""Clusterers on blocks of distances against themselves, and libraries, on all of them."""

import fastcluster
import kmedoids
import numpy as np
import pytest
import sklearn.cluster
from scipy.spatial.distance import squareform
from sklearn.datasets import load_digits, make_blobs
from sklearn.exceptions import ConvergenceWarning

from daskfc.clustering import DistanceBlocks, FullDistances, make_clusterer
from daskfc.clustering.blocks.chains import linkage_by_chains
from daskfc.clustering.blocks.exemplars import exemplars_by_blocks
from daskfc.clustering.blocks.row_file import RowFile
from daskfc.clustering.blocks.swaps import medoids_by_swaps
from daskfc.clustering.clusterers.library import AffinityPropagation
from daskfc.clustering.clusterers.spectral import median_gamma
from daskfc.clustering.kernels.gaussian_graph import gaussian_graph, median_apart, ranked
from daskfc.clustering.views import decisive, views
from daskfc.clustering.views.nearest import exact_blocks
from daskfc.linalg.laplacian import components_of_rows
from daskfc.linalg.spectrum import laplacian_eigenvalues

BY_BLOCKS = [
    "k-medoids",
    {"hierarchical": {"linkage": "average"}},
    {"hierarchical": {"linkage": "complete"}},
    {"spectral": {"affinity": "gaussian"}},
    {"spectral": {"affinity": "gaussian", "gamma": 0.005}},
    "affinity-propagation",
]


@pytest.fixture(autouse=True)
def small_panels(monkeypatch):
    """Let few samples be many panels."""
    monkeypatch.setattr(views, "_ENTRIES", 1 << 12)


def data(kind):
    if kind == "digits":  # whole numbers: many distances tie
        return load_digits().data[:400]
    if kind == "copies":
        return np.repeat(np.random.default_rng(2).normal(size=(60, 3)), 3, axis=0)
    return make_blobs(350, n_features=5, centers=4, cluster_std=3.0, random_state=1)[0]


@pytest.mark.parametrize("spec", BY_BLOCKS, ids=str)
@pytest.mark.parametrize("kind", ["digits", "blobs"])
def test_labels_are_those_in_memory(spec, kind, tmp_path):
    clusterer = make_clusterer(spec)
    source = exact_blocks(data(kind))
    view = DistanceBlocks(source.n, source.block, folder=str(tmp_path))
    k = None if clusterer.finds_n_clusters else 5
    whole = clusterer.fit(FullDistances(view.full()), k, 0)
    found = clusterer.fit(view, k, 0)
    assert np.array_equal(found.labels, whole.labels)
    assert found.score == pytest.approx(whole.score)
    np.testing.assert_allclose(found.decisive, whole.decisive, rtol=1e-9)
    assert not list(tmp_path.iterdir())  # files have no names, and are gone


def test_who_reads_blocks_says_what_that_takes():
    for spec in BY_BLOCKS:
        memory, disk = make_clusterer(spec).block_bytes(20_000, 10)
        assert 0 < memory < 400_000_000
        assert disk in (0, 8 * 20_000**2, 3 * 8 * 20_000**2)
    for spec in ("spectral", {"hierarchical": {"linkage": "ward"}}, "k-means"):
        assert make_clusterer(spec).block_bytes(20_000, 10) is None


@pytest.mark.parametrize("kind", ["digits", "blobs", "copies"])
def test_complete_linkage_is_that_of_fastcluster_ties_and_all(kind):
    view = exact_blocks(data(kind))
    condensed = np.sqrt(squareform(view.full(), checks=False))
    assert np.array_equal(
        linkage_by_chains(view, "complete"), fastcluster.linkage(condensed, "complete")
    )


def test_average_linkage_is_that_of_fastcluster_up_to_rounding():
    view = exact_blocks(data("blobs"))
    condensed = np.sqrt(squareform(view.full(), checks=False))
    ours, theirs = linkage_by_chains(view, "average"), fastcluster.linkage(condensed, "average")
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_chains_end_where_rounding_breaks_symmetry():
    """Distances that are off by rounding, in another way on each side of the diagonal."""
    source = exact_blocks(data("digits"))

    def block(rows, columns):
        D = source.block(rows, columns)
        numbers = np.arange(source.n)
        return D * (1 + 1e-15 * (numbers[rows][:, None] > numbers[columns]))

    for linkage in ("average", "complete"):
        merges = linkage_by_chains(DistanceBlocks(source.n, block), linkage)
        assert np.array_equal(np.unique(merges[:, :2]), np.arange(2 * source.n - 2))
        assert merges[-1, 3] == source.n


@pytest.mark.parametrize("k", [1, 2, 7, 40])
def test_swaps_are_those_of_kmedoids(k):
    view = exact_blocks(data("blobs"))
    order = np.random.default_rng(0).permutation(view.n)
    starts = {at: np.random.default_rng(at).choice(view.n, k, False) for at in (0, 30, 349)}
    found = medoids_by_swaps(view, order, starts, 100)
    D = np.sqrt(view.full())
    for (at, start), ours in zip(starts.items(), found, strict=True):
        tried = np.roll(order, -at)
        place = np.argsort(tried)
        theirs = kmedoids.fasterpam(np.ascontiguousarray(D[tried][:, tried]), place[start], n_cpu=1)
        assert sorted(ours.medoids) == sorted(tried[theirs.medoids])
        assert ours.loss == pytest.approx(theirs.loss)
        assert k == 1 or ours.n_iter == theirs.n_iter


def test_a_pass_too_few_is_told_as_in_memory():
    view = exact_blocks(data("blobs"))
    clusterer = make_clusterer({"k-medoids": {"max_iter": 1, "n_init": 2}})
    for seen in (view, FullDistances(view.full())):
        with pytest.warns(ConvergenceWarning, match="stopped after 1 passes"):
            assert not clusterer.fit(seen, 5, 0).converged


@pytest.mark.parametrize("kind", ["digits", "blobs", "copies"])
@pytest.mark.parametrize("preference", [None, -50.0, -2000.0])
def test_exemplars_are_those_of_scikit_learn_to_the_last_bit(kind, preference):
    view = exact_blocks(data(kind)[::2])
    theirs = sklearn.cluster.AffinityPropagation(
        affinity="precomputed", preference=preference, damping=0.9, random_state=3, max_iter=400
    ).fit(-view.full())
    exemplars, labels = exemplars_by_blocks(
        view, preference=preference, damping=0.9, max_iter=400, seed=3
    )
    assert np.array_equal(labels, theirs.labels_)
    assert np.array_equal(exemplars, theirs.cluster_centers_indices_)


def test_exemplars_that_did_not_settle_are_warned_of():
    view = exact_blocks(data("blobs"))
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        exemplars_by_blocks(view, preference=None, damping=0.5, max_iter=5, seed=0)


@pytest.mark.parametrize(("preference", "clusters"), [(-9.0, 1), (-1.0, 6)])
def test_samples_that_are_all_as_far_from_each_other(preference, clusters):
    view = exact_blocks(np.eye(6))
    labels = exemplars_by_blocks(view, preference=preference, damping=0.5, max_iter=9, seed=0)[1]
    assert len(set(labels)) == clusters


def test_a_kernel_that_is_0_between_parts_has_their_components():
    parts = np.array([[0.0], [0.1], [1e4], [1e4 + 0.1], [5e4]])
    found = make_clusterer({"spectral": {"affinity": "gaussian", "gamma": 1.0}})
    labels = found.fit(exact_blocks(np.repeat(parts, 30, axis=0)), 5, 0).labels
    assert len(set(zip(labels, np.repeat([0, 0, 1, 1, 2], 30), strict=True))) == len(set(labels))


def test_components_read_no_more_rows_than_they_need():
    read = []

    def row(i):
        read.append(i)
        return np.ones(50)

    assert not components_of_rows(row, 50).any()
    assert read == [0]


@pytest.mark.parametrize("kind", ["digits", "blobs", "copies"])
def test_the_median_is_that_of_all_at_once(kind):
    view = exact_blocks(data(kind))
    assert 0.5 / median_apart(view) == median_gamma(view.full())


def test_values_in_order_whatever_their_bits():
    random = np.random.default_rng(0)
    values = np.concatenate(
        [random.lognormal(0, 40, 500), np.full(90, 2.5), [0.0, 5e-324, 1.7e308], np.zeros(3)]
    )
    pieces = np.array_split(random.permutation(values), 7)
    assert ranked(lambda: iter(pieces), lambda _: ()).size == 0
    for n in (0, 3, 4, 250, 300, values.size - 2):
        for places in ((n,), (n, n + 1)):
            found = ranked(lambda: iter(pieces), lambda _, places=places: places)
            np.testing.assert_array_equal(found, np.sort(values)[list(places)])


def test_the_middle_takes_two_passes():
    passes = []

    def pieces():
        passes.append(1)
        return iter([np.arange(1.0, 1001.0)])

    assert ranked(pieces, lambda n: (n // 2 - 1, n // 2)).tolist() == [500.0, 501.0]
    assert len(passes) == 2


def test_more_alike_than_are_sorted(monkeypatch):
    monkeypatch.setattr("daskfc.clustering.kernels.gaussian_graph._FEW", 2)
    values = np.concatenate([np.full(9, 2.5), 2.5 + np.arange(9) * 2.0**-50, np.arange(9.0)])
    for n in range(values.size - 1):
        found = ranked(lambda: iter([values]), lambda _, n=n: (n, n + 1))
        np.testing.assert_array_equal(found, np.sort(values)[n : n + 2])


def test_the_search_for_eigenvectors_of_a_gaussian_graph_begins_near_them():
    """Whence it begins changes no result, and random vectors take many more products."""
    view = exact_blocks(data("blobs"))
    graph = gaussian_graph(view, 0.02, 4, seed=0)
    K = np.exp(-0.02 * view.full())
    np.fill_diagonal(K, 0.0)
    root = np.sqrt(K.sum(axis=1))
    np.testing.assert_allclose(graph.matrix @ np.eye(view.n), K / root / root[:, None], atol=1e-12)
    leading = np.linalg.eigh(K / root / root[:, None])[1][:, -4:]
    span = np.linalg.qr(graph.near)[0]
    assert np.linalg.norm(leading - span @ (span.T @ leading), axis=0).max() < 0.1


def test_copies_of_fewer_rows_than_clusters_have_a_gaussian_graph():
    view = exact_blocks(np.repeat([[0.0], [1.0]], 40, axis=0))
    K = np.exp(-view.full())
    np.fill_diagonal(K, 0.0)
    wanted = 1.0 - np.linalg.eigvalsh(K / K.sum(axis=0))[::-1][:5]  # all degrees are equal
    found = laplacian_eigenvalues(gaussian_graph(view, 1.0, 5, seed=0), 5, seed=0)
    np.testing.assert_allclose(found, wanted, atol=1e-8)


def test_blocks_cover_the_upper_triangle_once():
    view = exact_blocks(data("blobs"))
    seen = np.zeros((view.n, view.n))
    for rows, columns, block in view.upper():
        seen[rows, columns] += 1
        assert block.shape == seen[rows, columns].shape
    counted = seen + np.where(seen.T > 0, np.where(seen > 0, 0, seen.T), 0)
    assert (counted == 1).all()
    weights = np.random.default_rng(0).normal(size=(view.n, 3))
    np.testing.assert_allclose(view.dot(weights), view.full() @ weights, atol=1e-9)


def test_distances_of_points_are_0_to_themselves():
    X = np.random.default_rng(0).normal(size=(40, 3)) + 50.0
    view = DistanceBlocks.of_points(X)
    np.testing.assert_allclose(view.full(), exact_blocks(X).full(), atol=1e-12)
    some = np.array([3, 30, 7])
    assert not view.block(some, some).diagonal().any()


def test_points_are_moved_where_no_copy_is_made_and_only_there():
    X = np.random.default_rng(0).normal(size=(40, 3)) + 50.0
    given = X.copy()
    found = DistanceBlocks.of_points(given).full()
    np.testing.assert_array_equal(given, X)
    np.testing.assert_array_equal(DistanceBlocks.of_points(given, copy=False).full(), found)
    np.testing.assert_allclose(given, X - X.mean(axis=0), rtol=0, atol=1e-12)


@pytest.mark.parametrize("preference", [-1e-9, None, -1e4], ids=["all", "some", "few"])
def test_however_many_exemplars_there_are_few_distances_are_asked_for(monkeypatch, preference):
    whole, asked = exact_blocks(data("blobs")), []

    def block(rows, columns):
        found = whole.block(rows, columns)
        asked.append(found.size)
        return found

    monkeypatch.setattr(decisive, "_ENTRIES", 1 << 12)
    clusterer = AffinityPropagation(preference=preference)
    found = clusterer.fit(DistanceBlocks(whole.n, block), None, 0)
    assert max(asked) <= 1 << 12
    exemplars = found.model["exemplars"]
    assert (exemplars.size == whole.n) == (preference == -1e-9)
    D = whole.full()[np.ix_(exemplars, exemplars)]
    np.fill_diagonal(D, np.inf)
    np.testing.assert_array_equal(found.decisive, D.min(axis=1))


def test_rows_of_a_file(tmp_path):
    D = np.random.default_rng(0).normal(size=(9, 9))
    with RowFile(9, str(tmp_path)) as file:
        file.write(0, D[:4])
        file.write_part(slice(4, 9), slice(0, 5), D[4:, :5])
        file.write_part(slice(4, 9), slice(5, 9), np.asfortranarray(D[4:, 5:]))
        assert np.array_equal(file.read(0, 9), D)
        assert np.array_equal(file.rows(np.array([7, 2])), D[[7, 2]])
        assert file.read(3, 3).shape == (0, 9)
