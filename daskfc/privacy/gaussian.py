"""The Gaussian mechanism: exact noise for (ε, δ)-differential privacy.

Paper       Balle and Wang, "Improving the Gaussian Mechanism for Differential Privacy", ICML 2018
            (arXiv:1805.06530); Dwork and Roth, "The Algorithmic Foundations of Differential
            Privacy", 2014, Theorem 3.22 and Appendix A, for the classical formula.
Notation    paper  here          meaning
            Δ      sensitivity   largest L2 distance between the results for two neighbouring data
            σ      sigma         standard deviation of the noise, in the unit of the result
            ε, δ   epsilon       in nats
                   delta         in (0, 1)
Departures  None. `sensitivity` decides what neighbouring data are: with rows clipped to norm B,
            2B for the replacement of one row, B for one row added or removed. Parameters outside
            their ranges are refused (InvalidInput).
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.special import erfcx, ndtr

from daskfc.errors import InvalidInput
from daskfc.privacy.ranges import check

_OWNER = "the Gaussian mechanism"
_ROOT2 = float(np.sqrt(2.0))
_NEAR = 1e-9  # ours: a smaller result is rounded up to about this
_FAR_EPSILON = 1e15  # ours: a larger epsilon is beyond the precision of float64
_FAR_RATIO = 1e9  # ours: with more noise, Eq. (6) loses its sixth digit to cancellation


def _log_delta(epsilon: float, mu: float) -> float:
    """Return log δ(ε) of noise with σ = Δ / mu; Balle and Wang, Eq. (6)."""
    epsilon, mu = float(epsilon), float(mu)  # of NumPy's small types too, without their rounding
    a = mu / 2 - epsilon / mu
    b = -mu / 2 - epsilon / mu
    # e^ε Φ(b) = ½ exp(-a²/2) erfcx(-b/√2), which avoids the overflow of e^ε
    if a > 0:
        delta = ndtr(a) - 0.5 * np.exp(-a * a / 2) * erfcx(-b / _ROOT2)
        return float(np.log(delta)) if delta > 0 else -np.inf
    difference = erfcx(-a / _ROOT2) - erfcx(-b / _ROOT2)
    return float(np.log(difference / 2) - a * a / 2) if difference > 0 else -np.inf


def _smallest(holds: Callable[[float], bool], far: float, what: str) -> float:
    """Return the smallest positive x with holds(x), which stays true beyond; from above."""
    high = 1.0
    while not holds(high):
        high *= 2.0
        if high > far:
            raise InvalidInput(
                f"{what} lies beyond {far:.0e}, where numbers no longer tell. "
                "Bring epsilon, delta, sigma and sensitivity nearer to 1."
            )
    low = high / 2
    while holds(low):
        high, low = low, low / 2
        if low < _NEAR:
            return high
    while (middle := (low + high) / 2) not in (low, high):  # to the last bit
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def gaussian_delta(epsilon: float, sigma: float, sensitivity: float) -> float:
    """Return the smallest δ with which Gaussian noise is (ε, δ)-differentially private.

    Parameters
    ----------
    epsilon : float
        Above 0, nats.
    sigma, sensitivity : float
        Above 0, in one unit.

    Returns
    -------
    float
        In [0, 1]: Φ(Δ/2σ - εσ/Δ) - e^ε Φ(-Δ/2σ - εσ/Δ).

    References
    ----------
    Balle and Wang, ICML 2018, Theorem 8 and Eq. (6).

    Examples
    --------
    >>> from daskfc.privacy import gaussian_delta
    >>> round(gaussian_delta(1.0, 1.0, 1.0), 6)
    0.126937
    """
    check(_OWNER, epsilon=epsilon, sigma=sigma, sensitivity=sensitivity)
    return float(np.exp(_log_delta(epsilon, float(sensitivity) / float(sigma))))


def gaussian_epsilon(sigma: float, delta: float, sensitivity: float) -> float:
    """Return the smallest ε with which Gaussian noise is (ε, δ)-differentially private.

    Parameters
    ----------
    sigma, sensitivity : float
        Above 0, in one unit.
    delta : float
        In (0, 1).

    Returns
    -------
    float
        Nats; 0 where the noise hides more than δ requires.

    Notes
    -----
    Exact for one release, up to the last bits, which are rounded up. For several releases see
    `daskfc.privacy.Accountant`.

    References
    ----------
    Balle and Wang, ICML 2018, Theorem 8.

    Examples
    --------
    >>> from daskfc.privacy import gaussian_epsilon
    >>> round(gaussian_epsilon(1.0, 1e-5, 1.0), 4)
    4.3772
    """
    check(_OWNER, sigma=sigma, delta=delta, sensitivity=sensitivity)
    mu, target = float(sensitivity) / float(sigma), float(np.log(float(delta)))
    if _log_delta(0.0, mu) <= target:
        return 0.0
    return _smallest(lambda epsilon: _log_delta(epsilon, mu) <= target, _FAR_EPSILON, "epsilon")


def gaussian_sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the least noise with which one release is (ε, δ)-differentially private.

    Parameters
    ----------
    epsilon : float
        Above 0, nats; also above 1, unlike `classical_sigma`.
    delta : float
        In (0, 1).
    sensitivity : float
        Above 0.

    Returns
    -------
    float
        Standard deviation of the noise on every coordinate, in the unit of `sensitivity`.

    References
    ----------
    Balle and Wang, ICML 2018, Theorem 9 (the analytic Gaussian mechanism).

    Examples
    --------
    >>> from daskfc.privacy import gaussian_sigma
    >>> round(gaussian_sigma(1.0, 1e-5, 1.0), 4)
    3.7306
    """
    check(_OWNER, epsilon=epsilon, delta=delta, sensitivity=sensitivity)
    target = float(np.log(float(delta)))
    ratio = _smallest(
        lambda x: _log_delta(epsilon, 1 / x) <= target, _FAR_RATIO, "sigma over sensitivity"
    )
    return ratio * float(sensitivity)


def classical_sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return σ = √(2 ln(1.25/δ)) Δ/ε, the formula that FedSC and many papers quote.

    Parameters
    ----------
    epsilon : float
        In (0, 1).
    delta : float
        In (0, 1).
    sensitivity : float
        Above 0.

    Returns
    -------
    float
        Standard deviation, in the unit of `sensitivity`; more than `gaussian_sigma` needs.

    Raises
    ------
    InvalidInput
        For a parameter outside its range, and for epsilon of 1 or more, which the proof does not
        cover; for large epsilon the noise is too small.

    References
    ----------
    Dwork and Roth, 2014, Theorem 3.22 and Theorem A.1.

    Examples
    --------
    >>> from daskfc.privacy import classical_sigma
    >>> round(classical_sigma(0.5, 1e-5, 1.0), 4)
    9.6896
    """
    check(_OWNER, epsilon=epsilon, delta=delta, sensitivity=sensitivity)
    if epsilon >= 1:
        raise InvalidInput(
            "the 'epsilon' parameter of the classical Gaussian formula must be below 1, where its "
            f"proof ends; got {epsilon!r}. Take gaussian_sigma, which holds for every epsilon."
        )
    return math.sqrt(2 * math.log(1.25 / float(delta))) * float(sensitivity) / float(epsilon)
