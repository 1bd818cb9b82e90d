"""Pseudonyms that the caller gets in place of sample ids.

A pseudonym is a keyed hash of an id. The key is derived from the secret beside the client's ids
(`daskfc.stores.layout.id_key`) and the label of a run: the caller cannot try out ids, two runs
share no pseudonym, a resumed run has the same ones, and a site can reverse its own by its store.
The caller draws the label; a site that remembers binds it to the submitter and to the data as they
were (`PartyRules.opened`).
Each client has a key of its own, so that none can try out the ids of another. Where clients hold
columns or views of the same samples, one key serves all, since a sample has one label: the first
client draws it and seals it for the others, and each has the caller keep it, wrapped under a key of
its own store (`daskfc.federation.driver.agreement`).
"""

import hashlib
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self, TypeVar

import numpy as np
from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap

from daskfc.coding import SecretKey
from daskfc.errors import InvalidInput, StoreError
from daskfc.federation.messages.declaration import Message
from daskfc.federation.messages.texts import text_arrays, texts_in

M = TypeVar("M", bound=type[Message])

_LABEL_DIGITS = 12  # ours: of a run; two of a site's runs with one label are as good as excluded
_DIGEST_BYTES = 12  # ours: of an id; n samples collide with a probability of n² 2^-97

_TWINS: dict[type[Message], type[Message]] = {}


@dataclass(frozen=True)
class Pseudonyms:
    """A run's random label, with which its pseudonyms begin, and the clients' wrapped shared key.

    `keys` has each client's copy in hex, wrapped under a key of its store; it is empty where every
    client has a key of its own.
    """

    label: str
    keys: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def fresh(cls) -> Self:
        """Return those of a new run."""
        return cls(uuid.uuid4().hex[:_LABEL_DIGITS])

    def key(self, client: str, id_key: bytes) -> SecretKey:
        """Return the key of a client's pseudonyms; StoreError for another store than before."""
        own = SecretKey(id_key)
        if not self.keys:
            return own.derive("pseudonyms", self.label, client)
        if client not in self.keys:
            raise InvalidInput(
                f"client {client!r} took no part when the pseudonyms of the run were agreed on; "
                f"there were {', '.join(self.keys)}. Start a new run."
            )
        wrapping = own.derive("shared pseudonyms", self.label, client).to_bytes()
        try:
            return SecretKey(aes_key_unwrap(wrapping, bytes.fromhex(self.keys[client])))
        except (InvalidUnwrap, ValueError):
            raise StoreError(
                f"the store of client {client!r} is not the one that the pseudonyms of the run "
                "were made with. Give that store, or start a new run."
            ) from None

    def of(self, ids: Iterable[str], key: SecretKey) -> list[str]:
        """Return the pseudonyms of ids under a client's key, in their order."""
        secret = key.to_bytes()
        digests = (
            hashlib.blake2b(str(name).encode(), digest_size=_DIGEST_BYTES, key=secret).hexdigest()
            for name in ids
        )
        return [f"{self.label}-{digest}" for digest in digests]

    def as_dict(self) -> dict[str, Any]:
        """Return them as plain values, for a run's folder and for parties."""
        return asdict(self)


def pseudonyms_of(record: Mapping[str, Any] | None) -> Pseudonyms | None:
    """Return what `Pseudonyms.as_dict` wrote; None for a run with clear ids."""
    return Pseudonyms(str(record["label"]), dict(record["keys"])) if record else None


# -- at the door of a party -----------------------------------------------------------------------


def stands_for(kind: type[Message]) -> Callable[[M], M]:
    """Declare the message with pseudonyms that replaces `kind`, with clear ids, for the caller."""

    def declare(twin: M) -> M:
        _TWINS[kind] = twin
        return twin

    return declare


def _by_name(message: Message) -> dict[str, Any]:
    return {one.name: getattr(message, one.name) for one in fields(message)}  # type: ignore[arg-type]


def has_ids(message: Message) -> bool:
    """Return whether a message for the caller holds sample ids."""
    return type(message) in _TWINS and len(vars(message)["id_ends"]) > 0


def under_pseudonyms(
    message: Message, pseudonyms: Pseudonyms, key: Callable[[], SecretKey]
) -> Message:
    """Replace the sample ids, if any, of a message for the caller; `key` is called only for ids."""
    twin = _TWINS.get(type(message))
    if twin is None:
        return message
    content = _by_name(message)
    ids = texts_in(content["id_bytes"], content["id_ends"])
    names = pseudonyms.of(ids, key()) if ids else []
    content["id_bytes"], content["id_ends"] = text_arrays(names)
    return twin(**content)


def sized_twin(message: Message) -> Message:
    """Return a message as large as the one that replaces it for the caller, without any ids."""
    twin = _TWINS.get(type(message))
    if twin is None:
        return message
    content = _by_name(message)
    n, length = len(content["id_ends"]), _LABEL_DIGITS + 1 + 2 * _DIGEST_BYTES
    content["id_bytes"] = np.full(n * length, ord("0"), dtype=np.uint8)
    content["id_ends"] = length * np.arange(1, n + 1, dtype=np.int64)
    return twin(**content)
