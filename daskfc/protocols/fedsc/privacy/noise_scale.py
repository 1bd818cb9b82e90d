"""How much noise FedSC needs: the paper's statements, and sensitivities that can be relied on.

Paper       Qiao, Ding, Fan, "Federated Spectral Clustering via Secure Similarity Reconstruction",
            NeurIPS 2023: Proposition 3.7 (Appendix H), Theorem 3.9 (Appendices J, K, L).
Notation    paper        here              meaning
            τ_X          data_norm         rows are clipped to this L2 norm
            τ_C          coefficient_norm  largest L2 norm of a column of C
            τ_Z          dictionary_norm   largest spectral norm of a dictionary in any round
            Υ            reach             largest distance of an atom and a row
            λ, r, η, S   ridge, width, step, n_rounds
Departures  (1) Lemma J.2 compares two gradient steps with C held fixed, though the replaced row's
            own column of C changes as well, and so does Q, which is made of C. Its sensitivity
            can therefore be exceeded (a test shows by how much); it is given here under a name
            that says "printed", and `gradient_sensitivity` is the one that holds.
            (2) τ_C, τ_Z, Υ and the step must be limits set beforehand. Measured on private data,
            as the paper's experiments set their noise by the factors' own spread, they are
            releases themselves, and the guarantee is void.
            (3) Neither covers several local steps or the closed-form step for Z: for those clip
            the client's change of Z (`clip_matrix`), with sensitivity twice the bound.

Two data sets are neighbours when one row of one client is replaced.
"""

import numpy as np

from daskfc.errors import InvalidInput
from daskfc.privacy.gaussian import classical_sigma, gaussian_epsilon
from daskfc.privacy.ranges import check

__all__ = [
    "coefficient_sensitivity",
    "composed_sigma",
    "gradient_sensitivity",
    "perturbed_data_sigma",
    "printed_coefficient_sensitivity",
    "printed_dictionary_sensitivity",
]


def perturbed_data_sigma(epsilon: float, delta: float, data_norm: float) -> float:
    """Return Proposition 3.7's noise on the data, σ = 2cτ_X/ε with c² = 2 ln(1.25/δ).

    Parameters
    ----------
    epsilon : float
        In (0, 1), where the formula is proved.
    delta : float
        In (0, 1).
    data_norm : float
        τ_X, to which every row was clipped; above 0.

    Returns
    -------
    float
        Standard deviation, in the unit of the rows. ``gaussian_sigma(epsilon, delta,
        2 * data_norm)`` is less, and not restricted to epsilon below 1.

    Raises
    ------
    InvalidInput
        For a parameter outside its range, epsilon of 1 or more included.

    Notes
    -----
    It protects each row even from the server, whatever is computed afterwards, and costs one
    release, however many rounds follow.

    Examples
    --------
    >>> from daskfc.protocols.fedsc.privacy.noise_scale import perturbed_data_sigma
    >>> round(perturbed_data_sigma(0.5, 1e-5, 1.0), 4)
    19.3792
    """
    check("Proposition 3.7", data_norm=data_norm)
    return classical_sigma(epsilon, delta, 2 * data_norm)


