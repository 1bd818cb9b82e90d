"""Reader of MATLAB files, versions 5 to 7.2: attributed graphs as their collections keep them.

SciPy reads them. It runs nothing that a file says, but a file that is damaged on purpose, or is
damaged and not compressed, can crash it and the process with it: read files that you trust.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import fsspec
import numpy as np
from scipy import sparse
from scipy.io import loadmat, whosmat

from daskfc.errors import StoreError
from daskfc.stores.arrays import pick_name
from daskfc.stores.config import SourceConfig
from daskfc.stores.graph import checked_graph
from daskfc.stores.layout import default_names
from daskfc.stores.locations import expand
from daskfc.stores.samples import Samples, encode_labels, reading

__all__ = ["read_mat"]

_USUAL = {
    "features": ("fea", "X", "features"),
    "adjacency": ("W", "A", "adj", "network"),
    "labels": ("gnd", "y", "label", "labels"),
}
_NO_ARRAYS = ("cell", "struct", "object", "function", "opaque", "unknown")


def read_mat(source: SourceConfig) -> Samples:
    """Open a MATLAB file; the arrays that are needed are read at once, sparse ones stay sparse.

    Parameters
    ----------
    source : SourceConfig
        `features` defaults to fea, X or features, with a sample a row; `adjacency` to W, A, adj or
        network; `labels` to gnd, y, label or labels.

    Returns
    -------
    Samples
        With a graph, its weights and loops kept, where there is one. Labels stay as they are, from
        1 or from 0: they are compared as a partition.

    Raises
    ------
    StoreError
        When the file is of another version, damaged, or lacks the arrays; when one of them is a
        cell or structure; when the graph is not symmetric.
    """
    path = expand(str(source.path))
    with reading(path, "mat"), fsspec.open(path, "rb", compression="infer") as file:
        _check_version(file.read(128), path)
        kinds = {name: kind for name, _, kind in _attempt(whosmat, file)}
        names = {key: _name(source, key, kinds, path) for key in _USUAL}
        if names["features"] is None:
            raise StoreError(
                f"{path}: a mat source must have an array called "
                f"{', '.join(_USUAL['features'])}, or one named by source.features; it has "
                f"{', '.join(list(kinds)[:12])}."
            )
        wanted = [name for name in names.values() if name is not None]
        found = _attempt(loadmat, file, variable_names=wanted)
        arrays: dict[str, Any] = {key: found[name] for key, name in names.items() if name}
        for value in arrays.values():
            if bool(sparse.issparse(value)):
                value.check_format()  # SciPy took over the row numbers unseen
    for key in ("features", "adjacency"):
        value = arrays.get(key)
        if value is not None and (value.ndim != 2 or value.dtype.kind not in "buif"):
            raise StoreError(
                f"{path}: the array {names[key]!r} must have rows and columns of real numbers; "
                f"got shape {value.shape} of {value.dtype}. Name another by source.{key}."
            )
    table = arrays["features"]
    if table.dtype.kind == "b":
        table = table.astype(np.uint8)
    stays_sparse = bool(sparse.issparse(table))
    if stays_sparse:
        table = sparse.csr_array(table)
    n, width = table.shape
    labels = classes = None
    if "labels" in arrays:
        labels, classes = encode_labels(_plain(arrays["labels"]), f"{path}:{names['labels']}")

    def blocks(rows: int) -> Iterator[np.ndarray]:
        for start in range(0, n, rows):
            block = table[start : start + rows]
            yield block.toarray() if stays_sparse else block

    graph = checked_graph(arrays["adjacency"], n, path) if "adjacency" in arrays else None
    return Samples(n, default_names(width), blocks, labels, classes, graph=graph)


def _check_version(head: bytes, path: str) -> None:
    """Refuse anything but version 5, whose header ends in its version and the order of its bytes.

    SciPy reads any file with a zero among its first bytes as version 4.
    """
    orders: dict[bytes, Literal["little", "big"]] = {b"IM": "little", b"MI": "big"}
    order = orders.get(head[126:128])
    version = int.from_bytes(head[124:126], order) if order else 0
    if version >> 8 == 2 or head.startswith(b"\x89HDF"):
        raise StoreError(
            f"{path}: MATLAB's version 7.3, which is HDF5, cannot be read; save the variables "
            "again with save(..., '-v7')."
        )
    if version >> 8 != 1:
        raise ValueError("no header of version 5")


def _attempt(read: Any, file: Any, **options: Any) -> Any:
    """Call one of SciPy's readers, whose errors for damaged files are of many kinds."""
    file.seek(0)
    try:
        return read(file, **options)
    except Exception as error:
        raise ValueError(type(error).__name__) from error


def _name(source: SourceConfig, key: str, kinds: dict[str, str], path: str) -> str | None:
    """Return the name of an array, which must be one."""
    name = pick_name(getattr(source, key), _USUAL[key], list(kinds), path, key)
    if name is not None and kinds[name] in _NO_ARRAYS:
        raise StoreError(
            f"{path}: the variable {name!r} must be an array of numbers; got a {kinds[name]}. "
            f"Save it as one, or name another by source.{key}."
        )
    return name


def _plain(labels: Any) -> Any:
    """Return labels without what MATLAB adds: sparse storage, and blanks after words."""
    if labels.dtype.kind == "U":
        return [word.rstrip() for word in labels.ravel()]
    stays_sparse = bool(sparse.issparse(labels))
    return labels.toarray() if stays_sparse else labels
