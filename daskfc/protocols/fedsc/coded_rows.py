"""FedSC's similarities by coded computing: what clients and server do, and what they send.

Paper       Qiao, Ding, Fan, "Federated Spectral Clustering via Secure Similarity Reconstruction",
            NeurIPS 2023, Appendix C; OmniFC's Protocol 1 for the distances (Eqs. 1 to 6 there).
Notation    paper      here           shape, range
            C_p        -              (d, N_p), stays at client p
            -          B_p            (N_p, d) float64, C_pᵀ root, see `low_rank_similarity`
            -          rows           (N_p, d) int64, round(S B_p)
            -          norms          (N_p,) int64, |row|² = S² K̂_ii
            K̂_xx       K              (n, n), (norms_i + norms_j - S² D_ij) / (2 S²), in panels
            l, t       n_segments, n_colluding
Messages    RowSummary, SquaredNorms; OmniFC's CodedRows, HidingKey, CodedDistances
Departures  (1) The paper names secure inner products and leaves the means open: squared distances
            of the rows are computed on Lagrange shares, and norms lead back to inner products.
            (2) Rows are rounded to a grid of step 1 / S, see `coded.TOLERANCE`.
"""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from daskfc.clustering.low_rank_similarity import (
    Graph,
    MostSimilar,
    default_neighbors,
    join_similar,
    most_similar,
)
from daskfc.coding import LagrangeCode, ResidueSystem, SecretKey, quantise
from daskfc.errors import InvalidInput
from daskfc.federation import Message, NoiseMultiplier, array
from daskfc.pairwise import DistanceTiles
from daskfc.protocols.fedsc.server import vote
from daskfc.secure.distances.messages import CodedRows, NewSamples
from daskfc.secure.distances.party import hash64, rounded_up, share_out
from daskfc.secure.distances.server import Columns
from daskfc.secure.distances.server import Plan as RowPlan
from daskfc.secure.sums import Noised, Part

