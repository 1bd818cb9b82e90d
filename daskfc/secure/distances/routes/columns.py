"""All distances from a few columns: the columns that the server keeps, and points from them."""

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from daskfc.arrays import Ints
from daskfc.clustering import ExactPoints, exact_points
from daskfc.coding import ResidueSystem, WideIntegers
from daskfc.linalg import SPAN, LandmarkEmbedding
from daskfc.secure.distances.parties.messages import PointsStatus
from daskfc.secure.distances.parties.server import Columns, RowPlan

MORE = 8  # ours: landmarks, where those so far leave distances open
_ROUNDING = 1e-12  # of the mean squared distance: below it is rounding


def entry_bytes(system: ResidueSystem) -> int:
    """Return the bytes of one whole squared distance in `KeptColumns`."""
    if system.is_wide:
        return 16
    return 4 if system.bound < 2**32 else 8


Whole: TypeAlias = NDArray[np.unsignedinteger] | WideIntegers


def joined_whole(parts: list[Whole], axis: int = 0) -> Whole:
    """Concatenate whole squared distances."""
    wide = [part for part in parts if isinstance(part, WideIntegers)]
    if wide:
        return WideIntegers.joined(wide, axis)
    return np.concatenate([np.asarray(part) for part in parts], axis=axis)


@dataclass
class KeptColumns:
    """Whole squared distances of all samples to the landmarks of each round so far."""

    system: ResidueSystem
    landmarks: list[Ints] = field(default_factory=list)
    rounds: list[Whole] = field(default_factory=list)

    def __call__(self, rows: slice | Ints) -> Whole:
        """Return the distances of some samples to all landmarks, in the landmarks' order."""
        return joined_whole([block[rows] for block in self.rounds], axis=1)


def start_search(plan: RowPlan, *, system: ResidueSystem) -> LandmarkEmbedding:
    """Begin the search for landmarks that span all samples up to rounding."""
    return LandmarkEmbedding(
        plan.n_samples, plan.n_features, tolerance=_ROUNDING, nearest=SPAN / system.scale**2
    )


def keep_columns(
    kept: KeptColumns | None,
    landmarks: Ints,
    columns: list[Columns],
    *,
    system: ResidueSystem,
) -> KeptColumns:
    """Keep a round of columns; a second call with the same round adds nothing."""
    kept = kept or KeptColumns(system)
    if not any(np.array_equal(landmarks, known) for known in kept.landmarks):
        whole = joined_whole([whole_of(part, system) for part in columns])
        kept.landmarks.append(landmarks)
        kept.rounds.append(whole)
    return kept


def whole_of(part: Columns, system: ResidueSystem) -> Whole:
    """Return whole squared distances in units of 1 / S²; small ones are rounded back."""
    if part.whole is not None:
        return part.whole
    near = np.rint(part.distances * system.scale**2)
    if system.is_wide:
        return WideIntegers(near, np.zeros(near.shape, dtype=np.int64))
    return near.astype(f"uint{8 * entry_bytes(system)}")


def points(kept: KeptColumns, plan: RowPlan) -> ExactPoints:
    """Return coordinates of all samples from the kept columns."""
    return exact_points(
        kept,
        np.concatenate(kept.landmarks),
        n=plan.n_samples,
        n_features=plan.n_features,
        scale2=kept.system.scale**2,
        primes=kept.system.primes,
    )


def points_status(found: ExactPoints) -> PointsStatus:
    """Report to the caller whether the columns determine every distance, and how."""
    primes = () if found.residues is None else found.residues.system.primes
    return PointsStatus(
        rank=found.points.rank,
        error=found.points.error,
        least=found.points.least,
        certified=int(found.certified),
        primes=np.array(primes, dtype=np.int64),
    )


def worst_placed(found: ExactPoints, kept: KeptColumns) -> Ints:
    """Return samples that have the largest part in the error, and are no landmarks yet."""
    parts = found.points.error_by_sample.copy()
    parts[known := np.concatenate(kept.landmarks)] = -1.0
    most = min(MORE, found.n - np.unique(known).size)
    return np.argsort(-parts, kind="stable")[:most]


def in_words(status: PointsStatus, *, asked: int, n: int) -> str:
    """Return a phrase on whether the columns determine all other distances."""
    if not status.certified:
        return f"{asked} columns leave distances open by {status.error:.1g} units of the grid"
    count = status.primes.size
    by = f"residues modulo {count} prime{'s' * (count > 1)}" if count else "rounding"
    return f"{asked} of {n} columns, and {by}, give the rest"
