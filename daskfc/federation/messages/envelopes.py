"""Envelopes: messages with their routes, the only form in which they cross between parties.

Only what the message's class declares crosses: a description of the fields, and the bytes of the
arrays. Its receiver reads the description as data and makes the message anew; no pickle is opened.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from daskfc.coding.residues.streams import SecretKey
from daskfc.deploy.config.dask_insides import dask_deserialize, dask_serialize
from daskfc.errors import ClusterError
from daskfc.federation.messages.declaration import (
    Message,
    as_declared,
    content_of,
    declared_fields,
    of_content,
    payload_bytes,
)
from daskfc.federation.messages.wire_format import (
    Reader,
    array_of,
    encode,
    opened,
    plain_dtype,
    sealed,
)


class Here:
    """What this process accepts: keys that may seal a script's classes, packages of messages."""

    keys: ClassVar[set[SecretKey]] = set()  # of several federations in a driver
    packages: ClassVar[set[str]] = {"daskfc"}


@dataclass(frozen=True, eq=False)
class Outgoing:
    """A message in its sender's memory with its route; `axes`, `key` and `digest` never leave."""

    message: Message
    sender: str
    receiver: str
    step: str
    run_id: str
    round: int
    axes: Mapping[str, int]
    key: SecretKey | None = None
    id: str = ""
    salt: str = ""
    digest: str = ""
    certificate: bytes = b""
    signature: bytes = b""

    def __sizeof__(self) -> int:
        # Dask throttles transfers by this number.
        return payload_bytes(self.message) if isinstance(self.message, Message) else 1


class Unread:
    """Replaces, as a class, a message for which there was no memory, to send or to read it."""


def no_memory_at(sender: str) -> ClusterError:
    """Return the error about a party that lacked memory to send a message."""
    return ClusterError(
        f"party {sender!r} had no memory to send what it was asked for. Free some there, or raise "
        "its memory_limit, and resume the run."
    )


def message_of(arrived: Any, sender: str) -> Message:
    """Return a received envelope's message; ClusterError where its sender lacked memory."""
    if arrived is Unread:
        raise no_memory_at(sender)
    message: Message = arrived.message
    return message


@dask_serialize.register(Outgoing)  # type: ignore[untyped-decorator]
def _written(envelope: Outgoing) -> tuple[dict[str, Any], list[Any]]:
    """Write an envelope for its receiver."""
    try:
        return _content(envelope)
    except MemoryError:  # Dask would send its text, which the receiver cannot recognise
        return {"unread": True}, []


def _content(envelope: Outgoing) -> tuple[dict[str, Any], list[Any]]:
    """Return the declared content of a message, and nothing else that it may hold."""
    content = content_of(envelope.message)
    frames = [value.ravel().view(np.uint8) for value in content if _has_bytes(value)]
    described = [
        [value.dtype.str, list(value.shape)] if isinstance(value, np.ndarray) else value
        for value in content
    ]
    place = (envelope.sender, envelope.receiver, envelope.step, envelope.run_id, envelope.round)
    where = [*place, envelope.id, envelope.salt, envelope.certificate, envelope.signature]
    about = encode([type(envelope.message), where, described])
    return {"about": sealed(envelope.key, about)}, frames


@dask_deserialize.register(Outgoing)  # type: ignore[untyped-decorator]
def _arrived(header: dict[str, Any], frames: list[Any]) -> Outgoing | type[Unread]:
    """Read an envelope at its receiver."""
    if header.get("unread"):
        return Unread
    about, trusted = opened(Here.keys, header["about"])
    kind, where, described = Reader(Here.packages, trusted=trusted).decode(about)
    if not (isinstance(kind, type) and issubclass(kind, Message)):
        raise TypeError("an envelope must hold a message")
    left = iter(frames)
    content = [
        _array(value, left) if declared.kind == "array" else value
        for (_, declared, _), value in zip(declared_fields(kind), described, strict=True)
    ]
    sender, receiver, step, run_id, round, id, salt, certificate, signature = where
    message = as_declared(of_content(kind, tuple(content)), party=str(sender))
    place = (str(sender), str(receiver), str(step), str(run_id), int(round))
    return Outgoing(
        message, *place, {}, id=str(id), salt=str(salt),
        certificate=bytes(certificate), signature=bytes(signature),
    )  # fmt: skip


def _has_bytes(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.nbytes > 0


def _array(described: list[Any], left: Iterator[Any]) -> np.ndarray:
    name, shape = described
    if 0 in shape:
        return np.empty(shape, plain_dtype(name))
    held = memoryview(next(left))
    # A step may write into what it got; Dask's own arrays allow that, too.
    return array_of(plain_dtype(name), shape, bytearray(held) if held.readonly else held)
