"""Federated preparation of features (imputation, scaling, one-hot, PCA): steps and their fit."""

import uuid
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from daskfc.checks import Constraint, between_0_and_1, check_params, integer, one_of, optional, real
from daskfc.errors import InvalidInput
from daskfc.federation import Federation, Ledger
from daskfc.naming import correction, known_name
from daskfc.privacy import Accountant
from daskfc.secure.prepare.fitting import (
    SMALLEST,
    STRATEGIES,
    Fitting,
    normalise_over_columns,
)
from daskfc.site import RunRequest
from daskfc.stores.store.fitted_steps import FittedStep

Asked: TypeAlias = "str | Mapping[str, Mapping[str, Any] | None]"

_DECLARED = Constraint(
    "a finite number, or a mapping of columns to such",
    lambda value: all(
        real().holds(one) for one in (value.values() if isinstance(value, Mapping) else [value])
    ),
)

STEPS: dict[str, Mapping[str, Constraint]] = {
    "impute": {"strategy": optional(one_of(*STRATEGIES))},
    "one-hot": {"smallest": optional(integer(1))},
    "standardise": {
        "low": optional(_DECLARED),
        "high": optional(_DECLARED),
        "epsilon": optional(real(above=0)),
        "delta": optional(between_0_and_1()),
        "within": optional(one_of("site")),
    },
    "min-max": {"low": optional(_DECLARED), "high": optional(_DECLARED)},
    "robust": {},
    "log": {},
    "clip": {"low": optional(real()), "high": optional(real())},
    "normalise": {},
    "tf-idf": {},
    "smooth": {
        "order": integer(1),
        "filter": optional(one_of("agc", "laplacian", "gcc")),
    },
    "pca": {"n_components": integer(1)},
}
"""Names of the steps, with the constraints of their parameters."""


class PreparationWarning(UserWarning):
    """A finding of a preparation that makes clusters doubtful, such as words of only one site."""


@dataclass(frozen=True)
class Prepared:
    """Fitted steps; set it as `Federation.preparation`.

    Attributes
    ----------
    steps : mapping of str to list of mapping
        Of each client, in order, as plain values; see ``daskfc.stores.store.fitted_steps``.
    ledger : Ledger
        Every message of the fit.
    bare : tuple of str
        Steps whose values depend on the samples and have no noise.
    warnings : tuple of str
        Sentences on words that differ only in case or that only one client has, and on samples
        that cannot be normalised.
    """

    steps: Mapping[str, list[FittedStep]]
    ledger: Ledger = field(repr=False)
    bare: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def spent(self) -> Accountant:
        """The privacy cost of the noisy steps, at the client where it is largest."""
        made = self.ledger.releases().values()
        return max(made, key=lambda accountant: accountant.mu, default=Accountant())


