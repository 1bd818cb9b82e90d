"""Federated preparation of features: which steps, and how their values are found."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from daskfc.checks import Constraint, check_params, integer, optional, real
from daskfc.errors import InvalidInput
from daskfc.federation import Federation, Ledger
from daskfc.secure.prepare import steps
from daskfc.secure.sums import MaskedSum
from daskfc.stores.prepared import FittedStep

__all__ = ["STEPS", "Prepare", "Prepared"]

Asked: TypeAlias = "str | Mapping[str, Mapping[str, Any] | None]"

STEPS: dict[str, Mapping[str, Constraint]] = {
    "standardise": {},
    "log": {},
    "clip": {"low": optional(real()), "high": optional(real())},
    "pca": {"n_components": integer(1)},
}
"""Names of the steps, with the constraints of their parameters."""


@dataclass(frozen=True)
class Prepared:
    """Steps with the values that were found for them; set it as `Federation.preparation`.

    Attributes
    ----------
    steps : mapping of str to list of mapping
        Of each client, in their order, as plain values; see `daskfc.stores.prepared`.
    ledger : Ledger
        Every message that finding them took.
    """

    steps: Mapping[str, list[FittedStep]]
    ledger: Ledger = field(repr=False)


class Prepare:
    """Steps that the features of all clients go through before a method reads them.

    Parameters
    ----------
    asked : str, mapping, or sequence of these
        Names of steps, or one-key mappings of a name to its parameters, in order:

        ``"standardise"``
            Mean 0 and variance 1 of every column over all clients that have it.
        ``"log"``
            log(1 + x), of features above -1.
        ``{"clip": {"low": a, "high": b}}``
            At least a and at most b; one of them may be left out.
        ``{"pca": {"n_components": k}}``
            The k directions in which all samples vary most; for clients with the same columns.

    Raises
    ------
    InvalidInput
        For a step that is not known, and parameters that break their rules.

    Notes
    -----
    Privacy: the server learns sums over all clients alone, by masks, and the largest magnitude of
    each client's columns as a power of two; the caller and all clients get the means, deviations or
    directions that come of them. Columns that one client alone has are prepared there, and nothing
    of them is told. None of this bears noise.

    Error: means and deviations are those of `sklearn.preprocessing.StandardScaler` on the pooled
    samples to 1e-9 of a column's largest magnitude, and components those of
    `sklearn.decomposition.PCA` as far as variances differ.

    Cost: two rounds and d + 1 numbers a client for a mean, as many for deviations, and d² for
    directions.

    Examples
    --------
    >>> from daskfc import Federation, OmniFC, Prepare  # doctest: +SKIP
    >>> with Federation.local("storage/wine.yaml") as federation:  # doctest: +SKIP
    ...     federation.preparation = Prepare("standardise").fit(federation)
    ...     model = OmniFC(3, clusterer="k-means").fit(federation)
    """

    def __init__(self, asked: "Asked | Sequence[Asked]") -> None:
        listed = [asked] if isinstance(asked, str | Mapping) else list(asked)
        self.steps: list[tuple[str, dict[str, Any]]] = [_checked(step) for step in listed]

    def fit(self, federation: Federation) -> Prepared:
        """Find the values of all steps, in a run of its own.

        Parameters
        ----------
        federation : Federation
            Its clients have samples of the same columns, or columns of their own, or views.

        Returns
        -------
        Prepared

        Raises
        ------
        InvalidInput
            For a step that does not go with the clients' columns.
        PrivacyError
            Where too few clients share columns for a sum to hide theirs.
        """
        before, federation.preparation = federation.preparation, None
        try:
            run_id = f"preparing-{uuid.uuid4().hex}"
            federation.start_run(run_id, random_state=0, workspace=federation.workspace)
            found: dict[str, list[FittedStep]] = {name: [] for name in federation.clients}
            for clients in _groups(federation):
                self._fit_group(federation, clients, found)
            return Prepared(found, federation.ledger)
        finally:
            federation.preparation = before

    def _fit_group(
        self, federation: Federation, clients: tuple[str, ...], found: dict[str, list[FittedStep]]
    ) -> None:
        """Find the values for clients that have the same columns."""
        so_far: list[FittedStep] = []
        for name, params in self.steps:
            federation.report_progress(f"preparing: {name}", len(so_far), len(self.steps))
            if name in ("log", "clip"):
                so_far.append({"step": name, **params})
            elif len(clients) == 1 and name == "standardise":
                so_far.append({"step": name, "own": True})
            elif len(clients) == 1:
                raise InvalidInput(
                    f"the step {name!r} is for clients with the same columns; client "
                    f"{clients[0]!r} has columns of its own. Leave it out."
                )
            else:
                so_far.append(_sums(federation, clients, so_far, name, params))
        for client in clients:
            found[client] = so_far


def _sums(
    federation: Federation,
    clients: tuple[str, ...],
    so_far: list[FittedStep],
    name: str,
    params: Mapping[str, Any],
) -> FittedStep:
    """Find the values of a step by masked sums."""
    summing = MaskedSum(federation, clients=clients)

    def magnitudes(means: Any) -> Any:
        told = federation.ask(steps.column_magnitudes, so_far, means, clients=clients)
        return federation.tell(steps.common_magnitudes, told, clients=clients)

    largest = magnitudes(None)
    total = summing.sum(federation.on_clients(steps.sums, so_far, largest, clients=clients))
    fitted = federation.on_server(steps.means_of, total, largest)
    means = federation.tell(fitted, clients=clients)
    farthest = magnitudes(means)
    mean = federation.publish(fitted).means.tolist()
    if name == "standardise":
        parts = federation.on_clients(steps.squares, so_far, means, farthest, clients=clients)
        scales = federation.publish(steps.scales_of, summing.sum(parts), fitted, farthest)
        return {"step": name, "mean": mean, "scale": scales.scales.tolist()}
    parts = federation.on_clients(steps.covariances, so_far, means, farthest, clients=clients)
    k = params["n_components"]
    told = federation.publish(steps.components_of, summing.sum(parts), farthest, n_components=k)
    return {"step": name, "mean": mean, "components": told.components.tolist()}


def _groups(federation: Federation) -> list[tuple[str, ...]]:
    """Return the clients that have the same columns, together."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name in federation.clients:
        groups.setdefault(federation.contract.columns[name], []).append(name)
    return [tuple(names) for names in groups.values()]


