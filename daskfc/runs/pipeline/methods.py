"""List the methods that a pipeline may name; check a pipeline and make its estimators."""

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sklearn.base import BaseEstimator

from daskfc.baselines import BASELINES, Central
from daskfc.checks import integer
from daskfc.errors import InvalidInput
from daskfc.federation import FederatedClusterer
from daskfc.federation.driver.contract import check_prepared
from daskfc.federation.methods.one_budget import check_hidden, check_noise_beside
from daskfc.naming import correction, known_name
from daskfc.plugins import with_plugins
from daskfc.protocols import METHODS
from daskfc.runs.pipeline.config import Pipeline, load_pipeline
from daskfc.secure.prepare import Prepare
from daskfc.secure.profiles import Profile
from daskfc.stores import ClientStore
from daskfc.stores.store.together import check_columns, check_samples

SHARED = ("n_clusters", "clusterer")  # a compared method takes these over from the run's own
STABILITY = "stability"
_MOST = 12  # ours: clusters that "auto" goes up to


@dataclass(frozen=True)
class CheckedPipeline:
    """A pipeline that can run, with its estimators.

    `estimators` is by method, the run's `own` first, with its first seed and, where the number of
    clusters is to be chosen, the least. `choices` has the pipeline for each such number.
    """

    pipeline: Pipeline
    own: BaseEstimator
    estimators: Mapping[str, BaseEstimator]
    prepare: Prepare
    profile: Profile | None
    choices: Mapping[int, "CheckedPipeline"] = field(default_factory=dict)


def known_methods() -> dict[str, type[BaseEstimator]]:
    """Return every method by name: protocols, baselines, ``central``, and those of other packages.

    A package registers a method by an entry point of the group ``daskfc.methods``.

    Examples
    --------
    >>> from daskfc.runs import known_methods
    >>> list(known_methods())[0]
    'FederatedKMeans'
    """
    own: dict[str, type[BaseEstimator]] = {**METHODS, **BASELINES, "central": Central}
    return with_plugins("daskfc.methods", own, _is_method)


def method_of(name: str) -> tuple[str, type[BaseEstimator]]:
    """Return a method's own name, for one that differs in case or hyphens at most, and its class.

    InvalidInput for a name that no method has.
    """
    methods = known_methods()
    found = known_name(name, methods)
    if found not in methods:
        raise InvalidInput(
            f"no method is called {name!r}; there are {', '.join(methods)}. "
            f"{correction(name, methods)}"
        )
    return found, methods[found]


def _is_method(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, FederatedClusterer)


def _parameters(kind: type[BaseEstimator]) -> dict[str, inspect.Parameter]:
    return {
        name: parameter
        for name, parameter in inspect.signature(kind).parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }


def make_estimator(method: str, params: Mapping[str, Any], *, seed: int) -> BaseEstimator:
    """Make an estimator and check its parameters against the class's own rules.

    Parameters
    ----------
    method : str
        A name of `known_methods`.
    params : mapping
        Its parameters, without ``random_state``.
    seed : int
        The ``random_state``, for methods that have one.

    Raises
    ------
    InvalidInput
        For an unknown method, an unknown or missing parameter, or a value against its rule.

    Examples
    --------
    >>> from daskfc.runs import make_estimator
    >>> make_estimator("OmniFC", {"n_clusters": 3}, seed=0).n_clusters
    3
    """
    method, kind = method_of(method)
    known = _parameters(kind)
    if "random_state" in params:
        raise InvalidInput(
            f"the 'random_state' of {method} is set by the pipeline's 'seeds'. Remove it from its "
            "parameters and list the seeds instead."
        )
    settable = [name for name in known if name != "random_state"]
    for name in params:
        if name not in settable:
            raise InvalidInput(
                f"{method} has no parameter {name!r}; it has {', '.join(settable)}. "
                f"{correction(name, settable, 'Correct the name or leave it out.')}"
            )
    for name in settable:
        if known[name].default is inspect.Parameter.empty and name not in params:
            raise InvalidInput(
                f"{method} needs the parameter {name!r}. Add it to the pipeline's 'params', or "
                f"give --set params.{name}=VALUE."
            )
    given = dict(params)
    if "random_state" in known:
        given["random_state"] = seed
    return kind(**given)


