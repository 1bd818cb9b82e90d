"""What a fit says of how far its server can place rows, and what a participant measures at all."""

import numpy as np
import pytest

from daskfc.errors import PrivacyError, PrivacyWarning
from daskfc.federation import Federation
from daskfc.federation.party.site_rules import FREE
from daskfc.protocols import KCAGC
from daskfc.protocols.kcagc import party
from daskfc.protocols.kcagc.messages import Intersections, LocalClusters, Measure
from daskfc.runs import plan
from daskfc.stores import write_store

N, K, WIDTH = 60, 3, 8  # three participants: 9 dimensions of at most 24 are kept


@pytest.fixture(scope="module")
def urls(tmp_path_factory):
    folder, random = tmp_path_factory.mktemp("stores"), np.random.default_rng(0)
    found = {name: str(folder / f"{name}.zarr") for name in "abc"}
    for name, url in found.items():
        columns = [f"{name}/{i}" for i in range(WIDTH)]
        ids = [str(i) for i in range(N)]
        write_store(url, name, random.normal(size=(N, WIDTH)), ids, feature_names=columns)
    return found


@pytest.fixture(scope="module")
def federation(urls):
    with Federation.local(urls) as running:
        yield running


@pytest.mark.slow
class TestFits:
    def test_landmarks_place_all_nodes(self, federation):
        model = KCAGC(K, filter_order=0).fit(federation)
        assert model.choices == {
            "distances": "landmarks: they place all virtual nodes up to a rigid motion",
            "distances of the refinement": "centres, 3 in 9 dimensions: they place samples in 3 of "
            "these",
        }

    @pytest.mark.parametrize("distances", ["auto", "centres"])
    def test_as_many_centres_as_dimensions_place_them_as_well(self, federation, distances):
        model = KCAGC(K, filter_order=0, n_init=1, n_refine=0, distances=distances)
        with pytest.warns(PrivacyWarning, match=r"all virtual nodes to \d+ centres, .* 9 dim"):
            model.fit(federation)
        assert "they place all virtual nodes" in model.choices["distances"]

    def test_fewer_centres_do_not(self, federation):
        few = {"n_init": 1, "max_iter": 1, "n_refine": 0}
        model = KCAGC(2, filter_order=0, **few).fit(federation)
        told = "centres, 5 in 6 dimensions: they place virtual nodes in 5 of these"
        assert model.choices == {"distances": told}  # three draws and two means

    def test_rounds_of_a_refinement_place_samples(self, federation):
        model = KCAGC(30, filter_order=0)  # of participants with 8 columns each
        with pytest.warns(PrivacyWarning, match="all samples to"):
            model.fit(federation)


def test_a_plan_says_it_before(urls):
    storage = {"clients": {name: {"store": url} for name, url in urls.items()}}
    params = {"n_clusters": K, "filter_order": 0, "n_init": 1, "distances": "centres"}
    planned = plan({"method": "kCAGC", "params": params}, storage=storage)
    assert "they place all" in planned.of("kCAGC").choices["distances"]


ROWS = np.arange(8.0).reshape(4, 2)
NODES = party.Nodes(ROWS[:2], np.array([2.0, 2.0]))
NO_LABELS = np.empty((0, 0), dtype=np.int32), np.empty((0, 0), dtype=np.uint8)
NO_NODES = np.empty((0, 0), dtype=np.int64)


def to_rows(*rows):
    return Measure(2, np.array([rows]), *NO_LABELS)


def to_means(n):
    labels = (np.arange(n) % 2).astype(np.int32)
    return Measure(2, NO_NODES, labels[None], np.ones((1, 2), dtype=np.uint8))


NOTHING = Measure(2, NO_NODES, *NO_LABELS)


@pytest.mark.parametrize(
    ("rows", "request_", "announced", "fine"),
    [
        (NODES, to_rows(0, 1), ("landmarks", "optimised", 0), True),
        (NODES, to_means(2), ("landmarks", "optimised", 1), False),
        (NODES, to_means(2), ("centres", "tree", 0), True),
        (ROWS, to_means(4), ("landmarks", "optimised", 1), True),
        (ROWS, to_means(4), ("auto", "optimised", 0), False),
        (ROWS, to_rows(0, 1), ("auto", "tree", 1), False),
        (ROWS, NOTHING, ("auto", "tree", 1), True),
        (ROWS, to_rows(0, 1), ("landmarks", "basic", 1), True),
        (ROWS, to_means(4), ("landmarks", "basic", 1), False),
        (ROWS, to_means(4), ("centres", "basic", 0), True),
    ],
)
def test_what_was_not_announced_is_not_measured(rows, request_, announced, fine):
    if fine:
        n = len(getattr(rows, "rows", rows))
        assert len(party.measure(rows, request_, *announced)) == n
        return
    with pytest.raises(PrivacyError, match="not in a run that was announced with variant="):
        party.measure(rows, request_, *announced)


def told(*ids, sizes=None):
    ids = np.array(ids, dtype=np.int32)
    return Intersections(ids, np.bincount(np.abs(ids)) * 1.0 if sizes is None else np.array(sizes))


OWN = LocalClusters(np.array([0, 0, 0, 1, 1, 1], dtype=np.int32))
HALVES, SINGLES = told(0, 0, 1, 2, 2, 3), told(*range(6))


@pytest.mark.parametrize(
    ("nodes", "own", "variant", "n_clients", "fine"),
    [
        (HALVES, OWN, "optimised", 2, True),  # two local clusters each
        (SINGLES, OWN, "optimised", 2, False),
        (SINGLES, OWN, "optimised", 3, True),
        (told(0, 0, 1, 1, 2, 2), OWN, "optimised", 2, False),  # one of both own clusters
        (told(0, 0, 1, 2, 2, 3, sizes=[2.0, 1.0, 9.0, 1.0]), OWN, "optimised", 2, False),
        (told(0, 0, 1, 2, 2), OWN, "optimised", 2, False),
        (told(0, 0, 9, 2, 2, 3), OWN, "optimised", 2, False),
        (told(0, 0, -1, 2, 2, 3), OWN, "optimised", 2, False),
        (HALVES, None, "optimised", 2, False),
        (told(0, 1, 2, 3, 3, 3), None, "tree", 3, True),
        (told(0, 1, 2, 3, 4, 4), None, "tree", 3, False),  # more than of two partitions
    ],
)
def test_only_intersections_with_the_own_clusters_are_virtual_nodes(
    nodes, own, variant, n_clients, fine
):
    """A server that named each sample a node was told distances of single ones."""
    rows = np.arange(12.0).reshape(6, 2)
    given = (rows, nodes, own, "intersection", variant, 2, n_clients, "a")
    if fine:
        found = party.nodes_of(*given)
        assert len(found.rows) == len(found.sizes) == len(nodes.sizes)
        return
    with pytest.raises(
        PrivacyError, match="virtual nodes that participant 'a' is told must divide"
    ):
        party.nodes_of(*given)


def test_a_start_has_one_division_into_virtual_nodes():
    """Means over two that differ by a sample told it."""
    rows, rules = np.arange(12.0).reshape(6, 2), FREE.once()
    given = (OWN, "intersection", "optimised", 2, 2, "a", rules)
    party.nodes_of(rows, HALVES, *given)
    party.nodes_of(rows, HALVES, *given)  # a step that Dask repeats
    with pytest.raises(PrivacyError, match="a start has one division into virtual nodes"):
        party.nodes_of(rows, told(0, 1, 1, 2, 2, 3), *given)
