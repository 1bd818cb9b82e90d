"""Open a source of any format, check its keys, and fingerprint its files."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from inspect import isabstract
from typing import Any

import numpy as np

from daskfc.errors import StoreError
from daskfc.plugins import with_plugins
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.dealing.scaling import rescaled
from daskfc.stores.layout.graph import neighbour_graph
from daskfc.stores.layout.locations import (
    expand,
    filesystem,
    local_path,
    matching_files,
    resolve_url,
)
from daskfc.stores.layout.samples import Samples, reading, stacked
from daskfc.stores.sources.formats.bundled import Bundled
from daskfc.stores.sources.formats.h5ad import H5ad
from daskfc.stores.sources.formats.idx import Idx
from daskfc.stores.sources.formats.libsvm import Libsvm
from daskfc.stores.sources.formats.mat import Mat
from daskfc.stores.sources.formats.npz import Npz
from daskfc.stores.sources.formats.planetoid import Planetoid
from daskfc.stores.sources.formats.xarray import Xarray
from daskfc.stores.sources.formats.zarr import Zarr
from daskfc.stores.sources.source import Source
from daskfc.stores.sources.tables.columnar import Arrow, Parquet
from daskfc.stores.sources.tables.csv import Csv
from daskfc.stores.sources.tables.excel import Excel
from daskfc.stores.sources.tables.json_lines import JsonLines
from daskfc.stores.sources.tables.sql import Sql
from daskfc.stores.sources.views import join_views

# The formats of daskfc: arrays and data sets in `formats`, tables with named columns in `tables`.
SOURCES: dict[str, type[Source]] = {
    "bundled": Bundled,
    "npz": Npz,
    "csv": Csv,
    "parquet": Parquet,
    "feather": Arrow,
    "excel": Excel,
    "sql": Sql,
    "json": JsonLines,
    "xarray": Xarray,
    "h5ad": H5ad,
    "libsvm": Libsvm,
    "idx": Idx,
    "mat": Mat,
    "planetoid": Planetoid,
    "zarr": Zarr,
}


def known_sources() -> dict[str, type[Source]]:
    """Return every source by the name of its format: those of daskfc and of other packages.

    A package registers a subclass of `Source` by an entry point of the group ``daskfc.sources``.
    """
    return with_plugins("daskfc.sources", SOURCES, _is_source)


def _is_source(value: Any) -> bool:
    complete = isinstance(value, type) and issubclass(value, Source) and not isabstract(value)
    # every file's name is compared with these
    return complete and all(isinstance(ends, tuple) for ends in (value.suffixes, value.prefixes))


_SHARED_KEYS = {"dataset", "path", "format", "scale", "scaling", "subsample", "graph"}
_KEYS_OF_VIEWS = {"views", "labels", "scale", "scaling", "subsample"}
_COMPRESSED = (".gz", ".bz2", ".xz")
_EDGE = 1 << 20  # bytes of a file that is elsewhere


def format_of(source: SourceConfig) -> str:
    """Return the format: as given, or by the path's suffix, or by the file name's prefix."""
    sources = known_sources()
    known = ", ".join(sorted(set(sources) - {"bundled"}))
    if source.dataset is not None:
        if source.format is not None:
            raise StoreError(
                "source.format applies to a path, not to a bundled data set; remove it."
            )
        return "bundled"
    if source.uri is not None:
        return "sql"
    if source.format is not None:
        if source.format not in sources or source.format == "bundled":
            raise StoreError(f"source.format must be one of {known}; got {source.format!r}.")
        return source.format
    name = str(source.path).rstrip("/")
    for suffix in _COMPRESSED:
        name = name.removesuffix(suffix)
    for key, kind in sources.items():
        if name.endswith(kind.suffixes):
            return key
    for key, kind in sources.items():
        if name.rpartition("/")[2].startswith(kind.prefixes):
            return key
    raise StoreError(
        f"the format of source.path {source.path!r} cannot be told from its name; add "
        f"source.format, one of {known}."
    )


def check_source(source: SourceConfig) -> None:
    """Raise for keys that mean nothing to the source's format, before anything is read."""
    given = source.model_dump(exclude_none=True)
    if source.views is not None:
        for key in given:
            if key not in _KEYS_OF_VIEWS:
                raise StoreError(
                    f"source.{key} means nothing to source.views, each of which has a file of its "
                    "own; remove it, or move it to a view."
                )
        for view, config in source.views.items():
            with _of_view(view):
                check_source(config.source())
        return
    name = format_of(source)
    kind = known_sources()[name]
    for key in given:
        if key not in kind.keys | _SHARED_KEYS:
            raise StoreError(f"source.{key} means nothing to the format {name!r}; remove it.")
    if isinstance(source.features, tuple) and not kind.has_views:
        raise StoreError(
            f"source.features must be one name for the format {name!r}, whose files are one table; "
            f"got {len(source.features)}. Give one, or a file for each view by source.views."
        )


@contextmanager
def _of_view(name: str) -> Iterator[None]:
    """Put the view's name before errors about its source."""
    try:
        yield
    except StoreError as error:
        raise StoreError(f"view {name!r}: {error}") from error


def view_names(source: SourceConfig) -> tuple[str, ...]:
    """Return the names of a source's views, from headers alone; empty for a table."""
    if source.views is not None:
        return tuple(source.views)
    if isinstance(source.features, tuple):
        return source.features
    if not known_sources()[format_of(source)].has_views:
        return ()
    with _reading(source) as reader:
        return reader.views(source)


