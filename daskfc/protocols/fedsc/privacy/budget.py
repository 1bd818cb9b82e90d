"""The privacy budget of FedSC: the (ε, δ) of a fit's and its predictions' noisy releases."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from daskfc.errors import PrivacyError
from daskfc.federation import Federation
from daskfc.privacy import Accountant, GaussianEvent
from daskfc.protocols.fedsc.privacy.noise import Noise, RelativeNoise

Spent = Mapping[str, Accountant]

_ROUNDING = 1.0 + 1e-9  # ours: tolerance for rounding where a budget is spent as a whole


def spent_of(federation: Federation, before: Iterable[float]) -> dict[str, Accountant]:
    """Return each client's releases: in the run of the fit, and with multipliers `before` it."""
    earlier = Accountant(tuple(GaussianEvent(z) for z in before))
    made = federation.ledger.releases()
    return {
        name: earlier.compose(*made.get(name, Accountant()).events) for name in federation.clients
    }


def cost_of(noise: Noise, spent: Spent) -> dict[str, Any]:
    """Return the noise's parameters and the largest ε of a client's releases, for the caller."""
    if not noise.claims:
        return {**noise.described(), "epsilon": math.inf, "delta": None}
    assert noise.delta is not None
    epsilon = max(one.epsilon(noise.delta) for one in spent.values())
    return {**noise.described(), "epsilon": epsilon, "delta": noise.delta}


def charged(noise: Noise, spent: Spent, clients: Iterable[str]) -> Spent:
    """Return what is spent once clients release new samples; first refuse it above the budget."""
    if isinstance(noise, RelativeNoise) or noise.delta is None:
        return spent
    after = dict(spent)
    for name in clients:
        after[name] = after[name].compose(GaussianEvent(noise.prediction_multiplier))
        cost = after[name].epsilon(noise.delta)
        if noise.budget is not None and cost > noise.budget * _ROUNDING:
            raise PrivacyError(
                f"predict would bring epsilon of client {name!r} to {cost:.4g} at delta "
                f"{noise.delta:g}, above the budget of {noise.budget:g}; nothing was released. Fit "
                "with 'predictions' in the noise: how many the budget shall suffice for."
            )
    return after
