"""MATLAB files, versions 5 to 7.2, with a table, a graph or several views.

SciPy reads them. It runs nothing that a file says, but a file that is damaged on purpose, or
damaged and not compressed, can crash the process: read only files that you trust.
"""

from dataclasses import replace
from typing import Any, Literal

import fsspec
import numpy as np
from scipy import sparse

from daskfc.errors import StoreError
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.layout.graph import checked_graph
from daskfc.stores.layout.layout import default_names
from daskfc.stores.layout.samples import Samples, blocks_of, encode_labels
from daskfc.stores.sources.source import Source, pick_name
from daskfc.stores.sources.views import beside, numbered_views

_USUAL = {
    "features": ("fea", "X", "features"),
    "adjacency": ("W", "A", "adj", "network"),
    "labels": ("gnd", "y", "label", "labels"),
}
_LABELS_OF_VIEWS = (*_USUAL["labels"], "Y", "gt", "truth")
_NO_ARRAYS = ("cell", "struct", "object", "function", "opaque", "unknown")


class Mat(Source):
    """A MATLAB file; the arrays that are needed are read at once, sparse ones stay sparse.

    A graph keeps its weights and loops, labels count from 0 or 1. Views with a sample per column
    are transposed: if all have as many columns and not all as many rows, or the labels are as many
    as the columns.
    """

    suffixes = (".mat",)
    keys = frozenset({"features", "labels", "adjacency"})
    has_views = True

    def open(self, source: SourceConfig) -> Samples:
        """Read the arrays that are needed."""
        path = source.file
        with fsspec.open(path, "rb", compression="infer") as file:
            _check_version(file.read(128), path)
            found = _attempt("whosmat", file)
            kinds = {name: kind for name, _, kind in found}
            views = _views_of(source, found, path)
            if views:
                return _read_views(source, views, file, kinds, path)
            names = {key: _name(source, key, kinds, path) for key in _USUAL}
            if names["features"] is None:
                raise StoreError(
                    f"{path}: a mat source must have an array called "
                    f"{', '.join(_USUAL['features'])}, or one named by source.features; it has "
                    f"{', '.join(list(kinds)[:12])}."
                )
            wanted = [name for name in names.values() if name is not None]
            content = _attempt("loadmat", file, variable_names=wanted)
            arrays: dict[str, Any] = {key: content[name] for key, name in names.items() if name}
            for value in arrays.values():
                if bool(sparse.issparse(value)):
                    value.check_format()  # SciPy does not validate row numbers
        for key in ("features", "adjacency"):
            value = arrays.get(key)
            if value is not None and (value.ndim != 2 or value.dtype.kind not in "buif"):
                raise StoreError(
                    f"{path}: the array {names[key]!r} must have rows and columns of real numbers; "
                    f"got shape {value.shape} of {value.dtype}. Name another by source.{key}."
                )
        samples = _table(arrays["features"])
        n, columns = samples.n_samples, default_names(len(samples.feature_names))
        labels = classes = None
        if "labels" in arrays:
            labels, classes = encode_labels(_plain(arrays["labels"]), f"{path}:{names['labels']}")
        graph = checked_graph(arrays["adjacency"], n, path) if "adjacency" in arrays else None
        return replace(samples, feature_names=columns, labels=labels, classes=classes, graph=graph)

    def views(self, source: SourceConfig) -> tuple[str, ...]:
        """Return the names of a file's views from its list of variables; none for a table."""
        path = source.file
        with fsspec.open(path, "rb", compression="infer") as file:
            _check_version(file.read(128), path)
            return tuple(_views_of(source, _attempt("whosmat", file), path))


def _table(table: Any) -> Samples:
    """Return an array's rows, sparse ones as dense blocks, with columns called 0, 1, ..."""
    if table.dtype.kind == "b":
        table = table.astype(np.uint8)
    if bool(sparse.issparse(table)):
        table = sparse.csr_array(table)
    n, width = table.shape
    return Samples(n, tuple(str(i) for i in range(width)), blocks_of(table))


