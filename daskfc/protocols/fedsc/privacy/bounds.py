"""Bounds on the error of FedSC's similarities when data or factors have noise.

Paper       Qiao, Ding, Fan, "Federated Spectral Clustering via Secure Similarity Reconstruction",
            NeurIPS 2023: Theorem 3.1 (Appendix F) and Theorem 3.8 (Appendix I).
Notation    paper          here              meaning
            θ              data_norm         largest L2 norm of a row of X
            τ_C            coefficient_norm  largest L2 norm of a column of C
            γ              residual          largest ‖φ(Z)c - φ(x)‖ over the rows x; measured
            r, n, m, d     width, n_samples, n_features, n_atoms
            σ; σ_Z, σ_C    data_sigma; dictionary_sigma, coefficient_sigma
            t              failure           the bound holds with probability 1 - failure
            X, C           X (n, m), Z (d, m), C (d, n): our rows are samples, the paper's columns
Departures  Theorem 3.8 takes the noise of an atom for χ² with d degrees of freedom; an atom lies
            in R^m, so it has m (Appendix I, below T.4). With m > d the printed bound is too small.
            Theorem 3.1 is as printed, with the roots missing in print from Appendix F.

Similarities lie in [0, 1]: a bound of 1 or more says nothing about them.
"""

import numpy as np
from numpy.typing import ArrayLike

from daskfc.errors import InvalidInput
from daskfc.privacy.ranges import check


def feature_residual(C: ArrayLike, kernel_zz: ArrayLike, kernel_zx: ArrayLike) -> float:
    """Return γ = max_i ‖φ(Z)c_i - φ(x_i)‖, how well the atoms represent the rows; 1 for C = 0.

    The kernels are the Gaussian's: atoms with atoms (d, d), atoms with rows (d, n).
    """
    c, k_zz, k_zx = (np.asarray(a, dtype=np.float64) for a in (C, kernel_zz, kernel_zx))
    if c.ndim != 2 or c.size == 0 or k_zx.shape != c.shape or k_zz.shape != (len(c), len(c)):
        raise InvalidInput(
            "the feature residual needs C (d, n), kernel_zz (d, d) and kernel_zx (d, n), not "
            f"empty; got {c.shape}, {k_zz.shape} and {k_zx.shape}."
        )
    # ‖φ(Z)c - φ(x)‖² = cᵀK_zz c - 2 cᵀk(Z, x) + 1  # (n,)
    squared = np.einsum("di,di->i", c, k_zz @ c - 2.0 * k_zx) + 1.0
    return float(np.sqrt(max(squared.max(), 0.0)))


def chi_square_reach(n_degrees: int, t: float) -> float:
    """Return ξ², which a χ² variable exceeds with probability at most e^-t (Eq. 83)."""
    return float(n_degrees + 2 * np.sqrt(n_degrees * t) + 2 * t)


def perturbed_data_bound(
    data_sigma: float,
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
    """Return Theorem 3.1's bound on the error of any similarity when the data were perturbed.

    It is ((σξ + √2 θ)² - 2θ²) / r² + (√d τ_C + 1) γ (Eq. 24, Appendix F), ξ² = m + 2√(mt) + 2t and
    t = ln(n(n-1) / failure). θ is of true rows, about their mean if smaller; τ_C and γ are of noisy
    rows. √2 θ has the root missing in print: by (79), 2σ²ξ² + 4√2 σξθ over 2r².
    """
    check(
        "the bound of Theorem 3.1",
        data_sigma=data_sigma,
        width=width,
        n_samples=n_samples,
        n_features=n_features,
        n_atoms=n_atoms,
        data_norm=data_norm,
        coefficient_norm=coefficient_norm,
        residual=residual,
        failure=failure,
    )
    t = np.log(max(n_samples * (n_samples - 1), 1) / failure)
    shift = data_sigma * np.sqrt(chi_square_reach(n_features, t))  # σξ
    of_data = shift * (shift + 2 * np.sqrt(2) * data_norm) / width**2  # ((σξ+√2θ)² - 2θ²) / r²
    return float(of_data + (np.sqrt(n_atoms) * coefficient_norm + 1) * residual)


def perturbed_factors_bound(
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
) -> float:
    """Return Theorem 3.8's bound on the error of any similarity when Z and C were perturbed last.

    It is γ_zc (γ_zc + 2) (Eq. 33, Appendix I), ξ_k² = k + 2√(kt) + 2t and t = ln((n + d) /
    failure), with γ_zc = γ + √d (σ_C ξ_d + τ_C √(2(1 - exp(-σ_Z² ξ_m² / 2r²)))); the paper has ξ_d
    twice (Departures). Only the last release is noise here: τ_C and γ are before it, γ with earlier
    rounds' noise.
    """
    check(
        "the bound of Theorem 3.8",
        dictionary_sigma=dictionary_sigma,
        coefficient_sigma=coefficient_sigma,
        width=width,
        n_samples=n_samples,
        n_features=n_features,
        n_atoms=n_atoms,
        coefficient_norm=coefficient_norm,
        residual=residual,
        failure=failure,
    )
    t = np.log((n_samples + n_atoms) / failure)
    of_c = coefficient_sigma * np.sqrt(chi_square_reach(n_atoms, t))  # σ_C ξ_d
    exponent = (dictionary_sigma / width) ** 2 * chi_square_reach(n_features, t) / 2
    of_z = coefficient_norm * np.sqrt(-2 * np.expm1(-exponent))
    gamma_zc = residual + np.sqrt(n_atoms) * (of_c + of_z)
    return float(gamma_zc * (gamma_zc + 2))
