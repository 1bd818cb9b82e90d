"""All distances from a few columns: what the server keeps of them, and the points they give."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from daskfc.clustering import ExactPoints, exact_points
from daskfc.coding import ResidueSystem
from daskfc.linalg import SPAN, LandmarkEmbedding
from daskfc.secure.distances.messages import PointsStatus
from daskfc.secure.distances.server import Columns, RowPlan

__all__ = [
    "KeptColumns",
    "entry_bytes",
    "in_words",
    "keep_columns",
    "points",
    "points_status",
    "start_search",
]

_ROUNDING = 1e-12  # of the mean squared distance: the search can tell nothing below it


def entry_bytes(system: ResidueSystem) -> int:
    """Return the bytes of a whole squared distance that is kept."""
    return 4 if system.bound < 2**32 else 8


@dataclass
class KeptColumns:
    """Whole squared distances of all samples to the landmarks of each round so far."""

    system: ResidueSystem
    landmarks: list[NDArray[np.int64]] = field(default_factory=list)
    rounds: list[NDArray[np.unsignedinteger]] = field(default_factory=list)

    def __call__(self, rows: slice) -> NDArray[np.unsignedinteger]:
        """Return the distances of some samples to all landmarks, in the order of these."""
        return np.concatenate([block[rows] for block in self.rounds], axis=1)


def start_search(plan: RowPlan, *, system: ResidueSystem) -> LandmarkEmbedding:
    """Begin the search for landmarks that span all samples, as far as rounding can tell."""
    return LandmarkEmbedding(
        plan.n_samples, plan.n_features, tolerance=_ROUNDING, nearest=SPAN / system.scale**2
    )


def keep_columns(
    kept: KeptColumns | None,
    landmarks: NDArray[np.int64],
    columns: list[Columns],
    *,
    system: ResidueSystem,
) -> KeptColumns:
    """Keep a round of columns; a second call with the same round adds nothing."""
    kept = kept or KeptColumns(system)
    if not any(np.array_equal(landmarks, known) for known in kept.landmarks):
        whole = np.empty(
            (sum(len(part.distances) for part in columns), len(landmarks)),
            dtype=f"uint{8 * entry_bytes(system)}",
        )
        start = 0
        for part in columns:
            stop = start + len(part.distances)
            # they are whole numbers over S², rounded to float64
            whole[start:stop] = np.rint(part.distances * system.scale**2)
            start = stop
        kept.landmarks.append(landmarks)
        kept.rounds.append(whole)
    return kept


def points(kept: KeptColumns, plan: RowPlan) -> ExactPoints:
    """Return coordinates of all samples from what was kept."""
    return exact_points(
        kept,
        np.concatenate(kept.landmarks),
        n=plan.n_samples,
        n_features=plan.n_features,
        scale2=kept.system.scale**2,
        primes=kept.system.primes,
    )


def points_status(found: ExactPoints) -> PointsStatus:
    """Tell the caller whether every distance follows, and how."""
    primes = () if found.residues is None else found.residues.system.primes
    return PointsStatus(
        rank=found.points.rank,
        error=found.points.error,
        certified=int(found.certified),
        primes=np.array(primes, dtype=np.int64),
    )


def in_words(status: PointsStatus, *, asked: int, n: int) -> str:
    """Say what columns gave: all other distances, or doubt."""
    if not status.certified:
        return f"{asked} columns leave distances open by {status.error:.1g} units of the grid"
    count = status.primes.size
    by = f"residues modulo {count} prime{'s' * (count > 1)}" if count else "rounding"
    return f"{asked} of {n} columns, and {by}, give the rest"
