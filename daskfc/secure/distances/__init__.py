"""Squared distances, at the server, of rows that stay at the clients, by Lagrange coding."""

from daskfc.secure.distances.graphs import graph_of_points
from daskfc.secure.distances.parties.by_columns import own_modularity, told_modularity
from daskfc.secure.distances.parties.choice import choose_code
from daskfc.secure.distances.parties.messages import GapReport
from daskfc.secure.distances.parties.server import Columns, RowPlan, Tiles
from daskfc.secure.distances.routes.grids import Held
from daskfc.secure.distances.routes.new_panels import NewPanel
from daskfc.secure.distances.secure_distances import SecureDistances
from daskfc.secure.distances.sizing.memory import NOBODY, Reader

__all__ = [
    "NOBODY",
    "Columns",
    "GapReport",
    "Held",
    "NewPanel",
    "Reader",
    "RowPlan",
    "SecureDistances",
    "Tiles",
    "choose_code",
    "graph_of_points",
    "own_modularity",
    "told_modularity",
]
