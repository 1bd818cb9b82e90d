"""Values of other steps as a party has them: results that it kept, and messages that arrived."""

from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from daskfc.errors import PrivacyError
from daskfc.federation.messages.declaration import role_of, route_of, routes_of
from daskfc.federation.messages.digests import content_digest
from daskfc.federation.messages.envelopes import Outgoing
from daskfc.federation.steps.handles import InnerCall, Slot
from daskfc.federation.steps.told import Came
from daskfc.federation.steps.uses import identity
from daskfc.site.approved import TO_EACH

_digests: WeakKeyDictionary[Outgoing, bytes] = WeakKeyDictionary()


class Kept:
    """A result that stays at its party; the wrapper hides its type and size, which Dask reports."""

    __slots__ = ("made_by", "told", "value")

    def __init__(self, value: Any, made_by: str = "", told: bytes = b"") -> None:
        self.value = value
        self.made_by = made_by
        self.told = told

    def __sizeof__(self) -> int:
        return 1


def content_of_value(value: Any) -> Any:
    """Return the value or message that a step gets from a kept result or an envelope."""
    if isinstance(value, Outgoing):
        return value.message
    return value.value if isinstance(value, Kept) else value


def maker_of(value: Any, *, to_each: bool = False) -> str:
    """Return the identity of the step that made a kept result, or of a message's class.

    `to_each` marks server messages in an argument that has one value per client.
    """
    if isinstance(value, Outgoing):
        of_server = role_of(value.sender) != "client"
        return identity(type(value.message)) + (TO_EACH if to_each and of_server else "")
    return value.made_by if isinstance(value, Kept) else "?"


def check_arrived(
    arguments: Mapping[str, Any], values: Sequence[Any], party: str, run_id: str
) -> None:
    """Refuse (PrivacyError) messages for another party or run, by another route or sender."""
    for value in values:
        if isinstance(value, Outgoing):
            kind = type(value.message)
            if value.receiver != party:
                raise _not_taken(value, party, f"is for {value.receiver!r}")
            if value.run_id != run_id:
                raise _not_taken(value, party, "is of another run")
            if route_of(value.sender, party) not in routes_of(kind):
                raise _not_taken(value, party, "takes another route")
    for one in arguments.values():
        _check_names(one, values, party, None)


def _check_names(argument: Any, values: Sequence[Any], party: str, name: str | None) -> None:
    """Check that client messages under a name are of the client with that name."""
    if isinstance(argument, Slot):
        value = values[argument.index]
        if isinstance(value, Outgoing) and role_of(value.sender) == "client":
            if name not in (None, value.sender):
                raise _not_taken(value, party, f"is given as that of {name!r}")
    elif isinstance(argument, InnerCall):
        for one in argument.arguments.values():
            _check_names(one, values, party, None)
    elif type(argument) is dict:
        for key, one in argument.items():
            _check_names(one, values, party, key)
    elif type(argument) in (list, tuple):
        for one in argument:
            _check_names(one, values, party, name)


def _not_taken(value: Outgoing, party: str, why: str) -> PrivacyError:
    return PrivacyError(
        f"party {party!r} was given {type(value.message).__name__} of party {value.sender!r}, "
        f"which {why}. It was not used; start the run again."
    )


def came_as(value: Any) -> Came:
    """Return the digest of a kept result's inputs or a server's message, and who made it."""
    if isinstance(value, Kept):
        return Came(value.told, True)
    if not isinstance(value, Outgoing) or role_of(value.sender) == "client":
        return Came(b"", False)
    if value not in _digests:
        _digests[value] = bytes.fromhex(content_digest(value.message))
    return Came(_digests[value], False)
