"""How much noise FedSC bears within a margin, beside what privacy asks for.

Paper       Qiao, Ding, Fan, "Federated Spectral Clustering via Secure Similarity Reconstruction",
            NeurIPS 2023: Eqs. (30) and (31), from Theorems 3.1 and 3.6 and Proposition 3.7;
            Appendix B, Eqs. (34)-(36), from Theorems 3.6, 3.8 and 3.9.
Notation    paper          here              meaning
            B_1            margin            what the similarities may be off by, at most; Eq. (29)
                                             by `clustering_margin`
            B_2            -                 (√d τ_C + 1) γ, the part without noise of Theorem 3.1
            γ_zc           -                 of Theorem 3.8: the bound is γ_zc (γ_zc + 2)
            τ_X            clip_norm         rows were clipped to this L2 norm
            the rest as in `fedsc_bounds` and `fedsc_noise`
Departures  (1) The roots of γ² + 2γ - B_1 are -1 ± √(1 + B_1); as far as the text can be read,
            Appendix B prints a factor 2 before the root, which would allow γ_zc ≥ 1 without any
            margin. (2) Proposition 3.7 holds for ε below 1 only. (3) B_2 and γ_zc are made of
            coefficients that depend on the noise; the paper takes them for constants.

Margins and residuals are made of private data: a σ chosen by them is itself a release.
"""

import numpy as np

from daskfc.errors import InvalidInput
from daskfc.privacy.ranges import check
from daskfc.protocols.fedsc.privacy.bounds import (
    chi_square_reach,
    perturbed_data_bound,
    perturbed_factors_bound,
)
from daskfc.protocols.fedsc.privacy.noise_scale import perturbed_data_sigma

__all__ = [
    "largest_coefficient_sigma",
    "largest_data_sigma",
    "largest_dictionary_sigma",
    "perturbed_data_interval",
    "perturbed_factors_interval",
]


def _left(equation: str, without_noise: float, most: float) -> float:
    """Return what is left for noise, and refuse where that is nothing."""
    if not most > without_noise:
        raise InvalidInput(
            f"{equation} has an answer only where the bound without this noise is below what the "
            f"margin allows, {most:.6g}; got {without_noise:.6g}. Raise the tolerance, fit the "
            f"dictionary better, or lower the other noise."
        )
    return most - without_noise


def largest_data_sigma(
    margin: float,
    *,
    width: float,
    n_samples: int,
    n_features: int,
    n_atoms: int,
    data_norm: float,
    coefficient_norm: float,
    residual: float,
    failure: float = 0.05,
) -> float:
    """Return Eq. (30): the most noise on the data for which Theorem 3.1 stays within a margin.

    Parameters
    ----------
    margin : float
        B_1, above 0: `clustering_margin`, or any error that is allowed.
    width, n_samples, n_features, n_atoms, data_norm, coefficient_norm, residual, failure
        As for `perturbed_data_bound`; `coefficient_norm` and `residual` are of the noisy data, so
        that they depend on σ, which the paper passes over.

    Returns
    -------
    float
        σ = (√(r²(B_1 - B_2) + 2θ²) - √2 θ) / ξ, in the unit of the data.

    Raises
    ------
    InvalidInput
        For a parameter outside its range, and a margin that the bound exceeds without any noise.

    Examples
    --------
    >>> from tests.oracles.fedsc_utility import largest_data_sigma
    >>> round(largest_data_sigma(0.2141, width=1.0, n_samples=100, n_features=4, n_atoms=10,
    ...     data_norm=1.0, coefficient_norm=0.5, residual=0.01), 4)
    0.01
    """
    check("Eq. (30)", margin=margin)
    without_noise = perturbed_data_bound(  # B_2; it checks all parameters
        0.0,
        width=width,
        n_samples=n_samples,
        n_features=n_features,
        n_atoms=n_atoms,
        data_norm=data_norm,
        coefficient_norm=coefficient_norm,
        residual=residual,
        failure=failure,
    )
    room = width**2 * _left("Eq. (30)", without_noise, margin)
    t = np.log(max(n_samples * (n_samples - 1), 1) / failure)
    xi = np.sqrt(chi_square_reach(n_features, t))
    # (√(a + b²) - b) / ξ without the loss of digits for a much smaller than b²
    b = np.sqrt(2.0) * data_norm
    return float(room / (xi * (np.sqrt(room + b * b) + b)))


