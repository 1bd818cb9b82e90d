"""Secure distances at the server: plan the code, decode blocks and columns."""

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import and_
from pathlib import Path

import numpy as np

from daskfc.coding import (
    LagrangeCode,
    ResidueSystem,
    SecretKey,
    WideIntegers,
    find_wrong,
    reconstruct,
    reconstruct_wide,
)
from daskfc.errors import DecodingError, InvalidInput
from daskfc.federation.methods.samples import SampleDigests, canonical_positions
from daskfc.folders import check_folder_name
from daskfc.linalg import LandmarkEmbedding
from daskfc.pairwise import DistanceTiles, NeighbourTiles, RadiusTiles, SymmetricGrid
from daskfc.secure.distances.parties.gaps import Gaps
from daskfc.secure.distances.parties.messages import (
    CodedDistances,
    DecodedBlock,
    GapReport,
    Landmarks,
    LandmarkStatus,
    MissingBlocks,
    NearestApart,
    PublicPlan,
    Reach,
    RowPositions,
    SampleSummary,
    ServerDisk,
)
from daskfc.secure.distances.parties.seen import hash64

# ours: the modulus over the range of distances; detects a wrong distance 1 time in 5
_TO_SPARE = 1.25
_LARGEST = 2.0**51  # a whole number below it survives a division by S² and the way back

Tiles = DistanceTiles | NeighbourTiles | RadiusTiles


@dataclass(frozen=True)
class RowPlan:
    """The order and range of all samples, which the server derives from the clients' summaries."""

    positions: dict[str, np.ndarray]
    n_features: int
    radius: float
    spread: float
    grids: int
    problem: int
    groups: Mapping[str, int] = field(default_factory=dict)
    radii: Mapping[str, float] = field(
        default_factory=dict
    )  # of each one's columns, of all that hold these
    gaps: Gaps | None = None  # where samples lack columns

    @property
    def n_samples(self) -> int:
        """Number of samples of all clients, each once."""
        return 1 + max(int(part.max(initial=-1)) for part in self.positions.values())


def plan(parts: Mapping[str, SampleSummary]) -> RowPlan:
    """Order the samples and compute the range of the data; refuse ids that clients share."""
    if len({part.columns for part in parts.values()}) > 1:
        raise InvalidInput(
            f"clients that hold samples need the same columns in the same order; those of "
            f"{', '.join(parts)} differ. Write one of the stores again."
        )
    positions = canonical_positions(
        {n: SampleDigests(p.digests, p.share) for n, p in parts.items()}
    )
    ordered = np.sort(np.concatenate([part.digests for part in parts.values()]))
    contents = sorted(f"{name}:{part.content}:{part.share}" for name, part in parts.items())
    radius = max(part.radius for part in parts.values())
    return RowPlan(
        positions=positions,
        n_features=next(iter(parts.values())).n_features,
        radius=radius,
        spread=max(part.spread for part in parts.values()),
        grids=reduce(and_, (part.grids for part in parts.values())),
        problem=hash64(ordered.tobytes(), *map(str.encode, contents), repr(radius).encode()),
    )


def plan_from_centre(plan: RowPlan, parts: Mapping[str, Reach]) -> RowPlan:
    """Return the plan with the range of the data relative to their centre."""
    radius = max(part.radius for part in parts.values())
    problem = hash64(plan.problem.to_bytes(8, "little"), repr(radius).encode())
    return replace(plan, radius=radius, problem=problem)


def nearest_of_all(parts: Mapping[str, NearestApart]) -> NearestApart:
    """Report to the caller the least of the clients' small distances."""
    return NearestApart(min(part.squared for part in parts.values()))


def public_plan(plan: RowPlan) -> PublicPlan:
    """Report to the caller the size and range of the problem."""
    return PublicPlan(
        samples=np.array([len(part) for part in plan.positions.values()], dtype=np.int64),
        n_samples=plan.n_samples,
        n_features=plan.n_features,
        radius=plan.radius,
        spread=plan.spread,
        grids=plan.grids,
        problem=plan.problem,
    )


