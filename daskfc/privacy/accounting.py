"""What all of a run's noisy releases together cost: an accountant of Gaussian mechanisms.

Paper       Dong, Roth, Su, "Gaussian Differential Privacy", JRSS B 2022 (arXiv:1905.02383):
            Corollary 3.3, composition; Balle and Wang, ICML 2018, for (ε, δ) from it.
            Mironov, "Rényi Differential Privacy", CSF 2017, Corollary 3; Canonne, Kamath, Steinke,
            "The Discrete Gaussian for Differential Privacy", NeurIPS 2020, Proposition 12, which
            is Theorem 21 of Balle et al., AISTATS 2020: the Rényi bound kept for comparison.
Notation    paper  here               meaning
            μ      1/noise_multiplier  sensitivity over sigma
Departures  None. No amplification by sampling of clients is claimed: a participation that the
            server sees amplifies nothing.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from daskfc.errors import PrivacyError
from daskfc.privacy.gaussian import gaussian_delta, gaussian_epsilon, gaussian_sigma
from daskfc.privacy.ranges import check

__all__ = ["Accountant", "GaussianEvent", "noise_multiplier"]


@dataclasses.dataclass(frozen=True)
class GaussianEvent:
    """Values of bounded sensitivity were released with Gaussian noise.

    Parameters
    ----------
    noise_multiplier : float
        σ over the L2 sensitivity of what was released, above 0. The sensitivity is over
        neighbouring data of one client, the same notion in all events of one accountant.
    count : int, default 1
        How many such releases, each chosen with the earlier ones in sight or not.

    Raises
    ------
    InvalidInput
        For a parameter outside its range.

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
    Releases with multipliers z_1, z_2, ... are together exactly as revealing as one Gaussian
    release with multiplier (Σ 1/z_i²)^(-1/2), even when each was chosen after seeing the earlier
    ones. Therefore `epsilon` is no bound that can be improved, it is the smallest true one.

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
        """Return the accountant after further events; this one stays as it was."""
        return Accountant((*self.events, *events))

    def spend(self, *events: GaussianEvent, epsilon: float, delta: float) -> "Accountant":
        """Return the accountant after further events, unless they exceed a budget.

        Parameters
        ----------
        *events : GaussianEvent
            Releases that are about to happen.
        epsilon, delta : float
            The budget of everything, those before included.

        Raises
        ------
        PrivacyError
            When the budget would be exceeded; nothing is spent.

        Examples
        --------
        >>> from daskfc.privacy import Accountant, GaussianEvent
        >>> Accountant().spend(GaussianEvent(1.0), epsilon=1.0, delta=1e-5)
        Traceback (most recent call last):
        ...
        daskfc.errors.PrivacyError: the next release would bring epsilon to 4.377 at delta 1e-05, \
above the budget of 1.0. Add more noise, or plan fewer rounds; nothing was released.
        """
        check("the privacy budget", epsilon=epsilon, delta=delta)
        after = self.compose(*events)
        if (cost := after.epsilon(delta)) > epsilon:
            raise PrivacyError(
                f"the next release would bring epsilon to {cost:.4g} at delta {delta:g}, above "
                f"the budget of {epsilon!r}. Add more noise, or plan fewer rounds; nothing was "
                "released."
            )
        return after

    @property
    def mu(self) -> float:
        """Square root of Σ 1/z_i² over all releases; 0 before the first."""
        return float(np.sqrt(sum(e.count / e.noise_multiplier**2 for e in self.events)))

    def epsilon(self, delta: float) -> float:
        """Return the smallest ε of all releases together.

        Parameters
        ----------
        delta : float
            In (0, 1).

        Returns
        -------
        float
            Nats; 0 before the first release.
        """
        check("the accountant", delta=delta)
        return gaussian_epsilon(1.0, delta, self.mu) if self.events else 0.0

    def delta(self, epsilon: float) -> float:
        """Return the smallest δ of all releases together, for epsilon above 0."""
        check("the accountant", epsilon=epsilon)
        return gaussian_delta(epsilon, 1.0, self.mu) if self.events else 0.0

    def renyi_epsilon(self, delta: float) -> float:
        """Return the bound on ε by way of Rényi divergences, never below `epsilon`.

        Parameters
        ----------
        delta : float
            In (0, 1).

        Returns
        -------
        float
            Nats. What accountants of other libraries print for the same run, but for their
            choice of orders; here the best real order is taken.

        Examples
        --------
        >>> from daskfc.privacy import Accountant, GaussianEvent
        >>> round(Accountant((GaussianEvent(1.0),)).renyi_epsilon(1e-5), 3)
        4.728
        """
        check("the accountant", delta=delta)
        if not self.events:
            return 0.0
        half = self.mu**2 / 2

        def bound(log_excess: float) -> float:
            excess = np.exp(log_excess)  # α - 1
            alpha = 1 + excess
            cost = alpha * half  # Mironov, Corollary 3
            # Proposition 12; the older cost + log(1/δ)/(α-1) is weaker
            return float(cost - np.log1p(1 / excess) - (np.log(delta) + np.log(alpha)) / excess)

        # every order gives a true bound, so that the search needs no guarantee
        best = minimize_scalar(bound, bounds=(-20.0, 40.0), method="bounded").fun
        return max(0.0, float(best))

    def to_records(self) -> list[dict[str, Any]]:
        """Return the events as plain dictionaries, for a ledger or a checkpoint."""
        return [dataclasses.asdict(event) for event in self.events]

    @classmethod
    def from_records(cls, records: Iterable[Mapping[str, Any]]) -> "Accountant":
        """Return the accountant that `to_records` wrote down; a resumed run starts from it."""
        return cls(tuple(GaussianEvent(**record) for record in records))


def noise_multiplier(epsilon: float, delta: float, n_rounds: int = 1) -> float:
    """Return the least noise multiplier with which a number of releases fit a budget.

    Parameters
    ----------
    epsilon : float
        Above 0, nats, of all releases together.
    delta : float
        In (0, 1), of all releases together.
    n_rounds : int, default 1
        Releases with the same multiplier, at least 1. FedSC with perturbed factors has one of Z
        in each of S rounds and one of C: S + 1.

    Returns
    -------
    float
        σ over the sensitivity. ``Accountant`` finds at most `epsilon` for it.

    Raises
    ------
    InvalidInput
        For a parameter outside its range.

    Examples
    --------
    >>> from daskfc.privacy import noise_multiplier
    >>> round(noise_multiplier(1.0, 1e-5, n_rounds=4), 4)
    7.4613
    """
    check("noise_multiplier", epsilon=epsilon, delta=delta, n_rounds=n_rounds)
    found = gaussian_sigma(epsilon, delta, 1.0) * float(np.sqrt(n_rounds))
    while Accountant((GaussianEvent(found, n_rounds),)).epsilon(delta) > epsilon:
        found *= 1 + 1e-15  # the root's and the sum's last bits
    return found
