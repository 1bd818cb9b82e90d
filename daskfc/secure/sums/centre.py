"""Clients agree on a point among their samples, a centre, where these lie far from the origin.

Distances do not depend on the origin, but their rounding errors do: for values near 1e6 they hide
the differences between neighbours.

Messages    of the sum   client → server   once; d + 1 numbers
            Centre       server → client   once
"""

import math

import numpy as np

from daskfc.arrays import Floats
from daskfc.federation import Federation, Local, Message, array
from daskfc.secure.sums.total import Aggregation, Total
from daskfc.stores import ClientStore


class Centre(
    Message, route="server → client", reveals="the mean of all clients' samples, in OmniFC rounded"
):
    """A point among all samples, from which each client measures its own."""

    point: np.ndarray = array("feature", dtype="float64")


def agree_on_centre(
    federation: Federation, sums: Aggregation, *, step: float = 0.0
) -> Local[Centre]:
    """Return, at the server, a point near the mean of all clients' samples, by one sum.

    Privacy: server and clients learn the number of samples and their mean. A `step` above 0 rounds
    the point, so that the sum's last bits seldom move it.
    """
    total = sums.sum(federation.on_clients(sum_of_rows))
    return federation.on_server(centre_of_total, total, step=step)


def sum_of_rows(data: ClientStore) -> Floats:
    """Return the sum of each feature, and the number of samples, (d + 1,)."""
    found = np.zeros(data.n_features + 1)
    for _, rows in data.blocks():
        found[:-1] += rows.sum(axis=0)
        found[-1] += len(rows)
    return found


def centre_of_total(total: Total, *, step: float) -> Centre:
    """Return the mean, rounded to multiples of the power of two at or below `step`."""
    values = total.values.ravel()
    mean = values[:-1] / values[-1]
    if step > 0:
        unit = 2.0 ** math.floor(math.log2(step))
        mean = np.rint(mean / unit) * unit
    return Centre(mean)
