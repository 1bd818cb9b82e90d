"""Readers of arrays: npz, idx, Zarr, and the data sets that scikit-learn carries."""

from __future__ import annotations

import math
import struct
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from typing import IO, Any

import fsspec
import numpy as np
import zarr
from scipy import sparse

from daskfc.errors import StoreError
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.layout.chunk_sizes import bounded
from daskfc.stores.layout.graph import checked_graph
from daskfc.stores.layout.layout import FORMAT, checked_width, default_names
from daskfc.stores.layout.locations import expand, resolve_url, zarr_store
from daskfc.stores.layout.samples import Samples, encode_labels, reading
from daskfc.stores.sources.digit_views import DIGIT_VIEWS, digit_views
from daskfc.stores.sources.views import beside, numbered_views

__all__ = [
    "BUNDLED",
    "bundled_views",
    "npz_views",
    "pick_name",
    "read_bundled",
    "read_idx",
    "read_npz",
    "read_zarr",
]

BUNDLED = ("breast_cancer", "digits", "digits-views", "iris", "wine")

_FEATURES = ("X", "features", "data")
_LABELS = ("y", "labels", "target")
_IDS = ("ids", "sample_id")


def read_bundled(source: SourceConfig) -> Samples:
    """Open a data set of scikit-learn, or three views of its digits; all have labels."""
    if source.dataset not in BUNDLED:
        raise StoreError(
            f"source.dataset must be one of {', '.join(BUNDLED)}; got {source.dataset!r}. "
            f"For a file use 'path'."
        )
    # here, and not at the top: 60 MB and two seconds that a worker reading its store does not need
    from sklearn import datasets

    name = source.dataset.removesuffix("-views")
    bunch = getattr(datasets, f"load_{name}")()
    labels, _ = encode_labels(bunch.target, source.dataset)
    names = tuple(str(name) for name in bunch.feature_names)
    classes = tuple(str(name) for name in bunch.target_names)
    if source.dataset == "digits-views":
        return digit_views(bunch.data, labels, classes)
    return Samples(len(bunch.data), names, _whole(bunch.data), labels, classes)


def bundled_views(source: SourceConfig) -> tuple[str, ...]:
    """Return the names of the views of a bundled data set; none for most."""
    return DIGIT_VIEWS if source.dataset == "digits-views" else ()


def _whole(rows: np.ndarray) -> Any:
    """Return blocks of an array that is in memory."""

    def blocks(size: int) -> Iterator[np.ndarray]:
        for start in range(0, len(rows), size):
            yield rows[start : start + size]

    return blocks


def pick_name(
    asked: str | None, defaults: tuple[str, ...], there: list[str], where: str, key: str
) -> str | None:
    """Return the name asked for, or the first default among `there`, or None.

    A name asked for that is not `there` raises StoreError; `where` and `key` are for its message.
    """
    if asked is None:
        return next((name for name in defaults if name in there), None)
    if asked not in there:
        raise StoreError(
            f"{where}: source.{key} must be one of {', '.join(there[:12])}; got {asked!r}."
        )
    return asked


def read_npz(source: SourceConfig) -> Samples:
    """Open a NumPy archive lazily; rows are decompressed block by block.

    Features are view0, view1, ..., or else X, features or data, flattened to two dimensions; labels
    are y, labels or target, ids are ids or sample_id; a graph is A_indices, A_indptr and A_shape.
    """
    path = expand(str(source.path))
    with reading(path, "npz"):
        there = _npz_names(path)
        views = _views_of(source, there, path)
        if "A_indptr" in there:
            if views:
                raise StoreError(
                    f"{path}: the archive holds several views and a graph, and a graph belongs to "
                    "one table; name that by source.features."
                )
            return _npz_graph(source, path, there)
        features = pick_name(source.array, _FEATURES, there, path, "features")
        if features is None and not views:
            raise StoreError(
                f"{path}: an npz source must have an array called {', '.join(_FEATURES)}, or one "
                f"named by source.features; it has {', '.join(there[:12])}."
            )
        labels, classes = _npz_labels(source, path, there)
        id_name = pick_name(source.ids, _IDS, there, path, "ids")
        ids = None if id_name is None else _npy(path, id_name).astype(str)
        tables = {name: _npz_table(path, name) for name in views or (str(features),)}
        if views:
            samples = beside(tables, path)
        else:
            samples = tables[str(features)]
            width = len(samples.feature_names)
            samples = replace(samples, feature_names=default_names(width))
    return replace(samples, labels=labels, classes=classes, sample_ids=ids)


