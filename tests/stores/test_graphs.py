"""Graphs in stores, columns dealt to clients: exact round trips, streams, refusals."""

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from daskfc.errors import InvalidInput, StoreError
from daskfc.seeds import generator
from daskfc.stores import ClientStore, load_storage, write_store
from daskfc.stores.layout.graph import checked_graph, neighbour_graph, split_edges
from tests.conftest import DATA, needs_data


def random_graph(n, seed, *, loops=True, weighted=True):
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n, n)) < 0.3, 0 if loops else 1).astype(float)
    if weighted:
        upper *= rng.uniform(0.5, 2.0, (n, n))
    return sparse.csr_array(upper + np.triu(upper, 1).T)


def stored(folder, graph, n=12, **options):
    url = str(folder / "a.zarr")
    ids = [str(i) for i in range(n)]
    write_store(url, "a", np.ones((n, 2)), ids, graph=graph, overwrite=True, **options)
    return ClientStore.open(url, verify=True)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_a_graph_comes_back_as_it_was(tmp_path, weighted, seed):
    graph = random_graph(12, seed, weighted=weighted)
    store = stored(tmp_path, graph)
    assert store.has_graph
    np.testing.assert_array_equal(store.graph().toarray(), graph.toarray())
    assert store.n_edges == np.count_nonzero(np.triu(graph.toarray()))
    for rows in (1, 5, 12, 100):
        blocks = list(store.graph_blocks(rows))
        assert [start for start, _ in blocks] == list(range(0, 12, rows))
        np.testing.assert_array_equal(
            sparse.vstack([b for _, b in blocks]).toarray(), graph.toarray()
        )


def test_no_graph_and_no_edges(tmp_path):
    bare = stored(tmp_path, None)
    assert (bare.has_graph, bare.graph(), bare.n_edges) == (False, None, 0)
    with pytest.raises(StoreError, match=r"'a': the store .* has no graph"):
        bare.graph_blocks()
    empty = stored(tmp_path, sparse.csr_array((12, 12)))
    assert (empty.has_graph, empty.graph().nnz, empty.n_edges) == (True, 0, 0)


@pytest.mark.parametrize(
    ("graph", "match"),
    [
        (sparse.csr_array((11, 11)), "must have as many rows and columns; got 11 x 11"),
        (sparse.csr_array(np.triu(np.ones((12, 12)))), "must be symmetric; 132 entries"),
        (sparse.csr_array(np.full((12, 12), -1.0)), "at least 0; 144 are not"),
        (sparse.csr_array(np.full((12, 12), np.nan)), "must be finite"),
    ],
)
def test_graphs_that_are_none(tmp_path, graph, match):
    with pytest.raises(StoreError, match=f"client 'a': .*{match}"):
        stored(tmp_path, graph)
    assert not (tmp_path / "a.zarr").exists()


