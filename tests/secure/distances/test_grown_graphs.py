"""Graphs that grow from the last fit's: those of all samples, from the pairs of new ones."""

from dataclasses import replace

import numpy as np
import pytest

from daskfc.clustering import NeighbourGraph, exact_points
from daskfc.clustering.views.half_distances import HalfDistances
from daskfc.coding import ResidueSystem
from daskfc.federation.party.last_result import LastResult
from daskfc.secure.distances import RowPlan, graphs
from daskfc.secure.distances.graphs import NearPairs, keep_pairs, pairs_since, settled_graph
from daskfc.secure.distances.parties.messages import RowTags

D, CLIENTS = 3, ("a", "b", "c")
SYSTEM = ResidueSystem((251, 241, 239), 1.0, 10_000)
KINDS = [(5, None), (None, 4.0)]


def alike(a, b):
    if isinstance(a, NeighbourGraph):
        np.testing.assert_array_equal(a.indices, b.indices)
        np.testing.assert_array_equal(a.distances, b.distances)
    else:
        one, other = (
            np.concatenate([np.column_stack(pairs) for pairs in graph]) for graph in (a, b)
        )
        assert len(np.unique(one, axis=0)) == len(one)
        np.testing.assert_array_equal(np.sort(one, axis=0), np.sort(other, axis=0))
        assert set(map(tuple, one.tolist())) == set(map(tuple, other.tolist()))


class Nights:
    """Rows of clients that grow, and the server's steps of each night."""

    def __init__(self, folder, kind, ordered=True):
        self.random = np.random.default_rng(7)
        self.rows = {name: np.empty((0, D)) for name in CLIENTS}
        self.folder, self.ordered = folder, ordered
        self.asked = dict(zip(("n_neighbors", "radius2"), kind, strict=True))
        self.night = 0

    def grow(self, **more):
        """Add whole numbers, many of them equal or equally far, and put all in a new order."""
        for name, n in more.items():
            new = np.rint(4 * self.random.normal(size=(n, D))) + 30.0 * self.random.integers(
                0, 2, (n, 1)
            )
            self.rows[name] = np.concatenate([self.rows[name], new])
        X = np.concatenate(list(self.rows.values()))
        places = self.random.permutation(len(X))
        ends = np.cumsum([len(own) for own in self.rows.values()])[:-1]
        self.plan = RowPlan(
            dict(zip(CLIENTS, np.split(places, ends), strict=True)), D, 1.0, 1.0, 1, 0
        )
        Y = np.empty_like(X)
        Y[places] = X
        whole = np.square(Y[:, None] - Y[None, : D + 6]).sum(axis=2).astype(int)
        points = exact_points(lambda part: whole[part], np.arange(D + 6), n=len(Y), n_features=D)
        assert points.certified
        self.points = points.in_order() if self.ordered else points
        self.night += 1
        self.before = getattr(self, "sizes", None)
        self.sizes = {name: len(own) for name, own in self.rows.items()}

    def tags(self, of=None):
        first = self.before or {}
        return {n: RowTags(first.get(n, 0), self.sizes[n]) for n in CLIENTS} | (of or {})

    def kept(self):
        return LastResult(self.folder / "kept", self.folder / f"fit-{self.night}")

    def pairs(self, tags=None, system=SYSTEM):
        how = (self.points, self.plan, self.tags(tags), self.kept())
        return pairs_since(*how, system=system, **self.asked)

    def fit(self, found=None, system=SYSTEM):
        """Return the night's graph, and whether its pairs are kept."""
        found = {"server": self.pairs()} if found is None else found
        graph = settled_graph(self.points, found, **self.asked)
        how = (self.points, graph, found, self.plan, self.tags(), self.kept())
        return graph, keep_pairs(*how, system=system)

    def alone(self):
        return settled_graph(self.points, {}, **self.asked)


