"""Stubs for messages and arrays of which only sizes are known."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import numpy as np

from daskfc.errors import InvalidInput
from daskfc.federation.messages.declaration import (
    CALLER,
    Message,
    declared_fields,
    of_content,
    routes_of,
)
from daskfc.stores import ClientStore

Step = Callable[..., Any]
StandIns = Mapping[Step, Step]
M = TypeVar("M", bound=Message)


class NotRehearsed(InvalidInput):
    """The error for a step whose message has an unknown size, as it has no stand-in."""


class Sizes(dict[str, Any]):
    """The sizes, returned by a stand-in, that `derived` cannot find for a message."""


def of_shape(*shape: int, dtype: str = "float64") -> np.ndarray:
    """Return an array of some shape that takes no memory: every entry is the same zero."""
    return np.broadcast_to(np.zeros((), dtype=dtype), shape)


def sized(kind: type[M], /, *, dtype: str | None = None, **known: Any) -> M:
    """Return a message of `known` axis sizes or field values; other numbers are 0, texts empty."""
    content = []
    for name, declared, default in declared_fields(kind):
        if name in known and not (declared.kind == "array" and isinstance(known[name], int)):
            content.append(known[name])
        elif declared.kind == "array":
            shape = tuple(known[axis] if isinstance(axis, str) else axis for axis in declared.axes)
            first: str = declared.dtypes[0]
            wanted = first if dtype is None or dtype not in declared.dtypes else dtype
            content.append(of_shape(*shape, dtype=wanted))
        elif declared.kind == "noise":
            content.append(default)
        else:
            content.append({"integer": 0, "real": 0.0, "text": ""}[declared.kind])
    message: M = of_content(kind, tuple(content))  # type: ignore[assignment]
    return message


def derived(kind: type[M], given: Mapping[str, Any], sizes: Sizes | None = None) -> M | None:
    """Return the message that follows from a step's arguments and store, and from `sizes`.

    An axis "cluster", or "n_clusters", is as long as the axis, field or argument of that name. None
    where there is none, or several; `sizes` must say what arrays for the caller alone are.
    """
    known = dict(sizes or {})
    declared = declared_fields(kind)
    if any(one.kind == "array" for _, one, _ in declared):
        if sizes is None and all(route.endswith(CALLER) for route in routes_of(kind)):
            return None
    found: dict[str, set[int]] = defaultdict(set)
    for name, value in given.items():
        _find(name, value, found)
    for name, one, _ in declared:
        for what in one.axes if one.kind == "array" and name not in known else ():
            if isinstance(what, str) and what not in known:
                if len(found[_plain(what)]) != 1:
                    return None
                (known[what],) = found[_plain(what)]
        if one.kind == "integer" and name.startswith("n_") and len(found[_plain(name)]) == 1:
            known.setdefault(name, *found[_plain(name)])
    return sized(kind, **known)


def _plain(name: str) -> str:
    return name.removeprefix("n_").removesuffix("s")


def _find(name: str, value: Any, found: dict[str, set[int]]) -> None:
    """Collect the sizes in a value, by their names without "n_" and "s"."""
    if type(value) is int and name:
        found[_plain(name)].add(value)
    elif isinstance(value, ClientStore):
        found["sample"].add(value.n_samples)
        found["feature"].add(value.n_features)
    elif isinstance(value, Mapping | list | tuple):  # whose numbers are no sizes
        for one in value.values() if isinstance(value, Mapping) else value:
            _find("", one, found)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            _find(field.name, getattr(value, field.name), found)
    if isinstance(value, Message):
        for array, declared, _ in declared_fields(type(value)):
            for i, axis in enumerate(declared.axes):
                found[_plain(str(axis))].add(getattr(value, array).shape[i])


def as_they_are(*steps: Step) -> dict[Step, Step]:
    """Return steps as their own stand-ins: quick ones, on sample ids or public numbers alone."""
    return {step: step for step in steps}
