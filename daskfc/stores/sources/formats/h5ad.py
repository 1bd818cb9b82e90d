"""h5ad, the form of annotated data: rows of X, of a layer or of an embedding, sparse or not."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import fsspec
import numpy as np

from daskfc.errors import StoreError
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.layout.layout import default_names
from daskfc.stores.layout.samples import Samples, encode_labels, ids_as_text
from daskfc.stores.sources.source import Source, from_extra, pick_name

__all__ = ["H5ad"]


class H5ad(Source):
    """Cells are samples; sparse rows become dense a block at a time.

    `features` is X, or an array such as layers/counts or obsm/X_pca; `labels` a column of obs.
    """

    suffixes = (".h5ad",)
    keys = frozenset({"features", "columns", "labels", "ids", "missing"})

    def open(self, source: SourceConfig) -> Samples:
        """Read what is known of cells and genes."""
        path, name = source.file, source.array or "X"
        with _opened(path) as (file, read):
            if name not in file:
                there = ["X", *(f"{part}/{key}" for part in ("layers", "obsm") for key in
                                file.get(part, ()))]  # fmt: skip
                pick_name(name, (), there, path, "features")
            obs, genes = read(file["obs"]), read(file["var"]).index
            n_samples, width = _rows(file[name]).shape
            of_genes = not name.startswith("obsm/")
            names = tuple(map(str, genes)) if of_genes else default_names(width)
        columns = list(map(str, obs.columns))
        labels = classes = None
        if (own := pick_name(source.labels, (), columns, path, "labels")) is not None:
            labels, classes = encode_labels(obs[own].to_numpy(), f"{path}:{own}")
        named = pick_name(source.ids, (), columns, path, "ids")
        ids = ids_as_text((obs.index if named is None else obs[named]).to_numpy(), path)
        for wanted in source.columns or ():
            pick_name(wanted, (), list(names), path, "columns")
        at = [names.index(wanted) for wanted in source.columns or names]

        def blocks(rows: int) -> Iterator[np.ndarray]:
            with _opened(path) as (file, _):
                stored = _rows(file[name])
                for start in range(0, n_samples, rows):
                    block = stored[start : start + rows]
                    yield (block.toarray() if hasattr(block, "toarray") else block)[:, at]

        chosen, gaps = tuple(names[i] for i in at), source.missing == "keep"
        return Samples(n_samples, chosen, blocks, labels, classes, ids, missing=gaps)


def _rows(stored: Any) -> Any:
    """Return an array that gives rows by slices; one sparse by columns is read as a whole."""
    from anndata.io import read_elem, sparse_dataset

    kind = stored.attrs.get("encoding-type", "")
    if kind == "csc_matrix":
        return read_elem(stored).tocsr()
    return sparse_dataset(stored) if kind == "csr_matrix" else stored


@contextmanager
def _opened(path: str) -> Iterator[tuple[Any, Any]]:
    """Yield a file, and anndata's function that reads a part of it."""
    with from_extra("h5ad", "anndata", "h5ad"):
        import h5py
        from anndata.io import read_elem
    with fsspec.open(path, "rb") as raw, h5py.File(raw, "r") as file:
        if "obs" not in file or "var" not in file:
            raise StoreError(f"{path}: the file has no obs and var; see that it is h5ad.")
        yield file, read_elem
