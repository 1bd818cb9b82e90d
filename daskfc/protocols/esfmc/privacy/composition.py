"""Theorem 4.2: the joint privacy of clients that are each (ε, δ)-private for a sample.

Paper       X. Chen et al., ICML 2025, Theorem 4.2, Lemmas C.11 to C.14; its composition is Theorem
            3.4 of Kairouz, Oh and Viswanath, ICML 2015.
Notation    paper  here
            M      n_clients
            ε̃, δ̃   the first of the result, slack
            ρ_c    scale, of Z_c over Z
            σ_c    sigma_c
            k      n_uses
Departures  None, but only half of the theorem is a guarantee: `composed` holds for any clients that
            are (ε, δ)-private. `printed_client_epsilon`, which the paper puts into it, does not:
            Langevin noise counts as a Gaussian mechanism of sensitivity 1, though nothing is
            clipped, and noise on Z_c as DP-SGD without its constants. The exact ε of noise on
            shared features is in `ESFMC.privacy_`.
"""

import math

from daskfc.checks import Constraint, between_0_and_1, check_params, integer, real

_MAYBE = Constraint("a number in [0, 1)", lambda v: real(0, 1).holds(v) and float(v) < 1.0)


def composed(epsilon: float, delta: float, *, n_clients: int, slack: float) -> tuple[float, float]:
    """Return (ε̃, δ̃) of a sample of which M clients, each (ε, δ)-private, have a view each.

    δ̃ is 1 - (1 - δ)^M (1 - slack); more slack gives a smaller ε̃. Privacy: an upper bound of the
    optimum, also if each client knows what the others sent, as long as each is (ε, δ)-private for a
    change of one sample.
    """
    check_params(
        "composed",
        {"epsilon": epsilon, "delta": delta, "n_clients": n_clients, "slack": slack},
        {
            "epsilon": real(above=0),
            "delta": _MAYBE,
            "n_clients": integer(1),
            "slack": between_0_and_1(),
        },
    )
    M = n_clients
    drift = math.tanh(epsilon / 2) * epsilon * M  # (e^ε - 1) / (e^ε + 1) = tanh(ε / 2)
    bounds = (  # Theorem 4.2
        M * epsilon,
        drift + epsilon * math.sqrt(2 * M * math.log(math.e + math.sqrt(M) * epsilon / slack)),
        drift + epsilon * math.sqrt(2 * M * math.log(1 / slack)),
    )
    total = -math.expm1(M * math.log1p(-delta) + math.log1p(-slack))
    return min(bounds), total


def printed_client_epsilon(
    delta: float, *, sigma: float, scale: float, sigma_c: float, n_uses: int
) -> float:
    """Return √(2 log(1.25 / δ)) / σ + ρ_c √(k log(1 / δ)) / σ_c, ε of one client in Theorem 4.2.

    This is as printed, and no guarantee: see the module's Departures.
    """
    positive = real(above=0)
    check_params(
        "printed_client_epsilon",
        {"delta": delta, "sigma": sigma, "scale": scale, "sigma_c": sigma_c, "n_uses": n_uses},
        {
            "delta": between_0_and_1(),
            "sigma": positive,
            "scale": positive,
            "sigma_c": positive,
            "n_uses": integer(1),
        },
    )
    langevin = math.sqrt(2 * math.log(1.25 / delta)) / sigma  # Lemma C.11
    features = scale * math.sqrt(n_uses * math.log(1 / delta)) / sigma_c  # Lemma C.12
    return langevin + features