def _checked(step: Any) -> tuple[str, dict[str, Any]]:
    if isinstance(step, str):
        name, params = step, {}
    elif isinstance(step, Mapping) and len(step) == 1:
        ((name, given),) = step.items()
        params = dict(given or {}) if isinstance(given, Mapping | None) else {"": given}
    else:
        raise InvalidInput(
            "a step of a preparation must be a name, or a mapping of one name to its parameters. "
            f"There are {', '.join(STEPS)}."
        )
    if name not in STEPS:
        raise InvalidInput(
            f"no step of a preparation is called {name!r}; there are {', '.join(STEPS)}. Correct "
            "the name."
        )
    rules = STEPS[name]
    if unknown := sorted(set(params) - set(rules)):
        known = ", ".join(rules) or "no parameters"
        raise InvalidInput(
            f"the step {name!r} has no parameter {unknown[0]!r}; it has {known}. Remove it."
        )
    required = {key for key, rule in rules.items() if not rule.holds(None)}
    if missing := sorted(required - set(params)):
        raise InvalidInput(f"the step {name!r} needs the parameter {missing[0]!r}. Give it.")
    check_params(f"step {name!r}", params, rules)
    if name == "clip":
        low, high = params.get("low"), params.get("high")
        if low is None and high is None:
            raise InvalidInput("the step 'clip' needs 'low', 'high' or both. Give one.")
        if low is not None and high is not None and low > high:
            raise InvalidInput("the step 'clip' needs 'low' to be at most 'high'. Swap them.")
    return name, params
