"""What three parties compute on the shares of all samples: a program, and how its bits are read."""

from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from daskfc.errors import InvalidInput
from daskfc.federation.steps.rules import Rule
from daskfc.secure.shared import Bits, DensityClusters, Lloyd, Numbers, Party, Program, Seeding
from daskfc.secure.shared.costs import Cost
from daskfc.secure.shared.seeding import FRACTION_BITS
from daskfc.seeds import generator

__all__ = ["CentresOfShares", "DensityOfShares", "LabelTask", "a_task"]


_CANDIDATES = 256  # ours: at least, and 20 for each cluster
_STARTS = 16  # ours: in common rounds, so that more cost bytes alone
_LARGEST = 1 << 22  # ours: comparisons at once
_OF_NUMBER = 64  # bytes of a shared number: two summands, as they arrive and put together, copies


@runtime_checkable
class LabelTask(Protocol):
    """A clustering of shared samples (n, d), and what its planes of bits say."""

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of samples and features."""
        ...

    @property
    def n_planes(self) -> int:
        """Number of planes of bits."""
        ...

    @property
    def memory(self) -> int:
        """Bytes that a member's program takes, its shares included."""
        ...

    def cost(self, passes: int) -> Cost:
        """Return rounds and words of the program, with so many passes of DBSCAN."""
        ...

    def program(self, party: Party, x: Numbers) -> Program[Bits]:
        """Return planes (n_planes, words) of all samples' labels, one sample a bit."""
        ...

    def labels(self, planes: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Return labels (n,) of samples from their bits (planes, n)."""
        ...


@dataclass(frozen=True)
class CentresOfShares:
    """k-means from centres that `seeding` takes of some samples, by their places among all."""

    lloyd: Lloyd
    seeding: Seeding
    candidates: tuple[int, ...]

    def __post_init__(self) -> None:
        lloyd, seeding, n = self.lloyd, self.seeding, self.lloyd.n_samples
        own = set(self.candidates)
        alike = (lloyd.n_features, lloyd.magnitude_bits)
        right = len(own) == len(self.candidates) == seeding.n_candidates
        right = right and all(type(one) is int and 0 <= one < n for one in own)
        right = right and alike == (seeding.n_features, seeding.magnitude_bits)
        right = right and {len(one) for one in seeding.starts} == {lloyd.n_clusters}
        if not right or lloyd.n_clusters > n or lloyd.at_once > _LARGEST:
            raise InvalidInput(
                "k-means on shares needs different candidates among the samples, starts of as many "
                "centres as clusters, no more clusters than samples, and at_once of at most "
                f"{_LARGEST}; got others."
            )

    @classmethod
    def drawn(cls, lloyd: Lloyd, seed: int) -> Self:
        """Draw candidates, and which of them are centres, from a public seed."""
        k, n = lloyd.n_clusters, lloyd.n_samples
        random = generator(seed, "k-means on shares")
        m = min(n, max(_CANDIDATES, 20 * k))
        candidates = random.choice(n, m, replace=False, shuffle=False).tolist()
        firsts = random.integers(0, m, (_STARTS, 1))
        draws = random.integers(0, 1 << FRACTION_BITS, (_STARTS, k - 1))
        starts = tuple(map(tuple, np.concatenate([firsts, draws], axis=1).tolist()))
        sizes = m, lloyd.n_features, lloyd.magnitude_bits
        return cls(lloyd, Seeding(*sizes, starts), tuple(candidates))

    @property
    def shape(self) -> tuple[int, int]:
        """See `LabelTask`."""
        return self.lloyd.n_samples, self.lloyd.n_features

    @property
    def n_planes(self) -> int:
        """See `LabelTask`."""
        return self.lloyd.n_clusters

    @property
    def memory(self) -> int:
        """See `LabelTask`."""
        n, d, m = self.lloyd.n_samples, self.lloyd.n_features, self.seeding.n_candidates
        return _OF_NUMBER * (n * d + m * (m + d)) + 150 * self.lloyd.at_once

    def cost(self, passes: int) -> Cost:
        """See `LabelTask`."""
        return self.seeding.cost() + self.lloyd.cost()

    def program(self, party: Party, x: Numbers) -> Program[Bits]:
        """Return one-hot rows; see `LabelTask`."""
        start = yield from self.seeding.centres(party, x[list(self.candidates)])
        rows, _ = yield from self.lloyd.fit(party, x, start)
        return rows

    def labels(self, planes: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Return the row in which a sample's bit is set; see `LabelTask`."""
        found: NDArray[np.int64] = planes.argmax(axis=0).astype(np.int64)
        return found


@dataclass(frozen=True)
class DensityOfShares:
    """DBSCAN; noise is -1."""

    clusters: DensityClusters

    def __post_init__(self) -> None:
        if self.clusters.at_once > _LARGEST:
            raise InvalidInput(
                f"the 'at_once' of DBSCAN on shares must be at most {_LARGEST}; got "
                f"{self.clusters.at_once}."
            )

    @property
    def shape(self) -> tuple[int, int]:
        """See `LabelTask`."""
        return self.clusters.n_samples, self.clusters.n_features

    @property
    def n_planes(self) -> int:
        """See `LabelTask`."""
        return self.clusters.label_bits

    @property
    def memory(self) -> int:
        """See `LabelTask`."""
        n, d, pairs = self.clusters.n_samples, self.clusters.n_features, self.clusters.at_once
        return _OF_NUMBER * n * d + 5 * n * n // 2 + 500 * min(pairs, n * n)

    def cost(self, passes: int) -> Cost:
        """See `LabelTask`."""
        return self.clusters.cost(passes)

    def program(self, party: Party, x: Numbers) -> Program[Bits]:
        """Return planes of numbers of clusters; see `LabelTask`."""
        return self.clusters.fit(party, x)

    def labels(self, planes: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Return numbers of clusters, whose highest one stands for noise; see `LabelTask`."""
        weights = np.int64(1) << np.arange(len(planes), dtype=np.int64)
        found = weights @ planes.astype(np.int64)
        found[found == weights.sum()] = -1
        return found


_FIELDS: dict[type, dict[str, type]] = {
    CentresOfShares: {"lloyd": Lloyd, "seeding": Seeding, "candidates": tuple},
    DensityOfShares: {"clusters": DensityClusters},
    Lloyd: dict.fromkeys(Lloyd.__dataclass_fields__, int) | {"flat": bool},
    DensityClusters: dict.fromkeys(DensityClusters.__dataclass_fields__, int),
    Seeding: dict.fromkeys(Seeding.__dataclass_fields__, int) | {"starts": tuple},
    tuple: {},
    int: {},
    bool: {},
}
"""What a task is made of: a caller's objects are made without a look at what they hold."""


def _is_sound(value: Any) -> bool:
    kind = type(value)
    if kind is tuple:
        return all(type(one) in (int, tuple) and _is_sound(one) for one in value)
    fields = _FIELDS.get(kind)
    return fields is not None and all(
        type(getattr(value, name, None)) is wanted and _is_sound(getattr(value, name))
        for name, wanted in fields.items()
    )


a_task = Rule(
    "k-means or DBSCAN on shares",
    lambda value, asked: type(value) in (CentresOfShares, DensityOfShares) and _is_sound(value),
)
"""Another program could open what it likes."""
