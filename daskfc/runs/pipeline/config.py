"""Read and check pipeline files: the method to run, its parameters, metrics and seeds."""

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from daskfc.checks import Section, checked
from daskfc.errors import InvalidInput
from daskfc.metrics import METRICS
from daskfc.naming import known_name
from daskfc.seeds import fresh_seed
from daskfc.site import Smallest
from daskfc.yaml_files import assign, read_mapping

Seed = Annotated[int, Field(ge=0, lt=2**63, strict=True)]  # labels are stored by int64


class Pipeline(Section):
    """What to run: one method, what to compare it with, how to score it, which seeds.

    Parameters
    ----------
    method : str
        Name of a method (``daskfc methods`` lists them).
    params : dict
        Parameters of that method's estimator, without ``random_state``. ``n_clusters`` may be
        "auto", or a list of the least and the most to choose from.
    compare : list of str or {str: dict}
        Methods to run on the same stores, each with parameters of its own if it needs any;
        ``n_clusters`` and ``clusterer`` are those of the run's own method.
    prepare : list of str or {str: dict}
        What features go through before any method reads them; see `daskfc.Prepare`.
    metrics : list of str
        Any of kappa, nmi, ari, acc, f1. Where it is left out, all of them if the sites tell true
        labels.
    map : bool
        Whether the server draws a map of at most 2,000 samples for the report, where it can.
    seeds : list of int
        Values of ``random_state``; every method runs once with each. A ``null`` in the list draws
        one, which the run's folder and summary report.
    ids : {"pseudonyms", "clear"}
        How the run's folder names samples: by pseudonyms, which only each client can resolve, or
        by the ids of the stores.
    profiles : bool or {str: int or bool}
        Whether to describe the clusters of the own method's first fit by means and deviations of
        all features, and shares of words; a mapping has the rules of
        `daskfc.secure.profiles.Profile`.
    smallest : {"samples": int, "clients": int}
        The smallest groups, words and columns whose sums are revealed; by default 1 and 1 on this
        machine, 5 and 2 on a running cluster. Sites may require more.
    choose : str or {str: object}
        The criterion for ``n_clusters``; as a mapping ``by`` and, for stability, ``seeds``.

    Examples
    --------
    >>> from daskfc.runs import Pipeline
    >>> Pipeline(method="OmniFC", params={"n_clusters": 3}).seeds
    (0,)
    """

    method: str
    params: dict[str, Any] = Field(default_factory=dict)
    compare: dict[str, dict[str, Any]] = Field(default_factory=dict)
    prepare: tuple[Any, ...] = ()
    metrics: tuple[str, ...] = tuple(METRICS)
    map: Annotated[bool, Field(strict=True)] = True
    seeds: tuple[Seed, ...] = (0,)
    ids: Literal["pseudonyms", "clear"] = "pseudonyms"
    profiles: dict[str, Any] | None = None
    smallest: Smallest | None = None
    choose: dict[str, Any] = Field(default_factory=dict)

    @field_validator("prepare", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str | Mapping) else value or ()

    @field_validator("compare", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: params or {} for name, params in value.items()}
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise ValueError("must be a list of methods")
        compared: dict[str, Any] = {}
        for entry in value:
            if isinstance(entry, Mapping) and len(entry) == 1:
                ((name, params),) = entry.items()
            elif isinstance(entry, str):
                name, params = entry, {}
            else:
                raise ValueError("each entry must be a method's name, or {name: parameters}")
            if name in compared:
                raise ValueError(f"{name!r} is listed twice; list it once")
            compared[name] = params or {}
        return compared

    @field_validator("metrics")
    @classmethod
    def _known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        named = [known_name(name, METRICS) for name in value]
        for name in named:
            if name not in METRICS:
                raise ValueError(f"no metric is called {name!r}; there are {', '.join(METRICS)}")
        return tuple(dict.fromkeys(named))

    @field_validator("seeds", mode="before")
    @classmethod
    def _drawn(cls, value: Any) -> Any:
        if not isinstance(value, list | tuple):
            return value
        return [fresh_seed() if seed is None else seed for seed in value]

    @field_validator("seeds")
    @classmethod
    def _distinct(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if not value:
            raise ValueError("must hold at least one seed")
        if len(set(value)) < len(value):
            raise ValueError("must not hold a seed twice")
        return value

    @field_validator("choose", mode="before")
    @classmethod
    def _by(cls, value: Any) -> Any:
        given = {"by": value} if isinstance(value, str) else value or {}
        if not isinstance(given, Mapping) or set(given) - {"by", "seeds"}:
            raise ValueError("must be a criterion, or a mapping with 'by' and 'seeds' alone")
        return given

    @field_validator("profiles", mode="before")
    @classmethod
    def _rules(cls, value: Any) -> Any:
        if not isinstance(value, bool | Mapping | None):
            raise ValueError("must be true or false, or a mapping such as {smallest: 5}")
        return ({} if value else None) if isinstance(value, bool) else value

    def as_dict(self) -> dict[str, Any]:
        """Return the definition as plain types, as the pipeline file would write it."""
        return {
            "method": self.method,
            "params": dict(self.params),
            "compare": [name if not p else {name: p} for name, p in self.compare.items()],
            **({"metrics": list(self.metrics)} if "metrics" in self.model_fields_set else {}),
            "seeds": list(self.seeds),
            **({"prepare": list(self.prepare)} if self.prepare else {}),
            **({"ids": self.ids} if self.ids != "pseudonyms" else {}),
            **({"choose": dict(self.choose)} if self.choose else {}),
            **({"profiles": self.profiles or True} if self.profiles is not None else {}),
            **({"smallest": self.smallest._asdict()} if self.smallest is not None else {}),
            **({} if self.map else {"map": False}),
        }


def load_pipeline(
    source: "str | PathLike[str] | Mapping[str, Any] | Pipeline",
    *,
    params: Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (),
) -> Pipeline:
    """Read a pipeline and check its shape; `daskfc.runs.check_pipeline` checks the rest.

    Parameters
    ----------
    source : path, mapping or Pipeline
        A YAML file, or what it would hold.
    params : mapping, optional
        Parameters of the method that replace the pipeline's.
    overrides : sequence of str
        ``dotted.key=value`` with YAML values, applied last.

    Raises
    ------
    InvalidInput
        If a key or value breaks a rule; names the file, the key, the rule, the value and the fix.

    Examples
    --------
    >>> from daskfc.runs import load_pipeline
    >>> base = {"method": "OmniFC", "params": {"n_clusters": 3}}
    >>> load_pipeline(base, overrides=["params.n_clusters=7", "seeds=[0, 1]"]).params
    {'n_clusters': 7}
    """
    if isinstance(source, Pipeline):
        name, tree = "the pipeline", source.as_dict()
    elif isinstance(source, Mapping):
        name, tree = "the pipeline", _copied(source)
    else:
        name = fspath(source)
        keys = "the key 'method', such as pipelines/omnifc.yaml"
        tree = read_mapping(source, "pipeline", keys=keys)
    if params:
        given = tree.get("params") or {}
        tree["params"] = {**given, **params} if isinstance(given, dict) else given
    for assignment in overrides:
        assign(tree, assignment)
        top = assignment.partition("=")[0].strip().partition(".")[0]
        if top not in Pipeline.model_fields:
            raise InvalidInput(
                f"--set {assignment!r}: a pipeline has no key {top!r}; it has "
                f"{', '.join(Pipeline.model_fields)}. Write --set params.{assignment} for a "
                "parameter of the method."
            )
    for key in ("params", "compare"):
        if tree.get(key, {}) is None:  # `params:` with nothing after it
            tree[key] = {}
    return checked(Pipeline, tree, name)


def _copied(tree: Any) -> Any:
    """Return plain dicts and lists all the way down, so that overrides touch no caller's data."""
    if isinstance(tree, Mapping):
        return {key: _copied(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_copied(value) for value in tree]
    return tree
