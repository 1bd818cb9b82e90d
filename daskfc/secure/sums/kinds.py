"""The kinds of secure sums by name, for a method's parameter."""

from collections.abc import Sequence
from typing import Any

from daskfc.checks import Constraint, optional
from daskfc.errors import InvalidInput
from daskfc.federation import Federation
from daskfc.secure.sums.masked import MaskedSum
from daskfc.secure.sums.plain import PlainSum
from daskfc.secure.sums.recovering import RecoveringSum
from daskfc.secure.sums.shared import SharedSum
from daskfc.secure.sums.total import Aggregation

KINDS = ("masked", "recovering", "shared", "plain")
"""How clients' arrays are hidden in a sum, as a method's parameter names it."""

AGGREGATORS = optional(
    Constraint(
        "two different names or more",
        lambda names: (
            isinstance(names, list | tuple)
            and all(isinstance(name, str) for name in names)
            and len(set(names)) == len(names) >= 2
        ),
    )
)
"""Of the clients that hold the masks of all with "shared"."""


def open_sum(
    federation: Federation,
    kind: str = "masked",
    *,
    clients: tuple[str, ...] | None = None,
    n_colluding: int = 0,
    allow_few: bool = False,
    patience_s: float = 10.0,
    aggregators: Sequence[str] | None = None,
) -> Aggregation:
    """Return one way in which the server learns sums of the clients' arrays.

    Parameters
    ----------
    federation : Federation
        In a run.
    kind : {"masked", "recovering", "shared", "plain"}
        Whether the server sees only sums; only sums and clients may leave meanwhile, for whose
        masks all clients hold shares, or some clients, the aggregators, all masks; or every array.
    clients : tuple of str, optional
        The clients that take part; by default all.
    n_colluding : int
        Clients that may pool what they know with the server.
    allow_few : bool
        Allow fewer than two honest clients, whose arrays are then revealed.
    patience_s : float
        Seconds that "recovering" and "shared" wait for stragglers once two thirds have answered.
    aggregators : sequence of str, optional
        With "shared", who holds the masks of all; by default the first by name.

    Returns
    -------
    Aggregation
        Its ``sum(parts)`` gives a `Total` at the server.

    Raises
    ------
    InvalidInput
        For another kind, and for aggregators that are no clients, too few, or of another kind.
    PrivacyError
        With fewer than two honest clients, unless the kind is "plain" or `allow_few` is given.

    Examples
    --------
    >>> from daskfc.secure.sums import open_sum
    >>> def total(federation, parts):              # parts: PerClient of Local arrays
    ...     return open_sum(federation, "masked").sum(parts)
    """
    if kind not in KINDS:
        raise InvalidInput(f"a sum must be one of {', '.join(KINDS)}; got {kind!r}.")
    check_aggregators(aggregators, kind, n_colluding, federation.clients)
    if kind == "plain":
        return PlainSum(federation)
    if kind == "masked":
        return MaskedSum(federation, clients=clients, n_colluding=n_colluding, allow_few=allow_few)
    how: dict[str, Any] = {"clients": clients, "n_colluding": n_colluding, "allow_few": allow_few}
    how["patience_s"] = patience_s
    if kind == "recovering":
        return RecoveringSum(federation, **how)
    return SharedSum(federation, aggregators=aggregators, **how)


def check_aggregators(
    names: Sequence[str] | None, kind: str, n_colluding: int, clients: Sequence[str]
) -> None:
    """Refuse aggregators that nothing asks for, that are no clients, or that may all collude."""
    if names is None:
        return
    if kind != "shared":
        raise InvalidInput(
            f"'aggregators' hold masks with averaging='shared' alone; got {kind!r}. Leave them out."
        )
    if strange := [one for one in names if one not in clients]:
        raise InvalidInput(
            f"the 'aggregators' must be clients; there is no {strange[0]!r}. Name some of "
            f"{', '.join(clients)}."
        )
    if len(names) <= n_colluding:
        raise InvalidInput(
            f"the 'aggregators' must be more than the {n_colluding} clients that may collude, who "
            f"would learn every array; got {len(names)}. Name more."
        )
