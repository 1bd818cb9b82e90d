"""Uses of steps, as approved protocols list them: name, party, and origins of arguments."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from daskfc.federation.messages.declaration import Message
from daskfc.federation.steps.calls import Forward
from daskfc.federation.steps.handles import InnerCall, Slot
from daskfc.site.approved import TO_EACH, StepUse

CALLER_MADE = "caller"


def identity(step: Any) -> str:
    """Return the name, ``module.qualname``, of a step or class in approved protocols."""
    while isinstance(step, functools.partial):
        step = step.func
    if isinstance(step, Forward):
        return f"{identity(step.made_by)} (made before)"
    named = step if inspect.isroutine(step) or isinstance(step, type) else type(step)
    return f"{named.__module__}.{named.__qualname__}"


def uses_of(
    step: Callable[..., Any],
    arguments: Mapping[str, Any],
    made_by: Sequence[str],
    *,
    at: str,
    sends: Iterable[str] = (),
    each: Sequence[str] = (),
    made_for_each: Sequence[str] | None = None,
    read: Callable[[InnerCall], Callable[..., Any]],
) -> Iterator[StepUse]:
    """Yield the use of a step, and of the steps within it; `made_by` has the maker of each slot."""
    within: list[tuple[InnerCall, Callable[..., Any]]] = []
    given = dict(arguments)
    plain: Any = step
    while isinstance(plain, functools.partial):
        plain, given = plain.func, {**plain.keywords, **given}
    of_each = made_by if made_for_each is None else made_for_each
    takes = {
        name: frozenset(
            _sources(value, of_each, read, within, CALLER_MADE + TO_EACH)
            if name in each
            else _sources(value, made_by, read, within)
        )
        for name, value in given.items()
    }
    named = frozenset(_functions(plain)) if not inspect.isroutine(plain) else frozenset()
    if named:
        takes["itself"] = named
    left_out = frozenset(name for name, value in given.items() if value is None)
    made = {
        name: value
        for name, value in given.items()
        if all(source.startswith(CALLER_MADE) for source in takes[name])
    }
    messages = {name: frozenset(_messages(value)) for name, value in given.items()}
    yield StepUse(identity(step), at, frozenset(sends), takes, left_out, plain, made, messages)
    for call, inner in within:
        yield from uses_of(
            inner,
            call.arguments,
            made_by,
            at=at,
            each=call.each,
            made_for_each=made_for_each,
            read=read,
        )


def _sources(
    value: Any,
    made_by: Sequence[str],
    read: Callable[[InnerCall], Callable[..., Any]],
    within: list[tuple[InnerCall, Callable[..., Any]]],
    caller: str = CALLER_MADE,
) -> Iterator[str]:
    """Yield the origins of an argument, and collect the steps within it in `within`."""
    if isinstance(value, Slot):
        yield made_by[value.index]
    elif isinstance(value, InnerCall):
        step = read(value)
        within.append((value, step))
        yield identity(step)
    elif isinstance(value, Mapping) and value:
        for one in value.values():
            yield from _sources(one, made_by, read, within, caller)
    elif isinstance(value, list | tuple) and value:
        for one in value:
            yield from _sources(one, made_by, read, within, caller)
    else:
        yield caller
        yield from _functions(value)


def _messages(value: Any) -> Iterator[str]:
    """Yield the classes of messages that the submitter made."""
    if isinstance(value, Message):
        yield identity(type(value))
    elif isinstance(value, Mapping | list | tuple):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _messages(one)


def _functions(value: Any) -> Iterator[str]:
    """Yield the functions and classes that a value of the submitter names."""
    if inspect.isroutine(value) or isinstance(value, type | functools.partial):
        yield f"{CALLER_MADE}: {identity(value)}"
        if isinstance(value, functools.partial):
            yield from _functions([*value.args, *value.keywords.values()])
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _functions(getattr(value, field.name))
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _functions(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _functions(one)