def perturbed_data_interval(
    margin: float,
    *,
    epsilon: float,
    delta: float,
    clip_norm: float,
    width: float,
    n_samples: int,
    n_features: int,
    n_atoms: int,
    data_norm: float,
    coefficient_norm: float,
    residual: float,
    failure: float = 0.05,
) -> tuple[float, float]:
    """Return Eq. (31): the least noise on the data for privacy, the most for correct clusters.

    Parameters
    ----------
    margin : float
        B_1, above 0.
    epsilon, delta : float
        In (0, 1), by Proposition 3.7.
    clip_norm : float
        τ_X, to which every row was clipped; above 0, in the unit of the data.
    width, n_samples, n_features, n_atoms, data_norm, coefficient_norm, residual, failure
        As for `perturbed_data_bound`.

    Returns
    -------
    least, most : float
        2√(2 ln(1.25/δ)) τ_X/ε and `largest_data_sigma`. Where the first is larger, as for most
        data, no σ gives both.

    Raises
    ------
    InvalidInput
        For a parameter outside its range, and a margin that leaves no room for noise.

    Examples
    --------
    >>> from tests.oracles.fedsc_utility import perturbed_data_interval
    >>> least, most = perturbed_data_interval(0.2141, epsilon=0.5, delta=1e-5, clip_norm=1.0,
    ...     width=1.0, n_samples=100, n_features=4, n_atoms=10, data_norm=1.0,
    ...     coefficient_norm=0.5, residual=0.01)
    >>> round(least, 4), round(most, 4)
    (19.3792, 0.01)
    """
    check("Eq. (31)", clip_norm=clip_norm)
    most = largest_data_sigma(
        margin,
        width=width,
        n_samples=n_samples,
        n_features=n_features,
        n_atoms=n_atoms,
        data_norm=data_norm,
        coefficient_norm=coefficient_norm,
        residual=residual,
        failure=failure,
    )
    return perturbed_data_sigma(epsilon, delta, clip_norm), most


def _gamma_of(bound: float) -> float:
    """Return γ ≥ 0 with γ(γ + 2) = bound: √(1 + bound) - 1 without loss of digits, Eq. (34)."""
    return float(bound / (np.sqrt(1.0 + bound) + 1.0))


def perturbed_factors_interval(
    margin: float,
    dictionary_sigma: float,
    coefficient_sigma: float,
    *,
    width: float,
    n_samples: int,
    n_features: int,
    n_atoms: int,
    coefficient_norm: float,
    residual: float,
    failure: float = 0.05,
) -> tuple[float, float]:
    """Return Eq. (36): γ_zc at the least noise for privacy, and the most for correct clusters.

    Parameters
    ----------
    margin : float
        B_1, above 0.
    dictionary_sigma, coefficient_sigma : float
        σ_Z and σ_C that privacy asks for: by the paper `composed_sigma` and `classical_sigma` of
        the sensitivities, or what an accountant finds.
    width, n_samples, n_features, n_atoms, coefficient_norm, residual, failure
        As for `perturbed_factors_bound`.

    Returns
    -------
    least, most : float
        γ_zc(σ_Z, σ_C) and √(1 + B_1) - 1. Since γ_zc grows with both σ, no noise gives privacy
        and correct clusters where the first is larger.

    Raises
    ------
    InvalidInput
        For a parameter outside its range.

    References
    ----------
    Appendix B, Eqs. (34)-(36); see Departures.

    Examples
    --------
    >>> from tests.oracles.fedsc_utility import perturbed_factors_interval
    >>> least, most = perturbed_factors_interval(0.21, 0.0, 0.0, width=1.0, n_samples=100,
    ...     n_features=4, n_atoms=10, coefficient_norm=0.5, residual=0.05)
    >>> round(least, 4), round(most, 4)
    (0.05, 0.1)
    """
    check("Eq. (36)", margin=margin)
    bound = perturbed_factors_bound(
        dictionary_sigma,
        coefficient_sigma,
        width=width,
        n_samples=n_samples,
        n_features=n_features,
        n_atoms=n_atoms,
        coefficient_norm=coefficient_norm,
        residual=residual,
        failure=failure,
    )
    return _gamma_of(bound), _gamma_of(margin)