def told_gaps(plan: RowPlan) -> GapReport:
    """Report to the caller what comes of samples that lack columns."""
    return GapReport(0, 0, 0, 1.0, 0.0, 1.0) if plan.gaps is None else plan.gaps.report


def row_positions(plan: RowPlan) -> RowPositions:
    """Report to the evaluators the place of every row."""
    parts = list(plan.positions.values())
    return RowPositions(
        positions=np.concatenate(parts),
        ends=np.cumsum([len(part) for part in parts], dtype=np.int64),
        groups=np.array([plan.groups.get(name, 0) for name in plan.positions], dtype=np.int64),
    )


def open_tiles(
    workspace: str,
    *,
    name: str,
    grid: SymmetricGrid,
    n_neighbors: int | None,
    radius2: float | None,
) -> Tiles:
    """Create the server's store of blocks, or continue that of an earlier run of this problem."""
    check_folder_name("store of distances", name)
    path = f"{workspace}/{name}"

    def create() -> Tiles:
        if n_neighbors is not None:
            return NeighbourTiles.create(path, grid, n_neighbors)
        if radius2 is not None:
            return RadiusTiles.create(path, grid, radius2)
        return DistanceTiles.create(path, grid)

    try:
        return create()
    except ValueError:  # zarr's, or a StoreError: a crash of the machine left no group
        if not Path(path).exists():
            raise
        shutil.rmtree(path)  # its name is of this problem alone
        return create()


def server_disk(workspace: str) -> ServerDisk:
    """Report to the caller the free disk space of the server's folder."""
    folder = Path(workspace)
    folder.mkdir(parents=True, exist_ok=True)
    return ServerDisk(shutil.disk_usage(folder).free)


def missing_blocks(tiles: Tiles) -> MissingBlocks:
    """Report to the caller which blocks are still to be computed."""
    return MissingBlocks(np.array(tiles.missing(), dtype=np.int64).reshape(-1, 2))


def decode_answers(
    answers: Mapping[str, CodedDistances],
    secret: SecretKey,
    code: LagrangeCode,
    system: ResidueSystem,
    evaluators: Sequence[str],
    what: str,
) -> tuple[np.ndarray | WideIntegers, np.ndarray]:
    """Return whole squared distances and the evaluators whose answers were wrong."""
    if len({answer.encoding for answer in answers.values()}) > 1:
        raise DecodingError(
            f"the answers for {what} must be of one encoding; the evaluators hold different ones, "
            "as after a client came back with new keys. Resume the run, which encodes afresh."
        )
    indices = [evaluators.index(name) for name in answers]
    residues = [answer.residues for answer in answers.values()]
    wrong: tuple[int, ...] = ()
    if len(indices) > code.threshold:
        wrong = find_wrong(residues, indices, code, system, secret=secret.derive("check", what))
    kept = [(r, j) for r, j in zip(residues, indices, strict=True) if j not in wrong]
    kept = kept[: code.threshold]
    interpolate = reconstruct_wide if system.is_wide else reconstruct
    integers = interpolate([r for r, _ in kept], [j for _, j in kept], code, system)  # Eq. (5)
    return integers, np.array(sorted(wrong), dtype=np.int64)


def decode_block(
    tiles: Tiles,
    answers: Mapping[str, CodedDistances],
    secret: SecretKey,
    plan: RowPlan | None = None,
    *,
    i: int,
    j: int,
    code: LagrangeCode,
    system: ResidueSystem,
    evaluators: Sequence[str],
) -> DecodedBlock:
    """Interpolate a block of squared distances from the answers and keep it.

    With a `plan` whose samples lack columns, as if they had all.

    Answers beyond the code's threshold are checked with random numbers from the server's secret,
    which no evaluator can foresee; raises DecodingError where the code cannot correct them.
    """
    whole, wrong = decode_answers(answers, secret, code, system, evaluators, f"block ({i}, {j})")
    # Eq. (6) divides by 2**q; squared distances carry the square of the scale
    squares = system.to_real(whole)
    if plan is not None and plan.gaps is not None:
        squares = plan.gaps.scaled(squares, tiles.grid.panel(i), tiles.grid.panel(j))
    tiles.write(i, j, squares)
    return DecodedBlock(wrong)


