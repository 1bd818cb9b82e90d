"""A key under which clients hash sample ids for the server, which lacks it.

The server finds by digests which ids clients share, and puts samples into an order. Under a public
salt it could try out ids that it can guess. The first client therefore makes a key from the secret
of its store (`daskfc.stores.layout.id_key`) and seals it for the others: fits of the same stores
see the same digests, and with them the same order and the same labels. Stores built from one
storage file need no secret: their order is the same when they are built again.

Messages    KeyOffer          client → client   once, where there are several clients
            SealedDigestKey   client → client   once, where there are several clients
"""

from collections.abc import Iterable, Mapping

import numpy as np

from daskfc.coding import SecretKey
from daskfc.federation.driver.agreement import Agreement, KeyOffer, exchanged
from daskfc.federation.driver.federation import Federation
from daskfc.federation.messages.declaration import Message, array
from daskfc.federation.methods.samples import canonical_positions, order_secret, sample_digests
from daskfc.federation.steps.handles import Inline, PerClient
from daskfc.stores import ClientStore

_PURPOSE = "sample digests"
_SEALED_BYTES = 40  # RFC 3394: a key of 32 bytes and an integrity check of 8


class SealedDigestKey(
    Message,
    route="client → client",
    protection="coded",
    reveals="to its receiver alone, the key of the digests of sample ids",
):
    """The key of the digests, sealed for one client by the client that made it."""

    sealed: np.ndarray = array(_SEALED_BYTES, dtype="uint8")


def own_digest_key(data: ClientStore) -> SecretKey:
    """Return the key that a client makes for all, from the secret of its store."""
    return order_secret(data).derive(_PURPOSE)


def digest_key_offer(receivers: tuple[str, ...], secret: SecretKey) -> dict[str, KeyOffer]:
    """Offer a public key to other clients."""
    return Agreement(_PURPOSE, secret).offered(receivers)


def sealed_digest_key(
    offers: Mapping[str, KeyOffer], data: ClientStore, secret: SecretKey
) -> dict[str, SealedDigestKey]:
    """Seal the key of the digests for each client that offered a key."""
    boxes = Agreement(_PURPOSE, secret).sealed(offers, own_digest_key(data))
    return {client: SealedDigestKey(box) for client, box in boxes.items()}


def digest_key(
    offer: Mapping[str, KeyOffer] | None,
    sealed: Mapping[str, SealedDigestKey] | None,
    data: ClientStore,
    secret: SecretKey,
) -> SecretKey:
    """Return the digests' key, which stays at the client; the first, given None, makes it."""
    if offer is None or sealed is None:
        return own_digest_key(data)
    (box,) = sealed.values()
    return SecretKey(Agreement(_PURPOSE, secret).unsealed(offer, box.sealed))


def digest_keys(
    federation: Federation, clients: Iterable[str] | None = None
) -> PerClient[Inline[SecretKey]]:
    """Have clients agree, for one step, on the digests' key, which the first of them makes.

    Privacy: the clients learn the key, the server and the caller do not; a client that gives it to
    the server lets it try out ids.
    """
    those = federation.clients if clients is None else tuple(clients)
    keys = exchanged(federation, digest_key_offer, sealed_digest_key, those)
    return federation.inline(digest_key, *keys, clients=those)


def order_of(stores: Mapping[str, ClientStore]) -> dict[str, np.ndarray]:
    """Return the places, (n_m,) per client, that a federation's server would give these samples."""
    key = own_digest_key(next(iter(stores.values())))
    return canonical_positions({name: sample_digests(own, key) for name, own in stores.items()})
