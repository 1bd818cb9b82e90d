"""Chunks that expand beyond what their shape holds, by every codec, are refused before they do."""

import gzip
import json
import subprocess
import sys
import warnings
import zipfile
import zlib
from pathlib import Path

import google_crc32c
import numcodecs
import numpy as np
import pytest
import zarr
import zarr.codecs as codecs
from scipy import sparse

from daskfc.errors import StoreError
from daskfc.stores import ClientStore, write_store
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.layout.chunk_sizes import _declared, bounded
from daskfc.stores.sources.readers import open_source
from daskfc.stores.store.clusters import read_clusters, write_clusters

GIB = 1 << 30
X = np.random.default_rng(0).normal(size=(57, 5))
WORDS = np.array([f"é{i}" for i in range(57)], dtype=object)
ZSTD = b"\x28\xb5\x2f\xfd"


def repeated(size):
    """The blocks of a frame of zstd that stand for so many zeros."""
    blocks = bytearray()
    while size > 0:
        part = min(size, 1 << 17)
        size -= part
        blocks += (part << 3 | 1 << 1 | (size == 0)).to_bytes(3, "little") + b"\0"
    return bytes(blocks)


def declared(size):
    return ZSTD + b"\x80\x38" + size.to_bytes(4, "little") + repeated(size)


def undeclared(size):
    return ZSTD + b"\x00\x38" + repeated(size)


def lying(size):
    return ZSTD + b"\x80\x38" + (128).to_bytes(4, "little") + repeated(size)


def several(size):
    return declared(128) + declared(size)


def hidden(size):
    """A frame that is skipped, and then the large one."""
    return b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"1234" + declared(size)


def gzipped(size):
    return gzip.compress(bytes(1 << 24)) * (size >> 24)


def blosced(size):
    chunk = bytearray(numcodecs.Blosc().encode(np.zeros(128, np.uint8)))
    chunk[4:8] = size.to_bytes(4, "little")
    return bytes(chunk)


def deflated(size):
    stream, zeros = zlib.compressobj(1), bytes(1 << 24)
    return b"".join(stream.compress(zeros) for _ in range(size >> 24)) + stream.flush()


BOMBS = {
    "zstd": [declared, undeclared, lying, several, hidden],
    "gzip": [gzipped],
    "blosc": [blosced],
    "zlib": [deflated],
    "lz4": [lambda size: size.to_bytes(4, "little") + bytes(20)],
}
V3 = {
    "zstd": codecs.ZstdCodec,
    "gzip": codecs.GzipCodec,
    "blosc": codecs.BloscCodec,
    "zlib": codecs.Zlib,
    "lz4": codecs.LZ4,
}
V2 = {
    "zstd": numcodecs.Zstd,
    "gzip": numcodecs.GZip,
    "blosc": numcodecs.Blosc,
    "zlib": numcodecs.Zlib,
    "lz4": numcodecs.LZ4,
}


@pytest.fixture(autouse=True)
def _numcodecs_in_zarr_3():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Numcodecs codecs are not in the Zarr version 3")
        yield


def source_of(folder, name, version, compressor, data, **more):
    """A Zarr array of another program, and where the file of its first chunk lies."""
    path = folder / f"{name}-{version}.zarr"
    array = zarr.create_array(
        str(path), data=data, chunks=(len(data), *data.shape[1:]), compressors=compressor,
        zarr_format=version, **more,
    )  # fmt: skip
    return str(path), path / ("c/0/0" if version == 3 else "0.0"), array


def features_of(path):
    (block,) = open_source(SourceConfig(path=path)).blocks(100)
    return block


def checksummed(data):
    return data + google_crc32c.value(data).to_bytes(4, "little")


def own_store(folder):
    store = str(folder / "own.zarr")
    graph = sparse.csr_array(np.ones((4, 4)))
    write_store(store, "a", np.arange(16.0).reshape(4, 4), list("abcd"), [0, 1, 0, 1], graph=graph)
    write_clusters(ClientStore.open(store), "night", np.zeros((4, 1), np.int64), ["cluster"])
    return store


READS = {
    "features/c/0/0": lambda store: store.rows(0, 1),
    "sample_id/c/0": lambda store: store.sample_ids(),
    "evaluation/labels/c/0": lambda store: store.labels(),
    "graph/indices/c/0": lambda store: store.graph(),
    "clusters/night/c/0/0": lambda store: read_clusters(store, "night"),
}


def refusals(folder, size):
    """What each chunk of `size` zeros is refused with, or "" where it is read."""
    said = {}

    def tried(name, read):
        try:
            read()
            said[name] = ""
        except StoreError as error:
            said[name] = str(error)

    path = own_store(folder)
    for place, read in READS.items():
        for bomb in BOMBS["zstd"]:
            good = (folder / "own.zarr" / place).read_bytes()
            (folder / "own.zarr" / place).write_bytes(checksummed(bomb(size)))
            tried(f"{place} {bomb.__name__}", lambda read=read: read(ClientStore.open(path)))
            (folder / "own.zarr" / place).write_bytes(good)
    for version, kinds in ((2, V2), (3, V3)):
        for name, kind in kinds.items():
            path, chunk, _ = source_of(folder, name, version, kind(), X)
            for bomb in BOMBS[name]:
                chunk.write_bytes(bomb(size))
                tried(f"{version} {name} {bomb.__name__}", lambda path=path: features_of(path))
    return said


