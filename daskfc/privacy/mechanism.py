"""Clipping of a client's values and the addition of Gaussian noise before they leave."""

import hashlib
import os
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from daskfc.arrays import Floats
from daskfc.errors import InvalidInput, PrivacyError
from daskfc.privacy.ranges import check

REACH_OF_NOISE = 8.3
"""How many standard deviations a number of `normal_deviates` has at most."""

MOST_BESIDE_NOISE = 2.0**20
"""The largest values beside noise, in standard deviations: its grid is still exact in float64."""

_CHUNK = 1 << 17  # ours: a chunk of words and of numbers stays in a 2 MiB cache
_SHRINK = 1.0 - 2.0**-44  # ours: more than rounding can add to the norm of 2**8 coordinates
_GRID_BITS = 30  # ours: noise moves in steps of at most sigma / 2**30


class RandomWords(Protocol):
    """Source of random bits for noise, as `daskfc.coding.KeyStream`; never a seeded generator."""

    def fill(self, out: NDArray[np.unsignedinteger]) -> None:
        """Overwrite a contiguous array with uniform bits."""


class _System:
    """The operating system's generator."""

    def fill(self, out: NDArray[np.unsignedinteger]) -> None:
        out[...] = np.frombuffer(os.urandom(out.nbytes), dtype=out.dtype).reshape(out.shape)


def _finite(values: ArrayLike, what: str, ndim: int | None) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if (ndim is not None and array.ndim != ndim) or array.size == 0:
        rule = "hold at least one number" if ndim is None else f"have {ndim} axes, none empty"
        raise InvalidInput(f"{what} must {rule}; got shape {array.shape}.")
    if not np.isfinite(array).all():
        raise InvalidInput(f"{what} must be finite; some are not. Leave those rows out.")
    return array


def _shrunk(rows: Floats, bound: float) -> tuple[Floats, NDArray[np.bool_]]:
    largest = np.abs(rows).max(axis=1, keepdims=True)
    unit = np.divide(rows, largest, out=np.zeros_like(rows), where=largest > 0)
    length = np.linalg.norm(unit, axis=1, keepdims=True)  # (n, 1), of rows over their largest
    with np.errstate(over="ignore"):  # a norm beyond float64 is beyond every bound
        wide = length * largest > bound
    scale = np.divide(bound * _SHRINK, length, out=np.zeros_like(length), where=wide)
    return np.where(wide, unit * scale, rows), wide[:, 0]


def clip_rows(X: ArrayLike, bound: float) -> tuple[Floats, int]:
    """Shorten every row that is longer than a bound.

    Parameters
    ----------
    X : array_like of shape (n, m)
        Private rows, finite.
    bound : float
        Largest L2 norm a row may keep, above 0, in the unit of X. Must not depend on X.

    Returns
    -------
    clipped : ndarray of shape (n, m)
        Rows of norm at most `bound`, in the same direction; a new array.
    n_clipped : int
        Number of rows shortened. It is private like the data: a client keeps it, or counts it
        against the budget.

    Raises
    ------
    InvalidInput
        For another shape, values that are not finite, or a bound that is not positive.

    Notes
    -----
    Replacing one row of X moves the result by at most 2 `bound`, which is the sensitivity of
    publishing the rows (FedSC, Appendix H).

    Examples
    --------
    >>> from daskfc.privacy import clip_rows
    >>> rows, count = clip_rows([[3.0, 4.0], [0.3, 0.4]], 1.0)
    >>> rows.round(3).tolist(), count
    ([[0.6, 0.8], [0.3, 0.4]], 1)
    """
    check("clipping", bound=bound)
    rows, wide = _shrunk(_finite(X, "the rows to clip", 2), float(bound))
    return rows, int(wide.sum())


def clip_matrix(Z: ArrayLike, bound: float) -> tuple[Floats, bool]:
    """Shorten a whole matrix whose Frobenius norm is above a bound.

    Parameters
    ----------
    Z : array_like of shape (d, m)
        A client's contribution, for example its dictionary minus the round's.
    bound : float
        Largest Frobenius norm it may keep, above 0. Must not depend on Z.

    Returns
    -------
    clipped : ndarray of shape (d, m)
        A new array.
    was_clipped : bool
        Private, as the count of `clip_rows` is.

    Raises
    ------
    InvalidInput
        For another shape, values that are not finite, or a bound that is not positive.

    Notes
    -----
    Whatever a client did to get Z, replacing any of its rows, or all of them, moves the result
    by at most 2 `bound`. That needs no theorem about the update, unlike FedSC's Lemma J.2.

    Examples
    --------
    >>> from daskfc.privacy import clip_matrix
    >>> clip_matrix([[3.0], [4.0]], 10.0)
    (array([[3.],
           [4.]]), False)
    """
    check("clipping", bound=bound)
    matrix = _finite(Z, "the matrix to clip", 2)
    rows, wide = _shrunk(matrix.reshape(1, -1), float(bound))
    return rows.reshape(matrix.shape).copy(), bool(wide[0])


def input_digest(*inputs: object) -> str:
    """Return a digest of all inputs of a release, arrays or others, for its `noise_label`.

    Notes
    -----
    The digest is of the inputs and not of the values to protect: these may differ in their last
    bits when a step is repeated, and the same values with new noise would be a second release.

    Examples
    --------
    >>> from daskfc.privacy import input_digest
    >>> input_digest(np.zeros(2), 0.1) == input_digest(np.zeros((2, 1)), 0.1)
    False
    """
    digest = hashlib.sha256()
    for one in inputs:
        if isinstance(one, np.ndarray):
            head = f"{one.dtype.str}{one.shape}"
            body = np.ascontiguousarray(one).reshape(-1).view(np.uint8).data
        else:
            head, body = type(one).__name__, memoryview(repr(one).encode())
        for part in (memoryview(head.encode()), body):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
    return digest.hexdigest()


