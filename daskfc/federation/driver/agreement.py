"""How clients that share samples agree on the one key of their pseudonyms.

Messages    KeyOffer          client → client   once, where clients share samples
            SealedIdKey       client → client   once, where clients share samples
            WrappedIdKey      client → caller   once, where clients share samples
"""

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.keywrap import aes_key_unwrap, aes_key_wrap

from daskfc.coding import KeyPair, SecretKey
from daskfc.federation.driver.federation import Federation
from daskfc.federation.ledger.ledger import Ledger
from daskfc.federation.messages.declaration import Message, array
from daskfc.federation.steps.handles import PerClient
from daskfc.federation.steps.rules import own_label, takes
from daskfc.site import RunRequest
from daskfc.stores import ClientStore

__all__ = [
    "KeyOffer",
    "SealedIdKey",
    "WrappedIdKey",
    "agree_on_pseudonyms",
    "key_offer",
    "sealed_id_key",
    "wrapped_id_key",
]

_WRAPPED_BYTES = 40  # RFC 3394: a key of 32 bytes and an integrity check of 8


class KeyOffer(
    Message,
    route="client → client",
    reveals="nothing; a public key says nothing of the private one",
    signed=True,
):
    """A client's public key, with which others seal keys of pseudonyms and digests for it."""

    key: np.ndarray = array(32, dtype="uint8")


class SealedIdKey(
    Message,
    route="client → client",
    protection="coded",
    reveals="to its receiver alone, the key of the run's pseudonyms",
):
    """The key of the pseudonyms, sealed for one client by the client that drew it."""

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
    data: ClientStore,
    secret: SecretKey,
    party: str,
) -> WrappedIdKey:
    """Unseal the key of the pseudonyms, or draw it, and wrap it under the key of the store."""
    if offer is None or sealed is None:
        key = _drawn(secret).to_bytes()
    else:
        (public,), (box,) = offer.values(), sealed.values()
        shared = _pair(secret).shared(public.key.tobytes(), "pseudonyms")
        key = aes_key_unwrap(shared.to_bytes(), box.sealed.tobytes())
    wrapping = SecretKey(data.id_key()).derive("shared pseudonyms", label, party)
    return WrappedIdKey(_bytes(aes_key_wrap(wrapping.to_bytes(), key)))


def agree_on_pseudonyms(federation: Federation) -> None:
    """Have clients that share samples agree on one key of pseudonyms, in a run of its own.

    Privacy: the clients learn the key, the server and the caller do not.
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
