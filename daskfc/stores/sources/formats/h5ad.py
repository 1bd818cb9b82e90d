"""h5ad, the form of annotated data: rows of X, of a layer or of an embedding, sparse or not."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import fsspec
import numpy as np
from scipy import sparse

from daskfc.errors import StoreError
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.layout.layout import default_names
from daskfc.stores.layout.samples import Samples, encode_labels, ids_as_text
from daskfc.stores.sources.source import Source, from_extra, pick_name


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
    kind = stored.attrs.get("encoding-type", "")
    if kind == "csc_matrix":
        from anndata.io import read_elem

        return read_elem(stored).tocsr()
    return _SparseRows(stored) if kind == "csr_matrix" else stored


class _SparseRows:
    """Rows of a sparse matrix in a file: anndata's own needs insides of SciPy that change."""

    def __init__(self, stored: Any) -> None:
        self.shape = tuple(int(size) for size in stored.attrs["shape"])
        self._parts = stored["data"], stored["indices"]
        self._ends = np.asarray(stored["indptr"][:])

    def __getitem__(self, rows: slice) -> sparse.csr_array:
        ends = self._ends[rows.start : rows.stop + 1]
        data, columns = (part[ends[0] : ends[-1]] for part in self._parts)
        shape = (len(ends) - 1, self.shape[1])
        matrix = sparse.csr_array((data, columns, ends - ends[0]), shape=shape)
        matrix.check_format()  # or damaged numbers of columns are written to anywhere in memory
        return matrix


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
