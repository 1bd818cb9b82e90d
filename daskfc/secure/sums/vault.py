"""A client's keys, shares and steps in sums that survive clients which leave; its refusals.

Letters of Bonawitz et al. (2017), Figure 4: b_u the seed of a client's own mask, s_u the private
key of its pair masks; both are new for every sum, so shares of one reveal nothing of another.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from numpy.typing import NDArray

from daskfc.coding import (
    SHARE_BYTES,
    FixedPoint,
    KeyPair,
    SecretKey,
    add_mask,
    add_pair_masks,
    share_secret,
)
from daskfc.errors import DecodingError, PrivacyError
from daskfc.federation.party.once import OnceOnly
from daskfc.federation.party.site_rules import FREE, SiteRules
from daskfc.federation.steps.rules import some_clients, takes
from daskfc.privacy import Part, noise_of_part
from daskfc.secure.sums.masked import mask_key
from daskfc.secure.sums.messages import KeyShares, MaskedPart, PublicKeys, RevealedShares
from daskfc.secure.sums.total import encoded

_NONCE = bytes(12)  # each sealing key seals one message, of one dealing of shares


def own_seed(secret: SecretKey, tag: str) -> SecretKey:
    """Return b_u of one sum."""
    return secret.derive("own mask", tag)


def pair_secret(secret: SecretKey, tag: str) -> SecretKey:
    """Return s_u of one sum."""
    return secret.derive("pair masks", tag)


def _sealing(secret: SecretKey, batch: str) -> KeyPair:
    return KeyPair(secret.derive("sealing", batch))


def _dealing(
    public: Mapping[str, PublicKeys], batch: str, tags: Sequence[str], threshold: int
) -> str:
    """Return the digest of one dealing of shares: its sums, holders, their keys and threshold."""
    holders = [(name, public[name].keys.tobytes().hex()) for name in sorted(public)]
    about = json.dumps([batch, list(tags), threshold, holders])
    return hashlib.sha256(about.encode()).hexdigest()


def _deal_once(once: OnceOnly, tags: Sequence[str], dealing: str) -> None:
    """Refuse (PrivacyError) another dealing of the keys of a sum than before."""
    for tag in tags:
        once.hold("shares", f"of the keys of {tag}", dealing.encode())


@takes(receivers=some_clients)
def advertise(
    receivers: Sequence[str], batch: str, tags: Sequence[str], secret: SecretKey
) -> dict[str, PublicKeys]:
    """Send every client this client's public keys: one for sealing, and one for each sum."""
    pairs = [_sealing(secret, batch), *(KeyPair(pair_secret(secret, tag)) for tag in tags)]
    return dict.fromkeys(receivers, PublicKeys.of(*(pair.public for pair in pairs)))


def seal(
    public: Mapping[str, PublicKeys],
    batch: str,
    tags: Sequence[str],
    threshold: int,
    secret: SecretKey,
    party: str,
    site: SiteRules = FREE,
) -> dict[str, KeyShares]:
    """Split both keys of every sum into shares and send each client its own, encrypted.

    Coefficients derive from the party's secret, so that a restarted client sends the same shares,
    and from the recipients, so that no two sets of clients hold points of one polynomial.
    """
    site.check_maskers(len(public), threshold)
    site.check_some(public)
    members = sorted(public)
    dealing = _dealing(public, batch, tags, threshold)
    _deal_once(site.once(), tags, dealing)
    plain = {member: bytearray() for member in members}
    for tag in tags:
        for kind, key in (("own", own_seed(secret, tag)), ("pairs", pair_secret(secret, tag))):
            stream = secret.derive("shamir", kind, tag, dealing).stream()
            shares = share_secret(key.to_bytes(), len(members), threshold, stream)
            for member, share in zip(members, shares, strict=True):
                plain[member] += share
    sealing = _sealing(secret, batch)
    sealed = {}
    for member, message in public.items():
        if member == party:  # never leaves the process
            content = bytes(plain[member])
        else:
            key = sealing.shared(message.keys[0].tobytes(), f"{party}>{member} {dealing}")
            content = ChaCha20Poly1305(key.to_bytes()).encrypt(_NONCE, bytes(plain[member]), None)
        sealed[member] = KeyShares(np.frombuffer(content, dtype=np.uint8).copy())
    return sealed


