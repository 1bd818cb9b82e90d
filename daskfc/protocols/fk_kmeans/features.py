"""A client's rows of W_t: random features of the iteration's draw, and B_t."""

import shutil
import uuid
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import zarr

from daskfc import seeds
from daskfc.arrays import Floats
from daskfc.clustering.kernels.features import Kernel, RandomFeatures
from daskfc.errors import InvalidInput
from daskfc.protocols.fk_kmeans.maths.dspgd import Iteration, embed, weighted
from daskfc.protocols.fk_kmeans.messages import FeaturePlan
from daskfc.stores import ClientStore

_ROUNDED = 1e-6  # ours: relative to the width; larger rounding errors make features noise
_BLOCK_BYTES = 16 * 2**20  # ours: samples and features of a block


@dataclass(frozen=True)
class FeatureSettings:
    """The D random features that all clients draw in each iteration, from a public seed."""

    kernel: str
    degree: int
    n_features: int
    random_state: int

    @property
    def has_bounded_norm(self) -> bool:
        """Whether |φ(x)|² ≤ 2 for every sample."""
        return Kernel(self.kernel, 1.0, self.degree).is_stationary

    def seen(
        self, rows: Floats, plan: FeaturePlan, client: str, *, are_new: bool = False
    ) -> Floats:
        """Return rows relative to the plan's centre; refuse rows too far from it for the width."""
        seen = plan.seen(rows)
        far = float(np.abs(seen).max(initial=0.0))
        if self.has_bounded_norm and far * np.finfo(np.float64).eps > _ROUNDED * plan.width:
            whose, place = "samples", "the origin"
            way = "Leave 'kernel_width' out, so that they are seen from their mean, or give "
            way += "'prepare: [standardise]'."
            if are_new:
                whose, place, way = "new samples", "those of the fit", "Leave farther ones out."
            raise InvalidInput(
                f"the {whose} of client {client!r} must not lie so far from {place}, beside the "
                f"kernel's width, that rounding hides how they differ. {way}"
            )
        return seen

    def drawn(self, width: float, number: int, n_columns: int) -> RandomFeatures:
        """Draw an iteration's features, the same at every client."""
        seed = seeds.integer_seed(self.random_state, "FK k-means", "features", number)
        kernel = Kernel(self.kernel, width, self.degree)
        return kernel.features(self.n_features, seed, n_columns)


@dataclass(frozen=True)
class WeightedRows:
    """W_t[m] (n, D + r) in a client's Zarr file, deleted with the last reference to it."""

    path: str

    def __post_init__(self) -> None:
        # not earlier: Dask may repeat steps of earlier iterations
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    @classmethod
    def new_in(cls, folder: Path, number: int) -> "WeightedRows":
        """Return a file of a new name for W_t, t being `number`."""
        return cls(str(folder / f"iteration-{number}-{uuid.uuid4().hex}.zarr"))

    def blocks(self) -> Iterator[tuple[int, Floats]]:
        """Yield the first row and the rows of each block, as they were written."""
        file = zarr.open_array(self.path, mode="r")
        for start in range(0, file.shape[0], file.chunks[0]):
            yield start, np.asarray(file[start : start + file.chunks[0]])


def block_rows(n_columns: int, n_features: int) -> int:
    """Return the number of samples in a block."""
    return max(256, _BLOCK_BYTES // (8 * (n_columns + 2 * n_features)))


def features_of(
    data: ClientStore, settings: FeatureSettings, plan: FeaturePlan, numbers: Sequence[int]
) -> Iterator[tuple[int, list[Floats]]]:
    """Yield for each block its first row and the random features of some iterations' draws."""
    d = data.n_features
    draws = [settings.drawn(plan.width, number, d) for number in numbers]
    for start, rows in data.blocks(block_rows(d, settings.n_features)):
        seen = settings.seen(rows, plan, data.name)
        yield start, [draw.of(seen) for draw in draws]


def write_weighted(
    data: ClientStore,
    settings: FeatureSettings,
    plan: FeaturePlan,
    past: Sequence[Iteration],
    kept: WeightedRows | None,
    to: WeightedRows,
) -> Iterator[Floats]:
    """Write W_t to `to` and yield its blocks; `past` is iteration t - 1, or all without `kept`."""
    number = past[-1].number + 1 if past else 1
    to_basis = past[-1].to_basis() if past else np.empty((0, 0))
    shape = (data.n_samples, settings.n_features + to_basis.shape[1])
    rows = min(block_rows(data.n_features, settings.n_features), data.n_samples)
    file = zarr.create_array(
        store=to.path, shape=shape, chunks=(rows, shape[1]), dtype="float64", compressors=None
    )
    again = [] if kept is not None else [found.number for found in past]
    before = None if kept is None else kept.blocks()
    for start, phis in features_of(data, settings, plan, [*again, number]):
        if before is None:
            B = embed(phis[:-1], past) if past else np.empty((len(phis[-1]), 0))
        else:
            B = next(before)[1] @ to_basis
        W = weighted(phis[-1], B, number)
        file[start : start + len(W)] = W
        yield W
