"""What a ledger says of a fit's uploads: numbers and bytes from clients to the server, by round.

The paper counts "floating-point numbers uploaded from users' devices to the cloud server"
(Section 5.2). A masked number counts as one; public keys and the few numbers that describe a
message do not.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from daskfc.federation import Ledger
from daskfc.federation.ledger.rows import LedgerRow
from daskfc.federation.messages.declaration import SERVER, route_of
from daskfc.protocols.fk_kmeans.maths.dspgd import learning_rate

__all__ = ["Upload", "floats_of", "ranks", "uploaded", "uploads_by_round"]

_NUMBERS = ("float64", "uint64", "int64")
_PRODUCTS = ("MaskedPart", "PlainPart")


@dataclass(frozen=True)
class Upload:
    """What all clients uploaded in a round.

    Parameters
    ----------
    floats : int
        Numbers.
    payload_bytes : int
        Of the messages that carried them.
    messages : int
        How many.
    products : int
        Vectors that each client multiplied, or the columns of what it added to sums.
    """

    floats: int
    payload_bytes: int
    messages: int
    products: int


def uploaded(ledger: Ledger | Iterable[LedgerRow]) -> list[LedgerRow]:
    """Return the messages from clients to the server; one that was fetched twice counts once."""
    rows = {
        (row.task, row.receiver): row
        for row in ledger
        if route_of(row.sender, row.receiver) == f"client → {SERVER}"
    }
    return list(rows.values())


def floats_of(row: LedgerRow) -> int:
    """Return how many numbers a message carried."""
    return sum(
        math.prod(shape) for field, shape in row.shapes.items() if row.dtypes[field] in _NUMBERS
    )


def uploads_by_round(ledger: Ledger) -> dict[int, Upload]:
    """Return what was uploaded in each round; iterations are rounds, from 1."""
    found: dict[int, list[LedgerRow]] = {}
    for row in uploaded(ledger):
        found.setdefault(row.round, []).append(row)
    uploads = {}
    for number, rows in sorted(found.items()):
        first = min(row.sender for row in rows)
        parts = [row for row in rows if row.sender == first and row.message in _PRODUCTS]
        uploads[number] = Upload(
            floats=sum(map(floats_of, rows)),
            payload_bytes=sum(row.payload_bytes for row in rows),
            messages=len(rows),
            products=sum(row.shapes["values"][1] for row in parts),
        )
    return uploads


def ranks(history: Iterable[tuple[np.ndarray, float]]) -> list[int]:
    """Return r_t of every iteration: how many eigenvalues the one before left above 0.

    Parameters
    ----------
    history : iterable of (ndarray, float)
        Eigenvalues λ_i and the threshold λ of iterations 1, 2, ...

    Examples
    --------
    >>> import numpy as np
    >>> ranks([(np.array([5.0, 2.0, 1.0]), 2.0), (np.array([4.0, 1.5, 0.9]), 2.0)])
    [0, 1]
    """
    left = [
        int(np.count_nonzero(values > learning_rate(number) * threshold))
        for number, (values, threshold) in enumerate(history, start=1)
    ]
    return [0, *left[:-1]]
