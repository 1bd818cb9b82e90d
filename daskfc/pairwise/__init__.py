"""n × n in tiles: distances, neighbour graphs and radius graphs that never lie in one memory."""

from daskfc.pairwise.grid import SymmetricGrid
from daskfc.pairwise.neighbours import NeighbourTiles
from daskfc.pairwise.radius import RadiusTiles
from daskfc.pairwise.tiles import DistanceTiles

__all__ = [
    "DistanceTiles",
    "NeighbourTiles",
    "RadiusTiles",
    "SymmetricGrid",
]