__all__ = [
    "QuantisedRows",
    "RowPlan",
    "RowSummary",
    "SquaredNorms",
    "count_rows",
    "encode_quantised",
    "graph_of_distances",
    "joined_votes",
    "plan_rows",
    "quantised_rows",
    "squared_norms",
    "summarise_rows",
    "votes_of_panel",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_BLOCK_ENTRIES = 1 << 22  # ours: similarities at once beside a panel, in a few copies of 32 MiB


# -- messages ---------------------------------------------------------------------------------


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


class SquaredNorms(
    Message, route="client → server", reveals="the similarity of every sample to itself"
):
    """Squared norms of a client's quantised rows, in units of 1 / S²."""

    norms: np.ndarray = array("sample", dtype="int64")
    noise_multiplier: NoiseMultiplier = math.inf


# -- at a client ------------------------------------------------------------------------------


@dataclass(frozen=True)
class QuantisedRows:
    """Integer rows that stay at their client.

    Parameters
    ----------
    rows : ndarray of shape (N_p, d), int64
        round(S B_p).
    digest : str
        Of the rows and their purpose.
    noise_multiplier : float or None
        Of the noise in them, where that is a release.
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
    """Round rows to the grid.

    Parameters
    ----------
    rows : ndarray of shape (N_p, d), or Noised
        B_p.
    system : ResidueSystem
        Scale and bound.
    purpose : str
        Tells clustered rows from new ones, which may be the same.

    Raises
    ------
    InvalidInput
        For rows that are not finite.
    OverflowRefused
        For rows beyond the radius.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.coding import ResidueSystem
    >>> from daskfc.protocols.fedsc.coded_rows import quantised_rows
    >>> system = ResidueSystem((251, 241), scale=10.0, bound=400)
    >>> quantised_rows(np.array([[0.52, -0.1]]), system=system, purpose="x").rows.tolist()
    [[5, -1]]
    """
    multiplier = rows.noise_multiplier if isinstance(rows, Noised) else None
    integers = quantise(_values(rows), system)
    # Of the integers: rows that are computed again elsewhere, and rounded otherwise in their last
    # bits, mostly come to the same integers and so to the same shares. Where they do not, they
    # have another key and another fingerprint, and the server refuses to mix the two.
    digest = hashlib.sha256(f"{purpose} {integers.shape} ".encode() + integers.tobytes())
    return QuantisedRows(integers, f"similarity rows {digest.hexdigest()}", multiplier)


def squared_norms(quantised: QuantisedRows) -> SquaredNorms:
    """Tell the server the squared norms of the rows."""
    norms = np.einsum("ij,ij->i", quantised.rows, quantised.rows)  # <= bound / 4 < 2**46
    if quantised.noise_multiplier is None:
        return SquaredNorms(norms)
    return SquaredNorms(norms, quantised.noise_multiplier)


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
    """Share out some of the rows, see `daskfc.secure.distances.party.encode_rows`."""
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


# -- at the server ----------------------------------------------------------------------------


def plan_rows(
    parts: Mapping[str, RowSummary], positions: Mapping[str, NDArray[np.int64]]
) -> RowPlan:
    """Hold the clients' summaries against each other.

    Parameters
    ----------
    parts : mapping of str to RowSummary
        In the order of the clients.
    positions : mapping of str to ndarray of int64
        Canonical positions of each client's samples.

    Returns
    -------
    daskfc.secure.distances.server.Plan
        Stays at the server.

    Raises
    ------
    InvalidInput
        When rows have different lengths, or are not as many as the samples.
    """
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
    return RowPlan(own, parts[first].n_atoms, radius, 0, problem)


def _in_order(norms: Mapping[str, SquaredNorms], plan: RowPlan) -> Floats:
    """Return the squared norms of all samples; whole numbers below 2**46, exact in float64."""
    ordered = np.empty(plan.n_samples)
    for name, part in norms.items():
        ordered[plan.positions[name]] = part.norms
    return ordered


def _similarities(D: Floats, left: Floats, right: Floats, system: ResidueSystem) -> Floats:
    """Turn squared distances into inner products, in place.

    All numbers are whole and below 2**48 until the last division, so that K is exactly symmetric
    and does not depend on the panels.
    """
    square = system.scale * system.scale
    D *= -square
    np.rint(D, out=D)  # the server's distances are integers over S², rounded to float64
    D += left[:, None]
    D += right
    D /= 2 * square
    return D


def graph_of_distances(
    tiles: DistanceTiles,
    norms: Mapping[str, SquaredNorms],
    plan: RowPlan,
    *,
    system: ResidueSystem,
    n_neighbors: int | None,
) -> Graph:
    """Return the sparse graph of Eq. (25) from the distances on the server's disk.

    Parameters
    ----------
    tiles : DistanceTiles
        Squared distances of the quantised rows, all blocks.
    norms : mapping of str to SquaredNorms
        Of every client.
    plan : daskfc.secure.distances.server.Plan
        The order of the samples.
    system : ResidueSystem
        The scale.
    n_neighbors : int, optional
        As for `similarity_graph`.

    Returns
    -------
    csr_array of shape (n, n), float64
        As of `similarity_graph`, in canonical order.
    """
    n, ordered = tiles.n, _in_order(norms, plan)
    k = default_neighbors(n) if n_neighbors is None else n_neighbors
    step = max(1, _BLOCK_ENTRIES // n)

    def parts() -> Iterator[MostSimilar]:
        for first, D in tiles.panels():
            for start in range(0, len(D), step):
                begin = first + start
                rows = D[start : start + step]
                K = _similarities(rows, ordered[begin : begin + len(rows)], ordered, system)
                yield most_similar(K, begin, k)

    return join_similar(parts())


def votes_of_panel(
    columns: Sequence[Columns],
    new: SquaredNorms,
    norms: Mapping[str, SquaredNorms],
    plan: RowPlan,
    labels: NDArray[np.int64],
    *,
    start: int,
    stop: int,
    system: ResidueSystem,
    n_clusters: int,
    n_neighbors: int | None,
) -> NDArray[np.int64]:
    """Label a panel of new samples by the summed similarity of their most similar clustered ones.

    Parameters
    ----------
    columns : sequence of Columns
        Squared distances of clustered to new rows, one block of clustered ones after the other.
    new : SquaredNorms
        Of all new samples of their client.
    norms, plan, system
        As for `graph_of_distances`.
    labels : ndarray of shape (n,), int64
        Of the clustered samples, in canonical order.
    start, stop : int
        The panel.
    n_clusters, n_neighbors : int
        As at the fit.

    Returns
    -------
    ndarray of shape (stop - start,), int64
    """
    ordered = _in_order(norms, plan)
    k = min(n_neighbors or default_neighbors(len(ordered)), len(ordered))
    D = np.concatenate([part.distances for part in columns]).T
    own = new.norms[start:stop].astype(np.float64)
    K = _similarities(np.ascontiguousarray(D), own, ordered, system)
    return vote(K, labels, n_clusters, k)


def joined_votes(
    panels: Mapping[str, Sequence[NDArray[np.int64]]],
) -> Mapping[str, NDArray[np.int64]]:
    """Join the labels of each client's panels."""
    return {name: np.concatenate(list(parts)) for name, parts in panels.items()}
