"""What all three kinds of tiles promise of their folder."""

import pickle
import shutil

import numpy as np
import pytest
import zarr

from daskfc.errors import StoreError
from daskfc.pairwise import DistanceTiles, NeighbourTiles, RadiusTiles, SymmetricGrid
from tests.faults import tears
from tests.oracles import pairwise as oracle

KINDS = {
    "distances": (DistanceTiles, {}, "_distances"),
    "neighbours": (NeighbourTiles, {"n_neighbors": 4}, "_candidates"),
    "radius": (RadiusTiles, {"radius2": 3.0}, "_within"),
}
GRID = SymmetricGrid(53, 16)


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


def result(tiles):
    if isinstance(tiles, DistanceTiles):
        return [tiles.full()]
    if isinstance(tiles, NeighbourTiles):
        return [tiles.graph().indices, tiles.graph().distances]
    return [np.concatenate(ends) for ends in zip(*tiles.edges(), strict=True)]


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(result(a), result(b), strict=True))


def test_reopened_and_pickled_tiles_go_on(kind, tmp_path, points, write_all):
    cls, settings, _ = kind
    D = oracle.distances(points)
    blocks = list(GRID.blocks())
    tiles = cls.create(str(tmp_path / "a"), GRID, **settings)
    write_all(tiles, D, blocks[:4])
    again = pickle.loads(pickle.dumps(tiles))
    assert again.done() == set(blocks[:4])
    assert again.missing() == blocks[4:]
    write_all(again, D, blocks[4:])
    assert tiles.done() == set(blocks)  # what another object wrote is seen
    whole = write_all(cls.create(str(tmp_path / "b"), GRID, **settings), D)
    assert same(tiles, whole)


@pytest.mark.few(8)
@pytest.mark.parametrize("n_writes", range(8))
def test_killed_at_any_write(kind, n_writes, tmp_path, points, write_all, kill_after):
    cls, settings, payload = kind
    D = oracle.distances(points)
    path = str(tmp_path / "a")
    tiles = cls.create(path, GRID, **settings)
    killed = kill_after(tiles, payload, n_writes)
    with pytest.raises(killed):
        write_all(tiles, D, [(0, 1), (0, 0), (0, 2), (2, 3)])
    again = cls.create(path, GRID, **settings)
    assert len(again.done()) < 4
    write_all(again, D, again.missing())
    whole = write_all(cls.create(str(tmp_path / "b"), GRID, **settings), D)
    assert same(again, whole)


def test_half_a_chunk_without_marker_is_written_again(kind, tmp_path, points, write_all):
    cls, settings, payload = kind
    D = oracle.distances(points)
    tiles = cls.create(str(tmp_path / "a"), GRID, **settings)
    write_all(tiles, D, [(0, 1)])
    shutil.rmtree(tmp_path / "a" / "done" / "c")
    for chunk in (tmp_path / "a" / payload[1:] / "c").rglob("*"):
        if chunk.is_file():
            chunk.write_bytes(chunk.read_bytes()[:7])
    again = cls.open(str(tmp_path / "a"))
    assert not again.done()
    write_all(again, D)
    whole = write_all(cls.create(str(tmp_path / "b"), GRID, **settings), D)
    assert same(again, whole)


def test_a_done_block_is_not_written_again(kind, tmp_path, points):
    cls, settings, _ = kind
    D = oracle.distances(points)
    tiles = cls.create(str(tmp_path / "a"), GRID, **settings)
    block = D[GRID.panel(0), GRID.panel(1)]
    tiles.write(0, 1, block)
    before = {f: f.stat().st_mtime_ns for f in tmp_path.rglob("*") if f.is_file()}
    tiles.write(0, 1, block)
    assert before == {f: f.stat().st_mtime_ns for f in tmp_path.rglob("*") if f.is_file()}


