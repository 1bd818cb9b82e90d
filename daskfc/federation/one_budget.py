"""One budget for a fit with noise and for the preparation of what it reads."""

from collections.abc import Mapping, Sequence
from typing import Any

from daskfc.errors import PrivacyError
from daskfc.privacy import GaussianEvent, budget_left, noise_multiplier

__all__ = ["check_noise_beside", "count_preparation", "noise_beside"]


def check_noise_beside(method: str, bare: Sequence[str]) -> None:
    """Refuse noise beside a preparation that tells of the samples without any.

    Parameters
    ----------
    method : str
        That is asked for noise.
    bare : sequence of str
        Steps of the preparation whose values bear none.

    Raises
    ------
    PrivacyError
        When there are such steps.

    Examples
    --------
    >>> from daskfc.federation.one_budget import check_noise_beside
    >>> check_noise_beside("FedSC", ["robust"])
    Traceback (most recent call last):
    ...
    daskfc.errors.PrivacyError: FedSC with noise cannot read features prepared by 'robust', whose \
values bear none. Use 'log', 'clip', 'min-max' with 'low' and 'high', or 'standardise' with \
'epsilon'; or leave the noise out.
    """
    if bare:
        raise PrivacyError(
            f"{method} with noise cannot read features prepared by {', '.join(map(repr, bare))}, "
            "whose values bear none. Use 'log', 'clip', 'min-max' with 'low' and 'high', or "
            "'standardise' with 'epsilon'; or leave the noise out."
        )


def noise_beside(
    method: str, asked: Mapping[str, Any] | None, preparation: Any
) -> Mapping[str, Any] | None:
    """Return the noise of a fit whose budget a preparation shares.

    Parameters
    ----------
    method : str
        Its name.
    asked : mapping or None
        Its parameter ``noise``, for fit and preparation together.
    preparation : daskfc.Prepared or None
        What it reads.

    Raises
    ------
    PrivacyError
        When the preparation told without noise, or spent the budget.
    """
    if asked is None or preparation is None:
        return asked
    check_noise_beside(method, preparation.bare)
    return budget_left(asked, preparation.spent)


def count_preparation(told: dict[str, Any] | None, preparation: Any) -> None:
    """Add to what a fit says of its noise what it costs together with its preparation.

    Parameters
    ----------
    told : dict, optional
        ``privacy_`` of a fit; left alone where it guarantees nothing.
    preparation : daskfc.Prepared or None
        What it read.
    """
    if told and told["delta"] is not None and preparation is not None:
        own = GaussianEvent(noise_multiplier(told["epsilon"], told["delta"]))
        both = preparation.spent.compose(own)
        told["epsilon_with_preparation"] = both.epsilon(told["delta"])
