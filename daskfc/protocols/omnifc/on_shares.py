"""OmniFC without distances: labels from shares of three clients (``reveal="labels"``).

Paper       None: OmniFC's server learns all distances. This is DBSCAN and k-means on replicated
            shares, `daskfc.secure.three_parties`, on the grid that OmniFC's distances have.
"""

import logging
import math

import numpy as np
from numpy.typing import NDArray

from daskfc.clustering import DBSCAN, Clusterer, KMeans
from daskfc.coding import LagrangeCode
from daskfc.errors import InvalidInput, OverflowRefused, ResourceRefused
from daskfc.federation import Federation, Local, PerClient
from daskfc.federation.steps.rules import Rule, takes
from daskfc.secure.distances.routes.grids import choose_grid, place_of_samples
from daskfc.secure.distances.sizing.memory import PROCESS_BYTES, fits
from daskfc.secure.shared import DensityClusters, Lloyd
from daskfc.secure.sums import Centre
from daskfc.secure.three_parties import CentresOfShares, DensityOfShares, SharedComputation
from daskfc.secure.three_parties.tasks import LabelTask
from daskfc.stores import ClientStore

__all__ = ["ITERATIONS", "check_on_shares", "labels_on_shares", "whole_rows"]

ITERATIONS = 20
"""Of k-means, at most: their number is fixed before, as nobody sees when labels stay."""
_BITS, _LEAST_BITS = 16, 8  # ours: of a feature in k-means, whose centres are rounded as finely
_BEYOND = 1 << 62
_AT_ONCE = 1 << 20  # comparisons
log = logging.getLogger("daskfc.protocols")


def check_on_shares(
    clusterer: Clusterer, distances: str, n_colluding: int | None, n_clients: int | None
) -> None:
    """Refuse what shares cannot do, before anything runs."""
    if distances != "exact":
        raise InvalidInput(
            "with reveal='labels' no distances are computed, so 'distances' must be left out; got "
            f"{distances!r}. Leave it out, or use reveal='distances'."
        )
    means = isinstance(clusterer, KMeans) and clusterer.rows == "coordinates"
    if not means and not isinstance(clusterer, DBSCAN):
        raise InvalidInput(
            "OmniFC with reveal='labels' clusters by k-means on coordinates or by dbscan; got "
            f"{clusterer.name!r}. Choose one of them, or reveal='distances'."
        )
    if (n_colluding or 1) > 1:
        raise InvalidInput(
            "with reveal='labels' two of the three clients that compute learn all samples if they "
            f"collude, so 'n_colluding' must be 1; got {n_colluding}. Use reveal='distances'."
        )
    if n_clients is not None and n_clients < 3:
        raise InvalidInput(
            f"OmniFC with reveal='labels' needs three clients that compute; got {n_clients}. Add "
            "clients, or use reveal='distances'."
        )


_NO_POINT = Rule("None, or what the server told", lambda value, asked: value is None)
_A_SCALE = Rule("a positive number", lambda value, asked: 0 < value < math.inf)
_BITS_OF_ONE = Rule("an int in [1, 30]", lambda value, asked: type(value) is int and 0 < value < 31)


@takes(centre=_NO_POINT, scale=_A_SCALE, bits=_BITS_OF_ONE)
def whole_rows(
    data: ClientStore, centre: Centre | None = None, *, scale: float, bits: int
) -> NDArray[np.int64]:
    """Return the samples times a scale as whole numbers (n, d) below 2^bits, or refuse them."""
    point = 0.0 if centre is None else centre.point
    found = np.empty((data.n_samples, data.n_features), dtype=np.int64)
    for start, block in data.blocks():
        rows = np.rint((block - point) * scale)
        if not (np.abs(rows) < 2.0**bits).all():  # also where a value is missing
            raise OverflowRefused(
                "samples lie beyond the range that the clients told. Start the run again."
            )
        found[start : start + len(rows)] = rows
    return found


