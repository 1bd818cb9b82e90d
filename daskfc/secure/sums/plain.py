"""Sums of arrays that clients send in the clear: for comparison, and where nothing is secret."""

import math
from collections.abc import Mapping

from daskfc.errors import InvalidInput
from daskfc.federation import Local
from daskfc.privacy import Part, noise_of_part
from daskfc.secure.sums.messages import PlainPart
from daskfc.secure.sums.total import Aggregation, OwnParts, Total, as_matrix


class PlainSum(Aggregation):
    """The server sums arrays that every client sends in the clear.

    Parameters
    ----------
    federation : Federation
        In a run.

    Notes
    -----
    Privacy: none against the server, which sees every client's array.

    Examples
    --------
    >>> from daskfc.secure.sums import PlainSum
    >>> def total(federation, parts):              # parts: PerClient of Local arrays
    ...     return PlainSum(federation).sum(parts)
    """

    def agree(self, parts: OwnParts) -> tuple[float, tuple[str, ...]]:
        """Return 1, without asking: nothing is rounded here."""
        return 1.0, tuple(parts)

    def sum(self, parts: OwnParts, *, max_abs: float | None = None) -> Local[Total]:
        """See `Aggregation.sum`; no bound is needed here."""
        return self._sum(parts, math.inf)

    def _sum(self, parts: OwnParts, max_abs: float) -> Local[Total]:
        sent = self._federation.ask(plain_part, parts, clients=tuple(parts))
        return self._federation.on_server(plain_total, sent)


def plain_part(part: Part) -> PlainPart:
    """Send an array."""
    return PlainPart(as_matrix(part), noise_of_part(part, 1))


def plain_total(parts: Mapping[str, PlainPart]) -> Total:
    """Sum arrays in the order of the clients' names, so that the result is always the same."""
    shapes = {message.values.shape for message in parts.values()}
    if len(shapes) != 1:
        raise InvalidInput(f"arrays to be summed must have one shape; got {sorted(shapes)}.")
    names = sorted(parts)
    values = parts[names[0]].values.copy()
    for name in names[1:]:
        values += parts[name].values
    return Total(values, 0.0, tuple(names))