@pytest.mark.parametrize("name", ["indices", "indptr", "weights"])
def test_a_damaged_graph_is_found(tmp_path, name):
    store = stored(tmp_path, random_graph(12, 0))
    chunk = next((tmp_path / "a.zarr" / "graph" / name / "c").iterdir())
    content = bytearray(chunk.read_bytes())
    content[len(content) // 2] ^= 1
    chunk.write_bytes(content)
    with pytest.raises(StoreError, match=r"does not match its checksum"):
        store.graph()
    chunk.unlink()
    with pytest.raises(StoreError, match=f"graph/{name} has 0 of its 1 chunks"):
        ClientStore.open(store.url)


def test_another_graph_than_was_written_is_found(tmp_path):
    """It is a graph, and each chunk has its checksum."""
    store = stored(tmp_path, 2 * random_graph(12, 0))
    weights = zarr.open_group(store.url, mode="r+")["graph/weights"]
    weights[:] = weights[:] / 2
    with pytest.raises(StoreError, match=r"'a': the graph of .* is not what was written there"):
        ClientStore.open(store.url, verify=True)


@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_split_edges_sum_to_the_whole(seed, clients):
    graph = random_graph(9, seed % 100)
    parts = split_edges(graph, clients, seed)
    np.testing.assert_array_equal(sum(part.toarray() for part in parts), graph.toarray())
    for part in parts:
        checked_graph(part, 9, "a")
    edges = [np.count_nonzero(np.triu(part.toarray())) for part in parts]
    assert max(edges) - min(edges) <= 1


def edges_of(graph):
    rows, columns = np.nonzero(np.triu(graph.toarray()))
    return set(zip(rows.tolist(), columns.tolist(), strict=True))


@given(
    st.integers(0, 2**32 - 1),
    st.integers(0, 12),
    st.integers(1, 6),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_shares_of_a_split_graph(seed, n, clients, low, high):
    graph = random_graph(n, seed % 100)
    whole, dense = edges_of(graph), graph.toarray()
    shares = sorted(1 / clients + part * (1 - 1 / clients) for part in (low, high))
    held = {share: split_edges(graph, clients, seed, share) for share in shares}
    for share, parts in held.items():
        for part in parts:
            checked_graph(part, n, "a")
            np.testing.assert_array_equal(
                part.toarray()[part.toarray() > 0], dense[part.toarray() > 0]
            )
        sizes = [len(edges_of(part)) for part in parts]
        assert max(sizes) - min(sizes) <= 1
        assert max(abs(size - share * len(whole)) for size in sizes) <= 1
        assert set().union(*map(edges_of, parts)) == whole
        holders = [sum(edge in edges_of(part) for part in parts) for edge in whole]
        assert not whole or max(holders) - min(holders) <= 1
    for less, more in zip(*held.values(), strict=True) if len(held) == 2 else ():
        assert edges_of(less) <= edges_of(more)


@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_the_ends_of_the_shares(seed, clients):
    graph = random_graph(9, seed % 100)
    for part, least in zip(
        split_edges(graph, clients, seed),
        split_edges(graph, clients, seed, 1 / clients),
        strict=True,
    ):
        np.testing.assert_array_equal(part.toarray(), least.toarray())
    for part in split_edges(graph, clients, seed, 1.0):
        np.testing.assert_array_equal(part.toarray(), graph.toarray())


def test_a_split_is_the_same_in_every_version():
    parts = split_edges(random_graph(6, 0, weighted=False), 2, 0)
    owners = generator(0, "edges").permutation(np.arange(sum(len(edges_of(p)) for p in parts)) % 2)
    whole = sorted(edges_of(parts[0]) | edges_of(parts[1]))
    assert [int(edge in edges_of(parts[1])) for edge in whole] == owners.tolist()


@pytest.mark.parametrize("share", [0.0, 0.2, 1.01, -1.0, float("nan")])
def test_shares_that_are_none(share):
    with pytest.raises(StoreError, match=r"must be in \[1/4, 1\] with 4 clients.*; got "):
        split_edges(random_graph(6, 0), 4, 0, share)


def test_neighbours_are_those_of_brute_force():
    X = np.random.default_rng(0).normal(size=(40, 3))
    D = ((X[:, None] - X) ** 2).sum(-1)
    np.fill_diagonal(D, np.inf)
    near = np.zeros((40, 40), bool)
    near[np.arange(40)[:, None], np.argsort(D, axis=1)[:, :4]] = True
    found = neighbour_graph(X, 4, "a").toarray()
    np.testing.assert_array_equal(found, near | near.T)
    with pytest.raises(StoreError, match=r"must be in \[1, 39\]"):
        neighbour_graph(X, 40, "a")


# -- vertical partitions ---------------------------------------------------------------------------


def vertical(tmp_path, clients=3, **partition):
    storage = load_storage(
        {
            "source": {"dataset": "iris", "graph": {"neighbours": 3}},
            "partition": {"scheme": "vertical", "clients": clients, **partition},
            "layout": {"dtype": "float64"},
            "root": str(tmp_path / "stores"),
        }
    )
    storage.build()
    return storage, storage.open(verify=True)


@pytest.mark.parametrize("columns", ["contiguous", "random"])
def test_columns_are_dealt_once(tmp_path, columns):
    storage, stores = vertical(tmp_path, columns=columns)
    whole = ClientStoreOfAll(storage)
    names = [name for store in stores.values() for name in store.feature_names]
    assert sorted(names) == sorted(whole.names)
    assert columns == "random" or names == list(whole.names)
    for store in stores.values():
        at = [whole.names.index(name) for name in store.feature_names]
        np.testing.assert_array_equal(store.rows(0, 150), whole.X[:, at])
        np.testing.assert_array_equal(store.sample_ids(), np.arange(150).astype(str))
        np.testing.assert_array_equal(store.labels(), whole.y)
        np.testing.assert_array_equal(store.graph().toarray(), whole.graph.toarray())
    assert [row["edges"] for row in storage.inspect()] == [stores["client-1"].n_edges] * 3


class ClientStoreOfAll:
    def __init__(self, storage):
        from sklearn.datasets import load_iris

        bunch = load_iris()
        self.X, self.y, self.names = bunch.data, bunch.target, [str(n) for n in bunch.feature_names]
        self.graph = neighbour_graph(self.X, 3, "iris")


def test_split_graphs(tmp_path):
    _, stores = vertical(tmp_path, graph="split")
    whole = neighbour_graph(np.hstack([s.rows(0, 150) for s in stores.values()]), 3, "iris")
    parts = sum(store.graph().toarray() for store in stores.values())
    np.testing.assert_array_equal(parts, whole.toarray())


def test_shared_graphs(tmp_path):
    storage, stores = vertical(tmp_path, clients=2, graph="split", graph_share=0.7)
    whole = ClientStoreOfAll(storage).graph
    held = [edges_of(store.graph()) for store in stores.values()]
    assert held[0] | held[1] == edges_of(whole)
    assert {len(edges) for edges in held} == {round(0.7 * len(edges_of(whole)))}


@pytest.mark.parametrize(
    ("extra", "match"),
    [
        ({"graph_share": 0.7}, "'graph_share' means something to 'graph: split' only"),
        ({"graph": "all", "graph_share": 0.7}, "'graph: split' only"),
        ({"graph": "split", "graph_share": 0.2}, r"must be in \[1/3, 1\], for .* got 0.2"),
        ({"graph": "split", "graph_share": 1.1}, "graph_share"),
        ({"scheme": "iid", "graph_share": 0.7}, "scheme 'iid' has no key 'graph_share'"),
    ],
)
def test_shares_in_storage_files(extra, match):
    partition = {"scheme": "vertical", "clients": 3, **extra}
    with pytest.raises(InvalidInput, match=match):
        load_storage({"source": {"dataset": "iris"}, "partition": partition})


@pytest.mark.parametrize(
    ("source", "partition", "match"),
    [
        ({}, {"scheme": "vertical", "clients": 5}, "4 features to one client; got 5 clients"),
        ({}, {"scheme": "vertical", "clients": 2, "graph": "all"}, "the source has no graph"),
        ({"graph": {"neighbours": 2}}, {"scheme": "iid", "clients": 2}, "use scheme 'vertical'"),
    ],
)
def test_deals_that_do_not_go(tmp_path, source, partition, match):
    storage = load_storage({"source": {"dataset": "iris", **source}, "partition": partition})
    with pytest.raises(StoreError, match=match):
        storage.build(str(tmp_path / "stores"))
    assert not (tmp_path / "stores").exists()


@pytest.mark.parametrize(
    "extra", [{"scheme": "iid", "columns": "random"}, {"scheme": "vertical", "skew": 0.5}]
)
def test_keys_of_another_scheme(extra):
    with pytest.raises(InvalidInput, match="has no key"):
        load_storage({"source": {"dataset": "iris"}, "partition": {"clients": 2, **extra}})


@needs_data
@pytest.mark.parametrize(("name", "edges"), [("cora", 5278), ("pubmed", 44_324 + 3)])
def test_citations(tmp_path, monkeypatch, name, edges):
    monkeypatch.setenv("DASKFC_DATA", str(DATA))
    storage = load_storage(
        {
            "source": {"path": str(DATA / f"{name}.npz")},
            "partition": {"scheme": "vertical", "clients": 2},
        }
    )
    storage.build(str(tmp_path))
    stores = storage.open(str(tmp_path))
    assert {store.n_edges for store in stores.values()} == {edges}
