"""Amounts that a policy names: samples, maskers, a budget, a rate of runs, bytes."""

from contextlib import suppress
from fractions import Fraction
from typing import Annotated, Any, Literal, NamedTuple

from dask.utils import parse_bytes, parse_timedelta
from pydantic import BeforeValidator, Field, InstanceOf

from daskfc.checks import Section

_SECONDS = {"hour": 3600.0, "day": 86_400.0, "week": 7 * 86_400.0}


def _share(value: Any) -> Fraction:
    share = Fraction(0)
    if isinstance(value, str | int | float | Fraction) and not isinstance(value, bool):
        with suppress(ValueError, ZeroDivisionError):
            share = Fraction(str(value))
    if 1 < 2 * share <= 2:
        return share
    raise ValueError(
        "must be a share above 1/2 and at most 1, such as 2/3: with less, clients that are told of "
        "different survivors would open one of them"
    )


def _bytes(value: Any) -> int:
    if not isinstance(value, bool):
        try:
            number = int(parse_bytes(value))
        except (TypeError, ValueError, AttributeError, OverflowError):
            number = -1
        if number >= 0:
            return number
    raise ValueError("must be a number of bytes such as 2 GB")


def _duration(value: Any) -> float:
    if isinstance(value, str):
        with suppress(ValueError, KeyError, OverflowError):
            if 0 < (seconds := float(parse_timedelta(value, default=False))) < float("inf"):
                return seconds
    raise ValueError("must be a time with its unit, such as 12h or 2 days")


class Samples(Section):
    """The fewest samples that a store must have."""

    at_least: Annotated[int, Field(ge=1, strict=True)] = 1


class Maskers(Section):
    """How many clients must hide each other in a masked sum.

    The share `threshold` that must stay is above one half: of two groups given different survivors
    only one can answer, so that both masks of a client are never opened. Clients of two sums over
    one data set differ by none or at least `differ_by`: the difference is the sum over these.
    """

    at_least: Annotated[int, Field(ge=1, strict=True)] = 3
    threshold: Annotated[InstanceOf[Fraction], BeforeValidator(_share)] = Fraction(2, 3)
    differ_by: Annotated[int, Field(ge=1, strict=True)] = 1


class Smallest(NamedTuple):
    """The smallest part of all samples whose sum a run opens: of a group, a column, a word.

    Parameters
    ----------
    samples : int
        The fewest samples that are in it.
    clients : int
        The fewest clients that have some of them.

    Examples
    --------
    >>> from daskfc.site import Smallest
    >>> Smallest(samples=10)
    Smallest(samples=10, clients=1)
    """

    samples: Annotated[int, Field(ge=1, strict=True)] = 1
    clients: Annotated[int, Field(ge=1, strict=True)] = 1


ANY_PART = Smallest()
"""What holds where who submits is who holds the data."""

BETWEEN_SITES = Smallest(samples=5, clients=2)
"""What holds between sites unless one of them, or the submitter, says otherwise; ours."""


class Groups(Section):
    """The fewest samples and clients in a sum that is opened, and how often samples may be grouped.

    `samples` counts all clients', and this site's own where the submitter names groups. `groupings`
    limits groupings of one data set by a submitter: two that differ by a sample reveal it.
    """

    samples: Annotated[int, Field(ge=1, strict=True)] = BETWEEN_SITES.samples
    clients: Annotated[int, Field(ge=1, strict=True)] = BETWEEN_SITES.clients
    groupings: Annotated[int, Field(ge=1, strict=True)] | Literal["any"] = 1


class Budget(Section):
    """The budget, ε in nats at δ, of all noisy releases of one data set in its whole life.

    Examples
    --------
    >>> from daskfc.site import Budget
    >>> Budget(epsilon=3, delta=1e-5).epsilon
    3.0
    """

    epsilon: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    delta: Annotated[float, Field(gt=0, lt=1)]


class Rate(Section):
    """How many starts, resumed ones too, may occur per time; `longest` limits a run (seconds)."""

    at_most: Annotated[int, Field(ge=0, strict=True)]
    per: Literal["hour", "day", "week"]
    longest: Annotated[float, BeforeValidator(_duration)] | None = None

    @property
    def seconds(self) -> float:
        """The length of `per`."""
        return _SECONDS[self.per]


Upload = Annotated[int, BeforeValidator(_bytes)]
"""Bytes, written as ``2 GB``."""
