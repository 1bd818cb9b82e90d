import dataclasses
import re
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskfc.coding import LagrangeCode, ResidueSystem
from daskfc.errors import InvalidInput, ResourceRefused
from daskfc.federation.party.process_memory import PROCESS_BYTES, USABLE
from daskfc.pairwise import DistanceTiles, NeighbourTiles, RadiusTiles, SymmetricGrid
from daskfc.secure.distances.sizing.landmark_memory import landmark_needs, view_bytes
from daskfc.secure.distances.sizing.memory import (
    COMFORT,
    NOBODY,
    Reader,
    Workload,
    check,
    choose_tile,
    needs,
)
from daskfc.secure.distances.sizing.sizing import Sizing

MNIST = Workload(70_000, 784, 2, 4, 7, mode="neighbours", n_neighbors=10)
GB = 1_000_000_000


def test_numbers_of_full_mnist():
    # exact-distance.md: 9.8 GB per share for the upper triangle, 110 MB of shares per evaluator
    need = needs(MNIST, 2048)
    assert need.wire_bytes == 7 * 4 * (70_000 * 392 + SymmetricGrid(70_000, 2048).n_entries)
    assert 0.10 * GB < need.evaluator_bytes - PROCESS_BYTES - 4 * 70_000 * 392 < 0.2 * GB
    assert 2 * 7 * 4 * 2048**2 < need.server_bytes - PROCESS_BYTES < 0.5 * GB
    check(need, {"server": 2 * GB, "client-1": 2 * GB}, free_disk=GB)
    assert choose_tile(MNIST, evaluator_limit=2 * GB, server_limit=2 * GB) == 2048


@pytest.mark.parametrize("mode", ["full", "neighbours", "radius"])
@pytest.mark.parametrize(("n", "tile"), [(53, 16), (16, 16), (10, 16)])
def test_disk_is_what_the_arrays_hold_before_compression(mode, n, tile, tmp_path):
    grid = SymmetricGrid(n, tile)
    path = str(tmp_path / "a")
    if mode == "full":
        array = DistanceTiles.create(path, grid)._distances
        chunks = grid.n_blocks
    elif mode == "neighbours":
        array = NeighbourTiles.create(path, grid, 5)._candidates
        chunks = grid.n_panels**2
    else:
        array = RadiusTiles.create(path, grid, 1.0)._within
        chunks = grid.n_blocks
    size = array.dtype.itemsize
    for side in array.chunks:
        size *= side
    k = 5 if mode == "neighbours" else None
    work = Workload(n, 3, 2, 3, 7, mode=mode, n_neighbors=k)
    assert needs(work, tile).server_disk_bytes == size * chunks


@given(
    n=st.integers(1, 10**6),
    d=st.integers(1, 5000),
    r=st.integers(1, 6),
    K=st.integers(3, 40),
    tile=st.integers(64, 2048),
)
def test_needs_grow_with_everything(n, d, r, K, tile):
    work = Workload(n, d, 2, r, K, mode="full")
    base = needs(work, tile)
    more = [
        needs(dataclasses.replace(work, **{name: getattr(work, name) + 1}), tile)
        for name in ("n_samples", "n_features", "n_primes", "n_answers", "window")
    ]
    more.append(needs(work, tile + 1))
    more.append(needs(dataclasses.replace(work, residue_bytes=4), tile))
    for other in more[:-2] + more[-1:]:
        for name in ("evaluator_bytes", "server_bytes", "wire_bytes", "server_disk_bytes"):
            assert getattr(other, name) >= getattr(base, name)
    assert more[-2].evaluator_bytes >= base.evaluator_bytes


