"""Pseudonyms in place of sample ids, for all that the caller is told.

A pseudonym is a keyed hash of an id. The key is derived from the secret beside the client's ids
(`daskfc.stores.id_key`) and the label of a run: the caller cannot try out ids, two runs share no
pseudonym, a run that is resumed has the same ones, and a site reads its own back with its store.
The caller draws the label; a site that remembers holds it to its submitter and to the data as they
were (`PartyRules.opened`).
Each client has a key of its own, so that none can try out the ids of another. Only where clients
hold columns or views of the same samples, one key serves all, since a sample has one label: the
first client draws it and seals it for the others, and each hands it to the caller's keeping,
wrapped under a key of its own store.

Messages    KeyOffer          client → client   once, where clients share samples
            SealedIdKey       client → client   once, where clients share samples
            WrappedIdKey      client → caller   once, where clients share samples
"""

import hashlib
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap, aes_key_wrap

from daskfc.coding import KeyPair, SecretKey
from daskfc.errors import InvalidInput, StoreError
from daskfc.federation.handles import PerClient
from daskfc.federation.ledger import Ledger
from daskfc.federation.messages import Message, array
from daskfc.federation.step_rules import own_label, takes
from daskfc.federation.texts import text_arrays, texts_in
from daskfc.site import RunRequest

if TYPE_CHECKING:
    from daskfc.federation.federation import Federation
    from daskfc.stores import ClientStore

__all__ = [
    "KeyOffer",
    "Pseudonyms",
    "SealedIdKey",
    "WrappedIdKey",
    "agree_on_pseudonyms",
    "has_ids",
    "key_offer",
    "pseudonyms_of",
    "sealed_id_key",
    "sized_twin",
    "stands_for",
    "under_pseudonyms",
    "wrapped_id_key",
]

M = TypeVar("M", bound=type[Message])

_LABEL_DIGITS = 12  # ours: of a run; two of a site's runs with one label are as good as excluded
_DIGEST_BYTES = 12  # ours: of an id; n samples collide with a probability of n² 2^-97
_WRAPPED_BYTES = 40  # RFC 3394: a key of 32 bytes and 8 that tell whether it is whole

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
        """Return the key of a client's pseudonyms, from its store's secret.

        StoreError when the shared key was wrapped under another store's.
        """
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
    """Declare the message with pseudonyms that replaces `kind`, with clear ids, for the caller.

    Ids are in ``id_bytes`` and ``id_ends``; the decorated class has the fields of `kind`.
    """

    def declare(twin: M) -> M:
        _TWINS[kind] = twin
        return twin

    return declare


def _by_name(message: Message) -> dict[str, Any]:
    return {one.name: getattr(message, one.name) for one in fields(message)}  # type: ignore[arg-type]


def has_ids(message: Message) -> bool:
    """Return whether a message for the caller tells sample ids."""
    return type(message) in _TWINS and len(vars(message)["id_ends"]) > 0


def under_pseudonyms(
    message: Message, pseudonyms: Pseudonyms, key: Callable[[], SecretKey]
) -> Message:
    """Return a message for the caller with its sample ids replaced by pseudonyms.

    One without ids is returned as it is; `key` returns this client's key and is called only for
    ids.
    """
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


# -- one key for clients that share samples -------------------------------------------------------


class KeyOffer(
    Message,
    route="client → client",
    reveals="nothing; a public key says nothing of the private one",
    signed=True,
):
    """The public half of a client's key, for keys of pseudonyms and digests to be sealed with."""

    key: np.ndarray = array(32, dtype="uint8")


class SealedIdKey(
    Message,
    route="client → client",
    protection="coded",
    reveals="to its receiver alone, the key of the run's pseudonyms",
):
    """The key of the pseudonyms, sealed by its drawer for one client."""

    sealed: np.ndarray = array(_WRAPPED_BYTES, dtype="uint8")


