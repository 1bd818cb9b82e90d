"""Rows that were computed at the clients, rounded to the grid of a code and shared out."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from daskfc.coding import LagrangeCode, ResidueSystem, SecretKey, quantise
from daskfc.errors import InvalidInput
from daskfc.federation import Message
from daskfc.federation.steps.rules import some_clients, takes
from daskfc.privacy import Noised, Part
from daskfc.secure.distances.parties.choice import AS_ANNOUNCED
from daskfc.secure.distances.parties.messages import CodedRows, NewSamples
from daskfc.secure.distances.parties.party import hash64, rounded_up, share_out
from daskfc.secure.distances.parties.server import RowPlan

__all__ = [
    "QuantisedRows",
    "RowSummary",
    "count_rows",
    "encode_quantised",
    "plan_rows",
    "quantised_rows",
    "summarise_rows",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class RowSummary(
    Message,
    route="client → server",
    reveals=(
        "the largest norm of a row, rounded up to a power of 2**(1/8), unless a bound is public; "
        "whether the rows are those of an earlier fit in this run"
    ),
):
    """What the server must know of a client's rows to plan the code."""

    n_samples: int
    n_atoms: int
    radius: float
    content: int  # under the client's secret: of no use but to compare


@dataclass(frozen=True)
class QuantisedRows:
    """Integer rows round(S B_p), (N_p, d), that stay at their client; digest of rows and purpose.

    `noise_multiplier` is that of the noise in them where they are a noised release, else None.
    """

    rows: Integers
    digest: str
    noise_multiplier: float | None


def _values(rows: Part) -> Floats:
    return rows.values if isinstance(rows, Noised) else rows


def summarise_rows(rows: Part, secret: SecretKey, *, radius: float | None) -> RowSummary:
    """Tell the server the size of the rows, and their largest norm where no bound is public."""
    B = np.ascontiguousarray(_values(rows))
    if radius is None:
        radius = rounded_up(float(np.sqrt(np.einsum("ij,ij->i", B, B).max(initial=0.0))))
    digest = hashlib.sha256(B.tobytes()).hexdigest()
    # a bare digest would let the server try out what the rows are
    content = secret.derive("similarity rows", *B.shape, digest).fingerprint()
    return RowSummary(len(B), B.shape[1], radius, content)


def quantised_rows(rows: Part, *, system: ResidueSystem, purpose: str) -> QuantisedRows:
    """Round rows B_p, (N_p, d), to the grid; `purpose` separates clustered rows from new ones.

    Rows beyond the system's radius are refused (OverflowRefused).
    """
    multiplier = rows.noise_multiplier if isinstance(rows, Noised) else None
    integers = quantise(_values(rows), system)
    # Of the integers: rows that are computed again elsewhere, and rounded otherwise in their last
    # bits, mostly come to the same integers and so to the same shares. Where they do not, they
    # have another key and another fingerprint, and the server refuses to mix the two.
    digest = hashlib.sha256(f"{purpose} {integers.shape} ".encode() + integers.tobytes())
    return QuantisedRows(integers, f"similarity rows {digest.hexdigest()}", multiplier)


@takes(code=AS_ANNOUNCED, evaluators=some_clients)
def encode_quantised(
    quantised: QuantisedRows,
    secret: SecretKey,
    *,
    start: int,
    stop: int,
    code: LagrangeCode,
    system: ResidueSystem,
    evaluators: Sequence[str],
) -> dict[str, CodedRows]:
    """Share out some of the rows, see `daskfc.secure.distances.parties.party.encode_rows`."""
    return share_out(
        quantised.rows[start:stop],
        secret,
        quantised.digest,
        start=start,
        code=code,
        system=system,
        evaluators=evaluators,
    )


def count_rows(quantised: QuantisedRows) -> NewSamples:
    """Tell the caller how many new samples there are."""
    return NewSamples(len(quantised.rows))


def plan_rows(
    parts: Mapping[str, RowSummary], positions: Mapping[str, NDArray[np.int64]]
) -> RowPlan:
    """Put the rows in order; refuse rows of different lengths, or not as many as the samples."""
    first = next(iter(parts))
    for name, part in parts.items():
        expected = (len(positions[name]), parts[first].n_atoms)
        if (part.n_samples, part.n_atoms) != expected:
            raise InvalidInput(
                f"the similarity rows of client {name!r} must have the shape {expected}, of its "
                f"samples and of the atoms of client {first!r}; got "
                f"{(part.n_samples, part.n_atoms)}. Compute them from one dictionary."
            )
    radius = max(part.radius for part in parts.values())
    ordered = [positions[name].tobytes() for name in parts]
    contents = [f"{name}:{part.content}".encode() for name, part in parts.items()]
    problem = hash64(b"FedSC", *ordered, *contents, repr(radius).encode())
    own = {name: positions[name] for name in parts}
    return RowPlan(own, parts[first].n_atoms, radius, np.inf, 0, problem)
