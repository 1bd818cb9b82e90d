"""Values of some size: what stands for messages and arrays where only sizes are known."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from daskfc.errors import InvalidInput
from daskfc.federation.messages.declaration import Message, declared_fields, of_content

__all__ = ["NotRehearsed", "StandIns", "Step", "as_they_are", "of_shape", "sized"]

Step = Callable[..., Any]
StandIns = Mapping[Step, Step]
M = TypeVar("M", bound=Message)


class NotRehearsed(InvalidInput):
    """A step without a stand-in: how large its message is cannot be told."""


def of_shape(*shape: int, dtype: str = "float64") -> np.ndarray:
    """Return an array of some shape that takes no memory: every entry is the same zero."""
    return np.broadcast_to(np.zeros((), dtype=dtype), shape)


def sized(kind: type[M], /, *, dtype: str | None = None, **known: Any) -> M:
    """Return a message of `known` axis sizes or field values; other numbers are 0 and texts empty.

    `dtype` is for arrays that allow several, by default the first declared.
    """
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


def as_they_are(*steps: Step) -> dict[Step, Step]:
    """Return steps as their own stand-ins: quick ones, on sample ids or public numbers alone."""
    return {step: step for step in steps}
