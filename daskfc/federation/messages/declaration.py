"""Messages: the only values that leave a party, with every array declared.

A message is a frozen dataclass. Its class declares its protection, its route and what it reveals;
its fields declare dtypes and axes. The sender checks each value against that, and sends a message
made anew of the declared content, so that nothing can ride along with it.
"""

import dataclasses
import inspect
import math
import re
import typing
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, dataclass_transform

import numpy as np

from daskfc.errors import EgressRefused

SERVER = "server"
SERVER_WORKER = "server worker"
CALLER = "caller"
PROTECTIONS = ("plain", "masked", "coded", "noised", "raw")
ROUTES = (
    "client → server",
    "server → client",
    "client → client",
    "client → caller",
    "server → caller",
    "client → server worker",
    "server → server worker",
    "server worker → server",
)
_SERVER_WORKER = re.compile(r"server-[1-9]\d*")
_KEY = "daskfc"
_PLAIN = frozenset(
    "bool str int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 "
    "complex128".split()
)
_LONGEST_TEXT = 256
_LONGEST_EMPTY = 1 << 31  # ours: no array without entries may have a longer axis


@dataclasses.dataclass(frozen=True)
class _Declared:
    """What one field holds: ``kind`` is "array", "integer", "real", "text" or "noise"."""

    kind: str
    axes: tuple[str | int, ...] = ()
    dtypes: tuple[str, ...] = ()
    longest: int = 0

    def __str__(self) -> str:
        if self.kind == "array":
            return f"{' | '.join(self.dtypes)} {_shape_text(self.axes)}"
        return f"text of at most {self.longest} characters" if self.kind == "text" else self.kind


def _shape_text(parts: tuple[object, ...]) -> str:
    return f"({', '.join(str(part) for part in parts)}{',' if len(parts) == 1 else ''})"


def array(*axes: str | int, dtype: str) -> Any:
    """Declare an array field of a message.

    Parameters
    ----------
    *axes : str or int
        A name (equal names have equal sizes within a message) or a fixed size for each axis; none
        for an array without axes.
    dtype : str
        NumPy's name of the dtype, "str" for fixed-width text, or several joined by ``" | "``.

    Examples
    --------
    >>> from daskfc.federation.messages.declaration import array
    >>> str(array("prime", "row", dtype="uint8 | uint32").metadata["daskfc"])
    'uint8 | uint32 (prime, row)'
    """
    dtypes = tuple(part.strip() for part in dtype.split("|"))
    names = tuple(name if name == "str" else np.dtype(name).name for name in dtypes)
    for given, name in zip(dtypes, names, strict=True):
        if name not in _PLAIN:
            raise TypeError(
                f"a message may not declare an array of dtype {given!r}: its entries must be "
                "numbers of at most 64 bits a part, bool or str."
            )
    return dataclasses.field(metadata={_KEY: _Declared("array", axes, names)})


def text(longest: int = _LONGEST_TEXT) -> Any:
    """Declare a field that holds a str of at most `longest` characters."""
    return dataclasses.field(metadata={_KEY: _Declared("text", longest=longest)})


NoiseMultiplier = Annotated[float, _Declared("noise")]
"""Type of a last field, with the multiplier of the Gaussian noise that a release bears.

The noise's standard deviation over the L2 sensitivity of what is released to one row of the
sender's data; infinite, the default to give it, for what is no release of its own. The ledger keeps
it; it is no content, and not counted as payload.
"""


