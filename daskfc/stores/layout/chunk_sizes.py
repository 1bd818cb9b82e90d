"""Read Zarr arrays without decompressing a chunk beyond the size that its shape needs.

33 kB of zstd can expand to 1 GiB, so that a malicious store could exhaust a reader's memory. Here
every decompressing codec first checks the size of its chunk: the header declares it, or the chunk
is decompressed into limited room.
"""

import gzip
import io
import math
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import zarr
from numcodecs import Zstd
from numcodecs.abc import Codec as FilterV2
from zarr.abc.codec import BytesBytesCodec
from zarr.codecs import ShardingCodec

from daskfc.errors import StoreError

MOST_OF_A_WORD = 1024  # ours: characters of an id
_WORD = 4 + 4 * MOST_OF_A_WORD  # its length, then UTF-8
_SPARE = 1 << 10  # what codecs between two others add: checksums, headers
_WHOLE = 64 << 20  # ours: a chunk may be larger than its array up to here

_WORDS = {"vlen-utf8", "vlen-bytes"}
_SAME_SIZE = {
    "adler32", "astype", "bitround", "bytes", "crc32", "crc32c", "delta", "fixedscaleoffset",
    "fletcher32", "jenkins_lookup3", "packbits", "quantize", "shuffle", "transpose",
}  # fmt: skip


class ChunkError(StoreError):
    """A chunk is larger than its array allows: damaged, replaced, or made to exhaust memory."""


def bounded(array: Any, url: str) -> Any:
    """Return an array that reads the same chunks, but expands none beyond its shape.

    A larger chunk raises ChunkError when it is read; codecs without a known size of a chunk, and
    chunks far larger than the array, raise StoreError here. For Zarr 2 and 3.
    """
    where = f"{url}: the array {array.path!r}" if array.path else f"{url}: the array"
    native = array.dtype
    chunk, whole = (_limit(shape, native) for shape in (array.shards or array.chunks, array.shape))
    if chunk > max(whole, _WHOLE):
        raise StoreError(
            f"{where} must have chunks of at most its own {whole} bytes, or {_WHOLE}; they are of "
            f"{chunk}. Write it again with smaller chunks."
        )
    metadata: Any = array.metadata
    if metadata.zarr_format == 2:
        limit = 8 * chunk if metadata.filters else chunk  # they may store a wider type
        filters = tuple(_of_v2(one, limit, array.chunks, where) for one in metadata.filters or ())
        compressor = metadata.compressor
        if compressor is not None:
            compressor = _of_v2(compressor, limit, array.chunks, where)
        metadata = replace(metadata, filters=filters or None, compressor=compressor)
    else:
        metadata = replace(metadata, codecs=_of_v3(metadata.codecs, where))
    return zarr.Array(zarr.AsyncArray(metadata, store_path=array.store_path))


def _limit(shape: Iterable[int], dtype: np.dtype[Any]) -> int:
    """Return the most bytes of a decompressed chunk."""
    return math.prod(shape) * (_WORD if dtype.kind in ("O", "T") else dtype.itemsize) + _SPARE


def _of_v3(codecs: Iterable[Any], where: str) -> list[Any]:
    checked: list[Any] = []
    for codec in codecs:
        name = _checked_name(codec.to_dict()["name"], where, sharding=True)
        if name == "sharding_indexed":
            codec = ShardingCodec(
                chunk_shape=codec.chunk_shape,
                codecs=_of_v3(codec.codecs, where),
                index_codecs=codec.index_codecs,  # of one size, or Zarr refuses them
                index_location=codec.index_location,
            )
        checked.append(_Bounded(codec, name, where) if name in _SIZES else codec)
        if name in _WORDS:
            checked.append(_Counted(where))
    return checked


def _of_v2(codec: Any, limit: int, chunk: tuple[int, ...], where: str) -> Any:
    name = _checked_name(codec.codec_id, where)
    if name in _SIZES:
        return _BoundedV2(codec, lambda data: _check_size(name, data, limit), limit, where)
    if name in _WORDS:
        return _BoundedV2(codec, lambda data: _check_count(data, chunk, where), limit, where)
    return codec


def _checked_name(found: Any, where: str, *, sharding: bool = False) -> str:
    name = str(found).removeprefix("numcodecs.")
    known = name in _SIZES or name in _SAME_SIZE or name in _WORDS
    if known or (sharding and name == "sharding_indexed"):
        return name
    raise StoreError(
        f"{where} must have codecs that tell the size of a chunk; {name!r} does not. Write it "
        "again with zstd, blosc or gzip."
    )


def _zstd(data: memoryview, limit: int) -> int:
    """Return the declared size of a chunk in zstd, or `limit` if it has none and fits."""
    # numcodecs adds up the declared sizes of all frames, and without one decompresses to the end
    if (size := _declared(data)) is not None:
        return size
    try:
        Zstd().decode(data, out=np.empty(limit, np.uint8))
    except RuntimeError as error:
        if "expected to decompress" not in str(error):  # but got less
            raise
    return limit