class WrappedIdKey(
    Message,
    route="client → caller",
    protection="coded",
    reveals="nothing without the client's store",
):
    """The key of the pseudonyms, wrapped under the key of one client's store."""

    wrapped: np.ndarray = array(_WRAPPED_BYTES, dtype="uint8")


def _pair(secret: SecretKey) -> KeyPair:
    return KeyPair(secret.derive("pseudonyms", "agreement"))


def _bytes(data: bytes) -> np.ndarray:
    return np.frombuffer(data, dtype=np.uint8)


def key_offer(receivers: tuple[str, ...], secret: SecretKey) -> dict[str, KeyOffer]:
    """Offer a public key to other clients."""
    return dict.fromkeys(receivers, KeyOffer(_bytes(_pair(secret).public)))


def sealed_id_key(offers: Mapping[str, KeyOffer], secret: SecretKey) -> dict[str, SealedIdKey]:
    """Draw the key of the pseudonyms and seal it for each client that offered a key."""
    key, own = _drawn(secret).to_bytes(), _pair(secret)
    shared = {c: own.shared(offer.key.tobytes(), "pseudonyms") for c, offer in offers.items()}
    return {c: SealedIdKey(_bytes(aes_key_wrap(one.to_bytes(), key))) for c, one in shared.items()}


def _drawn(secret: SecretKey) -> SecretKey:
    return secret.derive("pseudonyms", "shared key")


@takes(label=own_label)
def wrapped_id_key(
    offer: Mapping[str, KeyOffer] | None,
    sealed: Mapping[str, SealedIdKey] | None,
    label: str,
    data: "ClientStore",
    secret: SecretKey,
    party: str,
) -> WrappedIdKey:
    """Unseal the key of the pseudonyms, or draw it if nothing was sent, and wrap it to keep."""
    if offer is None or sealed is None:
        key = _drawn(secret).to_bytes()
    else:
        (public,), (box,) = offer.values(), sealed.values()
        shared = _pair(secret).shared(public.key.tobytes(), "pseudonyms")
        key = aes_key_unwrap(shared.to_bytes(), box.sealed.tobytes())
    wrapping = SecretKey(data.id_key()).derive("shared pseudonyms", label, party)
    return WrappedIdKey(_bytes(aes_key_wrap(wrapping.to_bytes(), key)))


def agree_on_pseudonyms(federation: "Federation") -> None:
    """Have clients that share samples agree on one key of pseudonyms, in a run of its own.

    Nothing is done for clear ids or an agreed key. Privacy: the clients learn the key, the server
    and the caller do not.
    """
    pseudonyms = federation.pseudonyms
    if pseudonyms is None or pseudonyms.keys:
        return
    first, *others = federation.clients
    run_id = f"pseudonyms-{uuid.uuid4().hex}"
    federation.start_run(
        run_id,
        random_state=0,
        workspace=federation.workspace,
        request=RunRequest("pseudonyms"),
    )
    to = PerClient({first: tuple(others), **dict.fromkeys(others, (first,))})
    offers: dict[str, Any] = {}
    sealed: dict[str, Any] = {}
    if others:
        sent = federation.exchange(key_offer, to, receivers=to)
        offers = {name: dict(own) for name, own in sent.items()}
        boxes = federation.exchange(
            sealed_id_key, PerClient({first: offers[first]}), clients=[first], receivers=others
        )
        sealed = {name: dict(own) for name, own in boxes.items()}
    told = federation.publish(
        wrapped_id_key,
        PerClient({**offers, first: None}),
        PerClient({**sealed, first: None}),
        pseudonyms.label,
        party="clients",
    )
    keys = {name: part.wrapped.tobytes().hex() for name, part in told.items()}
    rows = [*federation.opening_ledger, *federation.ledger]
    federation.opening_ledger = Ledger(vars(row) for row in rows)
    federation.pseudonyms = replace(pseudonyms, keys=keys)