@dataclass_transform(frozen_default=True, field_specifiers=(array, text))
class Message:
    """Base of all messages; a subclass becomes a frozen dataclass by itself.

    Parameters
    ----------
    route : str or tuple of str
        Which way it travels, out of :data:`ROUTES`.
    reveals : str
        What its receiver learns, as one phrase.
    protection : {"plain", "masked", "coded", "noised", "raw"}
        How the content is protected; "plain" by default. "raw" leaves only a federation started
        with ``allow_raw=True``.
    signed : bool
        With TLS, whether its sender signs it by its certificate, as public keys are.

    Attributes
    ----------
    protection, route, reveals, signed
        As declared; a subclass of a message has its parent's unless it declares its own.

    Raises
    ------
    TypeError
        When a class lacks a route or what it reveals, or a field is neither int, float, str nor
        declared by `array`, `text` or `NoiseMultiplier`.

    Notes
    -----
    Privacy: a value of another type, with another field, dtype, number of axes or size than
    declared never leaves its party. An int has at most 64 bits, a plain str 256 characters.

    Examples
    --------
    >>> from daskfc.federation.messages.declaration import Message, array, check_message
    >>> class LocalCenters(
    ...     Message,
    ...     protection="masked",
    ...     route="client → server",
    ...     reveals="nothing but the sum over all clients",
    ... ):
    ...     means: np.ndarray = array("n_clusters", "n_features", dtype="int64")
    ...     counts: np.ndarray = array("n_clusters", dtype="int64")
    ...     n_samples: int
    >>> centers = LocalCenters(np.zeros((3, 2), "int64"), np.zeros(3, "int64"), 9)
    >>> check_message(centers, {"n_features": 2})
    """

    protection: ClassVar[str] = "plain"
    route: ClassVar[str | tuple[str, ...]]
    reveals: ClassVar[str]
    signed: ClassVar[bool] = False

    def __init_subclass__(
        cls,
        *,
        route: str | tuple[str, ...] | None = None,
        reveals: str | None = None,
        protection: str | None = None,
        signed: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init_subclass__(**kwargs)
        declared = {"protection": protection, "route": route, "reveals": reveals, "signed": signed}
        for name, value in declared.items():
            if value is not None:
                setattr(cls, name, value)
        _check_declaration(cls)
        _declare_scalars(cls)
        dataclasses.dataclass(frozen=True)(cls)


def _check_declaration(cls: type[Message]) -> None:
    if cls.protection not in PROTECTIONS:
        raise TypeError(f"{cls.__name__}: protection must be one of {', '.join(PROTECTIONS)}.")
    route: object = getattr(cls, "route", None)
    routes = route if isinstance(route, tuple) else (route,)
    if not routes or not all(one in ROUTES for one in routes):
        raise TypeError(f"{cls.__name__}: route must be one or several of {', '.join(ROUTES)}.")
    reveals: object = getattr(cls, "reveals", None)
    if not isinstance(reveals, str) or not reveals:
        raise TypeError(f"{cls.__name__}: reveals must say what the receiver learns.")


_SCALARS = {"int": "integer", "float": "real", "str": "text"}


def _declared_by(annotation: Any) -> _Declared | None:
    """Return what the annotation of a field that is no array declares."""
    if typing.get_origin(annotation) is Annotated:
        notes = (note for note in annotation.__metadata__ if isinstance(note, _Declared))
        return next(notes, None)
    kind = _SCALARS.get(annotation if isinstance(annotation, str) else annotation.__name__)
    return None if kind is None else _Declared(kind, longest=_LONGEST_TEXT)


def _declare_scalars(cls: type[Message]) -> None:
    """Give the fields that are annotated as a number or as text their declaration."""
    for name, annotation in inspect.get_annotations(cls).items():
        value = vars(cls).get(name, dataclasses.MISSING)
        if isinstance(value, dataclasses.Field) and _KEY in value.metadata:
            continue
        declared = _declared_by(annotation)
        if declared is None:
            raise TypeError(
                f"{cls.__name__}.{name} must be an int, a float or a str, or be declared by "
                f"array(), text() or NoiseMultiplier; got {annotation!r}."
            )
        setattr(cls, name, dataclasses.field(default=value, metadata={_KEY: declared}))


def _fields(message: Message) -> tuple[dataclasses.Field[Any], ...]:
    # Message itself is no dataclass, and no message.
    return dataclasses.fields(type(message))  # type: ignore[arg-type]


def multiplier_of(message: Message) -> float | None:
    """Return a message's noise multiplier, or None when it has none."""
    for field in _fields(message):
        if field.metadata[_KEY].kind == "noise":
            value: float = getattr(message, field.name)
            return value if math.isfinite(value) else None
    return None


def routes_of(message_type: type[Message]) -> tuple[str, ...]:
    """Return all routes that a message class declares."""
    route = message_type.route
    return (route,) if isinstance(route, str) else route


def route_of(sender: str, receiver: str) -> str:
    """Return the route between two parties, one of `ROUTES` or one that no message may declare."""
    return " → ".join(name if name == CALLER else role_of(name) for name in (sender, receiver))


def role_of(party: str) -> str:
    """Return "client", "server" or "server worker", as the party's name says."""
    if party == SERVER:
        return SERVER
    return SERVER_WORKER if _SERVER_WORKER.fullmatch(party) else "client"


def server_workers(count: int) -> tuple[str, ...]:
    """Return the names of the server's further workers, of `count` with the server itself."""
    return tuple(f"{SERVER}-{number}" for number in range(2, count + 1))


def _refuse(party: str, what: str, got: str, declared: str) -> EgressRefused:
    return EgressRefused(
        f"party {party!r} tried to send {what} as {got}; declared {declared}. Nothing was sent."
    )


def _plain_array(
    party: str, what: str, value: object, declared: _Declared, sizes: dict[str, int]
) -> np.ndarray:
    """Return the array in C order, its dtype without metadata; refuse it if not as declared."""
    # A subclass (masked array, memory map, matrix) may carry more than its declared content.
    if type(value) is not np.ndarray:
        raise _refuse(party, what, type(value).__name__, str(declared))
    is_text = value.dtype.kind == "U"
    dtype = "str" if is_text else value.dtype.name
    got = f"{value.dtype.name} {_shape_text(value.shape)}"
    known = tuple(
        f"{axis}={sizes[axis]}" if isinstance(axis, str) and axis in sizes else axis
        for axis in declared.axes
    )
    rule = f"{' | '.join(declared.dtypes)} {_shape_text(known)}"
    if dtype not in declared.dtypes or not value.dtype.isnative:
        raise _refuse(party, what, got, rule)
    if value.ndim != len(declared.axes):
        raise _refuse(party, what, got, rule)
    for axis, size in zip(declared.axes, value.shape, strict=True):
        expected = axis if isinstance(axis, int) else sizes.setdefault(axis, size)
        if size != expected:
            raise _refuse(party, what, got, rule)
    if value.itemsize == 0 or (value.size == 0 and max(value.shape) > _LONGEST_EMPTY):
        raise _refuse(party, what, got, rule)  # no bytes, and yet any length
    held = np.ascontiguousarray(value).reshape(value.shape)  # it makes a row of a 0-d array
    if is_text and _has_no_text(held):
        raise _refuse(party, what, "text that has no UTF-8", rule)
    plain = np.dtype(f"U{value.itemsize // 4}") if is_text else np.dtype(dtype)
    return np.ndarray(value.shape, plain, buffer=held)


def _has_no_text(held: np.ndarray) -> bool:
    codes = np.frombuffer(held, dtype=np.uint32)
    return bool(((codes > 0x10FFFF) | (codes >> 11 == 0xD800 >> 11)).any())  # surrogates


def _fits_scalar(value: object, declared: _Declared) -> bool:
    if declared.kind == "integer":
        return type(value) is int and -(2**63) <= value < 2**64
    if declared.kind == "real":
        return type(value) is float
    if declared.kind == "noise":
        return type(value) is float and value > 0
    return type(value) is str and len(value) <= declared.longest and _is_utf8(value)


def _is_utf8(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return True


def _stowaways(message: Message, declared: set[str]) -> set[str]:
    """Return the attributes of a message that are no fields, those in slots included."""
    found = set(getattr(message, "__dict__", ()))
    for base in type(message).__mro__:
        slots = vars(base).get("__slots__", ())
        found.update((slots,) if isinstance(slots, str) else slots)
    return {
        name for name in found - declared - {"__dict__", "__weakref__"} if hasattr(message, name)
    }


def declared_fields(message_type: type[Message]) -> list[tuple[str, Any, Any]]:
    """Return the name, the declaration and the default of every field of a message class."""
    found = dataclasses.fields(message_type)  # type: ignore[arg-type]
    return [(field.name, field.metadata[_KEY], field.default) for field in found]


def content_of(message: Message) -> tuple[Any, ...]:
    """Return the values of a message's fields, in their order: all of it that is ever sent."""
    return tuple(getattr(message, field.name) for field in _fields(message))


def of_content(message_type: type[Message], content: tuple[Any, ...]) -> Message:
    """Return the message of a class that has this content; the inverse of `content_of`."""
    message = object.__new__(message_type)
    fields = dataclasses.fields(message_type)  # type: ignore[arg-type]
    for field, value in zip(fields, content, strict=True):
        object.__setattr__(message, field.name, value)
    return message


def check_message(
    message: object, axes: Mapping[str, int] | None = None, *, party: str = "?"
) -> None:
    """Check a value against the declaration of its class.

    Parameters
    ----------
    message : object
        What a step returned.
    axes : mapping of str to int, optional
        Sizes (entries along an axis) that the caller of the verb fixed.
    party : str
        The sender, for the error's sentence.

    Raises
    ------
    EgressRefused
        When it is no message, or a field has another type, dtype, number of axes or size. The
        sentence holds types, dtypes and shapes, never values.

    Examples
    --------
    >>> from daskfc.federation.messages.declaration import check_message
    >>> check_message([1.0, 2.0], party="client-1")
    Traceback (most recent call last):
    ...
    daskfc.errors.EgressRefused: party 'client-1' tried to send a list; only a declared message \
may leave a party. Nothing was sent.
    """
    as_declared(message, axes, party=party)


def as_declared(
    message: object, axes: Mapping[str, int] | None = None, *, party: str = "?"
) -> Message:
    """Return a message with another's declared content and nothing else, or EgressRefused."""
    if not isinstance(message, Message) or not dataclasses.is_dataclass(type(message)):
        raise EgressRefused(
            f"party {party!r} tried to send a {type(message).__name__}; only a declared message "
            "may leave a party. Nothing was sent."
        )
    kind = type(message).__name__
    fields = _fields(message)
    if extra := _stowaways(message, {field.name for field in fields}):
        raise EgressRefused(
            f"party {party!r} tried to send {kind} with {len(extra)} attributes that are no "
            "fields of it. Nothing was sent."
        )
    sizes = dict(axes or {})
    content = []
    for field, value in zip(fields, content_of(message), strict=True):
        declared = field.metadata.get(_KEY)
        what = f"{kind}.{field.name}"
        if declared is None:
            raise EgressRefused(
                f"party {party!r} tried to send {what}, which is not declared. Nothing was sent."
            )
        if declared.kind == "array":
            value = _plain_array(party, what, value, declared, sizes)
        elif not _fits_scalar(value, declared):
            raise _refuse(party, what, type(value).__name__, str(declared))
        content.append(value)
    return of_content(type(message), tuple(content))


def payload_bytes(message: Message) -> int:
    """Return the bytes of a message's content: arrays, 8 for a number, UTF-8 for text."""
    total = 0
    for field in _fields(message):
        value = getattr(message, field.name)
        if isinstance(value, np.ndarray):
            total += value.nbytes
        elif field.metadata[_KEY].kind != "noise":
            total += len(value.encode()) if isinstance(value, str) else 8
    return total