def _views_of(
    source: SourceConfig, found: list[tuple[str, tuple[int, ...], str]], path: str
) -> dict[str, str]:
    """Return every view and the variable that holds it; none for a table."""
    kinds = {name: kind for name, _, kind in found}
    sizes = {name: int(np.prod(shape)) for name, shape, _ in found}
    if isinstance(source.features, tuple):
        for name in source.features:
            pick_name(name, (), list(kinds), path, "features")
            if kinds[name] in _NO_ARRAYS:
                raise _no_array(name, kinds[name], path, "features")
        return {name: name for name in source.features}
    cell = source.features or "X"
    if kinds.get(cell) == "cell":
        return {f"view{i}": cell for i in range(sizes[cell])}
    if source.features is not None or any(name in kinds for name in _USUAL["features"]):
        return {}
    return {name: name for name in numbered_views(kinds)}


def _read_views(
    source: SourceConfig, views: dict[str, str], file: Any, kinds: dict[str, str], path: str
) -> Samples:
    graph = pick_name(source.adjacency, _USUAL["adjacency"], list(kinds), path, "adjacency")
    if graph is not None:
        raise StoreError(
            f"{path}: the file holds several views and a graph ({graph}), and a graph belongs to "
            "one table; save it without the graph, or name one table by source.features."
        )
    label = _name(source, "labels", kinds, path, _LABELS_OF_VIEWS)
    wanted = {*views.values(), *([] if label is None else [label])}
    content = _attempt("loadmat", file, variable_names=list(wanted))
    labels = classes = None
    if label is not None:
        labels, classes = encode_labels(_plain(content[label]), f"{path}:{label}")
    tables: dict[str, Any] = {}
    for i, (view, name) in enumerate(views.items()):
        table = content[name].ravel()[i] if kinds[name] == "cell" else content[name]
        if getattr(table, "ndim", 0) != 2 or table.dtype.kind not in "buif":
            got = f"shape {table.shape} of {table.dtype}" if hasattr(table, "dtype") else "no array"
            raise StoreError(
                f"{path}: {view!r}{'' if view == name else f', a part of {name!r},'} must have "
                f"rows and columns of real numbers; got {got}. Save every view as a table."
            )
        if bool(sparse.issparse(table)):
            table.check_format()  # SciPy does not validate row numbers
        tables[view] = table
    if _by_columns(tables, None if labels is None else len(labels)):
        tables = {view: table.T for view, table in tables.items()}
    samples = beside({view: _table(table) for view, table in tables.items()}, path)
    return replace(samples, labels=labels, classes=classes)


def _by_columns(tables: dict[str, Any], n_labels: int | None) -> bool:
    """Return whether the views have a sample per column."""
    rows, columns = ({table.shape[axis] for table in tables.values()} for axis in (0, 1))
    if len(columns) > 1 or rows == {n_labels}:
        return False
    return len(rows) > 1 or columns == {n_labels}


def _check_version(head: bytes, path: str) -> None:
    """Raise unless a file is of version 5: SciPy takes any with an early zero for version 4."""
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


def _attempt(name: str, file: Any, **options: Any) -> Any:
    """Call a reader of SciPy, and turn its many kinds of errors into ValueError."""
    from scipy import io  # here, as in `bundled`

    file.seek(0)
    try:
        return getattr(io, name)(file, **options)
    except Exception as error:
        raise ValueError(type(error).__name__) from error


def _name(
    source: SourceConfig, key: str, kinds: dict[str, str], path: str, usual: tuple[str, ...] = ()
) -> str | None:
    """Return the name of an array; raise if it holds something else."""
    name = pick_name(getattr(source, key), usual or _USUAL[key], list(kinds), path, key)
    if name is not None and kinds[name] in _NO_ARRAYS:
        raise _no_array(name, kinds[name], path, key)
    return name


def _no_array(name: str, kind: str, path: str, key: str) -> StoreError:
    return StoreError(
        f"{path}: the variable {name!r} must be an array of numbers; got a {kind}. Save it as one, "
        f"or name another by source.{key}."
    )


def _plain(labels: Any) -> Any:
    """Return labels without what MATLAB adds: sparse storage, and blanks after words."""
    if labels.dtype.kind == "U":
        return [word.rstrip() for word in labels.ravel()]
    stays_sparse = bool(sparse.issparse(labels))
    return labels.toarray() if stays_sparse else labels
