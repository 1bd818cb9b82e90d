"""Checks of the noise that a caller requests: a mapping with (ε, δ), or a multiplier and δ."""

import math
from collections.abc import Mapping
from typing import Any

from daskfc.checks import Constraint, between_0_and_1, check_params, real
from daskfc.errors import InvalidInput, PrivacyError
from daskfc.privacy.accounting import Accountant, noise_multiplier
from daskfc.privacy.gaussian import gaussian_epsilon

_NOTHING_LEFT = 1e-6  # ours: less of a budget needs noise beyond all bounds

_KEYS: dict[str, Constraint] = {
    "epsilon": real(above=0),
    "multiplier": real(above=0),
    "delta": between_0_and_1(),
}


def asked_noise(
    asked: Mapping[str, Any] | None, method: str, more: Mapping[str, Constraint] | None = None
) -> dict[str, Any] | None:
    """Check a method's ``noise``; return the entries that are given, None without any.

    Parameters
    ----------
    asked : mapping or None
        "delta", and one of "epsilon" and "multiplier"; entries of None count as not given.
    method : str
        Name of the method, for errors.
    more : mapping of str to Constraint, optional
        Other allowed entries.

    Raises
    ------
    InvalidInput
        For something other than a mapping, and for keys or values that do not go together.

    Examples
    --------
    >>> from daskfc.privacy.asked import asked_noise
    >>> asked_noise({"epsilon": 8.0, "delta": 1e-5, "multiplier": None}, "ESFMC")
    {'epsilon': 8.0, 'delta': 1e-05}
    """
    if asked is None:
        return None
    owner = f"the noise of {method}"
    if not isinstance(asked, Mapping):
        raise InvalidInput(
            f"{owner} must be a mapping, or None; got {type(asked).__name__}. Give 'delta' and "
            "one of 'epsilon' and 'multiplier'."
        )
    given = {key: value for key, value in asked.items() if value is not None}
    check_params(owner, given, {**_KEYS, **(more or {})})
    if ("epsilon" in given) == ("multiplier" in given) or "delta" not in given:
        raise InvalidInput(
            f"{owner} must have 'delta' and one of 'epsilon' and 'multiplier'; "
            f"got {', '.join(sorted(given)) or 'nothing'}. Correct its keys."
        )
    return given


def multiplier_of_each(given: Mapping[str, Any], releases: int) -> float:
    """Return the noise multiplier of each of a number of releases, from `asked_noise`.

    Examples
    --------
    >>> from daskfc.privacy.asked import multiplier_of_each
    >>> round(multiplier_of_each({"epsilon": 8.0, "delta": 1e-5}, 3), 2)
    1.04
    """
    if "multiplier" in given:
        return float(given["multiplier"])
    return float(noise_multiplier(given["epsilon"], given["delta"], releases))


def budget_left(asked: Mapping[str, Any], spent: Accountant) -> Mapping[str, Any]:
    """Return the noise of a fit after other releases of the same samples, within one budget.

    Parameters
    ----------
    asked : mapping
        The ``noise`` of a method; without "epsilon" it is returned as it is.
    spent : Accountant
        The other releases.

    Returns
    -------
    mapping
        With the "epsilon" with which all releases together cost the requested one, at the same
        "delta".

    Raises
    ------
    PrivacyError
        When nothing is left.

    Examples
    --------
    >>> from daskfc.privacy import Accountant, GaussianEvent, noise_multiplier
    >>> from daskfc.privacy.asked import budget_left
    >>> before = Accountant((GaussianEvent(10.0),))
    >>> left = budget_left({"epsilon": 1.0, "delta": 1e-5}, before)
    >>> fit = GaussianEvent(noise_multiplier(left["epsilon"], 1e-5))
    >>> round(left["epsilon"], 3), round(before.compose(fit).epsilon(1e-5), 6)
    (0.921, 1.0)
    """
    if asked.get("epsilon") is None or not spent.events:
        return asked
    epsilon, delta = float(asked["epsilon"]), float(asked["delta"])
    whole = 1.0 / noise_multiplier(epsilon, delta)
    if spent.mu >= (1.0 - _NOTHING_LEFT) * whole:
        raise PrivacyError(
            f"the preparation released data for epsilon {spent.epsilon(delta):.4g} at delta "
            f"{delta:g}, the whole of the budget of {epsilon:g}. Give the preparation less, or the "
            "method more."
        )
    return {**asked, "epsilon": gaussian_epsilon(1.0, delta, math.sqrt(whole**2 - spent.mu**2))}