def test_corrupt_and_lost_chunks_are_named(kind, tmp_path, points, write_all):
    cls, settings, payload = kind
    path = str(tmp_path / "a")
    write_all(cls.create(path, GRID, **settings), oracle.distances(points))
    chunk = next(f for f in (tmp_path / "a" / payload[1:] / "c").rglob("*") if f.is_file())
    good = chunk.read_bytes()
    chunk.write_bytes(good[:-6] + bytes(6))
    with pytest.raises(StoreError, match="corrupt"):
        result(cls.open(path))
    chunk.unlink()
    with pytest.raises(StoreError, match=r"is lost|does not hold the \d+ pairs"):
        result(cls.open(path))


def files_of(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.mark.few(8)
@tears
@pytest.mark.parametrize("what", ["payload", "marker"])
def test_a_torn_block_is_written_again(kind, what, tear, tmp_path, points, write_all):
    cls, settings, payload = kind
    D, path = oracle.distances(points), tmp_path / "a"
    whole = write_all(cls.create(str(tmp_path / "b"), GRID, **settings), D)
    write_all(cls.create(str(path), GRID, **settings), D)
    folder = path / ("done" if what == "marker" else payload[1:]) / "c"
    for file in files_of(folder)[::3]:
        tear(file)
    again = cls.create(str(path), GRID, **settings)
    missing = again.missing()
    assert 0 < len(missing) < GRID.n_blocks
    assert cls.open(str(path)).missing() == missing  # for every other process as well
    write_all(again, D, missing)
    assert same(again, whole)


@tears
@pytest.mark.parametrize("what", ["payload", "marker"])
def test_a_torn_block_that_is_read_is_refused(kind, what, tear, tmp_path, points, write_all):
    cls, settings, payload = kind
    write_all(cls.create(str(tmp_path / "a"), GRID, **settings), oracle.distances(points))
    folder = tmp_path / "a" / ("done" if what == "marker" else payload[1:]) / "c"
    for file in files_of(folder):
        tear(file)
    with pytest.raises(StoreError, match=r"corrupt|is lost|does not hold|blocks are missing"):
        result(cls.open(str(tmp_path / "a")))


def test_unfinished_tiles_are_refused(kind, tmp_path, points, write_all):
    cls, settings, _ = kind
    tiles = cls.create(str(tmp_path / "a"), GRID, **settings)
    write_all(tiles, oracle.distances(points), [(0, 1)])
    with pytest.raises(StoreError, match="9 of 10 blocks are missing"):
        result(tiles)


def test_only_a_group_with_the_same_settings_is_gone_on_with(kind, tmp_path, points, write_all):
    cls, settings, _ = kind
    path = str(tmp_path / "a")
    with pytest.raises(StoreError, match=f"holds no {cls.kind}"):
        cls.open(path)
    assert not (tmp_path / "a").exists()
    write_all(cls.create(path, GRID, **settings), oracle.distances(points), [(0, 1)])
    assert cls.create(path, GRID, **settings).done() == {(0, 1)}
    wrong = next(other for other, _, _ in KINDS.values() if other is not cls)
    with pytest.raises(StoreError, match=f"holds no {wrong.kind}"):
        wrong.open(path)
    assert not cls.create(path, SymmetricGrid(53, 8), **settings).done()


def test_a_creation_cut_short_is_begun_anew(kind, tmp_path, monkeypatch):
    cls, settings, payload = kind
    path = str(tmp_path / "a")
    real = zarr.Group.create_array

    def create_array(self, name, **keywords):
        if name == payload[1:]:
            raise KeyboardInterrupt
        return real(self, name, **keywords)

    monkeypatch.setattr(zarr.Group, "create_array", create_array)
    with pytest.raises(KeyboardInterrupt):
        cls.create(path, GRID, **settings)
    monkeypatch.undo()
    with pytest.raises(StoreError, match="holds no"):
        cls.open(path)
    assert not cls.create(path, GRID, **settings).done()
