"""Constraints on parameters, in tables, and one-sentence errors from them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from daskfc.errors import InvalidInput
from daskfc.naming import correction

_LONGEST = 80  # ours: characters of a value in an error


@dataclass(frozen=True)
class Constraint:
    """A rule in words, completing "must be ...", and the test that decides it."""

    rule: str
    holds: Callable[[Any], bool]


def _interval(low: float | None, high: float | None) -> str:
    if low is None and high is None:
        return ""
    if high is None:
        return f" of at least {low}"
    if low is None:
        return f" of at most {high}"
    return f" in [{low}, {high}]"


def integer(low: int | None = None, high: int | None = None) -> Constraint:
    """Return the constraint "a whole number in [low, high]"."""

    def holds(value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, Integral):
            return False
        return (low is None or int(value) >= low) and (high is None or int(value) <= high)

    return Constraint(f"a whole number{_interval(low, high)}", holds)


def real(
    low: float | None = None, high: float | None = None, *, above: float | None = None
) -> Constraint:
    """Return the constraint "a finite number in [low, high]", or strictly above a bound."""

    def holds(value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, Real):
            return False
        x = float(value)
        finite = x - x == 0  # False for inf and nan
        return (
            finite
            and (low is None or x >= low)
            and (high is None or x <= high)
            and (above is None or x > above)
        )

    text = f"a finite number{_interval(low, high)}"
    return Constraint(text if above is None else f"{text} above {above}", holds)


def between_0_and_1() -> Constraint:
    """Return the constraint "a number strictly between 0 and 1"."""
    inside = real(0, 1, above=0)
    return Constraint(
        "a number strictly between 0 and 1",
        lambda value: inside.holds(value) and float(value) < 1.0,
    )


def boolean() -> Constraint:
    """Return the constraint "true or false"."""
    return Constraint("True or False", lambda value: isinstance(value, bool))


def one_of(*choices: object) -> Constraint:
    """Return the constraint "one of these"."""
    words = ", ".join(repr(choice) for choice in choices)
    return Constraint(f"one of {words}", lambda value: value in choices)


def optional(constraint: Constraint) -> Constraint:
    """Return the constraint with None allowed."""
    return Constraint(
        f"{constraint.rule}, or None", lambda value: value is None or constraint.holds(value)
    )


def check_params(owner: str, params: Mapping[str, Any], table: Mapping[str, Constraint]) -> None:
    """Raise for the first parameter that has no constraint in the table, or breaks its own."""
    for name, value in params.items():
        if name not in table:
            known = ", ".join(sorted(table))
            raise InvalidInput(
                f"{owner} has no parameter {name!r}; it has {known}. "
                f"{correction(name, table, 'Correct the name or leave it out.')}"
            )
        constraint = table[name]
        if not constraint.holds(value):
            raise InvalidInput(
                f"the {name!r} parameter of {owner} must be {constraint.rule}; got {value!r}."
            )


class Section(BaseModel):
    """A part of a file: a key that is not known is refused, and what was read stays as it is."""

    model_config = ConfigDict(extra="forbid", frozen=True)


M = TypeVar("M", bound=BaseModel)


def checked(kind: type[M], content: Any, source: str) -> M:
    """Return content as a model of pydantic; `source` names it in the InvalidInput for faults."""
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        raise InvalidInput(sentence_of(error, source)) from None


def sentence_of(error: ValidationError, source: str) -> str:
    """Return one line for the first fault that pydantic found: file, key, rule, value, fix."""
    faults = error.errors()
    first = faults[0]
    key = ".".join(str(part) for part in first["loc"])
    more = f" ({len(faults) - 1} more faults after this one.)" if len(faults) > 1 else ""
    if first["type"] == "extra_forbidden":
        return f"{source}: key {key!r} is not known there. Correct its spelling or remove it.{more}"
    if first["type"] == "missing":
        return f"{source}: key {key!r} is required and missing. Add it.{more}"
    rule = _rule_of(first)
    if not key:
        return f"{source}: {rule}. Correct the file.{more}"
    return f"{source}: key {key!r}: {rule}; got {shown(first['input'])}. Correct the value.{more}"


_RULES = {
    "string_type": "must be text",
    "string_too_short": "must be text of at least {min_length} letters",
    "string_too_long": "must be text of at most {max_length} letters",
    "string_pattern_mismatch": "must be text of the form {pattern}",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing_size": "must be a whole number of fewer digits",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "none_required": "must be left empty",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be at most {le}",
    "multiple_of": "must be a multiple of {multiple_of}",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "invalid_key": "must have keys that are text",
}
"""Rules of pydantic, by the type of the fault, in words of ours."""

_KINDS = {"list": "a list", "tuple": "a list", "set": "a list", "frozen_set": "a list"}


def _rule_of(fault: Mapping[str, Any]) -> str:
    """Return what the value must be, in general words for a rule that is not in the table."""
    kind, context = str(fault["type"]), fault.get("ctx") or {}
    if kind in ("value_error", "assertion_error"):
        rule = str(context.get("error", fault["msg"]))
        return rule[:1].lower() + rule[1:].removesuffix(".")
    if kind in _RULES:
        return _RULES[kind].format_map(context)
    if kind.removesuffix("_type") in _KINDS:
        return f"must be {_KINDS[kind.removesuffix('_type')]}"
    if kind in ("dict_type", "mapping_type") or kind.startswith(("model_", "dataclass_")):
        return "must be a mapping of keys and values"
    return "must be of another kind"


def shown(value: Any) -> str:
    """Return a value as errors show it: a plain value or short list, else its type; never data."""
    if isinstance(value, Mapping):
        keys = [
            key if isinstance(key, str) and key.isprintable() else shown(key)
            for key in list(value)[:6]
        ]
        return f"a mapping with {_short(', '.join(keys)) or 'nothing in it'}"
    plain = (str, int, float, bool, type(None))
    several = isinstance(value, list | tuple) and all(isinstance(one, plain) for one in value)
    if isinstance(value, plain) or several:
        try:
            return _short(repr(value))
        except ValueError:  # Python writes no number of more than 4300 digits
            return "a number of thousands of digits"
    return f"a {type(value).__name__}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