class Prepare(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Preparation of all clients' features before a method reads them.

    In a pipeline of scikit-learn it stands before a method, see the example.

    Parameters
    ----------
    asked : str, mapping, or sequence of these
        Names of steps, or one-key mappings of a name to its parameters, in order:

        ``"impute"``, ``{"impute": {"strategy": "median"}}``
            In place of a missing value the mean, median or most-frequent value of its column over
            all clients; in columns of words always the most frequent one.
        ``"one-hot"``, ``{"one-hot": {"smallest": 5}}``
            A column of 0 and 1/√2 for each word that at least `smallest` samples of all clients
            have; samples with other words, and with none, have 0 in all of them. Two samples with
            different words are at the squared distance 1: Gower's weight [1]_ of one column,
            however many words there are. Of later steps, only ``standardise``, ``normalise`` and
            ``pca`` change these columns.
        ``"standardise"``
            Mean 0 and variance 1 of every column over all clients that have it; the columns of one
            column of words have variance 1 together. With ``low`` and ``high``, numbers or mappings
            of columns to numbers that do not depend on the samples, and ``epsilon`` and ``delta``:
            mean and variance have noise.
        ``{"standardise": {"within": "site"}}``
            Mean 0 and variance 1 of every column of numbers at each client by itself, which removes
            effects of sites; columns of words over all clients. Wrong where sites have different
            samples: true differences between sites vanish as well.
        ``"min-max"``
            Smallest value 0 and largest value 1. With ``low`` and ``high``: low 0 and high 1,
            without any message about the samples.
        ``"robust"``
            Median 0, and 1 between the first and the third quartile.
        ``"log"``
            log(1 + x), of features above -1.
        ``{"clip": {"low": a, "high": b}}``
            At least a and at most b; one of them may be left out.
        ``"normalise"``
            Rows of length 1, whose squared distance is twice the cosine distance. Rows of zeros
            stay zeros, with a warning. Where each client has columns of the same samples, lengths
            are over the columns of all, from a masked sum, and all learn them.
        ``"tf-idf"``
            Counts of words times log((1 + n) / (1 + m)) + 1, m of the n samples having the word.
        ``{"smooth": {"order": p}}``, ``{"smooth": {"order": p, "filter": "gcc"}}``
            Features averaged p times over each client's graph of its samples, by the filter of
            "agc" (default), "laplacian" or "gcc": `daskfc.clustering.GraphOperator.filtered`. The
            last step; a client holds the result in memory.
        ``{"pca": {"n_components": k}}``
            The k directions in which all samples vary most; for clients with the same columns.

        Of the steps before ``one-hot``, only ``impute`` changes columns of words.

    Raises
    ------
    InvalidInput
        For an unknown step, and parameters that break their rules.

    Notes
    -----
    Privacy: the server learns only masked sums over all clients, and the largest magnitude of each
    client's columns as a power of two; the caller and all clients get the values of the steps.
    A quantile is between two samples' values, and the smallest and largest value are samples' own:
    the server and the caller learn them, but not whose they are. Of words the server learns how
    many samples share each, and the words that `smallest` samples share; nobody learns the others.
    The caller learns which client has which of the words where the policies of all sites say
    ``words: allow``, and else how many words of each column only one client has. Columns that only
    one client has are prepared there, and nothing of them is revealed. Only ``standardise`` with
    ``epsilon`` has noise, on the sums, in shares of the clients: (epsilon, delta) for the
    replacement of each sample; the number of all samples is revealed.

    Warns: of words that differ only in case, of words that only one client has (which separate
    sites and not samples, if other sites spell them differently), and of rows of zeros.

    Error: values are those of scikit-learn's `StandardScaler`, `MinMaxScaler`, `RobustScaler` and
    `SimpleImputer` on the pooled samples to 1e-9 of a column's largest magnitude, quantiles to the
    last bits where sums of single samples are told (`Federation.smallest`), else to a range of as
    many as are; components are those of `PCA` as far as variances differ.

    Cost: two rounds and 2 d numbers per client for a mean, as many for deviations, d² for
    directions; eight rounds of 682 d numbers for each quantile; for words 32,768 numbers per
    column.

    References
    ----------
    .. [1] J. C. Gower, "A general coefficient of similarity and some of its properties",
       Biometrics 27 (1971) 857-871.

    Examples
    --------
    >>> from daskfc import Federation, OmniFC, Prepare  # doctest: +SKIP
    >>> with Federation.local("storage/wine.yaml") as federation:  # doctest: +SKIP
    ...     federation.preparation = Prepare("standardise").fit(federation)
    ...     model = OmniFC(3, clusterer="k-means").fit(federation)
    >>> from sklearn.pipeline import make_pipeline  # doctest: +SKIP
    >>> with Federation.local("storage/wine.yaml") as federation:  # doctest: +SKIP
    ...     make_pipeline(Prepare("standardise"), OmniFC(3)).fit(federation)
    """

    def __init__(self, asked: "Asked | Sequence[Asked]") -> None:
        self.asked = asked
        _ = self.steps  # a wrong one is refused where it is written

    @property
    def steps(self) -> list[tuple[str, dict[str, Any]]]:
        """Each step's name and parameters, in order."""
        asked = self.asked
        steps = [asked] if isinstance(asked, str | Mapping) else list(asked)
        return [_checked(step, i == len(steps)) for i, step in enumerate(steps, 1)]

    def transform(self, federation: Federation) -> Federation:
        """Have methods read prepared features from now on; `fit_transform` fitted the steps.

        Returns
        -------
        Federation
            The same one, with its ``preparation`` set.
        """
        check_is_fitted(self, "prepared_")
        federation.preparation = self.prepared_
        return federation

    def fit_transform(self, federation: Federation, y: None = None) -> Federation:
        """Fit all steps as `fit`, keep them as ``prepared_``, and prepare as `transform`."""
        self.prepared_ = self.fit(federation)
        return self.transform(federation)

    def fit(self, federation: Federation, y: None = None) -> Prepared:
        """Fit all steps, in a run of its own.

        Parameters
        ----------
        federation : Federation
            Its clients have samples of the same columns, or own columns, or views.
        y : None
            Not used; present for scikit-learn's contract.

        Returns
        -------
        Prepared

        Raises
        ------
        InvalidInput
            For a step that does not suit the clients' columns.
        PrivacyError
            Where too few clients share columns for a sum to hide their values.

        Warns
        -----
        PreparationWarning
            For each sentence in `Prepared.warnings`.
        """
        before, federation.preparation = federation.preparation, None
        try:
            run_id = f"preparing-{uuid.uuid4().hex}"
            # sites that require noise allow this, and check each step against it
            asked = {"noised": self.noised}
            request = RunRequest("preparation", masked=True, parameters=asked)
            federation.start_run(
                run_id, random_state=0, workspace=federation.workspace, request=request
            )
            found: dict[str, list[FittedStep]] = {name: [] for name in federation.clients}
            told = self._fit_groups(federation, found)
            for sentence in told:
                warnings.warn(sentence, PreparationWarning, stacklevel=2)
            return Prepared(found, federation.ledger, self.bare, tuple(told))
        finally:
            federation.preparation = before

    @property
    def bare(self) -> tuple[str, ...]:
        """The steps whose values depend on the samples and have no noise."""
        return tuple(
            name
            for name, params in self.steps
            if name not in ("log", "clip", "normalise") and params.get("low") is None
        )

    @property
    def noised(self) -> bool:
        """Whether everything that a fit reveals of the samples has noise."""
        zeros_are_counted = any(name == "normalise" for name, _ in self.steps)
        return not self.bare and not zeros_are_counted

    def _fit_groups(self, federation: Federation, found: dict[str, list[FittedStep]]) -> list[str]:
        """Fit each step for clients that have the same columns, in turn; return the warnings."""
        smallest = next(
            (params.get("smallest") for name, params in self.steps if name == "one-hot"), None
        )
        groups = _groups(federation)
        fittings = [Fitting.of(federation, own, smallest or SMALLEST) for own in groups]
        parts = len(fittings) > 1
        told: list[str] = []
        for i, (name, params) in enumerate(self.steps):
            federation.report_progress(f"preparing: {name}", i, len(self.steps), "steps")
            if parts and name == "normalise" and all(fitting.alone for fitting in fittings):
                told += normalise_over_columns(federation, fittings)
                continue
            for fitting in fittings:
                if parts and name in ("normalise", "pca") and not fitting.alone:
                    raise InvalidInput(
                        f"the step {name!r} is for clients with the same columns; "
                        f"{fitting.clients[0]!r} and others have some of them alone, of which "
                        f"no sample can be made as over all. Leave {name!r} out."
                    )
                fitting.add(name, params)
        for fitting in fittings:
            found.update(dict.fromkeys(fitting.clients, fitting.steps))
            told += fitting.warnings
        return told


def _groups(federation: Federation) -> list[tuple[str, ...]]:
    """Return groups of clients that have the same columns."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name in federation.clients:
        groups.setdefault(federation.contract.columns[name], []).append(name)
    return [tuple(names) for names in groups.values()]


def _checked(step: Any, last: bool) -> tuple[str, dict[str, Any]]:
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
    name = known_name(name, STEPS)
    if name not in STEPS:
        raise InvalidInput(
            f"no step of a preparation is called {name!r}; there are {', '.join(STEPS)}. "
            f"{correction(name, STEPS)}"
        )
    rules = STEPS[name]
    if unknown := sorted(set(params) - set(rules)):
        known = ", ".join(rules) or "no parameters"
        raise InvalidInput(
            f"the step {name!r} has no parameter {unknown[0]!r}; it has {known}. "
            f"{correction(unknown[0], rules, 'Remove it.')}"
        )
    required = {key for key, rule in rules.items() if not rule.holds(None)}
    if missing := sorted(required - set(params)):
        raise InvalidInput(f"the step {name!r} needs the parameter {missing[0]!r}. Give it.")
    check_params(f"step {name!r}", params, rules)
    given = {key for key, value in params.items() if value is not None}
    whole = {"low", "high"} | ({"epsilon", "delta"} if name == "standardise" else set())
    if "within" in given and len(given) > 1:
        raise InvalidInput(
            "the step 'standardise' has 'within' alone: each site standardises by itself, and "
            "nothing is told that could bear noise. Leave the other parameters out."
        )
    if name in ("min-max", "standardise") and given not in (set(), whole, {"within"}):
        listed = [repr(key) for key in rules if key != "within"]
        raise InvalidInput(
            f"the step {name!r} has all of {', '.join(listed[:-1])} and {listed[-1]}, or none; got "
            f"{', '.join(sorted(given))}. Give the others."
        )
    if name == "smooth" and not last:
        raise InvalidInput(
            "'smooth' must be the last step of a preparation; others follow. Put them before."
        )
    if name == "clip":
        low, high = params.get("low"), params.get("high")
        if low is None and high is None:
            raise InvalidInput("the step 'clip' needs 'low', 'high' or both. Give one.")
        if low is not None and high is not None and low > high:
            raise InvalidInput("the step 'clip' needs 'low' to be at most 'high'. Swap them.")
    return name, params
