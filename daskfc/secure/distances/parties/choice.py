"""The choice of a Lagrange code for a number of clients."""

from daskfc.coding import LagrangeCode
from daskfc.errors import InvalidInput
from daskfc.federation.steps.rules import Announced, Rule


def _is_announced(code: LagrangeCode, asked: Announced) -> bool:
    t, n_segments = asked.n_colluding, asked.parameters.get("n_segments")
    if asked.parameters.get("n_colluding") is None:
        t = choose_code(len(asked.clients), n_segments, None, 0).n_colluding
    return bool(code.n_colluding >= t and code.n_segments == (n_segments or 1))


AS_ANNOUNCED = Rule(
    "a code of as many segments, and that hides rows from as many, as were announced", _is_announced
)
"""Of the code that rows are shared out by: a segment may be the columns of one client."""


def choose_code(
    n_clients: int, n_segments: int | None, n_colluding: int | None, n_spares: int | None
) -> LagrangeCode:
    """Return the code for a number of clients, by default the cheapest one.

    Parameters
    ----------
    n_clients : int
        The paper's m.
    n_segments, n_colluding, n_spares : int, optional
        l, t, and the evaluators beyond the 2l + 2t - 1 needed, which replace stragglers and check
        answers. By default l = 1, t = 2 from 5 clients on, and one spare if there is a client.

    Returns
    -------
    LagrangeCode
        Its number of evaluators is 2l + 2t - 1 plus the spares.

    Raises
    ------
    InvalidInput
        When there are too few clients.

    Notes
    -----
    With more segments each pair needs more answers, and distances of single segments must be hidden
    from the server. In return a share is smaller, d / l numbers a row: evaluators need less memory,
    and fewer bytes travel where d > n.

    Examples
    --------
    >>> from daskfc.secure.distances import choose_code
    >>> choose_code(10, None, None, None)
    LagrangeCode(n_segments=1, n_colluding=2, n_evaluators=6)
    >>> choose_code(5, None, None, None)
    LagrangeCode(n_segments=1, n_colluding=2, n_evaluators=5)
    """
    most = (n_clients + 1) // 2  # l + t with 2l + 2t - 1 <= m
    t = n_colluding if n_colluding is not None else max(1, min(2, most - (n_segments or 1)))
    l = n_segments or 1  # noqa: E741
    needed = 2 * l + 2 * t - 1
    if n_clients < needed:
        raise InvalidInput(
            f"OmniFC needs 2l + 2t - 1 = {needed} clients with n_segments={l} and n_colluding={t}; "
            f"the federation has {n_clients}. Lower n_segments or n_colluding, or add clients."
        )
    spares = min(1, n_clients - needed) if n_spares is None else n_spares
    if needed + spares > n_clients:
        raise InvalidInput(
            "the 'n_spares' parameter of OmniFC must be a whole number in "
            f"[0, {n_clients - needed}] with {n_clients} clients of which {needed} are needed; "
            f"got {spares}. Lower it."
        )
    return LagrangeCode(l, t, needed + spares)
