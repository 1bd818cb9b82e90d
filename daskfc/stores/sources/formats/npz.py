"""NumPy archives: tables, views and graphs, read block by block."""

import math
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import IO, Any

import fsspec
import numpy as np
from scipy import sparse

from daskfc.errors import StoreError
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.layout.graph import checked_graph
from daskfc.stores.layout.layout import checked_width, default_names
from daskfc.stores.layout.samples import Samples, blocks_of, encode_labels
from daskfc.stores.sources.source import Source, pick_name
from daskfc.stores.sources.views import beside, numbered_views

_FEATURES = ("X", "features", "data")
_LABELS = ("y", "labels", "target")
_IDS = ("ids", "sample_id")


class Npz(Source):
    """A NumPy archive, opened lazily; rows are decompressed block by block.

    Features are view0, view1, ..., or else X, features or data, flattened to two dimensions; labels
    are y, labels or target, ids are ids or sample_id; a graph is A_indices, A_indptr and A_shape.
    """

    suffixes = (".npz",)
    keys = frozenset({"features", "labels", "ids"})
    has_views = True

    def open(self, source: SourceConfig) -> Samples:
        """Read names and shapes of arrays, labels and ids."""
        path = source.file
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

    def views(self, source: SourceConfig) -> tuple[str, ...]:
        """Return the names of an archive's views from its list of members; none for a table."""
        path = source.file
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

    width = checked_width(math.prod(shape[1:]))
    return Samples(shape[0], tuple(map(str, range(width))), partial(_npy_rows, path, name))


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
    n, width = X.shape
    graph = checked_graph(A, n, path)
    return Samples(n, default_names(width), blocks_of(X), labels, classes, graph=graph)


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
                yield from blocks_of(_npy(path, name).reshape(shape[0], -1))(rows)
                return
            width = math.prod(shape[1:])
            for start in range(0, shape[0], rows):
                count = min(rows, shape[0] - start)
                data = member.read(count * width * dtype.itemsize)
                yield np.frombuffer(data, dtype).reshape(count, width)