def composed_sigma(epsilon: float, delta: float, sensitivity: float, n_rounds: int) -> float:
    """Return Theorem 3.9's noise on Z, σ_Z = √(8 S Δ² log(e + ε/δ)) / ε.

    Parameters
    ----------
    epsilon, delta : float
        Of all rounds together; above 0, and in (0, 1).
    sensitivity : float
        Δ, of one round's release, above 0.
    n_rounds : int
        S, at least 1.

    Returns
    -------
    float
        Standard deviation in every round, in the unit of `sensitivity`; 1.4 to 2.8 times as
        much as ``noise_multiplier(epsilon, delta, n_rounds) * sensitivity`` for epsilon in
        [0.1, 50] and delta in [1e-9, 1e-5].

    Raises
    ------
    InvalidInput
        For a parameter outside its range, and where the formula gives too little noise for
        epsilon and delta, by the exact test; that is so from epsilon of
        about 10 log(e + ε/δ) on, although the source says "any ε".

    Notes
    -----
    Theorem 3.9 takes this for Z, `classical_sigma` for C, and adds up both ε and both δ.

    References
    ----------
    Kairouz, Oh, Viswanath, "The composition theorem for differential privacy", ICML 2015,
    Theorem 4.3; FedSC, Lemma J.2.

    Examples
    --------
    >>> from daskfc.protocols.fedsc.privacy.noise_scale import composed_sigma
    >>> round(composed_sigma(1.0, 1e-5, 1.0, 4), 3)
    19.194
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
    """Return Lemma J.1's sensitivity of C, 2√d τ_X (τ_X + Υ) / (λ r²).

    Parameters
    ----------
    ridge, width : float
        λ and r, above 0.
    n_atoms : int
        d.
    data_norm, reach : float
        τ_X and Υ, limits set beforehand.

    Returns
    -------
    float
        Holds for a dictionary that is fixed, public or released with noise.

    Raises
    ------
    InvalidInput
        For a parameter outside its range.

    References
    ----------
    FedSC, Appendix K, after Eq. (114); Theorem 3.9's σ_C is `classical_sigma` of it.

    Examples
    --------
    >>> from daskfc.protocols.fedsc.privacy.noise_scale import printed_coefficient_sensitivity
    >>> round(printed_coefficient_sensitivity(
    ...     ridge=0.01, width=1.0, n_atoms=4, data_norm=1.0, reach=2.0), 1)
    1200.0
    """
    check("Lemma J.1", ridge=ridge, width=width, n_atoms=n_atoms, data_norm=data_norm, reach=reach)
    return float(2 * np.sqrt(n_atoms) * data_norm * (data_norm + reach) / (ridge * width**2))


def coefficient_sensitivity(ridge: float, *, spread: float = float("inf")) -> float:
    """Return a sensitivity of C that needs no limit on atoms or rows: at most 1/√(2λ).

    Parameters
    ----------
    ridge : float
        λ of the C-step, above 0.
    spread : float, default inf
        τ_X / r: the norm to which rows were clipped, in kernel widths; infinite without clipping.

    Returns
    -------
    float
        √(1 - exp(-2 spread²)) / √(2λ).

    Raises
    ------
    InvalidInput
        For a parameter outside its range.

    Notes
    -----
    Ours. c(x) = (K + λI)⁻¹ φ(Z)ᵀφ(x) with K = φ(Z)ᵀφ(Z): the operator has singular values
    s/(s² + λ) ≤ 1/(2√λ), and ‖φ(x) - φ(x')‖² = 2 - 2k(x, x') ≤ 2 - 2exp(-2τ_X²/r²), because
    ‖x - x'‖ ≤ 2τ_X. For a fixed dictionary, as in Lemma J.1. The whole of C has this sensitivity
    too, as a replaced row changes one column. Also ‖c(x)‖ ≤ 1/(2√λ), whatever the data.

    Examples
    --------
    >>> from daskfc.protocols.fedsc.privacy.noise_scale import coefficient_sensitivity
    >>> round(coefficient_sensitivity(0.01), 3)
    7.071
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

    Parameters
    ----------
    step, width : float
        η and r, above 0.
    n_atoms : int
        d.
    coefficient_norm, data_norm, dictionary_norm, reach : float
        τ_C, τ_X, τ_Z and Υ, limits set beforehand.

    Returns
    -------
    float
        (2η√d τ_C τ_X / r²)(1 + (τ_X + τ_Z)(τ_X + Υ) / r²), in the unit of Z. Holds only
        while C stays as it is when a row is replaced, which FedSC's C does not do: for comparison
        with the paper, not for protection.

    Raises
    ------
    InvalidInput
        For a parameter outside its range.

    References
    ----------
    FedSC, Appendix L. The factor before the bracket is garbled in print; it is the sum of the
    bounds T.1 and T.2 given there, times η/r².

    Examples
    --------
    >>> from daskfc.protocols.fedsc.privacy.noise_scale import printed_dictionary_sensitivity
    >>> printed_dictionary_sensitivity(step=0.5, width=1.0, n_atoms=4, coefficient_norm=1.0,
    ...     data_norm=1.0, dictionary_norm=1.0, reach=2.0)
    14.0
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
    """Return a sensitivity of one C-step and one gradient step that holds for all data.

    Parameters
    ----------
    step : float
        η, above 0; a number set beforehand. The 1/L of a client's own C is not one.
    width : float
        r of the kernel, above 0.
    n_atoms : int
        d.
    ridge : float
        λ of the C-step, above 0.

    Returns
    -------
    float
        2ητ(1 + √d τ) / (r √e) with τ = 1/(2√λ), in the unit of Z.

    Raises
    ------
    InvalidInput
        For a parameter outside its range.

    Notes
    -----
    Ours. A row x with coefficients c, ‖c‖ ≤ τ (see `coefficient_sensitivity`), adds to the
    gradient for atom a the vector
    (-c_a k(z_a, x)(x - z_a) + Σ_b c_a c_b k(z_a, z_b)(z_b - z_a)) / r².
    Since u exp(-u²/2r²) ≤ r/√e, its norm over all atoms is at most (τ + √d τ²) / (r √e), without
    limits on rows or atoms. Replacing a row takes one such term away and adds another. The start
    of the step must be public or noised already, and C solved there.

    Examples
    --------
    >>> from daskfc.protocols.fedsc.privacy.noise_scale import gradient_sensitivity
    >>> round(gradient_sensitivity(step=0.01, width=1.0, n_atoms=16, ridge=0.25), 4)
    0.0607
    """
    check("the sensitivity of Z", step=step, width=width, n_atoms=n_atoms, ridge=ridge)
    tau = 1 / (2 * np.sqrt(ridge))
    return float(2 * step * tau * (1 + np.sqrt(n_atoms) * tau) / (width * np.sqrt(np.e)))
