"""Rows computed at the clients, which they round to the grid of a code and share out."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from daskfc.arrays import Floats, Ints
from daskfc.coding import LagrangeCode, ResidueSystem, SecretKey, quantise
from daskfc.errors import InvalidInput
from daskfc.federation import Message
from daskfc.federation.steps.rules import some_clients, takes
from daskfc.privacy import Noised, Part
from daskfc.secure.distances.parties.choice import AS_ANNOUNCED
from daskfc.secure.distances.parties.messages import CodedRows, NewSamples
from daskfc.secure.distances.parties.party import rounded_up, share_out
from daskfc.secure.distances.parties.seen import hash64
from daskfc.secure.distances.parties.server import RowPlan


class RowSummary(
    Message,
    route="client → server",
    reveals=(
        "the largest norm of a row, rounded up to a power of 2**(1/8), unless a bound is public; "
        "whether the rows are those of an earlier fit in this run"
    ),
):
    """Number, length and largest norm of a client's rows, from which the server plans the code."""

    n_samples: int
    n_atoms: int
    radius: float
    content: int  # digest under the client's secret, of use only for comparisons


@dataclass(frozen=True)
class QuantisedRows:
    """Integer rows round(S B_p), (N_p, d), with a digest and the multiplier of any noise."""

    rows: Ints
    digest: str
    noise_multiplier: float | None


def _values(rows: Part) -> Floats:
    return rows.values if isinstance(rows, Noised) else rows


def summarise_rows(rows: Part, secret: SecretKey, *, radius: float | None) -> RowSummary:
    """Report the size of the rows to the server, and their largest norm if no bound is public."""
    B = np.ascontiguousarray(_values(rows))
    if radius is None:
        radius = rounded_up(float(np.sqrt(np.einsum("ij,ij->i", B, B).max(initial=0.0))))
    digest = hashlib.sha256(B.tobytes()).hexdigest()
    # with an unkeyed digest the server could test guesses of the rows
    content = secret.derive("similarity rows", *B.shape, digest).fingerprint()
    return RowSummary(len(B), B.shape[1], radius, content)


def quantised_rows(rows: Part, *, system: ResidueSystem, purpose: str) -> QuantisedRows:
    """Round rows B_p, (N_p, d), to the grid; raise OverflowRefused beyond the system's radius."""
    multiplier = rows.noise_multiplier if isinstance(rows, Noised) else None
    integers = quantise(_values(rows), system)
    # Of the integers: rows that another machine computes again, with other last bits, mostly round
    # to the same integers and so give the same shares. Where they do not, they have another key
    # and another fingerprint, and the server refuses to mix the two.
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
    """Share out some of the rows; see `daskfc.secure.distances.parties.party.encode_rows`."""
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
    """Report to the caller how many new samples there are."""
    return NewSamples(len(quantised.rows))


def plan_rows(parts: Mapping[str, RowSummary], positions: Mapping[str, Ints]) -> RowPlan:
    """Put the rows in order; refuse other lengths, or other numbers than of the samples."""
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
