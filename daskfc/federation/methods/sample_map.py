"""A map of some samples for the caller, from what the server knows of them anyway."""

import numpy as np

from daskfc import seeds
from daskfc.arrays import Floats, Ints
from daskfc.federation.messages.declaration import Message, array
from daskfc.linalg import plane_of_distances, plane_of_points

MAPPED = 2000
"""Ours: samples of a map. More dots cover each other, and are more that is told."""

_STEPS = 255  # ours: places along the longer side; a dot is as wide as three of them


class SampleMap(
    Message,
    route="server → caller",
    reveals=(
        "to the caller where at most 2,000 samples lie in a plane, to 1/255 of its width, and "
        "their clusters; neither their ids nor whose they are"
    ),
):
    """Dots in a plane, sorted by cluster and place, so that their order tells nothing."""

    positions: np.ndarray = array("sample", 2, dtype="uint8")
    labels: np.ndarray = array("sample", dtype="int64")
    share: float  # of the samples' variance that the plane holds


def mapped_rows(n: int, seed: int, purpose: str = "map") -> Ints:
    """Return which of n samples a map shows, in ascending order: at most 2,000."""
    if n <= MAPPED:
        return np.arange(n, dtype=np.int64)
    drawn = seeds.generator(seed, purpose).choice(n, MAPPED, replace=False)
    return np.sort(drawn).astype(np.int64)


def map_of_points(points: Floats, labels: Ints) -> SampleMap:
    """Return the map of samples with coordinates, (n, d), by their principal components."""
    return _drawn(*plane_of_points(np.asarray(points, dtype=np.float64)), labels)


def map_of_distances(distances: Floats, labels: Ints) -> SampleMap:
    """Return the map of samples by their distances, (n, n), not squared."""
    return _drawn(*plane_of_distances(np.asarray(distances, dtype=np.float64) ** 2), labels)


def _drawn(coordinates: Floats, share: float, labels: Ints) -> SampleMap:
    if not len(coordinates):
        return SampleMap(np.zeros((0, 2), dtype=np.uint8), np.zeros(0, dtype=np.int64), share)
    low = coordinates.min(axis=0)
    width = float((coordinates.max(axis=0) - low).max())
    shares = (coordinates - low) / width if width > 0 else np.zeros_like(coordinates)
    places = np.rint(shares * _STEPS).astype(np.uint8)
    order = np.lexsort([places[:, 1], places[:, 0], labels])
    return SampleMap(places[order], labels[order].astype(np.int64), share)