def npz_views(source: SourceConfig) -> tuple[str, ...]:
    """Return the names of an archive's views from its list of members; none for a table."""
    path = expand(str(source.path))
    with reading(path, "npz"):
        return _views_of(source, _npz_names(path), path)


def _npz_names(path: str) -> list[str]:
    with fsspec.open(path, "rb") as file, zipfile.ZipFile(file) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


def _views_of(source: SourceConfig, there: list[str], path: str) -> tuple[str, ...]:
    """Return the arrays that are views: those asked for, or numbered ones; none for a table."""
    if isinstance(source.features, tuple):
        for name in source.features:
            pick_name(name, (), there, path, "features")
        return source.features
    usual = any(name in there for name in _FEATURES) and "view0" not in there
    return () if source.features is not None or usual else numbered_views(there)


def _npz_labels(
    source: SourceConfig, path: str, there: list[str]
) -> tuple[np.ndarray | None, tuple[str, ...] | None]:
    name = pick_name(source.labels, _LABELS, there, path, "labels")
    return (None, None) if name is None else encode_labels(_npy(path, name), f"{path}:{name}")


def _npz_table(path: str, name: str) -> Samples:
    """Return an array's rows, streamed, with columns called 0, 1, ..."""
    shape, dtype = _npy_header(path, name)
    if dtype.hasobject:
        raise StoreError(
            f"{path}: the array {name!r} must hold numbers; it holds Python objects, whose pickles "
            "are never opened. Save it again as numbers, as by X.astype(float)."
        )
    if len(shape) < 2:
        raise StoreError(
            f"{path}: the array {name!r} must have rows and columns; got shape {shape}."
        )

    def blocks(rows: int) -> Iterator[np.ndarray]:
        with reading(path, "npz"):
            yield from _npy_rows(path, name, rows)

    width = checked_width(math.prod(shape[1:]))
    return Samples(shape[0], tuple(str(i) for i in range(width)), blocks)


def _npz_graph(source: SourceConfig, path: str, there: list[str]) -> Samples:
    """Open an archive with a graph: features and adjacency in compressed rows, or features X."""
    A = _csr(path, "A", there)
    labels, classes = _npz_labels(source, path, there)
    if "X_indptr" in there:
        X = _csr(path, "X", there)
    else:
        features = pick_name(source.array, _FEATURES, there, path, "features")
        if features is None:
            raise StoreError(
                f"{path}: an npz source with a graph must have features X, or X_data, X_indices, "
                f"X_indptr and X_shape; it has {', '.join(there[:12])}."
            )
        X = sparse.csr_array(_npy(path, features))

    def blocks(rows: int) -> Iterator[np.ndarray]:
        for start in range(0, X.shape[0], rows):
            yield X[start : start + rows].toarray()

    graph = checked_graph(A, X.shape[0], path)
    return Samples(X.shape[0], default_names(X.shape[1]), blocks, labels, classes, graph=graph)


def _csr(path: str, name: str, there: list[str]) -> sparse.csr_array:
    needed = [f"{name}_{part}" for part in ("indices", "indptr", "shape")]
    missing = [key for key in needed if key not in there]
    if missing:
        raise StoreError(f"{path}: an npz source with a graph must have {', '.join(missing)}.")
    indices, starts, shape = (_npy(path, key) for key in needed)
    data = _npy(path, f"{name}_data") if f"{name}_data" in there else np.ones(len(indices))
    try:
        rows, columns = (int(size) for size in shape)
        matrix = sparse.csr_array((data, indices, starts), shape=(rows, columns))
        matrix.check_format()
    except (ValueError, IndexError) as error:
        raise StoreError(
            f"{path}: {name}_indices, {name}_indptr and {name}_shape must be those of one matrix "
            "in compressed rows; they are not. Write them again."
        ) from error
    return matrix


def _open_member(archive: zipfile.ZipFile, name: str) -> tuple[IO[bytes], tuple[Any, ...]]:
    member = archive.open(f"{name}.npy")
    version = np.lib.format.read_magic(member)
    read = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    return member, read(member)


