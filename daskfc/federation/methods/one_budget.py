"""The noise of a fit: one privacy budget with the preparation of its features, and its cost."""

from collections.abc import Mapping, Sequence
from typing import Any

from daskfc.checks import Constraint
from daskfc.errors import PrivacyError
from daskfc.privacy import Accountant, GaussianEvent, budget_left, noise_multiplier

NOISE = Constraint("a mapping, or None", lambda value: True)  # methods check the entries


def noise_told(kind: str, multiplier: float, releases: int, delta: float) -> dict[str, Any]:
    """Return the ``privacy_`` of a fit with so many releases of one multiplier."""
    epsilon = Accountant((GaussianEvent(multiplier, releases),)).epsilon(delta)
    told = {"multiplier": multiplier, "releases": releases, "delta": delta, "epsilon": epsilon}
    return {"kind": kind, **told}


def check_noise_beside(method: str, bare: Sequence[str]) -> None:
    """Refuse (PrivacyError) a fit with noise if steps of its preparation, `bare`, have none."""
    if bare:
        raise PrivacyError(
            f"{method} with noise cannot read features prepared by {', '.join(map(repr, bare))}, "
            "whose values bear none. Use 'log', 'clip', 'min-max' with 'low' and 'high', or "
            "'standardise' with 'epsilon'; or leave the noise out."
        )


def check_hidden(method: str, noised: bool, n_colluding: int | None) -> None:
    """Refuse (PrivacyError) colluding clients of a fit where its preparation has noise.

    Who prepares does not know who may collude, and has all clients add a share of that noise.
    """
    if noised and n_colluding:
        raise PrivacyError(
            f"{method} with n_colluding={n_colluding} cannot read features prepared with noise, of "
            "which each client adds a share and knows its own. Declare 'min-max' with 'low' and "
            "'high' in place of 'standardise'; or leave 'n_colluding' out."
        )


def noise_beside(
    method: str,
    asked: Mapping[str, Any] | None,
    preparation: Any,
    n_colluding: int | None = None,
) -> Mapping[str, Any] | None:
    """Return the noise that a preparation leaves a fit; PrivacyError if it has none left."""
    if asked is None or preparation is None:
        return asked
    check_noise_beside(method, preparation.bare)
    check_hidden(method, bool(preparation.spent.events), n_colluding)
    return budget_left(asked, preparation.spent)


def count_preparation(told: dict[str, Any] | None, preparation: Any) -> None:
    """Add to a fit's ``privacy_`` the ε of fit and preparation together, if it has a δ."""
    if told and told["delta"] is not None and preparation is not None:
        own = GaussianEvent(noise_multiplier(told["epsilon"], told["delta"]))
        both = preparation.spent.compose(own)
        told["epsilon_with_preparation"] = both.epsilon(told["delta"])
