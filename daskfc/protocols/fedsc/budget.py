"""What the noisy releases of a fit and its predictions cost each client of FedSC."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from daskfc.errors import PrivacyError
from daskfc.federation import Federation
from daskfc.privacy import Accountant, GaussianEvent
from daskfc.protocols.fedsc.noise import Noise, RelativeNoise

__all__ = ["charged", "cost_of", "spent_of"]

Spent = Mapping[str, Accountant]

_ROUNDING = 1.0 + 1e-9  # ours: what composing may add to a budget that is spent as a whole


def spent_of(federation: Federation, before: Iterable[float]) -> dict[str, Accountant]:
    """Return what each client released in the run of the fit and, by multipliers, `before` it."""
    earlier = Accountant(tuple(GaussianEvent(z) for z in before))
    made = federation.ledger.releases()
    return {
        name: earlier.compose(*made.get(name, Accountant()).events) for name in federation.clients
    }


def cost_of(noise: Noise, spent: Spent) -> dict[str, Any]:
    """Return for the caller what the noise is, and what a client's releases cost at most."""
    if not noise.claims:
        return {**noise.described(), "epsilon": math.inf, "delta": None}
    assert noise.delta is not None
    epsilon = max(one.epsilon(noise.delta) for one in spent.values())
    return {**noise.described(), "epsilon": epsilon, "delta": noise.delta}


def charged(noise: Noise, spent: Spent, clients: Iterable[str]) -> Spent:
    """Return what is spent once some clients have released new samples.

    It raises PrivacyError, before any release, where that exceeds the budget from which σ follows.
    """
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
