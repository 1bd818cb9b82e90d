"""netCDF and whatever else xarray opens: one array of samples, or variables as columns."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from math import prod

import fsspec
import numpy as np
import xarray as xr

from daskfc.errors import StoreError
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.layout.layout import default_names
from daskfc.stores.layout.locations import filesystem
from daskfc.stores.layout.samples import Samples, encode_labels, ids_as_text
from daskfc.stores.sources.source import from_extra, pick_name
from daskfc.stores.sources.tables.table import KEYS_OF_TABLES, Held, Table, TableFile, listed


class Xarray(Table):
    """A data set of xarray, by the engine that its file needs.

    An array that `features` names has samples along its first dimension, and is read in blocks.
    Without it variables along one dimension are columns of a table, which is held in memory.
    """

    suffixes = (".nc", ".nc4", ".cdf", ".netcdf")
    keys = KEYS_OF_TABLES | {"features"}

    def file(self, source: SourceConfig) -> TableFile:
        """Read variables as a table."""
        with _opened(source.file) as data:
            of = {str(name): one.dims for name, one in data.variables.items()}
            dims = {own for name, own in of.items() if name in data.data_vars}
            if len(dims) != 1 or len(next(iter(dims))) != 1:
                arrays = [f"{name} ({', '.join(map(str, own))})" for name, own in of.items()]
                raise StoreError(
                    f"{source.file}: variables along one dimension are columns; got "
                    f"{listed(arrays)}. Name an array of samples by source.features."
                )
            table = data.to_dataframe().reset_index()
            names = [name for name, own in of.items() if own in dims]
            return Held(table[names])

    def open(self, source: SourceConfig) -> Samples:
        """Open one array, or the variables as a table."""
        if source.array is None:
            return super().open(source)
        strange = KEYS_OF_TABLES - {"columns", "labels", "ids", "missing"}
        if given := sorted(key for key in strange if getattr(source, key) is not None):
            raise StoreError(
                f"{source.file}: source.{given[0]} is for tables, and source.features names an "
                "array; leave one of them out."
            )
        with _opened(source.file) as data:
            array = _variable(data, source.array, source, "features")
            if array.ndim < 2:
                raise StoreError(
                    f"{source.file}: source.features must name an array of samples and features; "
                    f"{source.array!r} has one dimension. Leave it out, for a table."
                )
            sample, *others = (str(name) for name in array.dims)
            shape = [int(array.sizes[name]) for name in others]
            named = len(others) == 1 and others[0] in data.coords
            told = data[others[0]].to_numpy().tolist() if named else default_names(prod(shape))
            names = tuple(map(str, told))
            own_ids = source.ids or (sample if sample in data.coords else None)
            ids = None if own_ids is None else _variable(data, own_ids, source, "ids").to_numpy()
            labels = classes = None
            if source.labels is not None:
                values = _variable(data, source.labels, source, "labels").to_numpy()
                labels, classes = encode_labels(values, f"{source.file}:{source.labels}")
            n_samples = int(array.sizes[sample])
        for wanted in source.columns or ():
            pick_name(wanted, (), list(names), source.file, "columns")
        at = [names.index(name) for name in source.columns or names]

        def blocks(rows: int) -> Iterator[np.ndarray]:
            with _opened(source.file) as data:
                array = data[source.array]
                for start in range(0, n_samples, rows):
                    block = array[start : start + rows].to_numpy()
                    yield block.reshape(len(block), -1)[:, at]

        return Samples(
            n_samples,
            tuple(names[i] for i in at),
            blocks,
            labels,
            classes,
            None if ids is None else ids_as_text(ids, source.file),
            missing=source.missing == "keep",
        )


def _variable(data: xr.Dataset, name: str, source: SourceConfig, key: str) -> xr.DataArray:
    if name not in data.variables:
        raise StoreError(
            f"{source.file}: source.{key} must be one of {listed(list(map(str, data.variables)))}; "
            f"got {name!r}."
        )
    return data[name]


@contextmanager
def _opened(path: str) -> Iterator[xr.Dataset]:
    """Open a file, or a folder, which is Zarr, lazily."""
    fs, inner = filesystem(path)
    if not fs.exists(inner):
        raise FileNotFoundError(path)
    if fs.isdir(inner):
        with xr.open_zarr(path, chunks=None, consolidated=False) as data:
            yield data
        return
    with fsspec.open(path, "rb") as file:
        if file.read(4) == b"\x89HDF":
            with from_extra("netCDF 4", "h5netcdf", "netcdf"):
                import_module("h5netcdf")  # xarray has SciPy read netCDF 3
        file.seek(0)
        with xr.open_dataset(file) as data:
            yield data
