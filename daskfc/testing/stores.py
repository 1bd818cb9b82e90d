"""Conformance suite for stores: what holds wherever a client's store lies."""

import pickle
from collections.abc import Iterator

import fsspec
import numpy as np
import pytest

from daskfc.errors import InvalidInput, StoreError
from daskfc.stores import ClientStore, StoreWriter, store_exists, write_store


class PartyStoreTests:
    """Subclass it once per kind of URL; define the fixture `url`, a place with nothing there."""

    n_samples = 25
    n_features = 3
    chunk_rows = 4

    @pytest.fixture
    def rows(self) -> np.ndarray:
        """Return the samples that the tests write; exact in float32."""
        size = self.n_samples * self.n_features
        return (np.arange(size, dtype=np.float64) / 8).reshape(self.n_samples, self.n_features)

    @pytest.fixture
    def store(self, url: str, rows: np.ndarray) -> ClientStore:
        """Return a store with labels."""
        ids = [f"é{i}" for i in range(len(rows))]
        write_store(url, "client-1", rows, ids, np.arange(len(rows)), chunk_rows=self.chunk_rows)
        return ClientStore.open(url, verify=True)

    def blocks_that_break(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        """Yield half the rows, then fail as a source would."""
        yield rows[: len(rows) // 2]
        raise RuntimeError("the source broke off")

    def files(self, url: str) -> list[str]:
        """Return all files beside and below a URL."""
        fs, path = fsspec.core.url_to_fs(url)
        folder = path.rpartition("/")[0]
        return sorted(fs.find(folder)) if fs.exists(folder) else []

    def files_of(self, url: str, array: str) -> list[str]:
        """Return the files of an array's chunks."""
        return [key for key in self.files(url) if f"/{array}/c/" in key]

    def test_reads_what_was_written(self, store: ClientStore, rows: np.ndarray) -> None:
        """All parts come back, features as float64."""
        assert (store.n_samples, store.n_features) == rows.shape
        assert store.name == "client-1"
        assert store.feature_names == ("x0", "x1", "x2")
        np.testing.assert_array_equal(store.rows(0, len(rows)), rows)
        assert store.rows(0, 1).dtype == np.float64
        assert store.sample_ids().tolist() == [f"é{i}" for i in range(len(rows))]
        np.testing.assert_array_equal(store.labels(), np.arange(len(rows)))

    def test_any_range_of_rows(self, store: ClientStore, rows: np.ndarray) -> None:
        """Ranges need not fit chunks; outside the store they are refused."""
        for start in range(0, len(rows) + 1, 3):
            for stop in range(start, len(rows) + 1, 5):
                np.testing.assert_array_equal(store.rows(start, stop), rows[start:stop])
        with pytest.raises(InvalidInput, match="must lie in"):
            store.rows(0, len(rows) + 1)

    def test_blocks_cover_all_rows(self, store: ClientStore, rows: np.ndarray) -> None:
        """Blocks of any size are all rows in order."""
        for size in (None, 1, 7, 100):
            blocks = dict(store.blocks(size))
            np.testing.assert_array_equal(np.concatenate(list(blocks.values())), rows)
            assert list(blocks) == np.cumsum([0, *map(len, blocks.values())])[:-1].tolist()

    def test_dataset_is_lazy(self, store: ClientStore, rows: np.ndarray) -> None:
        """The xarray view loads what is indexed and holds no labels."""
        view = store.dataset()
        assert view["features"].dims == ("sample", "feature")
        assert not view["features"].variable._in_memory
        np.testing.assert_array_equal(view["features"][3:5].values, rows[3:5])
        assert view["sample_id"].values[1] == "é1"
        assert set(view.variables) == {"features", "sample_id", "feature"}

    def test_pickles_as_its_url(self, store: ClientStore, rows: np.ndarray) -> None:
        """A store travels without its samples."""
        data = pickle.dumps(store)
        assert len(data) < 300
        np.testing.assert_array_equal(pickle.loads(data).rows(2, 4), rows[2:4])

    def test_refuses_to_write_over(self, store: ClientStore, rows: np.ndarray) -> None:
        """What is there stays, unless asked."""
        with pytest.raises(StoreError, match="not written over unless asked"):
            write_store(store.url, "other", rows[:2], ["a", "b"])
        assert ClientStore.open(store.url, verify=True).n_samples == len(rows)
        write_store(store.url, "other", rows[:2], ["a", "b"], overwrite=True)
        again = ClientStore.open(store.url, verify=True)
        assert (again.name, again.n_samples, again.labels()) == ("other", 2, None)
        assert not any("partial" in key or "replaced" in key for key in self.files(store.url))

    def test_interrupted_build_leaves_nothing(self, url: str, rows: np.ndarray) -> None:
        """A source that breaks off leaves no file."""
        ids = [str(i) for i in range(len(rows))]
        with pytest.raises(RuntimeError, match="broke off"):
            write_store(url, "a", self.blocks_that_break(rows), ids, chunk_rows=4)
        assert not store_exists(url)
        assert self.files(url) == []
        write_store(url, "a", rows, ids)  # and the place is free again

    def test_interrupted_overwrite_keeps_the_old(
        self, store: ClientStore, rows: np.ndarray
    ) -> None:
        """The old store is whole when its successor breaks off."""
        ids = [str(i) for i in range(len(rows))]
        before = self.files(store.url)
        with pytest.raises(RuntimeError, match="broke off"):
            write_store(store.url, "a", self.blocks_that_break(rows), ids, overwrite=True)
        assert ClientStore.open(store.url, verify=True).name == "client-1"
        assert self.files(store.url) == before

    def test_killed_build_is_not_readable(self, url: str, rows: np.ndarray) -> None:
        """What a killed process leaves is refused."""
        writer = StoreWriter(url, "a", len(rows), rows.shape[1], chunk_rows=4)
        writer.append(rows, [str(i) for i in range(len(rows))])
        with pytest.raises(StoreError, match=r"half-written|no store"):
            ClientStore.open(url)
        writer.abort()

    def test_flipped_byte_is_noticed(self, store: ClientStore) -> None:
        """A damaged chunk is refused by every read that needs it, and by no other."""
        fs, _ = fsspec.core.url_to_fs(store.url)
        key = self.files_of(store.url, "features")[1]
        data = bytearray(fs.cat_file(key))
        data[len(data) // 2] ^= 1
        fs.pipe_file(key, bytes(data))
        damaged = ClientStore.open(store.url)
        damaged.rows(0, self.chunk_rows)
        with pytest.raises(StoreError, match=r"client 'client-1'.*checksum"):
            damaged.rows(0, damaged.n_samples)
        with pytest.raises(StoreError, match="checksum"):
            damaged.check()

    @pytest.mark.parametrize("array", ["features", "sample_id", "evaluation/labels"])
    def test_lost_chunk_is_noticed(self, store: ClientStore, array: str) -> None:
        """A chunk that is gone is no block of zeros."""
        fs, _ = fsspec.core.url_to_fs(store.url)
        fs.rm_file(self.files_of(store.url, array)[-1])
        with pytest.raises(StoreError, match=rf"client 'client-1': {array} has 6 of its 7 chunks"):
            ClientStore.open(store.url)

    def test_exchanged_chunks_are_noticed(self, store: ClientStore) -> None:
        """Chunks with right checksums in wrong places do not match the digest."""
        fs, _ = fsspec.core.url_to_fs(store.url)
        first, second = self.files_of(store.url, "features")[:2]
        one, two = fs.cat_file(first), fs.cat_file(second)
        fs.pipe_file(first, two)
        fs.pipe_file(second, one)
        with pytest.raises(StoreError, match=r"the content of .* is not what was written"):
            ClientStore.open(store.url, verify=True)

    def test_replaced_store_is_noticed(self, store: ClientStore, rows: np.ndarray) -> None:
        """An open store does not hand out the rows of its successor."""
        store.rows(0, 1)
        write_store(store.url, "client-1", rows + 1, store.sample_ids(), overwrite=True)
        with pytest.raises(StoreError, match="was replaced while it was in use"):
            store.rows(0, 1)
        assert ClientStore.open(store.url).digest != store.digest

    def test_missing_store(self, url: str) -> None:
        """A place with nothing is refused."""
        with pytest.raises(StoreError, match="no store of a client is there"):
            ClientStore.open(url)
