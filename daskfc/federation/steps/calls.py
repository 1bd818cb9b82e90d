"""Steps: pure functions, what a party fills in for them, and what they declare to send."""

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from daskfc.errors import ClusterError, InvalidInput, PrivacyError
from daskfc.federation.messages.declaration import Message
from daskfc.federation.messages.wire_format import Reader, encode

INJECTED = (
    "data", "secret", "durable_secret", "random", "workspace", "party", "as_prepared", "site",
    "last_result", "lasting_secret", "told_alike",
)  # fmt: skip


@dataclass(frozen=True)
class StepCall:
    """One execution of a step at one party, with other steps' values as slots, see `handles.pack`.

    The party must be in run `run_id`. `verb` keeps the result, sends it, or composes a message per
    receiver; `axes` has sizes, `each` the arguments of which each client gets its own.
    """

    step: Callable[..., Any]
    arguments: dict[str, Any]
    party: str
    run_id: str
    round: int
    verb: str = "keep"
    receivers: tuple[str, ...] = ()
    axes: dict[str, int] = field(default_factory=dict)
    each: tuple[str, ...] = ()
    reader: Reader = field(default_factory=Reader, compare=False, repr=False)


_TRAVELLING = ("party", "run_id", "round", "verb", "receivers", "axes", "each")


def call_bytes(call: StepCall, code: bytes | None = None) -> bytes:
    """Return a call as bytes, decoded within the step: a failure must not lose Dask's worker."""
    rest = [getattr(call, name) for name in _TRAVELLING]
    code = encode(call.step) if code is None else code
    return encode([step_name(call.step), code, encode(call.arguments), rest])


def call_of(content: bytes, reader: Reader) -> StepCall:
    """Return the call that `call_bytes` wrote, or raise, as PrivacyError, for other bytes."""
    name, code, arguments, rest = reader.decode(content)
    fields = dict(zip(_TRAVELLING, rest, strict=True))
    step = read_step(name, code, reader)
    try:
        return StepCall(step, reader.decode(arguments), **fields, reader=reader)
    except Exception as error:
        return StepCall(Unreadable(name, error), {}, **fields, reader=reader)


@dataclass(frozen=True)
class Bound:
    """A step, its arguments before they are divided among parties, and its encoded `code`."""

    step: Callable[..., Any]
    arguments: dict[str, Any]
    code: bytes

    @classmethod
    def of(
        cls, step: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> "Bound":
        """Bind arguments as `bind` does."""
        return cls(step, bind(step, args, kwargs), encode(step))

    @property
    def name(self) -> str:
        """The step's name."""
        return step_name(self.step)


def read_step(name: str, code: bytes, reader: Reader) -> Callable[..., Any]:
    """Return a step from its code, or one that raises when called if that cannot be read."""
    try:
        step: Callable[..., Any] = reader.decode(code)
    except Exception as error:
        return Unreadable(name, error)
    return step


class Unreadable:
    """A step whose code the party could not read, because of `error`."""

    def __init__(self, name: str, error: Exception) -> None:
        # The name is logged, where one line must not look like several.
        self.__name__ = name if isinstance(name, str) and name.isprintable() else "?"
        self.missing = error.name if isinstance(error, ImportError) else None
        self.kind = type(error).__name__
        self.refused = str(error) if isinstance(error, PrivacyError) else None

    def __call__(self, **_: Any) -> None:
        """Raise PrivacyError, or ClusterError that names what is missing."""
        if self.refused is not None:
            raise PrivacyError(self.refused)
        what = f"module {self.missing!r} is missing" if self.missing else self.kind
        raise ClusterError(
            f"its code cannot be read there ({what}). Install the same code at every party, or "
            "define the step where the run is started."
        )


@dataclass(frozen=True)
class Forward:
    """A step that sends the message which the step `made_by` left at its party."""

    made_by: Callable[..., Any]

    def __post_init__(self) -> None:
        if declared_message(self.made_by)[1]:
            raise InvalidInput(
                f"the result of step {self.__name__!r} is a mapping of receivers to messages and "
                "cannot be sent as it is. Tell or exchange with the step itself."
            )

    @property
    def __name__(self) -> str:
        """The name of the step that made the message."""
        return step_name(self.made_by)

    @property
    def message_type(self) -> type[Message]:
        """The class of the message."""
        return declared_message(self.made_by)[0]

    def __call__(self, message: Message) -> Message:
        """Return the message."""
        return message


def step_name(step: Callable[..., Any]) -> str:
    """Return the name that a step has in keys, ledger and errors."""
    while isinstance(step, functools.partial):
        step = step.func
    return getattr(step, "__name__", type(step).__name__)


def declared_message(step: Callable[..., Any]) -> tuple[type[Message], bool]:
    """Return a step's message class and whether it is mapped by receiver; InvalidInput if none."""
    if isinstance(step, Forward):
        return step.message_type, False
    plain = step
    while isinstance(plain, functools.partial):
        plain = plain.func
    if not inspect.isroutine(plain):
        plain = type(plain).__call__
    annotation = getattr(plain, "__annotations__", {}).get("return")
    if isinstance(annotation, str):
        annotation = typing.get_type_hints(plain).get("return")
    by_receiver = False
    origin = typing.get_origin(annotation)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        by_receiver, annotation = True, typing.get_args(annotation)[1]
    if isinstance(annotation, type) and issubclass(annotation, Message):
        return annotation, by_receiver
    got = "none" if annotation is None else getattr(annotation, "__name__", str(annotation))
    raise InvalidInput(
        f"step {step_name(step)!r} sends a message, so its return annotation must be a Message or "
        f"a mapping of receivers to one; got {got}. Annotate it, or keep its result with on_client."
    )


def bind(
    step: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the caller's arguments by parameter name; InvalidInput when they do not fit."""
    signature = inspect.signature(step)
    given = [name for name in kwargs if name in INJECTED and name in signature.parameters]
    if given:
        raise InvalidInput(
            f"the parameter {given[0]!r} of step {step_name(step)!r} is filled in by its party; "
            "leave it out."
        )
    own = [p for p in signature.parameters.values() if p.name not in INJECTED]
    for parameter in own:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            raise InvalidInput(
                f"the parameter {parameter.name!r} of step {step_name(step)!r} must be one that "
                "can be given by name; steps have no *args."
            )
    try:
        bound = signature.replace(parameters=own).bind(*args, **kwargs)
    except TypeError as error:
        raise InvalidInput(
            f"step {step_name(step)!r} cannot be called so: {error}. Give its parameters but "
            f"{', '.join(INJECTED)}."
        ) from None
    arguments = dict(bound.arguments)
    for parameter in own:
        if parameter.kind is parameter.VAR_KEYWORD:
            arguments.update(arguments.pop(parameter.name, {}))
    return arguments


def call_step(
    step: Callable[..., Any], arguments: Mapping[str, Any], fill: Callable[[str], Any]
) -> Any:
    """Call a step with its arguments and with what `fill` returns for its injected ones."""
    names = inspect.signature(step).parameters
    return step(**arguments, **{name: fill(name) for name in INJECTED if name in names})