@given(
    n=st.integers(1, 200_000),
    evaluator=st.integers(5 * 10**8, 4 * GB),
    server=st.integers(5 * 10**8, 4 * GB),
    k=st.integers(1, 100),
)
def test_the_chosen_tile_fits_and_no_larger_one_does_with_ease(n, evaluator, server, k):
    work = Workload(n, 100, 2, 4, 7, mode="neighbours", n_neighbors=k)

    def share(tile):
        need = needs(work, tile)
        return max(need.evaluator_bytes / evaluator, need.server_bytes / server)

    tiles = [64 * i for i in range(1, 33) if 64 * i < n + 64]
    try:
        tile = choose_tile(work, evaluator_limit=evaluator, server_limit=server)
    except ResourceRefused:
        assert all(share(t) > USABLE for t in tiles)
        return
    assert tile in tiles
    assert share(tile) <= USABLE
    if share(tile) <= COMFORT:
        assert all(share(t) > COMFORT for t in tiles if t > tile)
    else:
        assert all(share(t) >= share(tile) for t in tiles)


def test_refusals_name_party_operation_both_numbers_and_the_way_out():
    need = needs(MNIST, 2048)
    pattern = (
        r"exact graph of 10 neighbours of 70000 samples with 784 features would take 0\.\d\d GB of "
        r"memory at party 'client-2' with tiles of 2048 rows, more than the 0\.36 GB it may use "
        r"\(91% of its limit of 0\.40 GB\)\. Raise its memory limit, lower the tile"
    )
    with pytest.raises(ResourceRefused, match=pattern):
        check(need, {"server": None, "client-1": 2 * GB, "client-2": 4 * GB // 10})
    with pytest.raises(ResourceRefused, match="at party 'hub'"):
        check(need, {"hub": GB // 2}, server="hub")
    disk = re.escape(f"{need.server_disk_bytes / 1e9:.2f} GB of disk at party 'server', more than")
    with pytest.raises(ResourceRefused, match=disk):
        check(need, {}, free_disk=need.server_disk_bytes - 1)
    check(need, {}, free_disk=need.server_disk_bytes)


def test_what_the_clusterer_reads_at_once_is_refused_before_the_run():
    work = dataclasses.replace(MNIST, mode="full", n_neighbors=None)
    check(needs(work, 2048), {"server": 4 * GB})
    reader = Reader("k-medoids", memory=2 * 8 * 70_000**2)
    need = needs(dataclasses.replace(work, reader=reader), 2048)
    said = r"exact distances .*, and k-medoids on them, would take 78\.82"
    with pytest.raises(ResourceRefused, match=said):
        check(need, {"server": 4 * GB})


def test_all_distances_are_held_where_the_usable_part_of_the_limit_has_room():
    class Parties:
        def limits(self):
            return {"server": GB}

    code, system = LagrangeCode(1, 1, 3), ResidueSystem((251, 241), scale=1.0, bound=30_000)
    sizing = Sizing(Parties(), code, system, 5000, 20, ("a", "b", "c"), None)
    room = int(USABLE * GB) - PROCESS_BYTES - 5000 * 20 * 8
    assert sizing.holds(Reader("k-medoids", memory=room))
    assert not sizing.holds(Reader("k-medoids", memory=room + 1))


def test_what_the_clusterer_writes_is_refused_before_the_run():
    work = dataclasses.replace(MNIST, mode="full", n_neighbors=None)
    more = dataclasses.replace(work, reader=Reader("hierarchical", disk=8 * 70_000**2))
    disk = needs(more, 2048).server_disk_bytes
    assert disk == needs(work, 2048).server_disk_bytes + 8 * 70_000**2
    with pytest.raises(ResourceRefused, match="GB of disk at party 'server'"):
        check(needs(more, 2048), {}, free_disk=disk - 1)


def test_no_tile_fits():
    with pytest.raises(
        ResourceRefused, match=r"0.50 GB of memory at party .an evaluator. with tiles of \d+ rows"
    ):
        choose_tile(MNIST, evaluator_limit=GB // 2)


def test_small_data_get_one_panel():
    assert choose_tile(Workload(150, 4, 2, 3, 7, mode="full")) == 192
    assert choose_tile(Workload(3, 4, 2, 3, 7, mode="full")) == 64


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"n_samples": 0},
            "'n_samples' parameter of Workload must be a whole number of at least 1; got 0",
        ),
        ({"mode": "rows"}, "one of 'full', 'neighbours', 'radius'; got 'rows'"),
        ({"n_neighbors": None}, "must be given with mode 'neighbours'"),
        ({"mode": "full"}, "and with no other; got 10 with mode 'full'"),
        (
            {"mode": "radius", "n_neighbors": None, "reader": Reader("ward")},
            "must be left out with mode 'radius'",
        ),
        ({"residue_bytes": 2}, "one of 1, 4; got 2"),
    ],
)
def test_workloads_are_checked(change, said):
    with pytest.raises(InvalidInput, match=said):
        dataclasses.replace(MNIST, **change)


@pytest.mark.slow
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("tile", [256, 1024])
@pytest.mark.parametrize("mode", ["neighbours", "radius", "full"])
def test_memory_stays_within_the_plan(mode, tile, ties, tmp_path):
    grid = SymmetricGrid(2 * tile + 300, tile)
    X = np.random.default_rng(0).standard_normal((grid.n, 50))
    k = 10 if mode == "neighbours" else None
    reader = Reader("all of them", memory=8 * grid.n**2) if mode == "full" else NOBODY
    work = Workload(grid.n, 50, 2, 1, 1, mode=mode, n_neighbors=k, reader=reader, window=1)
    path = str(tmp_path / "a")
    if mode == "neighbours":
        tiles = NeighbourTiles.create(path, grid, 10)
        last = tiles.graph
    elif mode == "radius":
        tiles = RadiusTiles.create(path, grid, 100.0)
        last = lambda: [len(rows) for rows, _ in tiles.edges()]  # noqa: E731
    else:
        tiles = DistanceTiles.create(path, grid)
        last = tiles.full
    tracemalloc.start()
    try:
        for i, j in grid.blocks():
            a, b = X[grid.panel(i)], X[grid.panel(j)]
            block = a @ b.T
            np.subtract((a * a).sum(1)[:, None] + (b * b).sum(1), 2 * block, out=block)
            np.abs(block, out=block)
            if ties:
                block[:] = 1.0
            tracemalloc.reset_peak()
            tiles.write(i, j, block)
            _, peak = tracemalloc.get_traced_memory()
            assert peak <= needs(work, grid.tile).server_bytes - PROCESS_BYTES
        del block
        tracemalloc.reset_peak()
        last()
        _, peak = tracemalloc.get_traced_memory()
        assert peak <= needs(work, grid.tile).server_bytes - PROCESS_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("keep", "n_neighbors"), [("neighbours", 10), ("radius", None)])
