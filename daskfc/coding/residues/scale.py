"""Scale and residue number system: the primes that exact distances need, and overflow checks.

Integer rows are round(S (x - c)); their squared distances are S**2 times the real ones (the
paper's Eq. 6 divides by 2**q where 2**(2q) is right), and are recovered modulo M, the product
of the primes. Distances are never negative, so all of [0, M) is used.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskfc.arrays import Floats, Ints
from daskfc.coding.residues.modular import BYTE_PRIMES, is_prime, primes_below, residue_dtype
from daskfc.errors import InvalidInput, OverflowRefused

GRIDS = (1, 2, 4, 8, 10, 16, 32, 64, 100, 128, 255, 256, 1000)
"""Scales tried for data on a grid: integers, binary fractions, up to 3 decimals, pixels / 255."""

NARROW = 1 << 48  # |x~| then stays below 2**24 and every sum of the decoder fits an int64
MAX_MODULUS = 1 << 104  # |x~| then stays below 2**51, and `WideIntegers` hold the distances
_MOST_PRIMES = 13  # of a byte each: their product is 2**101
ASSUMED_SPREAD = 12.0  # ours: radius**2 / mean squared distance where no mean is public
RESOLVED = 1e-3  # ours: largest relative error of a squared distance that labels depend on


@dataclass(frozen=True)
class ResidueSystem:
    """Primes, scale S and bound of a run, the same at every party; integer rows are round(S x).

    Primes are all below 2**8 (one byte per residue) or all between 2**8 and 2**24; their product
    exceeds `bound`, the largest integer squared distance; `exact` rows lie on the grid.
    """

    primes: tuple[int, ...]
    scale: float
    bound: int
    exact: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        primes = self.primes
        kinds = {residue_dtype(p) for p in primes}  # first: `is_prime` takes hours for larger ones
        if not primes or len(set(primes)) < len(primes) or not all(map(is_prime, primes)):
            raise InvalidInput(f"a ResidueSystem needs distinct primes; got {primes}.")
        if len(kinds) > 1:
            raise InvalidInput(
                f"the primes of a ResidueSystem must be all below 2**8 or all above; got {primes}."
            )
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise InvalidInput(f"the scale of a ResidueSystem must be above 0; got {self.scale}.")
        if self.modulus > MAX_MODULUS or not 0 <= self.bound < self.modulus:
            raise OverflowRefused(
                f"a ResidueSystem with {len(primes)} primes holds squared distances below its "
                f"modulus {self.modulus}, itself at most 2**104; the bound is {self.bound}. Use "
                "more primes or a smaller scale."
            )

    @property
    def modulus(self) -> int:
        """M, the product of the primes."""
        return math.prod(self.primes)

    @property
    def is_wide(self) -> bool:
        """Whether squared distances may need `WideIntegers`."""
        return self.modulus > NARROW

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger]:
        """Dtype of residues in memory and on the wire."""
        return residue_dtype(self.primes[0])

    def first(self, count: int) -> "ResidueSystem":
        """Return the system of the first primes, for numbers whose range is below its modulus."""
        primes = self.primes[:count]
        return replace(self, primes=primes, bound=min(self.bound, math.prod(primes) - 1))

    def to_real(self, distances: ArrayLike) -> Floats:
        """Return real squared distances from integer ones: D / S**2."""
        result: Floats = np.asarray(distances) / (self.scale * self.scale)
        return result

    def error_of(self, squared: float, n_features: int) -> float:
        """Return the largest error of a squared distance of that size, in squared units of data.

        Every coordinate is rounded by 1 / (2 S) at most, a difference of two by 1 / S: for
        δ = √d / S, (√D + δ)² - D = 2 √D δ + δ².
        """
        step = 0.0 if self.exact else math.sqrt(n_features) / self.scale
        return 2.0 * math.sqrt(squared) * step + step * step


def detect_grids(X: NDArray[Any]) -> int:
    """Return the `GRIDS` S that make S X integral, as bits: bit i for GRIDS[i]; all for no rows.

    A value may differ from a grid point by the rounding of its precision (float32 if all values are
    float32 numbers). The bitwise AND over blocks and clients gives the common grids.
    """
    values = np.asarray(X, dtype=np.float64)
    if not np.isfinite(values).all():
        return 0
    with np.errstate(over="ignore"):
        single = bool((values.astype(np.float32) == values).all())
    rounding = 2.0**-24 if single else 2.0**-53
    mask = 0
    for bit, grid in enumerate(GRIDS):
        # a few rows rule out most grids of data that lie on none
        if _on_grid(values[:16], grid, rounding) and _on_grid(values, grid, rounding):
            mask |= 1 << bit
            if grid == 1:
                return (1 << len(GRIDS)) - 1  # integers are on all of them
    return mask


def _on_grid(values: Floats, grid: int, rounding: float) -> bool:
    scaled = values * grid
    # 3 roundings: k/255 or k * (1/255), and the product here; at most 2**-8 for large values
    allowed = np.minimum(3 * rounding * np.abs(scaled), 2.0**-8)
    return bool((np.abs(scaled - np.rint(scaled)) <= allowed).all())


def _largest(radius: float, scale: float, n_features: int) -> float:
    """Return 2 rho S + sqrt(d), the largest distance: rounding adds sqrt(d)/2 to each radius."""
    return 2.0 * radius * scale + math.sqrt(n_features)


def _tolerated_scale(tolerance: float, n_features: int, mean_square: float) -> float:
    """Return S for which the RMS error is `tolerance` times the mean squared distance Dm.

    tolerance = sqrt(2/3 u + (d u / 6)**2) with u = 1 / (S**2 Dm); for small u this is
    S = 0.82 / (tolerance sqrt(Dm)).
    """
    eps2 = tolerance * tolerance
    u = 2.0 * eps2 / (2.0 / 3.0 + math.sqrt(4.0 / 9.0 + (n_features / 3.0) ** 2 * eps2))
    return 1.0 / math.sqrt(u * mean_square) if u * mean_square > 0 else math.inf


def _resolving_scale(squared: float, n_features: int) -> float:
    """Return the least S that keeps a squared distance exact to `RESOLVED`; see `error_of`."""
    return math.sqrt(n_features / squared) / (math.sqrt(1.0 + RESOLVED) - 1.0)


def _families(n_columns: int, n_points: int) -> list[tuple[int, ...]]:
    """Return families of primes, of at least n for n points; first those for int64 distances."""
    small = tuple(p for p in primes_below(max(BYTE_PRIMES), _MOST_PRIMES) if p >= n_points)
    # the f64 engine is exact for (k + 2) ((p - 1) / 2)**2 <= 2**53
    largest = min(int(2.0 * math.sqrt(2.0**53 / (n_columns + 2))), (1 << 24) - 1)
    large = tuple(p for p in primes_below(largest, _MOST_PRIMES) if p >= n_points)
    return [_within(primes, most) for most in (NARROW, MAX_MODULUS) for primes in (small, large)]


def _within(primes: tuple[int, ...], most: int) -> tuple[int, ...]:
    """Return the most first primes whose product is at most `most`."""
    counts = range(len(primes), 0, -1)
    return next((primes[:r] for r in counts if math.prod(primes[:r]) <= most), ())


def _fewest(primes: tuple[int, ...], bound: int) -> tuple[int, ...] | None:
    counts = range(1, len(primes) + 1)
    return next((primes[:r] for r in counts if math.prod(primes[:r]) > bound), None)


def choose_residues(
    *,
    radius: float,
    n_features: int,
    tolerance: float,
    grids: int,
    n_columns: int,
    n_points: int,
    mean_square: float | None = None,
    resolve: float | None = None,
) -> ResidueSystem:
    """Return scale and primes for squared distances that are exact, or accurate to `tolerance`.

    `radius` bounds |x - c| and becomes public: round it up. `tolerance` is the RMS error over the
    mean squared distance (`mean_square`, else radius**2 / 12); on common `grids` all is exact; a
    squared distance `resolve` is accurate to `RESOLVED` of it. `n_points` is m + l + t.
    """
    if not (math.isfinite(radius * radius) and radius >= 0):
        raise InvalidInput(
            "the 'radius' of choose_residues must be at least 0 and its square finite; "
            f"got {radius}."
        )
    Dm = radius * radius / ASSUMED_SPREAD if mean_square is None else mean_square
    least = _tolerated_scale(tolerance, n_features, Dm) if Dm > 0 else 1.0
    if resolve is not None:
        least = max(least, _resolving_scale(resolve, n_features))
    families = _families(n_columns, n_points)
    grid = next((float(grid) for i, grid in enumerate(GRIDS) if grids >> i & 1), None)
    for primes in families:  # the cheapest first; in each, exactness if the grid is no finer
        for scale in (grid, least):
            bound = None if scale is None else _bound(radius, scale, n_features)
            chosen = None if bound is None else _fewest(primes, bound)
            if scale is None or bound is None or chosen is None:
                continue
            if scale == grid:
                return ResidueSystem(primes=chosen, scale=scale, bound=bound, exact=True)
            return _finest(chosen, scale, radius, n_features)
    needed = 2.0 * math.log2(_largest(radius, least, n_features))
    offered = max((math.log2(math.prod(primes)) for primes in families if primes), default=0.0)
    asked = f"a tolerance of {tolerance:.3g}"
    if resolve is not None:
        asked += f" and a thousandth of {resolve:.3g}"
    raise OverflowRefused(
        f"squared distances within radius {radius:.6g} at {asked} need {needed:.1f} bits; the "
        f"primes for {n_points} points offer {offered:.1f}. "
        "Raise the tolerance, remove outliers, or scale the features."
    )


def _bound(radius: float, scale: float, n_features: int) -> int | None:
    """Return a bound on whole squared distances; None where float64 overflows."""
    root = _largest(radius, scale, n_features)
    square = root * root * (1.0 + 1e-12)
    return math.floor(square) + 1 if math.isfinite(square) else None


def _finest(primes: tuple[int, ...], scale: float, radius: float, n_features: int) -> ResidueSystem:
    """Return the system with the scale doubled as often as the primes allow."""
    while (
        radius > 0
        and (bound := _bound(radius, 2.0 * scale, n_features))
        and bound < math.prod(primes)
    ):
        scale *= 2.0
    found = _bound(radius, scale, n_features)
    assert found is not None
    return ResidueSystem(primes=primes, scale=scale, bound=found)


def quantise(X: Floats, system: ResidueSystem) -> Ints:
    """Return round(S x), (n, d), with 4 |x~|**2 <= B: no squared distance can exceed B.

    Rows beyond the radius raise OverflowRefused; neither they nor those that are no numbers are
    counted, or whoever chooses the radius, or prepares the rows, would learn their number.
    """
    if not np.isfinite(X).all():
        raise InvalidInput(
            f"some of {len(X)} rows hold NaN or infinite values; every value must be finite. "
            "Remove or fill those rows."
        )
    with np.errstate(over="ignore"):
        scaled = np.rint(system.scale * X)
        squares = np.einsum("ij,ij->i", scaled, scaled)
    # below B / 4 < 2**46 all sums are integers below 2**53; larger bounds have room for rounding
    if (4.0 * squares > system.bound).any():
        raise OverflowRefused(
            f"some of {len(X)} rows lie outside the radius agreed for this run "
            f"(4 |x|^2 would exceed the bound of {system.bound.bit_length()} bits), and their "
            "distances would wrap around silently; nothing was shared. Leave them out, or fit anew "
            "with a 'max_abs' that holds them."
        )
    return scaled.astype(np.int64)
