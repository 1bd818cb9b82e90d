"""What three parties compute on the shares of all samples: a program, and how its bits are read."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from daskfc.errors import DaskfcError, InvalidInput
from daskfc.federation.steps.rules import Rule
from daskfc.secure.shared import Bits, DensityClusters, Lloyd, Numbers, Party, Program, Seeding
from daskfc.secure.shared.costs import Cost
from daskfc.secure.shared.ordering import ByValue
from daskfc.secure.shared.planes import WORD, n_words
from daskfc.secure.shared.seeding import FRACTION_BITS
from daskfc.seeds import generator

_CANDIDATES = 256  # ours: at least, and 20 for each cluster
_STARTS = 16  # ours: in common rounds, so that more cost bytes alone
_LARGEST = 1 << 22  # ours: comparisons at once
_OF_NUMBER = 64  # bytes of a shared number: two summands, as they arrive and put together, copies

Found = tuple[Bits, Any]
"""What a program ends with: planes to be opened, and shares that new samples are placed by."""


@dataclass(frozen=True)
class PlacedByDensity:
    """What finds the clusters of so many new samples after DBSCAN."""

    clusters: DensityClusters
    n_samples: int

    def cost(self) -> Cost:
        """Return rounds and words of `fit`."""
        return self.clusters.cost_of_placing(self.n_samples)

    def fit(self, party: Party, x: Numbers, kept: tuple[Numbers, Bits, Bits]) -> Program[Found]:
        """Return planes of new samples x, and what they were placed by."""
        return (yield from self.clusters.placed(party, x, *kept)), kept


@dataclass(frozen=True)
class CentresOfShares:
    """k-means from centres that `Seeding` takes of candidates, all drawn from a public seed.

    `scale` is what features were multiplied by; members hold it against what clients tell.
    """

    lloyd: Lloyd
    seed: int
    scale: float = 1.0

    def __post_init__(self) -> None:
        lloyd = self.lloyd
        if lloyd.n_clusters > lloyd.n_samples or lloyd.at_once > _LARGEST or self.seed < 0:
            raise InvalidInput(
                "k-means on shares needs no more clusters than samples, a seed of at least 0, and "
                f"at_once of at most {_LARGEST}; got others."
            )

    @property
    def candidates(self) -> list[int]:
        """Places among all samples of those that centres are taken from."""
        return _drawn(self)[0]

    @property
    def seeding(self) -> Seeding:
        """How centres are taken from the candidates."""
        return _drawn(self)[1]

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of samples and features."""
        return self.lloyd.n_samples, self.lloyd.n_features

    @property
    def bits(self) -> int:
        """Bits b of features, which are in (-2^b, 2^b)."""
        return self.lloyd.magnitude_bits

    @property
    def n_planes(self) -> int:
        """Number of planes of bits."""
        return self.lloyd.n_clusters

    @property
    def memory(self) -> int:
        """Bytes that a member's program takes, its shares included."""
        n, d, m = self.lloyd.n_samples, self.lloyd.n_features, self.seeding.n_candidates
        return _OF_NUMBER * (n * d + m * (m + d)) + 150 * self.lloyd.at_once

    def cost(self, passes: int) -> Cost:
        """Return rounds and words of the program, with so many passes of DBSCAN."""
        return self.seeding.cost() + self.lloyd.cost()

    def program(self, party: Party, x: Numbers) -> Program[Found]:
        """Return planes (n_planes, words) of one-hot rows, one sample a bit, and the centres."""
        start = yield from self.seeding.centres(party, x[self.candidates])
        return (yield from self.lloyd.fit(party, x, start))

    def placing(self, n_samples: int) -> Lloyd:
        """Return what finds the nearest centres of new samples: no iteration, so none moves."""
        return replace(self.lloyd, n_samples=n_samples, iterations=0)

    def memory_of_placing(self, n_samples: int) -> int:
        """Return bytes that `placing` takes."""
        lloyd = self.placing(max(n_samples, self.lloyd.n_clusters))
        return replace(self, lloyd=lloyd).memory

    def labels(self, planes: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Return labels (n,): the row of planes (planes, n) in which a sample's bit is set."""
        found: NDArray[np.int64] = planes.argmax(axis=0).astype(np.int64)
        return found


@lru_cache(maxsize=4)
def _drawn(task: CentresOfShares) -> tuple[list[int], Seeding]:
    """Return the places of candidates, and which of them may be centres."""
    k, n = task.lloyd.n_clusters, task.lloyd.n_samples
    random = generator(task.seed, "k-means on shares")
    m = min(n, max(_CANDIDATES, 20 * k))
    candidates: list[int] = random.choice(n, m, replace=False, shuffle=False).tolist()
    firsts = random.integers(0, m, (_STARTS, 1))
    draws = random.integers(0, 1 << FRACTION_BITS, (_STARTS, k - 1))
    starts = tuple(map(tuple, np.concatenate([firsts, draws], axis=1).tolist()))
    return candidates, Seeding(m, task.lloyd.n_features, task.lloyd.magnitude_bits, starts)


@dataclass(frozen=True)
class _OnNeighbours:
    """A task on who is near whom; `scale` is what features were multiplied by."""

    clusters: DensityClusters
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.clusters.at_once > _LARGEST:
            raise InvalidInput(
                f"the 'at_once' of DBSCAN on shares must be at most {_LARGEST}; got "
                f"{self.clusters.at_once}."
            )

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of samples and features."""
        return self.clusters.n_samples, self.clusters.n_features

    @property
    def bits(self) -> int:
        """Bits b of features, which are in (-2^b, 2^b)."""
        return self.clusters.magnitude_bits


@dataclass(frozen=True)
class DensityOfShares(_OnNeighbours):
    """DBSCAN; noise is -1. Samples are put in an order of their values, so that labels hang on it.

    What clients hold which samples, and where, changes no label.
    """

    @property
    def order(self) -> ByValue:
        """The order in which clusters are numbered, and a border sample's cluster is the first."""
        one = self.clusters
        return ByValue(one.n_samples, one.n_features, one.at_once)

    @property
    def n_planes(self) -> int:
        """Number of planes of bits."""
        return self.clusters.label_bits

    @property
    def memory(self) -> int:
        """Bytes that a member's program takes, its shares included."""
        n, d, pairs = self.clusters.n_samples, self.clusters.n_features, self.clusters.at_once
        return _OF_NUMBER * n * d + 5 * n * n // 2 + 500 * min(pairs, n * n)

    def cost(self, passes: int) -> Cost:
        """Return rounds and words of the program, with so many passes of DBSCAN."""
        return self.order.cost() + self.clusters.cost(passes)

    def program(self, party: Party, x: Numbers) -> Program[Found]:
        """Return planes (n_planes, words) of numbers of clusters, one sample a bit."""
        x, places = yield from self.order.ordered(party, x)
        planes, core = yield from self.clusters.clustered(party, x)
        return (yield from self.order.put_back(party, planes, places)), (x, planes, core)

    def placing(self, n_samples: int) -> PlacedByDensity:
        """Return what finds the clusters of new samples: those of core samples near them."""
        return PlacedByDensity(self.clusters, n_samples)

    def memory_of_placing(self, n_samples: int) -> int:
        """Return bytes that `placing` takes, shares of the fit included."""
        (n, d), pairs = self.shape, self.clusters.at_once + WORD * self.clusters.n_samples
        return _OF_NUMBER * (n + n_samples) * d + 500 * min(pairs, n * (n_samples + WORD))

    def labels(self, planes: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Return labels (n,) from planes (planes, n): the highest number stands for noise."""
        weights = np.int64(1) << np.arange(len(planes), dtype=np.int64)
        found = weights @ planes.astype(np.int64)
        found[found == weights.sum()] = -1
        return found


@dataclass(frozen=True)
class NeighboursOfShares(_OnNeighbours):
    """Who is near whom, which is opened to the server."""

    @property
    def n_planes(self) -> int:
        """Number of planes of bits: one a sample, in whole words."""
        return WORD * n_words(self.clusters.n_samples)

    @property
    def memory(self) -> int:
        """Bytes that a member's program takes, its shares included."""
        n, d = self.shape
        return _OF_NUMBER * n * d + n * n // 2 + 500 * min(self.clusters.at_once, n * n)

    def cost(self, passes: int) -> Cost:
        """Return rounds and words of the program."""
        return self.clusters.cost_of_neighbours()

    def program(self, party: Party, x: Numbers) -> Program[Found]:
        """Return planes (n_planes, words): bit j of plane i is set where i and j are near."""
        return (yield from self.clusters.neighbours(party, x)), None


LabelTask = CentresOfShares | DensityOfShares
"""A clustering of shared samples (n, d), and what its planes of bits say."""

Task = LabelTask | NeighboursOfShares

_FIELDS: dict[type, dict[str, type]] = {
    CentresOfShares: {"lloyd": Lloyd, "seed": int, "scale": float},
    DensityOfShares: {"clusters": DensityClusters, "scale": float},
    NeighboursOfShares: {"clusters": DensityClusters, "scale": float},
    Lloyd: dict.fromkeys(Lloyd.__dataclass_fields__, int) | {"flat": bool},
    DensityClusters: dict.fromkeys(DensityClusters.__dataclass_fields__, int),
}
"""What a task is made of: a caller's objects are made without a look at what they hold."""


def _made_anew(value: Any) -> Any:
    """Return a task made of what another one holds; TypeError for anything that is none."""
    kind = type(value)
    if kind not in _FIELDS:
        return value
    told = vars(value)
    if [type(told.get(name)) for name in _FIELDS[kind]] != list(_FIELDS[kind].values()):
        raise TypeError
    return kind(**{name: _made_anew(one) for name, one in told.items()})


def _is_sound(value: Any) -> bool:
    try:
        return type(value) in get_args(Task) and bool(_made_anew(value) == value)
    except (DaskfcError, TypeError):
        return False


a_task = Rule("k-means, DBSCAN or neighbours on shares", lambda value, asked: _is_sound(value))
"""Another program could open what it likes."""