def estimator_of(pipeline: Pipeline, method: str, seed: int) -> BaseEstimator:
    """Make the estimator of one of a pipeline's methods and seeds; see `make_estimator`."""
    if method == pipeline.method:
        return make_estimator(method, pipeline.params, seed=seed)
    params = dict(pipeline.compare[method])
    own = _parameters(method_of(method)[1])
    shared = {name: pipeline.params[name] for name in SHARED if name in {*own} & {*pipeline.params}}
    params = {**shared, **params}
    return make_estimator(method, params, seed=seed)


def candidates_of(asked: Any, n_samples: int | None = None) -> range | None:
    """Return the numbers of clusters to choose from, or None where ``n_clusters`` is a number."""
    if isinstance(asked, str):
        if asked != "auto":
            raise InvalidInput(
                "the 'n_clusters' parameter must be a number, 'auto', or a list of the least and "
                f"the most, as [2, 12]; got {asked!r}. Correct it."
            )
        low, high = 2, _MOST if n_samples is None else min(_MOST, n_samples - 1)
    elif isinstance(asked, Sequence):
        ends = list(asked)
        if len(ends) != 2 or not all(integer(2).holds(end) for end in ends) or ends[0] >= ends[1]:
            raise InvalidInput(
                "a range of 'n_clusters' must be a list of two ints, the least of at least 2 and "
                f"the most above it; got {asked!r}. Write for example [2, 12]."
            )
        low, high = ends
    else:
        return None
    if n_samples is not None and (high >= n_samples or high < low):
        raise InvalidInput(
            f"a range of 'n_clusters' must end below the number of samples, {n_samples}; got "
            f"[{low}, {high}]. Lower it, or add samples."
        )
    return range(low, high + 1)


def check_seeds(seeds: Sequence[int]) -> None:
    """Refuse seeds that cannot show stability: fewer than two, repeated, or not ints >= 0."""
    good = isinstance(seeds, Sequence) and all(integer(0).holds(seed) for seed in seeds)
    if not good or len(set(seeds)) < max(2, len(seeds)):
        raise InvalidInput(
            "stability is told from fits with two different seeds or more, ints of at least 0; got "
            f"{seeds!r}. Give for example [0, 1, 2]."
        )


def check_choice(estimator: BaseEstimator, by: str | None) -> None:
    """Refuse a criterion that an estimator's method lacks, and methods that add noise."""
    name = type(estimator).__name__
    known = (*getattr(estimator, "criteria", ()), STABILITY)
    if by is not None and by not in known:
        raise InvalidInput(
            f"a number of clusters of {name} cannot be chosen by {by!r}; it can be by "
            f"{', '.join(map(repr, known))}. Choose by that, or leave the criterion out."
        )
    if getattr(estimator, "noise", None):
        raise InvalidInput(
            f"a number of clusters of {name} with noise cannot be chosen by trying some: every "
            "fit is a release of its own. Give one number, or leave the noise out."
        )


def _profile_of(pipeline: Pipeline) -> Profile | None:
    if pipeline.profiles is None:
        return None
    known = ("smallest", "of_one_client")
    for name in pipeline.profiles:
        if name not in known:
            raise InvalidInput(
                f"'profiles' has no key {name!r}; it has {', '.join(known)}. "
                f"{correction(name, known, 'Correct the name or leave it out.')}"
            )
    return Profile(**pipeline.profiles)


def _check_profiles(method: str, estimator: BaseEstimator, n_clients: int | None) -> None:
    """Refuse profiles of clusters that cannot be made of a pipeline's own method."""
    if estimator.split != "samples":
        raise InvalidInput(
            "'profiles' are sums over clients with the same columns, and each client of "
            f"{method} has columns or views of its own. Leave them out."
        )
    if getattr(estimator, "noise", None):
        raise InvalidInput(
            f"'profiles' bear no noise, and {method} is asked for some: they would tell "
            "what the noise hides. Leave one of the two out."
        )
    if n_clients is not None and n_clients < 2:
        raise InvalidInput(
            "'profiles' need two clients or more, as sums over fewer hide nobody's samples; got "
            f"{n_clients}. Add clients, or leave them out."
        )