def start_landmarks(plan: RowPlan, *, tolerance: float, nearest: float) -> LandmarkEmbedding:
    """Begin the search for landmarks."""
    return LandmarkEmbedding(plan.n_samples, plan.n_features, tolerance=tolerance, nearest=nearest)


def next_landmarks(embedding: LandmarkEmbedding, *, count: int) -> np.ndarray:
    """Return the samples farthest from the landmarks' span; none when the search has converged."""
    return embedding.next_landmarks(count)


def told_landmarks(chosen: np.ndarray) -> Landmarks:
    """Report to the evaluators which samples are landmarks."""
    return Landmarks(chosen)


@dataclass(frozen=True)
class Columns:
    """Decoded distances of a panel of samples to the new landmarks; stays at the server."""

    distances: np.ndarray
    wrong: np.ndarray
    whole: WideIntegers | None = None  # in units of 1 / S², where float64 does not hold these


def decode_columns(
    answers: Mapping[str, CodedDistances],
    known: LandmarkEmbedding | None,
    landmarks: np.ndarray | None,
    secret: SecretKey,
    *,
    what: str,
    start: int,
    code: LagrangeCode,
    system: ResidueSystem,
    evaluators: Sequence[str],
) -> Columns:
    """Interpolate a panel of columns, of the samples from `start` on, from the answers.

    With the bounds of a `known` embedding fewer primes suffice. Raises DecodingError for answers
    that contradict these bounds, or each other beyond correction.
    """
    whole, wrong = decode_answers(answers, secret, code, system, evaluators, what)
    if known is not None:
        assert landmarks is not None
        assert not isinstance(whole, WideIntegers)
        least, most = known.bounds(slice(start, start + len(whole)), landmarks)
        first = np.floor(least * system.scale**2)
        beyond = (whole - np.fmod(first, system.modulus).astype(np.int64)) % system.modulus
        if (beyond > most * system.scale**2 - first + 1).any():
            raise DecodingError(
                f"the answers for {what} contradict what is known of these distances: an "
                "evaluator answered wrongly, or a client shared rows outside the agreed radius. "
                "Add spare evaluators to name the wrong one."
            )
        whole = WideIntegers(first, beyond)
        if (first + beyond).max(initial=0.0) < _LARGEST:
            whole = np.asarray(whole)
    kept = whole if isinstance(whole, WideIntegers) else None
    return Columns(system.to_real(whole), wrong, kept)


def decoded_columns(columns: Columns) -> DecodedBlock:
    """Report to the caller which evaluators answered wrongly for a panel of columns."""
    return DecodedBlock(columns.wrong)


def add_columns(
    embedding: LandmarkEmbedding, landmarks: np.ndarray, columns: Sequence[Columns]
) -> LandmarkEmbedding:
    """Add a round of landmark columns to the embedding, in place; a repeated call adds nothing."""
    known = set(embedding.landmarks.tolist())
    if not known.issuperset(landmarks.tolist()):
        embedding.add_panels(landmarks, [part.distances for part in columns])
    return embedding


def landmark_status(embedding: LandmarkEmbedding, *, system: ResidueSystem) -> LandmarkStatus:
    """Report to the caller the progress of the search."""
    residual = float(embedding.certificate().max())
    scale = embedding.scale
    return LandmarkStatus(
        n_landmarks=len(embedding.landmarks),
        rank=embedding.rank,
        residual=residual / scale if scale and np.isfinite(residual) else 0.0,
        converged=int(embedding.converged),
        n_primes=_primes_for(embedding.spread * system.scale**2, system),
    )


def _primes_for(spread: float, system: ResidueSystem) -> int:
    """Return how many primes determine whole numbers that are known up to a spread."""
    fewer = range(1, len(system.primes))
    tell = (r for r in fewer if _TO_SPARE * spread + 2 < math.prod(system.primes[:r]))
    least = next(tell, len(system.primes))
    return len(system.primes) if system.first(least).is_wide else least
