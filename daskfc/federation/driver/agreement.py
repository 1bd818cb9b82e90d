"""How clients that share samples agree on the one key of their pseudonyms.

Messages    KeyOffer          client → client   once, where clients share samples
            SealedIdKey       client → client   once, where clients share samples
            WrappedIdKey      client → caller   once, where clients share samples
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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


@dataclass(frozen=True)
class Agreement:
    """How a client has a key for a purpose in common with others, by its own `secret`."""

    purpose: str
    secret: SecretKey

    def _pair(self) -> KeyPair:
        return KeyPair(self.secret.derive(self.purpose, "agreement"))

    def _with(self, offer: KeyOffer) -> bytes:
        return self._pair().shared(offer.key.tobytes(), self.purpose).to_bytes()

    def offered(self, receivers: tuple[str, ...]) -> dict[str, KeyOffer]:
        """Return this client's public key for others."""
        return dict.fromkeys(receivers, KeyOffer(_bytes(self._pair().public)))

    def sealed(self, offers: Mapping[str, KeyOffer], key: SecretKey) -> dict[str, np.ndarray]:
        """Return a key sealed for each client that offered one."""
        return {
            c: _bytes(aes_key_wrap(self._with(one), key.to_bytes())) for c, one in offers.items()
        }

    def unsealed(self, offer: Mapping[str, KeyOffer], sealed: np.ndarray) -> bytes:
        """Return a key that the one who made the only offer sealed."""
        (public,) = offer.values()
        return aes_key_unwrap(self._with(public), sealed.tobytes())


def _bytes(data: bytes) -> np.ndarray:
    return np.frombuffer(data, dtype=np.uint8)


def exchanged(
    federation: Federation, offer: Any, seal: Any, clients: Sequence[str]
) -> tuple[PerClient[Any], PerClient[Any]]:
    """Return the offers and the sealed keys for each client; the first seals, and gets None."""
    first, *others = clients
    to = PerClient({first: tuple(others), **dict.fromkeys(others, (first,))})
    offers: dict[str, Any] = {first: None}
    sealed: dict[str, Any] = {first: None}
    if others:
        sent = federation.exchange(offer, to, clients=clients, receivers=to)
        of_others = PerClient({first: dict(sent[first])})
        boxes = federation.exchange(seal, of_others, clients=[first], receivers=others)
        offers |= {name: dict(sent[name]) for name in others}
        sealed |= {name: dict(boxes[name]) for name in others}
    return PerClient(offers), PerClient(sealed)


def key_offer(receivers: tuple[str, ...], secret: SecretKey) -> dict[str, KeyOffer]:
    """Offer a public key to other clients."""
    return Agreement("pseudonyms", secret).offered(receivers)


def sealed_id_key(offers: Mapping[str, KeyOffer], secret: SecretKey) -> dict[str, SealedIdKey]:
    """Draw the key of the pseudonyms and seal it for each client that offered a key."""
    boxes = Agreement("pseudonyms", secret).sealed(offers, _drawn(secret))
    return {client: SealedIdKey(box) for client, box in boxes.items()}


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
        (box,) = sealed.values()
        key = Agreement("pseudonyms", secret).unsealed(offer, box.sealed)
    wrapping = SecretKey(data.id_key()).derive("shared pseudonyms", label, party)
    return WrappedIdKey(_bytes(aes_key_wrap(wrapping.to_bytes(), key)))


def agree_on_pseudonyms(federation: Federation) -> None:
    """Have clients that share samples agree on one key of pseudonyms, in a run of its own.

    Privacy: the clients learn the key, the server and the caller do not.
    """
    pseudonyms = federation.pseudonyms
    if pseudonyms is None or pseudonyms.keys:
        return
    run_id = f"pseudonyms-{uuid.uuid4().hex}"
    federation.start_run(
        run_id, random_state=0, workspace=federation.workspace, request=RunRequest("pseudonyms")
    )
    keys = exchanged(federation, key_offer, sealed_id_key, federation.clients)
    told = federation.publish(wrapped_id_key, *keys, pseudonyms.label, party="clients")
    copies = {name: part.wrapped.tobytes().hex() for name, part in told.items()}
    rows = [*federation.opening_ledger, *federation.ledger]
    federation.opening_ledger = Ledger(vars(row) for row in rows)
    federation.pseudonyms = replace(pseudonyms, keys=copies)
