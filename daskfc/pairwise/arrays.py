"""All distances as a lazy xarray array on Dask."""

from collections.abc import Sequence
from typing import Any

import dask.array as da
import numpy as np
import xarray as xr
from numpy.typing import NDArray

from daskfc.clustering import DistanceBlocks, FullDistances
from daskfc.errors import InvalidInput
from daskfc.pairwise.tiles import DistanceTiles

_SIDE = 1024  # ours: samples on a side of a chunk, 8 MiB


class _Read:
    """An array-like for Dask that reads a part when it is indexed."""

    ndim, dtype = 2, np.dtype(np.float64)

    def __init__(self, source: DistanceTiles | DistanceBlocks | FullDistances) -> None:
        self._source = source
        self.shape = source.n, source.n

    def __getitem__(self, key: tuple[slice, slice]) -> NDArray[Any]:
        rows, columns = key
        if not isinstance(self._source, DistanceTiles):
            return self._source.block(rows, columns)
        i, j = (part.start // self._source.grid.tile for part in (rows, columns))
        return self._source.block(i, j) if i <= j else self._source.block(j, i).T


def distance_array(
    source: DistanceTiles | DistanceBlocks | FullDistances,
    *,
    clients: Sequence[str] | NDArray[Any] | None = None,
    sample_ids: Sequence[Any] | NDArray[Any] | None = None,
) -> xr.DataArray:
    """Return all squared distances ``(sample, other)`` as a lazy array with a chunk for each tile.

    Privacy: it computes in the process that holds the distances, never through a scheduler.
    """
    read = _Read(source)
    side = source.grid.tile if isinstance(source, DistanceTiles) else _SIDE
    how = {"asarray": False, "fancy": False, "meta": np.empty((0, 0), read.dtype)}
    lazy = da.from_array(read, chunks=(side, side), **how)
    coords: dict[str, Any] = {}
    for name, values in (("client", clients), ("sample_id", sample_ids)):
        if values is None:
            continue
        if len(values) != source.n:
            raise InvalidInput(
                f"{name!r} of an array of distances must have one value for each of {source.n} "
                f"samples; got {len(values)}. Give them in the order of the samples."
            )
        coords[name] = "sample", np.asarray(values)
        coords[f"other_{name}"] = "other", np.asarray(values)
    return xr.DataArray(lazy, coords, ("sample", "other"), name="squared_distance")