def _npy_header(path: str, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    with fsspec.open(path, "rb") as file, zipfile.ZipFile(file) as archive:
        member, (shape, _, dtype) = _open_member(archive, name)
        member.close()
    return shape, dtype


def _npy(path: str, name: str) -> np.ndarray:
    with fsspec.open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
        return np.asarray(archive[name])


def _npy_rows(path: str, name: str, rows: int) -> Iterator[np.ndarray]:
    """Stream an array of an archive, compressed or not, in blocks of rows."""
    with fsspec.open(path, "rb") as file, zipfile.ZipFile(file) as archive:
        member, (shape, fortran, dtype) = _open_member(archive, name)
        with member:
            if fortran or dtype.hasobject:  # columns first (or pickles, which np.load refuses)
                yield from _whole(_npy(path, name).reshape(shape[0], -1))(rows)
                return
            width = math.prod(shape[1:])
            for start in range(0, shape[0], rows):
                count = min(rows, shape[0] - start)
                data = member.read(count * width * dtype.itemsize)
                yield np.frombuffer(data, dtype).reshape(count, width)


_IDX_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(source: SourceConfig) -> Samples:
    """Open a file in the idx format of MNIST, with gzip or not; `labels` is the path of another.

    Images are flattened, and read in blocks.
    """
    path = expand(str(source.path))
    with reading(path, "idx"):
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
                f"{label_path}: there must be a label a sample; got {len(labels)} for {shape[0]}."
            )
    width = math.prod(shape[1:])

    def blocks(rows: int) -> Iterator[np.ndarray]:
        with reading(path, "idx"), fsspec.open(path, "rb", compression="infer") as file:
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


def read_zarr(source: SourceConfig) -> Samples:
    """Open a Zarr array, or a group with arrays of features, labels and ids, read in blocks.

    Names default to features or X; evaluation/labels, labels or y; and sample_id or ids. A store of
    daskfc keeps its feature names, its words and its gaps.
    """
    url = resolve_url(str(source.path))
    with reading(url, "zarr"):
        node = zarr.open(zarr_store(url, read_only=True), mode="r")
        labels = classes = ids = names = None
        kinds: dict[str, Any] = {}
        if isinstance(node, zarr.Array):
            features: Any = bounded(node, url)
        else:
            features = _member(node, source.array, ("features", "X"), url, "features")
            found = _member(
                node, source.labels, ("evaluation/labels", "labels", "y"), url, "labels"
            )
            if found is not None:
                labels, classes = encode_labels(found[:], f"{url}:{found.path}")
            found = _member(node, source.ids, ("sample_id", "ids"), url, "ids")
            if found is not None:
                ids = np.asarray(found[:]).astype(object).astype(str)
            if node.attrs.get("format") == FORMAT:
                if node.attrs.get("complete") is not True:
                    raise StoreError(f"{url}: the store is half-written; build it again.")
                attributes: Any = dict(node.attrs)
                names = tuple(str(name) for name in attributes["feature_names"])
                kinds = {
                    "categories": {
                        str(name): tuple(words)
                        for name, words in (attributes.get("categories") or {}).items()
                    },
                    "missing": bool(attributes.get("missing", False)),
                }
                if "evaluation" in node:
                    known: Any = node["evaluation"].attrs.get("classes")
                    classes = None if known is None else tuple(known)
    if features is None or features.ndim < 2:
        raise StoreError(
            f"{url}: a zarr source must have an array of rows and columns called features or X, or "
            f"one named by source.features."
        )
    width = math.prod(features.shape[1:])

    def blocks(rows: int) -> Iterator[np.ndarray]:
        with reading(url, "zarr"):
            for start in range(0, features.shape[0], rows):
                block = np.asarray(features[start : start + rows])
                yield block.reshape(len(block), width)

    return Samples(
        int(features.shape[0]), names or default_names(width), blocks, labels, classes, ids, **kinds
    )


def _member(
    group: zarr.Group, asked: str | None, defaults: tuple[str, ...], url: str, key: str
) -> Any:
    for name in defaults if asked is None else (asked,):
        found = group.get(name)
        if isinstance(found, zarr.Array):
            return bounded(found, url)
    if asked is not None:
        raise StoreError(f"{url}: source.{key} must name an array of the group; got {asked!r}.")
    return None
