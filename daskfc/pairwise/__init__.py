"""Pairwise distances, neighbour graphs and radius graphs in tiles on disk, for large n."""

from daskfc.pairwise.grid import SymmetricGrid
from daskfc.pairwise.nearest import NOBODY, Nearest, nearest_of_block
from daskfc.pairwise.neighbours import NeighbourTiles
from daskfc.pairwise.radius import RadiusTiles, within_of_block
from daskfc.pairwise.tiles import DistanceTiles

__all__ = [
    "NOBODY",
    "DistanceTiles",
    "Nearest",
    "NeighbourTiles",
    "RadiusTiles",
    "SymmetricGrid",
    "nearest_of_block",
    "within_of_block",
]
