"""The digest, for each result, of what the submitter and the server sent alike to all clients.

Masks are derived from it, so that clients with different inputs hide their arrays behind masks that
do not cancel: the sum is then noise (D. Pasquini et al., "Eluding secure aggregation in federated
learning via model inconsistency", CCS 2022, arXiv 2111.07380).
"""

import functools
import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from daskfc.federation.messages.wire_format import encode
from daskfc.federation.steps.handles import InnerCall, Slot
from daskfc.federation.steps.uses import identity


@dataclass(frozen=True)
class Came:
    """The digest of a value, empty where clients get different ones, and whether it is own."""

    digest: bytes
    is_own: bool


def told_by(
    step: Callable[..., Any],
    arguments: Mapping[str, Any],
    each: Sequence[str],
    came: Sequence[Came],
    read: Callable[[InnerCall], Callable[..., Any]],
) -> bytes:
    """Return the SHA-256 digest of those inputs of a step that are the same for all clients."""
    plain: Any = step
    given = dict(arguments)
    while isinstance(plain, functools.partial):
        plain, given = plain.func, {**plain.keywords, **given}

    def put(value: Any) -> Any:
        if isinstance(value, Slot):
            return came[value.index].digest
        if isinstance(value, InnerCall):
            return told_by(read(value), value.arguments, value.each, came, read)
        if type(value) is dict:
            return {key: put(one) for key, one in value.items()}
        if type(value) in (list, tuple):
            return [put(one) for one in value]
        return value

    def own(value: Any) -> Iterator[bytes]:
        if isinstance(value, Slot) and came[value.index].is_own:
            yield came[value.index].digest
        elif isinstance(value, InnerCall):
            yield put(value)
        elif type(value) in (dict, list, tuple):
            for one in value.values() if type(value) is dict else value:
                yield from own(one)

    alike = {name: put(value) for name, value in given.items() if name not in each}
    theirs = {name: list(own(value)) for name, value in given.items() if name in each}
    state = None if inspect.isroutine(plain) else plain
    content = [identity(step), state, sorted(alike.items()), sorted(theirs.items())]
    return hashlib.sha256(encode(content, other=_kind)).digest()


def _kind(value: Any) -> bytes:
    """Return the kind of an object that only a pickle could write, in place of its content."""
    return identity(value).encode()