def _made(pipeline: Pipeline, n_samples: int | None) -> CheckedPipeline:
    """Make what a pipeline asks for, with every number of clusters that it may run with."""
    candidates = candidates_of(pipeline.params.get("n_clusters"), n_samples)
    if candidates is None and pipeline.choose:
        raise InvalidInput(
            "'choose' says what a number of clusters is chosen by, and 'n_clusters' leaves no "
            "choice. Remove it, or write n_clusters: auto."
        )
    prepare, profile = Prepare(pipeline.prepare), _profile_of(pipeline)

    def with_estimators(one: Pipeline) -> CheckedPipeline:
        methods = (one.method, *one.compare)
        estimators = {method: estimator_of(one, method, one.seeds[0]) for method in methods}
        return CheckedPipeline(one, estimators[one.method], estimators, prepare, profile)

    if candidates is None:
        return with_estimators(pipeline)
    choices = {}
    for k in candidates:
        params = {**pipeline.params, "n_clusters": k}
        choices[k] = with_estimators(pipeline.model_copy(update={"params": params}))
    least = choices[candidates[0]]
    check_choice(least.own, pipeline.choose.get("by"))
    if "seeds" in pipeline.choose:
        check_seeds(pipeline.choose["seeds"])
    return CheckedPipeline(pipeline, least.own, least.estimators, prepare, profile, choices)


def check_pipeline(
    pipeline: Pipeline,
    *,
    n_clients: int | None = None,
    n_samples: int | None = None,
    columns: Mapping[str, Sequence[str]] | None = None,
    stores: Mapping[str, ClientStore] | None = None,
) -> CheckedPipeline:
    """Check a pipeline against all that is known before a worker starts, and make its estimators.

    Parameters
    ----------
    pipeline : Pipeline
        The definition.
    n_clients, n_samples : int, optional
        Size of the storage, where it can be read from here.
    columns : mapping of str to sequence of str, optional
        The names of every client's columns, where they are known and the stores cannot be read.
    stores : mapping of str to ClientStore, optional
        Every client's store, where it can be read from here, to check its columns and, for methods
        with clients that share samples, its sample ids.

    Raises
    ------
    InvalidInput
        For the first rule that the pipeline breaks.

    Examples
    --------
    >>> from daskfc.runs import check_pipeline, load_pipeline
    >>> pipeline = load_pipeline({"method": "OmniFC", "params": {"n_clusters": 3}})
    >>> check_pipeline(pipeline, n_clients=10, n_samples=2)
    Traceback (most recent call last):
    ...
    daskfc.errors.InvalidInput: OmniFC asks for 3 clusters and the clients hold 2 samples in all. \
Lower 'n_clusters'.
    """
    try:
        json.dumps(dict(pipeline))
    except TypeError as error:
        raise InvalidInput(
            f"a pipeline holds what YAML can say, so that it can be resumed; {error}. Give a "
            "clusterer with parameters as {'spectral': {'affinity': 'gaussian'}}."
        ) from None
    compare = {method_of(name)[0]: params for name, params in pipeline.compare.items()}
    names = {"method": method_of(pipeline.method)[0], "compare": compare}
    pipeline = pipeline.model_copy(update=names)
    if pipeline.method in compare:
        raise InvalidInput(
            f"'compare' lists {pipeline.method!r}, which is the run's own method and is in the "
            "table anyway. Remove it there."
        )
    checked = _made(pipeline, n_samples)
    numbers = list(checked.choices)  # checking the least and the most covers those between
    ends = [checked.choices[k] for k in (numbers[0], numbers[-1])] if numbers else [checked]
    asked = [pair for end in ends for pair in end.estimators.items()]
    for method, estimator in asked:
        if checked.profile is not None and method == pipeline.method:
            _check_profiles(method, estimator, n_clients)
        if hasattr(estimator, "check"):
            estimator.check(n_clients)
        clusters = getattr(estimator, "n_clusters", None)
        if n_samples is not None and isinstance(clusters, int) and clusters > n_samples:
            raise InvalidInput(
                f"{method} asks for {clusters} clusters and the clients hold {n_samples} samples "
                "in all. Lower 'n_clusters'."
            )
        if getattr(estimator, "noise", None):
            check_noise_beside(method, checked.prepare.bare)
            shared = any(params.get("epsilon") for _, params in checked.prepare.steps)
            check_hidden(method, shared, getattr(estimator, "n_colluding", None))
    if stores is not None:
        columns = {name: store.feature_names for name, store in stores.items()}
        steps = [name for name, _ in checked.prepare.steps]
        for name, store in stores.items():
            check_prepared(name, tuple(store.categories), store.missing, steps)
    for method, estimator in asked:
        if columns is not None:
            check_columns(columns, estimator.split, method)
        if stores is not None:
            check_samples(stores, estimator.split)
            if hasattr(estimator, "check_data"):
                estimator.check_data(stores)
    return checked


def checked_again(record: Mapping[str, Any]) -> CheckedPipeline:
    """Check the pipeline in a ``run.json``, as of a run that another process prepared."""
    return check_pipeline(load_pipeline(record["pipeline"]), n_samples=record.get("n_samples"))