def test_columns_of_mnist_fit_two_gigabytes(keep, n_neighbors):
    """With the default code of ten clients; else all pairs would be computed."""
    need = landmark_needs(
        n_samples=70_000, n_features=784, n_segments=1, n_primes=4, n_answers=6, residue_bytes=1,
        panel=8192, batch=128, window=3, kept_bytes=4,
        view_bytes=view_bytes(keep, 70_000, n_neighbors),
    )  # fmt: skip
    check(need, {"server": 2_000_000_000, "client-1": 2_000_000_000})


def test_coordinates_of_a_million_samples_fit_two_gigabytes():
    """With 64 features; the whole of k-means on them took 1.53 GB."""
    need = landmark_needs(
        n_samples=1_000_000, n_features=64, n_segments=1, n_primes=3, n_answers=6, residue_bytes=1,
        panel=8192, batch=65, window=3,
    )  # fmt: skip
    check(need, {"server": 2_000_000_000, "client-1": 2_000_000_000})
    assert 1.4e9 < need.server_bytes < 1.6e9


@pytest.mark.parametrize(
    ("n", "d", "rank", "bound", "count"),
    [
        (1_797, 64, 0, 2**20, 81),  # sixteen beyond the rank, since some lie in the span of others
        (1_797, 64, 60, 2**20, 21),
        (10_000, 784, 0, 2**30, 209),  # as many as have two million distances
        (70_000, 784, 0, 2**30, 128),
        (1_000_000, 2, 0, 2**30, 3),
        (1_000, 3, 0, 2**40, 12),  # spares where residues may be needed
    ],
)
def test_few_samples_take_few_rounds_of_landmarks(n, d, rank, bound, count):
    known = SimpleNamespace(_n_samples=n, _n_features=d, _system=SimpleNamespace(bound=bound))
    assert Sizing.landmarks(known, rank) == count
