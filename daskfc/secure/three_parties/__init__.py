"""Three clients of a federation that compute on all clients' shares, and what is opened of it.

In come rows of whole numbers, which stay at the clients, and a program of `shared`; out go each
client's labels, which stay there too, or a graph of neighbours at the server. This room puts
programs into messages and rounds; methods may import it.
"""

from daskfc.secure.three_parties.computation import SharedComputation
from daskfc.secure.three_parties.steps import WholeRows
from daskfc.secure.three_parties.tasks import CentresOfShares, DensityOfShares, NeighboursOfShares

__all__ = [
    "CentresOfShares",
    "DensityOfShares",
    "NeighboursOfShares",
    "SharedComputation",
    "WholeRows",
]
