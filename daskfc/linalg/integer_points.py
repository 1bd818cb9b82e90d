"""All squared distances of samples on a grid, exactly, from a few of their columns.

Samples on a grid of step 1 have whole squared distances D. With one sample as origin 0, G their
inner products, and P pivots among the samples whose columns of D are known, pivoted Cholesky
G_PP ≈ L Lᵀ gives coordinates y_i of every sample from its own distances, and rounding |y_i - y_j|²
to whole numbers gives D_ij if the error is below one half. The error has a bound that needs only
known quantities, whatever the factorisation did: let

    b_i = y_i L⁻¹    so that y_i = Σ_p b_ip y_p      β, γ  the two largest |b_i|
    F = L Lᵀ - G_PP                                  φ = ‖F‖₂
    H_ip = y_i · y_p - G_ip                          η = max |H_i|
    h_i = |y_i|² - D_0i                              χ = max |h_i|

and x_i = x_0 + Σ_p b_ip (x_p - x_0) + n_i. Then (b_i - b_j) F (b_i - b_j) is what the pivots'
inner products add, 2 Σ_p (b_ip - b_jp) (n_i - n_j) · (x_p - x_0) with
n_i · (x_p - x_0) = (b_i F)_p - H_ip, and |n_i - n_j|² with |n_i|² = 2 b_i · H_i - h_i - b_i F b_i,
the part off their span, so that

    | |y_i - y_j|² - D_ij |  <=  (3 (β + γ)² + 2 β² + 2 γ²) φ + 8 (β + γ) η + 4 χ

for all i, j. One sample whose mixture of pivots is far from all others' makes β large.

F is a small difference and is computed from L in two parts, of which one squares exactly. For
distances beyond 2**50 the bound includes the rounding errors of G and H.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.linalg import lapack

from daskfc.arrays import Floats, Ints
from daskfc.threads import in_order

SPAN = 0.01
"""Ours: a sample this near to the pivots' span, as squared distance, is no pivot: it adds 4 times
as much to the bound. One that is nearer than rounding can tell would spoil it."""

# Where a nearer landmark is the only one in a direction, samples far in that direction lie off the
# span without it; these smaller limits then let it be a pivot.
_NEARER = (1e-4, 1e-6)
_ROWS = 256  # samples that a thread places at a time: 10 MB of MNIST
_UNIT = 2.0**-53  # relative rounding of float64
_LARGEST = 2.0**50  # squared distance up to which sums of them are exact


@dataclass(frozen=True)
class IntegerPoints:
    """Coordinates (n, r) about the samples' mean with whole squared distances when rounded."""

    coordinates: Floats
    error: float  # bound for squared distances in float64, differences or products; may be inf
    error_by_sample: Floats = field(default_factory=lambda: np.empty(0))  # (n,) parts of `error`
    least: float = 0.0  # the part of `error` that is due to no sample

    @property
    def n(self) -> int:
        """Number of samples."""
        return int(self.coordinates.shape[0])

    @property
    def rank(self) -> int:
        """Number of coordinates."""
        return int(self.coordinates.shape[1])

    @property
    def certified(self) -> bool:
        """Whether rounding gives every squared distance exactly."""
        return self.error < 0.5


def points_from_columns(
    columns: Callable[[slice], Any], landmarks: Sequence[int] | Ints, *, n: int
) -> IntegerPoints:
    """Return coordinates from `columns` of slices of squared distances to landmarks."""
    chosen = np.asarray(landmarks, dtype=np.int64)
    own = (np.asarray(columns(slice(p, p + 1)), dtype=np.float64) for p in chosen.tolist())
    known = np.concatenate(list(own))
    found, off_span = _points(columns, _Pivots.among(known, SPAN), n)
    for span in _NEARER:
        if found.certified or off_span < found.error / 2:  # nearer pivots reduce only `off_span`
            break
        nearer, off_span = _points(columns, _Pivots.among(known, span), n)
        found = nearer if nearer.error < found.error else found
    return found