if __name__ == "__main__":  # of the test below: with no room for what a chunk stands for
    import pathlib
    import resource

    warnings.filterwarnings("ignore", "Numcodecs codecs are not in the Zarr version 3")
    place = pathlib.Path(sys.argv[1])
    (place / "first").mkdir()
    refusals(place / "first", 1 << 24)  # threads and modules are there then
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + (256 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    (place / "second").mkdir()
    for name, text in refusals(place / "second", GIB).items():
        print(f"{name}: {text}")


@pytest.mark.long
@pytest.mark.slow
def test_chunks_of_a_gibibyte_are_refused_in_256_mebibytes(tmp_path):
    done = subprocess.run(
        [sys.executable, __file__, str(tmp_path)], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 5 * len(READS) + 2 * sum(map(len, BOMBS.values()))
    for line in lines:
        assert "must have chunks that expand to at most the" in line, line


def arrays(version, compressor):
    """Arrays as other programs write them, each with what is in it."""
    root = zarr.create_group(zarr.storage.MemoryStore(), zarr_format=version)
    delta = numcodecs.Delta("i8") if version == 2 else codecs.Delta(dtype="i8")
    options = {"compressors": compressor, "attributes": {"unit": "m"}}
    words = root.create_array("words", shape=57, dtype=str, chunks=(10,), **options)
    words[:] = WORDS
    yield words, WORDS
    yield root.create_array("rows", data=X, chunks=(10, 3), **options), X
    yield root.create_array("columns", data=X, chunks=(10, 3), order="F", **options), X
    yield root.create_array("small", data=X, chunks=(100, 100), **options), X
    numbers = np.arange(57)
    steps = root.create_array("steps", data=numbers, chunks=(10,), filters=[delta], **options)
    yield steps, numbers
    if version == 3:
        sharded = root.create_array("sharded", data=X, shards=(20, 5), chunks=(10, 5), **options)
        yield sharded, X


@pytest.mark.filterwarnings("ignore:The codec .* is currently not part:UserWarning")
@pytest.mark.filterwarnings("ignore:The `order` keyword argument has no effect:RuntimeWarning")
@pytest.mark.parametrize("name", [*V3, None])
@pytest.mark.parametrize("version", [2, 3])
def test_arrays_of_other_programs_are_read_as_before(version, name):
    kinds = V2 if version == 2 else V3
    for array, wanted in arrays(version, kinds[name]() if name else None):
        read = bounded(array, "memory://a")
        np.testing.assert_array_equal(np.asarray(read[:]).astype(wanted.dtype), wanted)
        np.testing.assert_array_equal(np.asarray(read[3:21]).astype(wanted.dtype), wanted[3:21])
        assert (read.path, dict(read.attrs)) == (array.path, {"unit": "m"})


@pytest.mark.parametrize("bomb", BOMBS["zstd"])
def test_a_chunk_within_a_shard_is_bounded_too(bomb):
    store = zarr.storage.MemoryStore()
    array = zarr.create_array(store, shape=(8,), dtype="f8", chunks=(4,), shards=(8,))
    chunk = bomb(1 << 20)
    index = np.array([0, len(chunk), 2**64 - 1, 2**64 - 1], "<u8").tobytes()
    whole = chunk + checksummed(index)
    zarr.core.sync.sync(store.set("c/0", zarr.core.buffer.cpu.Buffer.from_bytes(whole)))
    with pytest.raises(StoreError, match="expand to at most the 1056 bytes"):
        bounded(array, "memory://a")[:2]


@pytest.mark.parametrize("n", [0, 1, 255, 256, 1000, 70_000, 1 << 18])
@pytest.mark.parametrize("checksum", [False, True])
def test_the_size_that_a_frame_of_zstd_declares(n, checksum):
    rng = np.random.default_rng(n)
    for data in (np.zeros(n, np.uint8), rng.integers(0, 256, n, dtype=np.uint8)):
        for level in (1, 19):
            frame = bytes(numcodecs.Zstd(level=level, checksum=checksum).encode(data))
            assert _declared(memoryview(frame)) == n
            assert _declared(memoryview(frame + frame)) is None
            assert _declared(memoryview(frame[:-1])) is None


def test_frames_without_a_size_and_in_parts_are_read_where_they_fit(tmp_path):
    path, chunk, _ = source_of(tmp_path, "zstd", 3, codecs.ZstdCodec(), X)
    half = X.nbytes // 2
    parts = [declared(half) + declared(X.nbytes - half), undeclared(X.nbytes)]
    for data in parts:
        chunk.write_bytes(data)
        np.testing.assert_array_equal(features_of(path), np.zeros(X.shape))


@pytest.mark.filterwarnings("ignore:The data type .* does not have a Zarr V3 spec:FutureWarning")
@pytest.mark.parametrize(
    ("version", "compressor"),
    [(2, numcodecs.BZ2), (2, numcodecs.LZMA), (3, codecs.BZ2), (3, codecs.LZMA)],
)
def test_codecs_that_tell_no_size_are_refused(tmp_path, version, compressor):
    path, _, _ = source_of(tmp_path, "a", version, compressor(), X)
    with pytest.raises(StoreError, match=r"'(bz2|lzma)' does not\. Write it again with zstd"):
        features_of(path)


def test_words_are_counted_before_there_is_room_for_them(tmp_path):
    path = own_store(tmp_path)
    words = numcodecs.VLenUTF8().encode(np.array(list("abcd"), dtype=object))
    many = (1 << 24).to_bytes(4, "little") + bytes(words)[4:]
    chunk = tmp_path / "own.zarr" / "sample_id" / "c" / "0"
    chunk.write_bytes(checksummed(bytes(numcodecs.Zstd().encode(many))))
    with pytest.raises(StoreError, match=r"client 'a': .* must have chunks of 4 words"):
        ClientStore.open(path).sample_ids()
    old = zarr.create_array(
        zarr.storage.MemoryStore(), shape=4, dtype=str, zarr_format=2, compressors=None
    )
    old[:] = list("abcd")
    zarr.core.sync.sync(old.store.set("0", zarr.core.buffer.cpu.Buffer.from_bytes(many)))
    with pytest.raises(StoreError, match="must have chunks of 4 words"):
        bounded(old, "memory://a")[:]


def test_chunks_far_larger_than_their_array_are_refused():
    array = zarr.create_array(
        zarr.storage.MemoryStore(), shape=(4, 4), dtype="f8", chunks=(1 << 24, 4)
    )
    with pytest.raises(StoreError, match="must have chunks of at most its own 1152 bytes, or 67"):
        bounded(array, "memory://a")


def test_ids_have_a_longest_length(tmp_path):
    write_store(str(tmp_path / "a"), "a", X[:2], ["x", "\U0001f600" * 1024])
    assert len(ClientStore.open(str(tmp_path / "a")).sample_ids()[1]) == 1024
    with pytest.raises(StoreError, match="at most 1024 characters; the longest has 1025"):
        write_store(str(tmp_path / "b"), "a", X[:2], ["x", "y" * 1025])


@pytest.mark.parametrize(
    "key", [3, (-1, -1), np.s_[3:9:2], np.s_[::-1], np.s_[[5, 1, 7]], np.s_[4:4], np.s_[:, [2, 0]]]
)
def test_a_labelled_view_reads_through_the_store(tmp_path, key):
    write_store(str(tmp_path / "a"), "a", X, WORDS, chunk_rows=10, dtype="float64")
    view = ClientStore.open(str(tmp_path / "a")).dataset()
    np.testing.assert_array_equal(view["features"][key].values, X[key])
    assert view["features"].attrs == {}
    for chunk in (tmp_path / "a" / "features" / "c").glob("*/*"):
        chunk.write_bytes(checksummed(declared(1 << 20)))
    if view["features"][key].size:
        with pytest.raises(StoreError, match="expand to at most the"):
            ClientStore.open(str(tmp_path / "a")).dataset()["features"][key].load()


def test_a_head_that_names_columns_without_end_is_refused(tmp_path):
    """Names were made for all of them: 4,294,967,295, of a file of 16 bytes."""
    path = tmp_path / "t-idx2-ubyte"
    path.write_bytes(b"\0\0\x08\x02" + np.array([1, 2**32 - 1], ">u4").tobytes())
    with pytest.raises(StoreError, match="at most 4194304 columns; the head of the file says"):
        open_source(SourceConfig(path=str(path), format="idx"))
    head = {"descr": "<f8", "fortran_order": False, "shape": (1, 2**40)}
    with zipfile.ZipFile(tmp_path / "t.npz", "w") as archive, archive.open("X.npy", "w") as member:
        np.lib.format.write_array_header_1_0(member, head)
    with pytest.raises(StoreError, match="at most 4194304 columns"):
        open_source(SourceConfig(path=str(tmp_path / "t.npz")))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("zarr.json", {"feature_names": 3}),
        ("zarr.json", {"content_digest": None, "client": None}),
        ("zarr.json", {"steps": [{"step": "scaling"}]}),
        ("zarr.json", {"categories": {"x0": 3}}),
        ("evaluation/zarr.json", {"classes": 3}),
        ("graph/zarr.json", {"entries": "many"}),
    ],
)
def test_attributes_that_no_writer_writes_are_one_sentence(tmp_path, name, change):
    """They came up as KeyError, TypeError or ValueError, of whoever opened the store."""
    path = Path(own_store(tmp_path)) / name
    about = json.loads(path.read_text())
    about["attributes"] |= change
    about["attributes"] = {k: v for k, v in about["attributes"].items() if v is not None}
    path.write_text(json.dumps(about))
    with pytest.raises(StoreError, match=r"is damaged, or was not written by daskfc \(\w+Error\)"):
        ClientStore.open(str(tmp_path / "own.zarr"))
