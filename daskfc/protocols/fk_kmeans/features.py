"""The samples of a client in the space of W_t: random features of this draw, and B_t."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import zarr
from numpy.typing import NDArray

from daskfc import seeds
from daskfc.clustering.kernel_features import Kernel, RandomFeatures
from daskfc.protocols.fk_kmeans.maths.dspgd import Iteration, embed, weighted
from daskfc.protocols.fk_kmeans.messages import FeaturePlan
from daskfc.stores import ClientStore

__all__ = [
    "BasisRows",
    "FeatureSettings",
    "block_rows",
    "features_of",
    "rows_of_basis",
    "weighted_blocks",
]

Floats = NDArray[np.float64]

_BLOCK_BYTES = 16 * 2**20  # ours: samples and features of a block


@dataclass(frozen=True)
class FeatureSettings:
    """Which random features all clients draw in each iteration.

    Parameters
    ----------
    kernel : str
        Kind of the kernel.
    degree : int
        Of a polynomial one.
    n_features : int
        D.
    random_state : int
        The user's seed, public.
    """

    kernel: str
    degree: int
    n_features: int
    random_state: int

    @property
    def has_bounded_norm(self) -> bool:
        """Whether |φ(x)|² ≤ 2 whatever the sample."""
        return Kernel(self.kernel, 1.0, self.degree).is_stationary

    def drawn(self, width: float, number: int, n_columns: int) -> RandomFeatures:
        """Draw an iteration's features, the same at every client."""
        seed = seeds.integer_seed(self.random_state, "FK k-means", "features", number)
        kernel = Kernel(self.kernel, width, self.degree)
        return kernel.features(self.n_features, seed, n_columns)


@dataclass(frozen=True)
class BasisRows:
    """B_t[m] in a file of the client's, so that memory does not grow with the samples.

    Parameters
    ----------
    path : str or None
        A Zarr array (n, r); None where B_t has no columns.
    """

    path: str | None

    def read(self, start: int, stop: int) -> Floats:
        """Return some rows."""
        if self.path is None:
            return np.empty((stop - start, 0))
        return np.asarray(zarr.open_array(self.path, mode="r")[start:stop])


def block_rows(n_columns: int, n_features: int) -> int:
    """Return how many samples a block has."""
    return max(256, _BLOCK_BYTES // (8 * (n_columns + 2 * n_features)))


def features_of(
    data: ClientStore, settings: FeatureSettings, plan: FeaturePlan, numbers: Sequence[int]
) -> Iterator[tuple[int, list[Floats]]]:
    """Yield, block by block, the first row and the random features of some iterations' draws."""
    d = data.n_features
    draws = [settings.drawn(plan.width, number, d) for number in numbers]
    for start, rows in data.blocks(block_rows(d, settings.n_features)):
        yield start, [draw.of(rows) for draw in draws]


def rows_of_basis(
    past: Sequence[Iteration], kept: BasisRows | None, phis: Sequence[Floats], start: int
) -> Floats:
    """Return rows of B_t, t being one more than the last iteration.

    Parameters
    ----------
    past : sequence of Iteration
        The last iteration with `kept`; without it all of them, so that nothing has to be kept.
    kept : BasisRows or None
        B_t-1, what the last iteration went by.
    phis : sequence of ndarray of shape (n, D)
        Features of these iterations.
    start : int
        First of the rows.
    """
    if kept is None:
        return embed(phis, past)
    (last,), (phi,) = past, phis
    return weighted(phi, kept.read(start, start + len(phi)), last.number) @ last.to_basis()


def weighted_blocks(
    data: ClientStore,
    settings: FeatureSettings,
    plan: FeaturePlan,
    past: Sequence[Iteration],
    kept: BasisRows | None,
    written: BasisRows,
) -> Iterator[Floats]:
    """Yield W_t block by block, and write B_t on the way; see `rows_of_basis`."""
    number = past[-1].number + 1 if past else 1
    numbers = [found.number for found in past] + [number]
    file = None
    if written.path is not None:
        rows, columns = data.n_samples, past[-1].to_basis().shape[1]
        file = zarr.create_array(
            store=written.path,
            shape=(rows, columns),
            chunks=(min(block_rows(data.n_features, settings.n_features), rows), columns),
            dtype="float64",
            compressors=None,
            overwrite=True,  # a step that is repeated writes the same again
        )
    for start, phis in features_of(data, settings, plan, numbers):
        B = np.empty((len(phis[-1]), 0))
        if file is not None:
            B = rows_of_basis(past, kept, phis[:-1], start)
            file[start : start + len(B)] = B
        yield weighted(phis[-1], B, number)