@contextmanager
def _reading(source: SourceConfig) -> Iterator[Source]:
    """Yield the reader of a source, and turn its errors for damaged files into StoreError."""
    name = format_of(source)
    with reading(source.where if source.path is None else source.file, name):
        yield known_sources()[name]()


def open_source(source: SourceConfig) -> Samples:
    """Open a source, subsampled and scaled; features are read only for statistics or a graph."""
    check_source(source)
    where = source.where
    if source.views is not None:
        samples = _open_views(source)
    else:
        samples = _open_files(source)
    if samples.n_samples < 1 or not samples.feature_names:
        raise StoreError(
            f"{where}: a source must have at least one sample and one feature; got "
            f"{samples.n_samples} x {len(samples.feature_names)}."
        )
    for what, values in {"labels": samples.labels, "ids": samples.sample_ids}.items():
        if values is not None and len(values) != samples.n_samples:
            raise StoreError(
                f"{where}: {what} must be as many as samples; got {len(values)} for "
                f"{samples.n_samples}."
            )
    if samples.unprepared and (source.scale or source.scaling or source.graph):
        raise StoreError(
            f"{where}: source.scale, scaling and graph are for numbers without gaps; "
            f"{samples.unprepared}. Leave them out, and prepare features in the pipeline."
        )
    if source.scale is not None:
        samples = samples.scaled(source.scale)
    if source.subsample is not None:
        samples = samples.subsample(source.subsample.n, source.subsample.seed)
    if source.scaling is not None:
        samples = rescaled(samples, source.scaling, where)
    if source.graph is not None:
        if samples.views:
            raise StoreError(
                f"{where}: source.graph joins the samples of one table, and this source has "
                f"{len(samples.views)} views; leave it out, or name one view by source.features."
            )
        if samples.graph is not None:
            raise StoreError(
                f"{where}: the source has a graph of its own; leave out source.graph, which makes "
                "one from the features."
            )
        X = np.concatenate(list(samples.blocks(8192)))
        graph = neighbour_graph(X, source.graph.neighbours, where)
        samples = replace(samples, graph=graph)
    return samples


def _open_files(source: SourceConfig) -> Samples:
    """Open the file of a source, or all that its path matches, one after the other."""
    if source.path is None:
        return _open_one(source)
    paths = matching_files(source.file)
    return stacked([_open_one(source.model_copy(update={"path": path})) for path in paths], paths)


def _open_one(source: SourceConfig) -> Samples:
    """Open one file; damage may be found only when its blocks are read."""
    with _reading(source) as reader:
        samples = reader.open(source)

    def blocks(rows: int) -> Iterator[np.ndarray]:
        with _reading(source):
            yield from samples.blocks(rows)

    return replace(samples, blocks=blocks)


def _open_views(source: SourceConfig) -> Samples:
    """Open the file of every view and join them by ids."""
    parts, found = {}, source.labels is None
    for name, view in (source.views or {}).items():
        own = view.source()
        with _of_view(name):
            if source.labels is not None and own.labels is None:
                with _reading(own) as reader:
                    named = source.labels in reader.columns(own)
                own = own.model_copy(update={"labels": source.labels}) if named else own
            parts[name] = open_source(own)
        found = found or own.labels is not None
        if parts[name].views or parts[name].graph is not None:
            raise StoreError(
                f"view {name!r}: the file of a view must be one table; got "
                f"{'several views' if parts[name].views else 'a graph'}. Name an array by "
                f"source.views.{name}.features."
            )
        if parts[name].unprepared:
            raise StoreError(
                f"view {name!r}: views of files of their own hold numbers without gaps; "
                f"{parts[name].unprepared}. Leave 'categorical' and 'missing' out."
            )
    if not found:
        raise StoreError(
            f"{source.where}: no table has the column {source.labels!r} that "
            "source.labels names; correct it, or give 'labels' to a view."
        )
    return join_views(parts)


def fingerprint(source: SourceConfig) -> str | None:
    """Return a digest of a source's files, by which a change of them is noticed.

    SHA-256 of what files on this machine hold, and elsewhere of their sizes, and of the first and
    last mebibyte of those that are no folder; None for bundled sets and when a file is gone, empty
    for a database, which may change unseen.
    """
    if source.uri is not None:
        return ""
    if source.dataset is not None:
        return None
    digest = hashlib.sha256()
    for path in _files(source):
        url = resolve_url(expand(path))
        fs, inner = filesystem(url)
        here = local_path(url) is not None
        with reading(path, "a file"):
            if not fs.exists(inner):
                return None
            if fs.isdir(inner):
                for key, info in sorted(fs.find(inner, detail=True).items()):
                    digest.update(f"{str(key)[len(inner) :]}:{info['size']};".encode())
                    if here:
                        digest.update(_content(key))
                continue
            size = int(fs.size(inner))
            digest.update(f"{size};".encode())
            edge = min(size, _EDGE)
            digest.update(fs.read_block(inner, 0, edge))
            digest.update(fs.read_block(inner, size - edge, edge))
            if here and size > 2 * edge:
                digest.update(_content(inner))
    return digest.hexdigest()


def _content(path: str) -> bytes:
    """Return the SHA-256 of a file on this machine."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _files(source: SourceConfig) -> list[str]:
    if source.views is not None:
        return [path for view in source.views.values() for path in _files(view.source())]
    try:
        paths = matching_files(source.file)
    except StoreError:  # none is there
        paths = [str(source.path)]
    reader = known_sources()[format_of(source)]()
    each = [source.model_copy(update={"path": path}) for path in paths]
    return [path for one in each for path in reader.files(one)]