def noise_label(
    mechanism: str,
    *,
    sigma: float,
    clip: float | None,
    inputs: str,
    round: int = 0,
    purpose: str = "",
) -> tuple[str | int, ...]:
    """Return the label by which a release's noise derives from a party's secret.

    A step that is repeated with one secret has the same noise for the same release only: with
    another σ, bound or inputs, the difference of two releases would reveal the values.

    Parameters
    ----------
    mechanism : str
        The released values and the method.
    sigma, clip : float
        Of the release; None for no clipping.
    inputs : str
        From `input_digest`.
    round : int
        Number of the release among those of one mechanism.
    purpose : str
        Distinguishes uses of one mechanism.

    Examples
    --------
    >>> from daskfc.coding import SecretKey
    >>> from daskfc.privacy import noise_label
    >>> label = noise_label("rows", sigma=2.0, clip=1.0, inputs="ab")
    >>> stream = SecretKey.from_os().derive(*label).stream()
    """
    bound = "none" if clip is None else float(clip).hex()
    return ("noise", mechanism, float(sigma).hex(), bound, inputs, round, purpose)


def normal_deviates(shape: int | tuple[int, ...], stream: RandomWords | None = None) -> Floats:
    """Draw standard normal numbers, float64 of at most 8.3, from a cryptographic source.

    Parameters
    ----------
    shape : int or tuple of int
        Of the result, filled in C order.
    stream : RandomWords, optional
        Default: the operating system's generator. A `daskfc.coding.KeyStream` with a fresh key
        is as good; with the same key, as in tests, the numbers are the same.

    Notes
    -----
    Inverse distribution function of 53 uniform bits, with a 54th for the sign. Symmetric; the
    tail beyond 8.3, of probability 2**-53 for each number, becomes part of the last step.

    Examples
    --------
    >>> from daskfc.coding import SecretKey
    >>> from daskfc.privacy import normal_deviates
    >>> stream = SecretKey.from_bytes(bytes(32)).stream()
    >>> bool(abs(normal_deviates(10_000, stream).std() - 1.0) < 0.03)
    True
    """
    source = _System() if stream is None else stream
    result = np.empty(shape, dtype=np.float64)
    flat = result.reshape(-1)
    words = np.empty(min(_CHUNK, flat.size), dtype=np.uint64)
    for start in range(0, flat.size, _CHUNK):
        part = words[: flat.size - start]
        source.fill(part)
        u = ((part >> np.uint64(11)) + np.uint64(1)).astype(np.float64) * 2.0**-54  # (0, 1/2]
        sign = 1.0 - 2.0 * (part & np.uint64(1)).astype(np.float64)
        flat[start : start + part.size] = sign * ndtri(u)
    return result


def add_gaussian_noise(
    values: ArrayLike, sigma: float, *, stream: RandomWords | None = None
) -> Floats:
    """Return values plus independent N(0, σ²) noise, on a grid.

    Parameters
    ----------
    values : array_like
        Private, finite, and already clipped, as noise does not bound the sensitivity.
    sigma : float
        Standard deviation, above 0, in the unit of `values`; from `gaussian_sigma`, or
        `noise_multiplier` times the sensitivity.
    stream : RandomWords, optional
        As in `normal_deviates`.

    Returns
    -------
    ndarray
        Of the shape of `values`, float64; every number is a multiple of one power of two that
        depends on sigma only, between σ/2³¹ and σ/2³⁰.

    Raises
    ------
    InvalidInput
        For values that are not finite, or sigma outside its range.
    PrivacyError
        When a value exceeds 2**20 sigma: such noise hides nothing.

    Notes
    -----
    The (ε, δ) statements are about real numbers. In floating point, a value plus noise can only
    be one of the doubles that depend on the value, so that the last bits of one output can
    distinguish two inputs (Mironov, "On significance of the least significant bits for
    differential privacy", CCS 2012). Here values and noise are both rounded to one grid, on which
    their sum is exact, so that the possible outputs are the same for all inputs. What remains:
    rounding adds up to (grid √size) to the sensitivity, less than 10⁻⁷ σ for a thousand changed
    numbers; the noise is a Gaussian of 54 bits, whose missing tail can add about 2**-53 for each
    number to δ; and the time taken is not constant. A discrete Gaussian sampled exactly (Canonne,
    Kamath, Steinke 2020) would leave only the first. All of this requires a true sensitivity.

    Examples
    --------
    >>> from daskfc.coding import SecretKey
    >>> from daskfc.privacy import add_gaussian_noise
    >>> stream = SecretKey.from_bytes(bytes(32)).stream()
    >>> noisy = add_gaussian_noise(np.zeros((100, 50)), 2.0, stream=stream)
    >>> bool(abs(noisy.std() - 2.0) < 0.1)
    True
    """
    check("the Gaussian mechanism", sigma=sigma)
    sigma = float(sigma)
    exact = _finite(values, "the values to protect", None)
    grid = 2.0 ** (np.floor(np.log2(sigma)) - _GRID_BITS)
    steps: NDArray[Any] = exact / grid
    if np.abs(exact).max() > MOST_BESIDE_NOISE * sigma:  # below it steps and their sums are exact
        raise PrivacyError(
            "the values to protect must be at most 2**20 times the noise's sigma; some are not. "
            "Such noise hides nothing: clip the values, or raise sigma."
        )
    noise = normal_deviates(exact.shape, stream)
    noise *= sigma / grid
    return np.asarray((np.rint(steps) + np.rint(noise)) * grid)
