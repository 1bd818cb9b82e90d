"""Noise scales of FedSC: the paper's statements, and sensitivities that are proven.

Paper       Qiao, Ding, Fan, "Federated Spectral Clustering via Secure Similarity Reconstruction",
            NeurIPS 2023: Proposition 3.7 (Appendix H), Theorem 3.9 (Appendices J, K, L).
Notation    paper        here              meaning
            τ_X          data_norm         rows are clipped to this L2 norm
            τ_C          coefficient_norm  largest L2 norm of a column of C
            τ_Z          dictionary_norm   largest spectral norm of a dictionary in any round
            Υ            reach             largest distance of an atom and a row
            λ, r, η, S   ridge, width, step, n_rounds
Departures  (1) Lemma J.2 compares two gradient steps with C fixed, though the replaced row's own
            column of C changes as well, and so does Q. Its sensitivity can therefore be exceeded
            (a test shows by how much); it is `printed_dictionary_sensitivity` here, and
            `gradient_sensitivity` holds.
            (2) τ_C, τ_Z, Υ and the step must be limits set beforehand. If measured on private data,
            as in the paper's experiments, they are releases themselves, and the guarantee is void.
            (3) Neither covers several local steps or the closed-form step for Z: for those clip
            the client's change of Z (`clip_matrix`), with sensitivity twice the bound.

Two data sets are neighbours when one row of one client is replaced.
"""

import numpy as np

from daskfc.errors import InvalidInput
from daskfc.privacy.gaussian import classical_sigma, gaussian_epsilon
from daskfc.privacy.ranges import check


def perturbed_data_sigma(epsilon: float, delta: float, data_norm: float) -> float:
    """Return Proposition 3.7's noise on the data, σ = 2cτ_X/ε with c² = 2 ln(1.25/δ), ε < 1.

    It protects each row even from the server, as one release for any number of rounds.
    ``gaussian_sigma(epsilon, delta, 2 * data_norm)`` is less, and valid for any ε.
    """
    check("Proposition 3.7", data_norm=data_norm)
    return classical_sigma(epsilon, delta, 2 * data_norm)


def composed_sigma(epsilon: float, delta: float, sensitivity: float, n_rounds: int) -> float:
    """Return Theorem 3.9's noise on Z in each of S rounds, σ_Z = √(8 S Δ² log(e + ε/δ)) / ε.

    From Kairouz, Oh, Viswanath, ICML 2015, Theorem 4.3 (FedSC, Lemma J.2); 1.4 to 2.8 times the
    exact `noise_multiplier`. Refuse ε of about 10 log(e + ε/δ) and more, where the noise is too
    little in spite of the source's "any ε". The theorem takes `classical_sigma` for C, and adds ε
    and δ.
    """
    check("Theorem 3.9", epsilon=epsilon, delta=delta, sensitivity=sensitivity, n_rounds=n_rounds)
    mu = epsilon / np.sqrt(8 * np.log(np.e + epsilon / delta))  # √S Δ/σ_Z
    if gaussian_epsilon(1.0, delta, mu) > epsilon:
        raise InvalidInput(
            f"the formula of Theorem 3.9 gives too little noise for epsilon {epsilon!r} and delta "
            f"{delta!r}. Take noise_multiplier times the sensitivity."
        )
    return float(np.sqrt(n_rounds) * sensitivity / mu)


def printed_coefficient_sensitivity(
    *, ridge: float, width: float, n_atoms: int, data_norm: float, reach: float
) -> float:
    """Return Lemma J.1's sensitivity of C, 2√d τ_X (τ_X + Υ) / (λ r²), for a fixed dictionary.

    Fixed means public or released with noise. Appendix K, after Eq. (114); Theorem 3.9's σ_C is
    `classical_sigma` of it.
    """
    check("Lemma J.1", ridge=ridge, width=width, n_atoms=n_atoms, data_norm=data_norm, reach=reach)
    return float(2 * np.sqrt(n_atoms) * data_norm * (data_norm + reach) / (ridge * width**2))


def coefficient_sensitivity(ridge: float, *, spread: float = float("inf")) -> float:
    """Return our sensitivity of C, √(1 - exp(-2 spread²)) / √(2λ), for a fixed dictionary.

    `spread` is τ_X / r, infinite without clipping; atoms and rows need no limit. (K + λI)⁻¹ φ(Z)ᵀ
    has singular values s/(s² + λ) ≤ 1/(2√λ), so ‖c(x)‖ ≤ 1/(2√λ); and ‖φ(x) - φ(x')‖² ≤ 2 -
    2exp(-2τ_X²/r²). It holds for all of C too, as a replaced row changes one column.
    """
    check("the sensitivity of C", ridge=ridge)
    if not spread > 0:
        raise InvalidInput(
            f"the 'spread' parameter of the sensitivity of C must be above 0; got {spread!r}."
        )
    return float(np.sqrt(-np.expm1(-2 * spread**2) / (2 * ridge)))


def printed_dictionary_sensitivity(
    *,
    step: float,
    width: float,
    n_atoms: int,
    coefficient_norm: float,
    data_norm: float,
    dictionary_norm: float,
    reach: float,
) -> float:
    """Return Lemma J.2's sensitivity of a gradient step on Z, for C held fixed.

    It is (2η√d τ_C τ_X / r²)(1 + (τ_X + τ_Z)(τ_X + Υ) / r²), the factor garbled in print being T.1
    plus T.2 times η/r² (Appendix L). For comparison only: FedSC's C changes with a row.
    """
    check(
        "Lemma J.2",
        step=step,
        width=width,
        n_atoms=n_atoms,
        coefficient_norm=coefficient_norm,
        data_norm=data_norm,
        dictionary_norm=dictionary_norm,
        reach=reach,
    )
    factor = 2 * step * np.sqrt(n_atoms) * coefficient_norm * data_norm / width**2
    return float(factor * (1 + (data_norm + dictionary_norm) * (data_norm + reach) / width**2))


def gradient_sensitivity(*, step: float, width: float, n_atoms: int, ridge: float) -> float:
    """Return our sensitivity of a C-step and a gradient step, 2ητ(1 + √d τ) / (r √e), τ = 1/(2√λ).

    A row with ‖c‖ ≤ τ adds (-c_a k(z_a, x)(x - z_a) + Σ_b c_a c_b k(z_a, z_b)(z_b - z_a)) / r² to
    atom a's gradient; u exp(-u²/2r²) ≤ r/√e bounds it for all data. η must be set beforehand, not
    1/L of a client's C; the start must be public or noised already, and C solved there.
    """
    check("the sensitivity of Z", step=step, width=width, n_atoms=n_atoms, ridge=ridge)
    tau = 1 / (2 * np.sqrt(ridge))
    return float(2 * step * tau * (1 + np.sqrt(n_atoms) * tau) / (width * np.sqrt(np.e)))