class Vault:
    """A client's keys, and the shares it keeps for others, for the sums (`tags`) of one batch.

    `shares` holds, by member and for each tag, the share of its own mask's seed, then of its key;
    `once` records the tags used in this and other vaults.
    """

    def __init__(
        self,
        party: str,
        tags: Sequence[str],
        threshold: int,
        public: Mapping[str, PublicKeys],
        shares: Mapping[str, bytes],
        once: OnceOnly | None = None,
    ) -> None:
        self.party = party
        self._place = {tag: i for i, tag in enumerate(tags)}
        self.threshold = threshold
        self._public = dict(public)
        self._shares = dict(shares)
        self._once = OnceOnly() if once is None else once

    def mask(self, encoded: NDArray[np.uint64], tag: str, secret: SecretKey, told: bytes) -> bytes:
        """Add own and pair masks of a tag and the received data, in place; return a public key."""
        self._once.hold("masks", tag, told + hashlib.sha256(encoded.data).digest())
        own = KeyPair(pair_secret(secret, tag))
        row = 1 + self._place[tag]
        others = {m: self._public[m].keys[row].tobytes() for m in self._shares if m != self.party}
        keys = {
            member: mask_key(own.shared(key, "masks"), tag, told) for member, key in others.items()
        }
        add_pair_masks(encoded, self.party, keys)
        add_mask(encoded, own_seed(secret, tag))
        return own.public

    def reveal(self, tag: str, present: Sequence[str]) -> tuple[list[bytes], list[bytes]]:
        """Return shares of the own masks of members that are present, and of the others' keys.

        Raises PrivacyError for fewer than the threshold, or for another set than before with this
        tag: both shares of one client would reveal its array.
        """
        if len(set(present)) < self.threshold or not set(present) <= set(self._shares):
            raise PrivacyError(
                f"shares of {tag!r} are revealed for at least {self.threshold} of its clients; "
                f"got {len(set(present))}. Nothing was revealed."
            )
        self._once.hold("shares", tag, "\0".join(sorted(present)).encode())
        start = 2 * SHARE_BYTES * self._place[tag]
        own, pairs = [], []
        for member in sorted(self._shares):
            both = self._shares[member][start : start + 2 * SHARE_BYTES]
            if member in present:
                own.append(both[:SHARE_BYTES])
            else:
                pairs.append(both[SHARE_BYTES:])
        return own, pairs

    def __repr__(self) -> str:
        return f"Vault of {self.party} for {len(self._place)} sums"


def open_vault(
    public: Mapping[str, PublicKeys],
    sealed: Mapping[str, KeyShares],
    batch: str,
    tags: Sequence[str],
    threshold: int,
    secret: SecretKey,
    party: str,
    site: SiteRules = FREE,
) -> Vault:
    """Decrypt the shares of all, sealed for the same clients, keys and threshold.

    Raises PrivacyError where a client dealt none, as pair masks would lack its, or for a threshold
    above their number; DecodingError for shares that were changed or are of another dealing.
    """
    if set(sealed) != set(public) or party not in public or threshold > len(public):
        raise PrivacyError(
            f"client {party!r} got shares of {len(sealed)} clients and keys of {len(public)}, for "
            f"a threshold of {threshold}: it needs shares of each, and as many at least. Nothing "
            "was opened; start the run again."
        )
    site.check_maskers(len(public), threshold)
    site.check_some(public)
    sealing, dealing = _sealing(secret, batch), _dealing(public, batch, tags, threshold)
    once = site.once()
    _deal_once(once, tags, dealing)  # no key seals this client's own
    shares = {}
    for member, message in sealed.items():
        content = message.sealed.tobytes()
        if member != party:
            key = sealing.shared(public[member].keys[0].tobytes(), f"{member}>{party} {dealing}")
            try:
                content = ChaCha20Poly1305(key.to_bytes()).decrypt(_NONCE, content, None)
            except InvalidTag:
                raise DecodingError(
                    f"the key shares from {member!r} cannot be opened: they were changed, or "
                    "belong to another sum. Start the run again."
                ) from None
        if len(content) != 2 * SHARE_BYTES * len(tags):
            raise DecodingError(
                f"the key shares from {member!r} have {len(content)} bytes; expected "
                f"{2 * SHARE_BYTES * len(tags)}."
            )
        shares[member] = content
    return Vault(party, tags, threshold, public, shares, once)


def masked_once(
    part: Part,
    vault: Vault,
    ring: FixedPoint,
    tag: str,
    secret: SecretKey,
    told_alike: bytes = b"",
    site: SiteRules = FREE,
) -> MaskedPart:
    """Send an array behind its own mask and the pair masks of a tag."""
    noise = noise_of_part(part, site.hidden_among(vault.threshold))
    values = encoded(part, ring)
    public = vault.mask(values, tag, secret, told_alike)
    key = np.frombuffer(public, dtype=np.uint8).reshape(1, 32).copy()
    return MaskedPart(tag, told_alike.hex(), ring.fraction_bits, key, values, noise)


def reveal(
    vault: Vault, tag: str, present: tuple[str, ...], site: SiteRules = FREE
) -> RevealedShares:
    """Send the shares with which the server removes the masks of a tag."""
    site.check_members(present)
    own, pairs = vault.reveal(tag, present)
    return RevealedShares(tag, _stack(own), _stack(pairs))


def _stack(shares: list[bytes]) -> NDArray[np.uint8]:
    return np.frombuffer(b"".join(shares), dtype=np.uint8).reshape(-1, SHARE_BYTES).copy()
