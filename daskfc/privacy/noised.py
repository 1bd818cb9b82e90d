"""Arrays that already contain noise, with its multiplier for the ledger."""

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from daskfc.errors import PrivacyError
from daskfc.privacy.mechanism import RandomWords, add_gaussian_noise


@dataclass(frozen=True)
class Noised:
    """An array that already contains Gaussian noise, to be sent to another party.

    Parameters
    ----------
    values : ndarray of float64
        The values with noise.
    noise_multiplier : float
        Standard deviation of the noise over the sensitivity of the values; for the ledger.
    n_shares : int
        Number of shares of that noise, of which the values contain one; other arrays contain the
        rest.
    """

    values: NDArray[np.float64]
    noise_multiplier: float
    n_shares: int = 1


Part: TypeAlias = "NDArray[np.float64] | Noised"


def noise_of_part(part: Part, n_hidden: float = math.inf) -> float:
    """Return the noise multiplier of a term of a sum of `n_hidden`, infinite without noise.

    Raises
    ------
    PrivacyError
        For a share of noise in a sum that may lack other shares.
    """
    if not isinstance(part, Noised):
        return math.inf
    if part.n_shares > n_hidden:
        raise PrivacyError(
            f"an array with one of {part.n_shares} shares of noise must be hidden among as many "
            f"clients; here it may be among {n_hidden}. Nothing was sent; sum it with all others."
        )
    return part.noise_multiplier


def with_noise_share(
    values: NDArray[np.float64],
    *,
    sigma: float,
    sensitivity: float,
    n_shares: int,
    stream: RandomWords | None = None,
) -> Noised:
    """Return an array with one client's share of the noise that protects a sum.

    Parameters
    ----------
    values : ndarray of float64
        The client's part of the sum.
    sigma : float
        Standard deviation of the sum's noise, in the unit of `values`.
    sensitivity : float
        The most by which one sample can move the sum, in Euclidean norm.
    n_shares : int
        Clients whose shares are certain to be in the sum, at least 1; the share has σ / √n_shares.
    stream : RandomWords, optional
        As in `normal_deviates`.

    Returns
    -------
    Noised
        Its multiplier is that of the sum, as no other party sees the part itself.

    Examples
    --------
    >>> from daskfc.coding import SecretKey
    >>> from daskfc.privacy import with_noise_share
    >>> key = SecretKey.from_bytes(bytes(32))
    >>> part = with_noise_share(
    ...     np.zeros(10_000), sigma=6.0, sensitivity=2.0, n_shares=4, stream=key.stream()
    ... )
    >>> part.noise_multiplier, bool(abs(part.values.std() - 3.0) < 0.1)
    (3.0, True)
    """
    noisy = add_gaussian_noise(values, sigma / math.sqrt(n_shares), stream=stream)
    return Noised(noisy, sigma / sensitivity, n_shares)
