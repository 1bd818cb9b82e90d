"""Files in the idx format of MNIST, with gzip or not."""

import math
import struct
from collections.abc import Iterator
from typing import IO, Any

import fsspec
import numpy as np

from daskfc.errors import StoreError
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.layout.layout import default_names
from daskfc.stores.layout.locations import expand
from daskfc.stores.layout.samples import Samples, encode_labels, reading
from daskfc.stores.sources.source import Source

_IDX_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


class Idx(Source):
    """Images as MNIST's, flattened and read in blocks; `labels` is the path of another file."""

    suffixes = (".idx", "-idx1-ubyte", "-idx3-ubyte", "-ubyte")
    keys = frozenset({"labels"})

    def files(self, source: SourceConfig) -> list[str]:
        """Return the paths of images and labels."""
        return [str(source.path), *([] if source.labels is None else [source.labels])]

    def open(self, source: SourceConfig) -> Samples:
        """Read the head of the images, and all labels."""
        path = source.file
        with fsspec.open(path, "rb", compression="infer") as file:
            shape, _ = _idx_header(file)
        labels = None
        if source.labels is not None:
            label_path = expand(source.labels)
            with reading(label_path, "idx"):
                with fsspec.open(label_path, "rb", compression="infer") as file:
                    label_shape, dtype = _idx_header(file)
                    values = np.frombuffer(file.read(), dtype).reshape(label_shape)
            labels, _ = encode_labels(values, label_path)
            if len(labels) != shape[0]:
                raise StoreError(
                    f"{label_path}: there must be a label a sample; got {len(labels)} for "
                    f"{shape[0]}."
                )
        width = math.prod(shape[1:])

        def blocks(rows: int) -> Iterator[np.ndarray]:
            with fsspec.open(path, "rb", compression="infer") as file:
                _, dtype = _idx_header(file)
                for start in range(0, shape[0], rows):
                    count = min(rows, shape[0] - start)
                    data = file.read(count * width * dtype.itemsize)
                    yield np.frombuffer(data, dtype).reshape(count, width)

        return Samples(shape[0], default_names(width), blocks, labels)


def _idx_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    head = file.read(4)
    if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in _IDX_TYPES or head[3] < 1:
        raise ValueError("no idx magic number")
    shape = struct.unpack(f">{head[3]}I", file.read(4 * head[3]))
    return shape, np.dtype(_IDX_TYPES[head[2]])