def largest_dictionary_sigma(
    margin: float,
    coefficient_sigma: float,
    *,
    width: float,
    n_samples: int,
    n_features: int,
    n_atoms: int,
    coefficient_norm: float,
    residual: float,
    failure: float = 0.05,
) -> float:
    """Return the most noise on Z for which Theorem 3.8 stays within a margin, Eq. (34).

    Parameters
    ----------
    margin : float
        B_1, above 0.
    coefficient_sigma : float
        σ_C, at least 0.
    width, n_samples, n_features, n_atoms, coefficient_norm, residual, failure
        As for `perturbed_factors_bound`.

    Returns
    -------
    float
        σ_Z in the unit of Z; infinite where even atoms without any meaning stay within the margin.

    Raises
    ------
    InvalidInput
        For a parameter outside its range, and a margin that the bound exceeds with σ_Z = 0.

    Examples
    --------
    >>> from tests.oracles.fedsc_utility import largest_dictionary_sigma
    >>> round(largest_dictionary_sigma(0.0805, 0.001, width=1.0, n_samples=100, n_features=4,
    ...     n_atoms=10, coefficient_norm=0.5, residual=0.01), 5)
    0.001
    """
    least, most = perturbed_factors_interval(
        margin,
        0.0,
        coefficient_sigma,
        width=width,
        n_samples=n_samples,
        n_features=n_features,
        n_atoms=n_atoms,
        coefficient_norm=coefficient_norm,
        residual=residual,
        failure=failure,
    )
    left = _left("Eq. (34)", least, most) / np.sqrt(n_atoms)
    # τ_C √(2(1 - e^-x)) = left, with x = σ_Z² ξ_m² / 2r²
    lost = (left / coefficient_norm) ** 2 / 2.0 if coefficient_norm else np.inf
    if lost >= 1.0:
        return float("inf")
    x = -np.log1p(-lost)
    t = np.log((n_samples + n_atoms) / failure)
    return float(width * np.sqrt(2.0 * x / chi_square_reach(n_features, t)))


def largest_coefficient_sigma(
    margin: float,
    dictionary_sigma: float,
    *,
    width: float,
    n_samples: int,
    n_features: int,
    n_atoms: int,
    coefficient_norm: float,
    residual: float,
    failure: float = 0.05,
) -> float:
    """Return the most noise on C for which Theorem 3.8 stays within a margin, Eq. (34).

    Parameters
    ----------
    margin : float
        B_1, above 0.
    dictionary_sigma : float
        σ_Z, at least 0, in the unit of Z.
    width, n_samples, n_features, n_atoms, coefficient_norm, residual, failure
        As for `perturbed_factors_bound`.

    Returns
    -------
    float
        σ_C.

    Raises
    ------
    InvalidInput
        For a parameter outside its range, and a margin that the bound exceeds with σ_C = 0.

    Examples
    --------
    >>> from tests.oracles.fedsc_utility import largest_coefficient_sigma
    >>> round(largest_coefficient_sigma(0.0805, 0.001, width=1.0, n_samples=100, n_features=4,
    ...     n_atoms=10, coefficient_norm=0.5, residual=0.01), 5)
    0.001
    """
    least, most = perturbed_factors_interval(
        margin,
        dictionary_sigma,
        0.0,
        width=width,
        n_samples=n_samples,
        n_features=n_features,
        n_atoms=n_atoms,
        coefficient_norm=coefficient_norm,
        residual=residual,
        failure=failure,
    )
    left = _left("Eq. (34)", least, most) / np.sqrt(n_atoms)  # σ_C ξ_d
    t = np.log((n_samples + n_atoms) / failure)
    return float(left / np.sqrt(chi_square_reach(n_atoms, t)))
