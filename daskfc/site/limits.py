"""Values of a policy's keys: names, packages, methods, and limits on a method's parameters."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from packaging.requirements import InvalidRequirement, Requirement
from pydantic import BeforeValidator, Field, model_validator

from daskfc.checks import Section, shown

ABSENT = object()
"""What `value_at` returns where a run has no such parameter."""

_REQUIRED = "required"
_Number = Annotated[float, Field(allow_inf_nan=False)]


class Limit(Section):
    """A site's limit on one parameter; `required` is neither null nor false.

    A parameter that a run lacks, such as ``noise.epsilon`` without noise, breaks every limit.
    """

    required: bool = False
    one_of: tuple[Any, ...] | None = None
    min: _Number | None = None
    max: _Number | None = None

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError("must have a min that is no larger than its max")
        return self

    def broken_by(self, value: Any) -> str | None:
        """Return "must be ...; got ..." for a value (or `ABSENT`) beyond the limit, else None."""
        if self._holds(value):
            return None
        got = "nothing" if value is ABSENT else shown(value)
        return f"must be {self.rule}; got {got}"

    @property
    def rule(self) -> str:
        """What it must be, in words."""
        if self.required:
            return "given"
        if self.one_of is not None:
            values = ", ".join(json.dumps(value, ensure_ascii=False) for value in self.one_of)
            return f"one of {values}" if len(self.one_of) > 1 else values
        words = (("at least", self.min), ("at most", self.max))
        return " and ".join(f"{word} {bound:g}" for word, bound in words if bound is not None)

    def _holds(self, value: Any) -> bool:
        if self.required:
            return value is not ABSENT and value is not None and value is not False
        if self.one_of is not None:
            return value is not ABSENT and any(_same(value, one) for one in self.one_of)
        if not _is_number(value):
            return False
        above = self.min is None or value >= self.min
        return above and (self.max is None or value <= self.max)


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return bool(abs(value) < float("inf"))


def _same(value: Any, other: Any) -> bool:
    """Return whether two plain values are equal, where true is not 1 and 1 is 1.0."""
    if _is_number(value) and _is_number(other):
        return bool(value == other)
    if isinstance(value, Mapping) and isinstance(other, Mapping):
        return value.keys() == other.keys() and all(_same(value[key], other[key]) for key in value)
    if isinstance(value, list | tuple) and isinstance(other, list | tuple):
        pairs = zip(value, other, strict=False)
        return len(value) == len(other) and all(_same(one, two) for one, two in pairs)
    return type(value) is type(other) and bool(value == other)


def _limit(value: Any) -> Any:
    if isinstance(value, Limit):
        return value
    if value == _REQUIRED:
        return Limit(required=True)
    if isinstance(value, Mapping):
        if not value or set(value) - {"min", "max"}:
            raise ValueError("must be 'required', a value, a list of values, or min and max")
        return dict(value)
    if isinstance(value, list | tuple):
        if not value:
            raise ValueError(
                "must name at least one value; a method is forbidden by leaving it out"
            )
        return Limit(one_of=tuple(value))
    return Limit(one_of=(value,))


def value_at(parameters: Mapping[str, Any], path: str) -> Any:
    """Return the parameter that a dotted path such as ``noise.epsilon`` names, or `ABSENT`."""
    found: Any = parameters
    for part in path.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return ABSENT
        found = found[part]
    return found


def _names(value: Any) -> Any:
    if value == "any":
        return value
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        raise ValueError("must be 'any' or a list of names")
    return tuple(value)


def _methods(value: Any) -> Any:
    if value == "any":
        return None  # a union would put its branches into the path of a wrong key
    listed = [value] if isinstance(value, dict) else value
    if not isinstance(listed, list | tuple) or not all(
        isinstance(one, str | dict) for one in listed
    ):
        raise ValueError("must be 'any', a list of names, or names with limits on parameters")
    found: dict[Any, Any] = {}
    for one in listed:
        for name, limits in ({one: None} if isinstance(one, str) else one).items():
            if name in found:
                raise ValueError(f"names {name!r} twice; keep one of the two")
            found[name] = {} if limits is None else limits
    return found


def _packages(value: Any) -> Any:
    names = _names(value)
    for one in () if names == "any" else names:
        try:
            asked = Requirement(one)
        except InvalidRequirement:
            asked = None
        if asked is None or asked.url or asked.extras or asked.marker:
            raise ValueError(
                "must be 'any', or a list of packages with versions, such as 'our-methods>=1.2,<2'"
            )
    return names


Names = Annotated[tuple[str, ...] | Literal["any"], BeforeValidator(_names)]
Packages = Annotated[tuple[str, ...] | Literal["any"], BeforeValidator(_packages)]
_AsLimit = Annotated[Limit, BeforeValidator(_limit)]
Methods = Annotated[dict[str, dict[str, _AsLimit]] | None, BeforeValidator(_methods)]
