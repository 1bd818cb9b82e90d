"""Privacy accounting: the total cost of a run's noisy releases by Gaussian mechanisms.

Paper       Dong, Roth, Su, "Gaussian Differential Privacy", JRSS B 2022 (arXiv:1905.02383):
            Corollary 3.3, composition; Balle and Wang, ICML 2018, for (ε, δ) from it.
Notation    paper  here               meaning
            μ      1/noise_multiplier  sensitivity over sigma
Departures  None. No amplification by sampling of clients is claimed, as the server sees which
            clients take part.
"""

import dataclasses
import math

from daskfc.privacy.gaussian import gaussian_delta, gaussian_epsilon, gaussian_sigma
from daskfc.privacy.ranges import check


@dataclasses.dataclass(frozen=True)
class GaussianEvent:
    """One or more releases of values of bounded sensitivity with Gaussian noise.

    Parameters
    ----------
    noise_multiplier : float
        σ over the L2 sensitivity of the released values, above 0. The sensitivity is over
        neighbouring data of one client, the same notion in all events of one accountant.
    count : int, default 1
        Number of such releases, each of which may depend on the earlier ones.

    Examples
    --------
    >>> from daskfc.privacy import GaussianEvent
    >>> GaussianEvent(2.0, count=5)
    GaussianEvent(noise_multiplier=2.0, count=5)
    """

    noise_multiplier: float
    count: int = 1

    def __post_init__(self) -> None:
        check("GaussianEvent", **vars(self))


@dataclasses.dataclass(frozen=True)
class Accountant:
    """All releases from one client's data so far; it only grows.

    Parameters
    ----------
    events : tuple of GaussianEvent, default ()
        In the order in which they happened.

    Notes
    -----
    Releases with multipliers z_1, z_2, ... together reveal exactly as much as one Gaussian release
    with multiplier (Σ 1/z_i²)^(-1/2), even when each was chosen after seeing the earlier ones.
    Therefore `epsilon` is the smallest true bound.

    Clients hold different rows: a neighbouring data set changes one client's rows, and the whole
    run is as private as its least private client, not the sum of all. Compose within a client.

    Examples
    --------
    >>> from daskfc.privacy import Accountant, GaussianEvent
    >>> spent = Accountant().compose(GaussianEvent(10.0, count=4)).compose(GaussianEvent(5.0))
    >>> round(spent.epsilon(1e-5), 4)
    1.0608
    """

    events: tuple[GaussianEvent, ...] = ()

    def compose(self, *events: GaussianEvent) -> "Accountant":
        """Return a new accountant with further events."""
        return Accountant((*self.events, *events))

    @property
    def mu(self) -> float:
        """Square root of Σ 1/z_i² over all releases; 0 before the first."""
        # squares of NumPy's small types would overflow
        return math.sqrt(sum(int(e.count) / float(e.noise_multiplier) ** 2 for e in self.events))

    def epsilon(self, delta: float) -> float:
        """Return the smallest ε in nats, at δ in (0, 1), of all releases together."""
        check("the accountant", delta=delta)
        return gaussian_epsilon(1.0, delta, self.mu) if self.events else 0.0

    def delta(self, epsilon: float) -> float:
        """Return the smallest δ of all releases together, for epsilon above 0."""
        check("the accountant", epsilon=epsilon)
        return gaussian_delta(epsilon, 1.0, self.mu) if self.events else 0.0


def noise_multiplier(epsilon: float, delta: float, n_rounds: int = 1) -> float:
    """Return the least noise multiplier with which a number of releases stay within a budget.

    Parameters
    ----------
    epsilon : float
        Above 0, nats, of all releases together.
    delta : float
        In (0, 1), of all releases together.
    n_rounds : int, default 1
        Releases with the same multiplier, at least 1. FedSC with perturbed factors has one of Z
        in each of S rounds and one of C: S + 1.

    Examples
    --------
    >>> from daskfc.privacy import noise_multiplier
    >>> round(noise_multiplier(1.0, 1e-5, n_rounds=4), 4)
    7.4613
    """
    check("noise_multiplier", epsilon=epsilon, delta=delta, n_rounds=n_rounds)
    epsilon = float(epsilon)
    found = gaussian_sigma(epsilon, delta, 1.0) * math.sqrt(n_rounds)
    while Accountant((GaussianEvent(found, n_rounds),)).epsilon(delta) > epsilon:
        found *= 1 + 1e-15  # the root's and the sum's last bits
    return found
