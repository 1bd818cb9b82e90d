"""The methods that a pipeline may name, and the estimators made from its parameters."""

import inspect
import json
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from sklearn.base import BaseEstimator

from daskfc.baselines import BASELINES, Central
from daskfc.errors import InvalidInput
from daskfc.federation import FederatedClusterer
from daskfc.federation.driver.contract import check_prepared
from daskfc.federation.methods.one_budget import check_noise_beside
from daskfc.plugins import with_plugins
from daskfc.protocols import METHODS
from daskfc.runs.pipeline.candidates import candidates_of, check_choice, check_seeds
from daskfc.runs.pipeline.config import Pipeline
from daskfc.runs.pipeline.profiles import check_profiles
from daskfc.secure.prepare import Prepare
from daskfc.stores import ClientStore
from daskfc.stores.store.together import check_columns, check_samples

__all__ = [
    "check_pipeline",
    "estimator_of",
    "known_methods",
    "make_estimator",
    "methods_of",
    "with_n_clusters",
]

SHARED = ("n_clusters", "clusterer")  # a compared method takes these over from the run's own


def known_methods() -> dict[str, type[BaseEstimator]]:
    """Return every method by name: protocols, baselines, ``central``, and those of other packages.

    A package registers a method by an entry point of the group ``daskfc.methods``.

    Returns
    -------
    dict of str to type
        Estimators with scikit-learn's contract and ``fit(federation)``.

    Examples
    --------
    >>> from daskfc.runs import known_methods
    >>> list(known_methods())[0]
    'OmniFC'
    """
    own: dict[str, type[BaseEstimator]] = {**METHODS, **BASELINES, "central": Central}
    return with_plugins("daskfc.methods", own, _is_method)


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

    Returns
    -------
    BaseEstimator
        Not fitted.

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
    methods = known_methods()
    if method not in methods:
        raise InvalidInput(
            f"no method is called {method!r}; there are {', '.join(methods)}. Correct the name."
        )
    kind = methods[method]
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
                "Correct the name or leave it out."
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
    """Make the estimator of one method of a pipeline, its own or a compared one.

    Parameters
    ----------
    pipeline : Pipeline
        The definition.
    method : str
        Its ``method`` or a key of its ``compare``.
    seed : int
        One of its seeds.

    Returns
    -------
    BaseEstimator
        Not fitted.

    Raises
    ------
    InvalidInput
        See `make_estimator`.
    """
    if method == pipeline.method:
        return make_estimator(method, pipeline.params, seed=seed)
    params = dict(pipeline.compare[method])
    kind = known_methods().get(method)
    if kind is not None:
        shared = [name for name in SHARED if name in _parameters(kind) and name in pipeline.params]
        params = {**{name: pipeline.params[name] for name in shared}, **params}
    return make_estimator(method, params, seed=seed)


def methods_of(pipeline: Pipeline) -> list[type[BaseEstimator]]:
    """Return the classes of a checked pipeline's methods, its own first."""
    methods = known_methods()
    return [methods[name] for name in (pipeline.method, *pipeline.compare)]


def with_n_clusters(pipeline: Pipeline, n_clusters: int) -> Pipeline:
    """Return a pipeline with one number of clusters, in place of those to choose from."""
    return pipeline.model_copy(update={"params": {**pipeline.params, "n_clusters": n_clusters}})


def _tried(pipeline: Pipeline, n_samples: int | None) -> list[Pipeline]:
    """Return what a pipeline may run: itself, or with its least and its most clusters."""
    candidates = candidates_of(pipeline.params.get("n_clusters"), n_samples)
    if candidates is None:
        if pipeline.choose:
            raise InvalidInput(
                "'choose' says what a number of clusters is chosen by, and 'n_clusters' leaves no "
                "choice. Remove it, or write n_clusters: auto."
            )
        return [pipeline]
    tried = [with_n_clusters(pipeline, k) for k in (candidates[0], candidates[-1])]
    check_choice(
        estimator_of(tried[0], pipeline.method, pipeline.seeds[0]), pipeline.choose.get("by")
    )
    if "seeds" in pipeline.choose:
        check_seeds(pipeline.choose["seeds"])
    return tried


def check_pipeline(
    pipeline: Pipeline,
    *,
    n_clients: int | None = None,
    n_samples: int | None = None,
    columns: Mapping[str, Sequence[str]] | None = None,
    stores: Mapping[str, ClientStore] | None = None,
) -> None:
    """Check a pipeline against everything that is known before a worker starts.

    Parameters
    ----------
    pipeline : Pipeline
        The definition.
    n_clients, n_samples : int, optional
        Size of the storage, where it can be read from here.
    columns : mapping of str to sequence of str, optional
        The names of every client's columns, where they are known and the stores cannot be read.
    stores : mapping of str to ClientStore, optional
        Every client's store, where it can be read from here: its columns, and for methods whose
        clients share samples its sample ids.

    Raises
    ------
    InvalidInput
        For the first thing that could not run.

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
    prepare = Prepare(pipeline.prepare)
    prepared = [name for name, _ in prepare.steps]
    for name, store in (stores or {}).items():
        check_prepared(name, tuple(store.categories), store.missing, prepared)
    if stores is not None:
        columns = {name: store.feature_names for name, store in stores.items()}
    try:
        json.dumps(pipeline.as_dict())
    except TypeError as error:
        raise InvalidInput(
            f"a pipeline holds what YAML can say, so that it can be resumed; {error}. Give a "
            "clusterer with parameters as {'spectral': {'affinity': 'gaussian'}}."
        ) from None
    if pipeline.method in pipeline.compare:
        raise InvalidInput(
            f"'compare' lists {pipeline.method!r}, which is the run's own method and is in the "
            "table anyway. Remove it there."
        )
    for tried, method in product(_tried(pipeline, n_samples), (pipeline.method, *pipeline.compare)):
        estimator = estimator_of(tried, method, pipeline.seeds[0])
        if hasattr(estimator, "check"):
            estimator.check(n_clients)
        if getattr(estimator, "noise", None):
            check_noise_beside(method, prepare.bare)
        if columns is not None:
            check_columns(columns, estimator.split, method)
        if stores is not None:
            check_samples(stores, estimator.split)
        if stores is not None and hasattr(estimator, "check_data"):
            estimator.check_data(stores)
        if method == pipeline.method:
            check_profiles(pipeline, estimator, n_clients)
        clusters = getattr(estimator, "n_clusters", None)
        if n_samples is not None and isinstance(clusters, int) and clusters > n_samples:
            raise InvalidInput(
                f"{method} asks for {clusters} clusters and the clients hold {n_samples} samples "
                "in all. Lower 'n_clusters'."
            )