def _declared(data: memoryview) -> int | None:
    """Return the size that the only frame of zstd declares (RFC 8878, 3.1.1), or None."""
    if len(data) < 6 or bytes(data[:4]) != b"\x28\xb5\x2f\xfd":
        return None
    head = data[4]
    single = head >> 5 & 1
    n_bytes = (single, 2, 4, 8)[head >> 6]
    at = 6 - single + (0, 1, 2, 4)[head & 3]  # after the window's size and a dictionary's number
    size = int.from_bytes(data[at : at + n_bytes], "little") + 256 * (n_bytes == 2)
    at += n_bytes
    last = n_bytes == 0
    while not last and at + 3 <= len(data):
        block = int.from_bytes(data[at : at + 3], "little")
        last = bool(block & 1)
        at += 3 + (1 if block >> 1 & 3 == 1 else block >> 3)  # a repeated byte, or so many
    alone = n_bytes > 0 and last and at + 4 * (head >> 2 & 1) == len(data)
    return size if alone else None


def _gzip(data: memoryview, limit: int) -> int:
    return len(gzip.GzipFile(fileobj=io.BytesIO(data)).read(limit + 1))


_SIZES: dict[str, Callable[[memoryview, int], int]] = {
    "zstd": _zstd,
    "blosc": lambda data, _: int.from_bytes(data[4:8], "little"),
    "lz4": lambda data, _: int.from_bytes(data[:4], "little"),
    "gzip": _gzip,
    "zlib": lambda data, limit: len(zlib.decompressobj().decompress(data, limit + 1)),
}


@contextmanager
def _fitting(limit: int, where: str) -> Iterator[None]:
    """Raise ChunkError where codecs cannot decompress a chunk into `limit` bytes."""
    try:
        yield
    except ChunkError:
        raise
    except (ValueError, RuntimeError, OSError, EOFError, zlib.error) as error:
        raise ChunkError(
            f"{where} must have chunks that expand to at most the {limit} bytes that their shape "
            "holds; one does not, or is damaged. Write the store again, and ask who wrote it."
        ) from error


def _check_size(name: str, data: memoryview, limit: int) -> None:
    if (size := _SIZES[name](data, limit)) > limit:
        raise ValueError(size)


def _check_count(data: memoryview, shape: Iterable[int], where: str) -> None:
    """Raise unless a chunk declares as many words as its shape has: room is made for them."""
    if int.from_bytes(data[:4], "little") != math.prod(shape):
        raise ChunkError(
            f"{where} must have chunks of {math.prod(shape)} words; one says that it has others. "
            "Write the store again, and ask who wrote it."
        )


@dataclass(frozen=True)
class _Bounded(BytesBytesCodec):
    """A codec of Zarr 3 that checks the size of each chunk before it decompresses it."""

    inner: Any
    name: str
    where: str
    is_fixed_size = False

    async def decode(self, chunks_and_specs: Iterable[tuple[Any, Any]]) -> Iterable[Any]:
        pairs = list(chunks_and_specs)
        limit = max(_limit(spec.shape, spec.dtype.to_native_dtype()) for _, spec in pairs)
        with _fitting(limit, self.where):
            for data, _ in pairs:
                if data is not None:
                    _check_size(self.name, memoryview(data.as_numpy_array()), limit)
            found: Iterable[Any] = await self.inner.decode(pairs)
        return found

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        return int(self.inner.compute_encoded_size(input_byte_length, chunk_spec))


@dataclass(frozen=True)
class _Counted(BytesBytesCodec):
    """A codec between words and their compression that only checks the number of words."""

    where: str
    is_fixed_size = True

    async def decode(self, chunks_and_specs: Iterable[tuple[Any, Any]]) -> Iterable[Any]:
        pairs = list(chunks_and_specs)
        for data, spec in pairs:
            if data is not None:
                _check_count(memoryview(data.as_numpy_array()), spec.shape, self.where)
        return [data for data, _ in pairs]

    def compute_encoded_size(self, input_byte_length: int, _: Any) -> int:
        return input_byte_length


class _BoundedV2(FilterV2):  # type: ignore[misc]
    """A compressor or filter of Zarr 2 that checks its chunk first."""

    codec_id = "daskfc-bounded"

    def __init__(
        self, inner: Any, check: Callable[[memoryview], None], limit: int, where: str
    ) -> None:
        self._inner, self._check = inner, check
        self._limit, self._where = limit, where

    def encode(self, buf: Any) -> Any:
        raise NotImplementedError

    def decode(self, buf: Any, out: Any = None) -> Any:
        with _fitting(self._limit, self._where):
            self._check(memoryview(buf).cast("B"))
            return self._inner.decode(buf, out)