@pytest.mark.parametrize("kind", KINDS, ids=["neighbours", "radius"])
@pytest.mark.parametrize("ordered", [True, False])
def test_a_graph_that_grows_is_that_of_all_samples(tmp_path, monkeypatch, kind, ordered):
    nights = Nights(tmp_path, kind, ordered)
    nights.grow(a=300, b=200, c=1)
    graph, kept = nights.fit()
    assert kept
    alike(graph, nights.alone())
    for more in ({"b": 1}, {"a": 30, "c": 40}, {}, {"a": 2, "b": 3, "c": 4}):
        nights.grow(**more)
        wanted = nights.alone()
        with monkeypatch.context() as without:  # of all pairs
            without.setattr(HalfDistances, "of", lambda *_: pytest.fail("all pairs are screened"))
            part = nights.pairs()
            graph, kept = nights.fit({"server": part})
        assert part.complete
        assert kept
        alike(graph, wanted)


def test_pairs_that_new_samples_surpass_are_forgotten(tmp_path):
    """What is kept does not grow with the nights, but for equally far ones."""
    nights = Nights(tmp_path, (5, None))
    nights.grow(a=400)
    nights.fit()
    for _ in range(4):
        nights.grow(b=100)
        graph, _ = nights.fit()
    found = LastResult(tmp_path / "kept", tmp_path / "next").part("graph").start()
    by_row = np.bincount(found["samples"], minlength=800)
    farthest = graph.distances[:, -1]
    every = np.square(nights.points.points.coordinates[:, None] - nights.points.points.coordinates)
    near = np.rint(every.sum(axis=2)) <= farthest[:, None]
    assert by_row.sum() == near.sum() - 800  # all that are as near as the fifth, and no other


@pytest.mark.parametrize("kind", KINDS, ids=["neighbours", "radius"])
def test_what_is_of_other_rows_or_another_grid_is_not_used(tmp_path, monkeypatch, kind):
    nights = Nights(tmp_path, kind)
    nights.grow(a=200, b=200)
    nights.fit()
    nights.grow(c=5)
    screened, of = [], HalfDistances.of
    monkeypatch.setattr(HalfDistances, "of", lambda *given: screened.append(1) or of(*given))
    nights.pairs()
    assert not screened
    nights.pairs(tags={"a": RowTags(1, 200)})
    assert len(screened) == 1
    nights.pairs(system=replace(SYSTEM, scale=2.0))
    assert len(screened) == 2
    nights.asked = {key: value and value + 1 for key, value in nights.asked.items()}
    found = nights.pairs()
    assert len(screened) == 3
    alike(settled_graph(nights.points, {"server": found}, **nights.asked), nights.alone())


def test_pairs_that_are_not_all_listed_are_not_kept(tmp_path, monkeypatch):
    none = np.empty(0, np.int32)
    missing = NearPairs(none, none, np.empty(0, bool), 0)
    neighbours = Nights(tmp_path / "neighbours", (5, None))
    neighbours.grow(a=300)
    for found in ({}, {"server": missing}, {"server": neighbours.pairs(), "server-2": missing}):
        graph, kept = neighbours.fit(found)
        assert not kept
        alike(graph, neighbours.alone())
    radius = Nights(tmp_path / "radius", (None, 4.0))
    radius.grow(a=300)
    graph, kept = radius.fit({})
    assert kept
    n_pairs = sum(rows.size for rows, _ in graph)
    for most, is_kept in ((n_pairs, True), (n_pairs - 1, False)):
        monkeypatch.setattr(graphs, "_MOST", most)
        assert radius.fit({})[1] is is_kept


def test_a_fit_that_is_begun_again_starts_from_what_it_did(tmp_path):
    """Not from the pairs that it kept before it was broken off."""
    nights = Nights(tmp_path, (5, None))
    nights.grow(a=200, b=100)
    nights.fit()
    nights.grow(b=20)
    first = nights.pairs()
    nights.fit()
    again = nights.pairs()
    np.testing.assert_array_equal(first.samples, again.samples)
    np.testing.assert_array_equal(first.others, again.others)