def labels_on_shares(
    federation: Federation,
    code: LagrangeCode,
    clusterer: Clusterer,
    n_clusters: int | None,
    *,
    seed: int,
    tolerance: float,
    max_abs: float | None,
) -> tuple[PerClient[Local[NDArray[np.int64]]], SharedComputation]:
    """Return each client's labels, which stay there, and the computation that found them."""
    place = place_of_samples(federation, code, max_abs)
    radius2 = clusterer.radius2 if isinstance(clusterer, DBSCAN) else None
    system = choose_grid(federation, code, place, tolerance=tolerance, resolve=radius2)
    n, d = int(place.public.samples.sum()), place.public.n_features
    if n_clusters is not None and n_clusters > n:
        raise InvalidInput(
            f"the 'n_clusters' parameter of OmniFC must be at most the number of samples, {n}; got "
            f"{n_clusters}. Lower it or add samples."
        )
    largest = max(1.0, place.public.radius * system.scale + 1)
    task: LabelTask
    if isinstance(clusterer, DBSCAN):
        scale, bits = _scaled(system.scale, largest, 30 if not system.exact else 0, 60 - _log2(d))
        squared = _largest_within(clusterer.radius2, scale)
        task = DensityOfShares(DensityClusters(n, d, bits, squared, clusterer.min_samples))
    else:
        assert isinstance(clusterer, KMeans)
        assert n_clusters is not None
        iterations = min(clusterer.max_iter, ITERATIONS)
        task = _finest(n, d, n_clusters, iterations, seed)
        bits = task.lloyd.magnitude_bits
        scale = system.scale * 2.0 ** (bits - math.ceil(math.log2(largest)))
        scale = min(scale, (2.0**bits - 1) / (place.public.radius or 1.0))
    computation = SharedComputation(federation)
    _check_memory(federation, computation, task, n, d)
    rows = federation.on_clients(whole_rows, place.centre, scale=scale, bits=bits)
    return computation.labels(rows, task), computation


def _log2(n: int) -> int:
    return (n - 1).bit_length()


def _scaled(scale: float, largest: float, more: int, room: int) -> tuple[float, int]:
    """Return a scale, finer by up to `more` bits, and the bits b of numbers, with 2 b <= room."""
    bits, most = math.ceil(math.log2(largest + 1)), min(30, room // 2)
    if bits > most:
        raise OverflowRefused(
            f"DBSCAN on shares has room for numbers of {most} bits, and distances of the size of "
            f"eps take {bits} where samples lie so far apart. Remove outliers, scale the features, "
            "or use reveal='distances'."
        )
    finer = min(more, most - bits)
    return scale * 2.0**finer, bits + finer


def _finest(n: int, d: int, k: int, iterations: int, seed: int) -> CentresOfShares:
    """Return k-means on numbers of as many bits as there is room for."""
    flat = n * k * (k - 1) // 2 <= _AT_ONCE  # more bytes and fewer rounds
    for bits in range(_BITS, _LEAST_BITS - 1, -1):
        try:
            lloyd = Lloyd(n, d, k, bits, iterations, at_once=_AT_ONCE, flat=flat)
            return CentresOfShares.drawn(lloyd, seed)
        except OverflowRefused:
            continue
    raise OverflowRefused(
        f"k-means on shares of {n} samples with {d} features has no room for numbers of "
        f"{_LEAST_BITS} bits. Use fewer samples or features, or reveal='distances'."
    )


def _largest_within(radius2: float, scale: float) -> int:
    """Return the largest whole squared distance that counts as within the radius."""
    if radius2 * scale**2 >= _BEYOND:
        return _BEYOND
    found = round(radius2 * scale**2)
    while found / scale**2 > radius2:
        found -= 1
    while (found + 1) / scale**2 <= radius2:
        found += 1
    return found


def _check_memory(
    federation: Federation, computation: SharedComputation, task: LabelTask, n: int, d: int
) -> None:
    """Refuse a computation that does not fit its members, before rows are shared."""
    needed, limits = PROCESS_BYTES + task.memory, federation.limits()
    what = f"labels on shares of {n} samples with {d} features"
    for member in computation.members:
        if not fits(needed, limits.get(member)):
            raise ResourceRefused(
                f"{what} would take {needed / 1e9:.2f} GB of memory at party {member!r}, more than "
                "its limit less a tenth. Raise its memory limit, or lower the number of samples."
            )
    federation.foresee(dict.fromkeys(computation.members, needed), what)
