"""Rules for the caller's arguments of steps: types, and more where a promise depends on them.

A site approves where an argument comes from (`daskfc.site.approved`); rules say what it may be.
"""

import collections.abc
import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from daskfc.errors import PrivacyError

NARROWEST = 1e-150
"""The least number that a submitter's own steps may divide a column by; its square is one, too."""

_PLAIN = (bool, int, float, str)
_NUMBERS = ("mean", "low", "high", "center", "fill", "idf", "components", "height", "lengths")
_DIVISORS = ("scale", "width")
_Step = TypeVar("_Step", bound=Callable[..., Any])


@dataclass(frozen=True)
class Announced:
    """What a party learned of a run before it began; empty `pseudonyms` mean clear ids."""

    parameters: Mapping[str, Any] = field(default_factory=dict)
    clients: tuple[str, ...] = ()
    pseudonyms: Mapping[str, Any] = field(default_factory=dict)

    @property
    def n_colluding(self) -> int:
        """Clients that may pool what they know with the server; PrivacyError for no number."""
        told = self.parameters.get("n_colluding")
        if told is None:
            return 0
        if isinstance(told, bool) or not isinstance(told, int) or told < 0:
            raise PrivacyError(
                "the 'n_colluding' that a run announces must be a whole number of at least 0. "
                "Nothing was sent; start it by the daskfc that the parties run."
            )
        return told


@dataclass(frozen=True)
class Rule:
    """What a caller's argument must be besides its type; `told` completes "... must be ..."."""

    told: str
    holds: Callable[[Any, Announced], bool]


def takes(**rules: Rule) -> Callable[[_Step], _Step]:
    """Declare the rules of a step's arguments, by parameter name."""

    def declare(step: _Step) -> _Step:
        step.rules = rules  # type: ignore[attr-defined]
        return step

    return declare


def as_announced(parameter: str, otherwise: str = "") -> Rule:
    """Return the rule that an argument is a parameter as it was announced, or for None another."""

    def holds(value: Any, asked: Announced) -> bool:
        told = asked.parameters.get(parameter)
        return bool(value == (asked.parameters.get(otherwise) if told is None else told))

    less = f", or the {otherwise!r} without" if otherwise else ""
    return Rule(f"the {parameter!r} that was announced{less}", holds)


def made_of(*names: str) -> Rule:
    """Return the rule that fields of an argument, all by default, are parameters as announced."""

    def holds(value: Any, asked: Announced) -> bool:
        return value is not None and not any(
            _differs(getattr(value, name), asked.parameters.get(name))
            for name in names or vars(value)
        )

    return Rule("made of the parameters that were announced", holds)


def _differs(value: Any, told: Any) -> bool:
    """Return whether a plain value is another than was announced, if one of its kind was."""
    plain = isinstance(told, _PLAIN) and isinstance(value, (*_PLAIN, np.generic))
    return plain and isinstance(value, str) == isinstance(told, str) and bool(value != told)


def _as_many(value: Any, asked: Announced) -> bool:
    most = asked.parameters.get("n_clusters")
    told = value is None  # by a message of this run's server
    return isinstance(most, int) and (told or len(getattr(value, "centers", value)) <= most)


as_many_as_announced = Rule("no more than the 'n_clusters' that was announced", _as_many)
"""Of a model of the submitter's own, whose labels tell more the more clusters it has."""

at_most_honest = Rule(
    "a whole number of at least 1, and at most the number of clients that do not collude",
    lambda value, asked: (
        isinstance(value, int) and 1 <= value <= max(1, len(asked.clients) - asked.n_colluding)
    ),
)
"""Of shares of noise: what each client adds is the whole over so many."""

some_clients = Rule(
    "names of clients of the run, each once",
    lambda names, asked: len(set(names)) == len(names) and set(names) <= set(asked.clients),
)
"""Of those among whom a secret is shared, or an array hidden: who is two of them is two that may
collude."""

at_most_clients = Rule(
    "at most the number of the run's clients", lambda n, asked: n <= len(asked.clients)
)
"""Of how many clients make parts together: of more there may be more."""

by_message = Rule("None, unless a message tells it", lambda value, asked: value is None)
"""Of a point that samples are seen from: who may choose it learns by refusals where they lie."""

own_pseudonyms = Rule(
    "the pseudonyms with which the run began",
    lambda names, asked: ({} if names is None else names.as_dict()) == dict(asked.pseudonyms),
)
"""Those of another run would tell who of its samples is in this one's."""

own_label = Rule(
    "the label of the run's pseudonyms", lambda label, asked: label == asked.pseudonyms.get("label")
)
"""One key under two labels would give a sample the same digest in two runs."""


def odd_numbers(steps: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say which numbers of a preparation's steps could leave samples that are no numbers."""
    return [
        f"{name!r} of the step {step['step']!r} is not finite, or divides by nearly 0."
        for step in steps
        for name in (*_NUMBERS, *_DIVISORS)
        if step.get(name) is not None
        and not _are_sound(step[name], NARROWEST if name in _DIVISORS else 0.0)
    ]


def _are_sound(given: Any, least: float) -> bool:
    try:
        listed = list(given.values()) if isinstance(given, Mapping) else given
        told = np.asarray(listed, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return bool((np.isfinite(told) & (np.abs(told) >= least)).all())


def broken_rule(
    step: Callable[..., Any], given: Mapping[str, Any], announced: Announced, at: str = "client"
) -> str | None:
    """Return which caller-made argument breaks its type or rule, and how; None if none does.

    What has a parameter's name is that parameter at clients; the server may try other numbers.
    """
    rules: Mapping[str, Rule] = getattr(step, "rules", {})
    kinds, defaults = _declared(step)
    for name, value in given.items():
        if not _is_a(value, kinds.get(name, object())):
            return f"{name!r} must be of the type that its step declares"
        if at == "client" and name not in rules and _differs(value, announced.parameters.get(name)):
            return f"{name!r} must be the {name!r} that was announced"
    for name, rule in rules.items():
        value = given.get(name, defaults.get(name))
        if not rule.holds(value, announced):
            return f"{name!r} must be {rule.told}"
    return None


@functools.lru_cache(maxsize=1024)
def _declared(step: Callable[..., Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    parameters = inspect.signature(step).parameters.values()
    kinds = {p.name: p.annotation for p in parameters if p.annotation is not p.empty}
    return kinds, {p.name: p.default for p in parameters if p.default is not p.empty}


def _is_a(value: Any, hint: Any) -> bool:
    """Return whether a value has an annotation's type; False where there is no annotation."""
    origin, within = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return True
    if origin in (typing.Union, types.UnionType):
        return any(_is_a(value, one) for one in within)
    if origin is typing.Literal:
        return value in within
    if hint is float:
        return isinstance(value, int | float | np.floating) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int | np.integer) and not isinstance(value, bool)
    if hint is None:
        return value is None
    if isinstance(origin, type):
        return isinstance(value, origin) and _holds_each(value, origin, within)
    return isinstance(hint, type) and isinstance(value, hint)


def _holds_each(value: Any, origin: type, within: tuple[Any, ...]) -> bool:
    if issubclass(origin, np.ndarray) or not within:
        return True
    if issubclass(origin, collections.abc.Mapping):
        return all(_is_a(k, within[0]) and _is_a(one, within[1]) for k, one in value.items())
    if issubclass(origin, tuple) and within[-1] is not Ellipsis:
        return len(value) == len(within) and all(map(_is_a, value, within))
    return all(_is_a(one, within[0]) for one in value)
