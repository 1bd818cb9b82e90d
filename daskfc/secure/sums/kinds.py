"""The kinds of secure sums by name, for a method's parameter."""

from daskfc.errors import InvalidInput
from daskfc.federation import Federation
from daskfc.secure.sums.masked import MaskedSum
from daskfc.secure.sums.plain import PlainSum
from daskfc.secure.sums.recovering import RecoveringSum
from daskfc.secure.sums.shared import SharedSum
from daskfc.secure.sums.total import Aggregation

KINDS = ("masked", "recovering", "shared", "plain")
"""How clients' arrays are hidden in a sum, as a method's parameter names it."""


def open_sum(
    federation: Federation,
    kind: str = "masked",
    *,
    clients: tuple[str, ...] | None = None,
    n_colluding: int = 0,
    allow_few: bool = False,
    patience_s: float = 10.0,
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

    Returns
    -------
    Aggregation
        Its ``sum(parts)`` gives a `Total` at the server.

    Raises
    ------
    InvalidInput
        For another kind.
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
    if kind == "plain":
        return PlainSum(federation)
    if kind == "masked":
        return MaskedSum(federation, clients=clients, n_colluding=n_colluding, allow_few=allow_few)
    enduring = RecoveringSum if kind == "recovering" else SharedSum
    return enduring(
        federation,
        clients=clients,
        n_colluding=n_colluding,
        allow_few=allow_few,
        patience_s=patience_s,
    )