def _points(
    columns: Callable[[slice], Any], pivots: "_Pivots", n: int
) -> tuple[IntegerPoints, float]:
    """Return coordinates by some pivots, and the part of their error off the pivots' span."""
    Y, bounds, largest = np.empty((n, pivots.rank)), np.empty((3, n)), 0.0

    def place(start: int) -> float:
        rows = slice(start, start + _ROWS)
        D = np.asarray(columns(rows), dtype=np.float64)
        Y[rows], *bounds[:, rows] = pivots.place(D)
        return float(D.max())

    for found in in_order(place, range(0, n, _ROWS)):
        largest = max(largest, found)
    # the rounding error of an entry of G or H, where these are not exact
    rounded = 0.0 if largest < _LARGEST else 4 * _UNIT * largest
    beta, eta, chi = bounds
    eta += np.sqrt(pivots.rank) * rounded
    chi += rounded
    phi, off, off_span = pivots.phi + pivots.rank * rounded, eta.max(), 4 * float(chi.max())
    other, one = np.partition(np.append(beta, (0.0, 0.0)), -2)[-2:]
    pair = one + other
    span = (3 * pair**2 + 2 * (one**2 + other**2)) * phi + 8 * pair * off + off_span
    Y -= Y.mean(axis=0)
    squares = float(np.einsum("ij,ij->i", Y, Y).max(initial=0.0))
    # |error| <= 2 (r + 4) u (|x| + |y|)² of a product, and 4 u (|x| + |y|)² of the shift
    arithmetic = 8 * (pivots.rank + 8) * _UNIT * squares
    error = (span + arithmetic) * (1 + 1e-6)
    own = 5 * beta**2 * phi + 8 * beta * eta + 4 * chi
    error = float(error) if np.isfinite(error) else np.inf
    return IntegerPoints(Y, error, own, arithmetic), off_span


@dataclass(frozen=True)
class _Pivots:
    """The origin and the pivots among the landmarks, their factor and bounds on it."""

    origin: int  # number of a landmark
    order: NDArray[np.intp]  # numbers of the pivots among the landmarks
    to_origin: Floats  # D_0p
    L: Floats
    phi: float
    least: float  # singular value of L
    frobenius: float  # norm of L

    @classmethod
    def among(cls, D: Floats, span: float) -> "_Pivots":
        origin = int(np.argmin(D.mean(axis=1)))  # near the mean, so that numbers are small
        G = (D[:, [origin]] + D[origin] - D) / 2  # exact
        factor, order, rank, _ = lapack.dpstrf(G, tol=span, lower=1)
        if G.max() <= span:  # LAPACK may take a first pivot even then
            rank = 0
        order = order[:rank].astype(np.intp) - 1
        L = np.tril(factor[:rank, :rank])
        return cls(
            origin,
            order,
            D[origin, order],
            L,
            _norm_of_residual(L, G[np.ix_(order, order)]),
            _least_singular_value(L),
            float(np.linalg.norm(L)),
        )

    @property
    def rank(self) -> int:
        return len(self.L)

    def place(self, D: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return coordinates of some samples, and |b|, |H| and |h| of each with all rounding."""
        L, r = self.L, self.rank
        K = D[:, [self.origin]] + self.to_origin  # G_iP, exact
        K -= D[:, self.order]
        K /= 2
        if r == 0:
            return K, np.zeros(len(D)), np.zeros(len(D)), D[:, self.origin]
        Y = scipy.linalg.solve_triangular(L, K.T, lower=True).T
        B = scipy.linalg.solve_triangular(L, Y.T, lower=True, trans=1).T
        y, b = _row_norms(Y), _row_norms(B)
        rounding = (r + 8) * _UNIT
        # b is off by ρ L⁻¹ for ρ = Y - B L
        missed = _row_norms(Y - B @ L) + rounding * (b * self.frobenius + y)
        beta = b + missed / self.least
        eta = _row_norms(Y @ L.T - K) + rounding * y * self.frobenius
        chi = np.abs(y**2 - D[:, self.origin]) + rounding * y**2
        return Y, beta, eta, chi


def _row_norms(rows: Floats) -> Floats:
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", rows, rows)))


def _norm_of_residual(L: Floats, G: Floats) -> float:
    """Return a bound on the norm of L Lᵀ - G, which is tiny compared to both."""
    r = len(L)
    if r == 0:
        return 0.0
    largest = float(_row_norms(L).max())
    step = 2.0 ** (np.ceil(np.log2(largest)) - 26)  # products of whole steps and their sums: exact
    coarse = np.rint(L / step) * step
    fine = L - coarse
    cross = coarse @ fine.T
    F = (coarse @ coarse.T - G) + (cross + cross.T + fine @ fine.T)
    rounding = 3 * (r + 6) * _UNIT * largest * np.sqrt(r) * step  # of an entry
    norm = float(np.abs(scipy.linalg.eigvalsh((F + F.T) / 2)).max())
    return norm * (1 + 1e-6) + float(r * rounding)


def _least_singular_value(L: Floats) -> float:
    """Return a positive lower bound on the least singular value."""
    if len(L) == 0:
        return np.inf
    found = scipy.linalg.svdvals(L)
    return max(float(found[-1] - 8 * len(L) * _UNIT * found[0]), np.finfo(np.float64).tiny)
