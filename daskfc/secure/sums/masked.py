"""Secure sums in which every client must stay: pairwise masks that cancel (kCAGC, Protocol 4).

Pairs of clients agree on a key and expand it to a mask as large as the array; one adds the mask,
the other subtracts it, in the ring of 64-bit integers, where the sum is exact. Clients and pairs
form a graph; the server and some clients together learn the sum over each connected part of the
others, and nothing else. As masks between all of many clients would take most of the time, each
has a few neighbours on a circle: enough for the others to stay connected
(Bell et al. 2020, "Secure single-server aggregation with (poly)logarithmic overhead").
"""

import hashlib
import uuid
from collections.abc import Mapping
from itertools import count

import numpy as np
from numpy.typing import NDArray

from daskfc.coding import FixedPoint, KeyPair, SecretKey, add_pair_masks
from daskfc.errors import DecodingError, InvalidInput, PrivacyError
from daskfc.federation import Federation, Local, PerClient
from daskfc.federation.party.once import OnceOnly
from daskfc.federation.party.site_rules import FREE, SiteRules
from daskfc.federation.steps.rules import some_clients, takes
from daskfc.privacy import Part, noise_of_part
from daskfc.secure.sums.messages import MaskedPart, PublicKeys
from daskfc.secure.sums.total import Aggregation, OwnParts, Total, encoded

_NEIGHBOURS = 4  # ours, at least: holds against any 3 colluders, announced or not


def check_maskers(n_clients: int, n_colluding: int, allow_few: bool) -> None:
    """Refuse a sum in which a client's array would be alone among those of colluders.

    Raises
    ------
    PrivacyError
        With fewer than two honest clients, unless `allow_few`.
    """
    if n_clients - n_colluding < 2 and not allow_few:
        raise PrivacyError(
            f"a masked sum hides an array only among at least two honest clients; there are "
            f"{n_clients} clients, {n_colluding} of which may collude. Add clients, or pass "
            "allow_few=True to reveal it."
        )


def mask_neighbours(clients: tuple[str, ...], n_colluding: int) -> dict[str, tuple[str, ...]]:
    """Return each client's partners for masks: the nearest on both sides on the circle `clients`.

    They are ``max(4, n_colluding + 1)`` or one more, or all others if fewer, so that without any
    `n_colluding` clients the others stay connected.
    """
    n, reach = len(clients), -(-max(_NEIGHBOURS, n_colluding + 1) // 2)
    return {
        one: tuple(
            other
            for j, other in enumerate(clients)
            if i != j and min((i - j) % n, (j - i) % n) <= reach
        )
        for i, one in enumerate(clients)
    }


def mask_key(key: SecretKey, tag: str, told: bytes) -> SecretKey:
    """Return the key of a pair's mask for one sum, derived also from the data that both got."""
    return key.derive("mask", tag, told.hex())


class PairKeys:
    """A client's secret keys by neighbour, for sums of `n_members` clients, itself included."""

    def __init__(
        self,
        party: str,
        keys: Mapping[str, SecretKey],
        n_members: int,
        once: OnceOnly | None = None,
    ) -> None:
        self.party = party
        self.n_members = n_members
        self._keys = dict(keys)
        self._once = OnceOnly() if once is None else once

    def mask(self, encoded: NDArray[np.uint64], tag: str, told: bytes) -> None:
        """Add the masks of a tag, and of the data that this party got, to an array, in place."""
        self._once.hold("masks", tag, told + hashlib.sha256(encoded.data).digest())
        keys = {other: mask_key(key, tag, told) for other, key in self._keys.items()}
        add_pair_masks(encoded, self.party, keys)

    def __repr__(self) -> str:
        return f"PairKeys of {self.party} with {len(self._keys)} clients"


class MaskedSum(Aggregation):
    """The server learns the sum of all clients' arrays, and nothing else about them.

    Parameters
    ----------
    federation : Federation
        In a run.
    clients : sequence of str, optional
        The clients that take part, each of which must stay to the end; by default all.
    n_colluding : int
        Clients that may pool what they know with the server.
    allow_few : bool
        Allow fewer than two honest clients, whose arrays are then revealed.

    Raises
    ------
    PrivacyError
        With fewer than two honest clients.

    Notes
    -----
    Privacy: the views of the server and of any `n_colluding` clients are uniformly random but for
    the sum of the others; this also holds for any 3, announced or not. Parties are semi-honest: a
    client that sends a wrong array spoils the sum undetected. Masks are AES-256-CTR streams with
    keys of X25519 and HKDF-SHA256; they are fresh for every sum and every start of a run.

    References
    ----------
    kCAGC, Protocol 4.

    Examples
    --------
    >>> from daskfc.secure.sums import MaskedSum
    >>> def total(federation, parts):              # parts: PerClient of Local arrays
    ...     return MaskedSum(federation).sum(parts)
    """

    def __init__(
        self,
        federation: Federation,
        *,
        clients: tuple[str, ...] | None = None,
        n_colluding: int = 0,
        allow_few: bool = False,
    ) -> None:
        self.clients = federation.clients if clients is None else tuple(clients)
        check_maskers(len(self.clients), n_colluding, allow_few)
        super().__init__(federation)
        self._n_colluding = n_colluding
        self._name = uuid.uuid4().hex  # tags of two instances in one run must differ
        self._serial = count()
        self._keys: PerClient[Local[PairKeys]] | None = None

    @property
    def n_noise_shares(self) -> int:
        """All clients but the colluders; see `Aggregation`."""
        return max(1, len(self.clients) - self._n_colluding)

    def _sum(self, parts: OwnParts, max_abs: float) -> Local[Total]:
        if set(parts) != set(self.clients):
            raise InvalidInput(
                f"a masked sum of {len(self.clients)} clients needs an array of each; "
                f"got {len(parts)}."
            )
        federation, keys = self._federation, self._agreed()
        ring = FixedPoint.for_bound(max_abs, n_terms=len(self.clients))
        tag = f"{self._name}.{next(self._serial)}"
        sent = federation.ask(masked_part, parts, keys, ring, tag, clients=self.clients)
        return federation.on_server(masked_total, sent, tag, self.clients)

    def prepare(self) -> None:
        """Have the clients exchange keys; see `Aggregation`."""
        self._agreed()

    def _agreed(self) -> PerClient[Local[PairKeys]]:
        if self._keys is None:
            federation = self._federation
            graph = self.clients, self._n_colluding
            near = PerClient(mask_neighbours(*graph))
            public = federation.exchange(public_key, *graph, clients=self.clients, receivers=near)
            self._keys = federation.on_clients(agree, public, *graph, clients=self.clients)
        return self._keys


def public_key(
    members: tuple[str, ...], n_colluding: int, secret: SecretKey, party: str
) -> dict[str, PublicKeys]:
    """Send the client's public key to its neighbours."""
    message = PublicKeys.of(KeyPair(secret.derive("aggregation")).public)
    return dict.fromkeys(mask_neighbours(members, n_colluding)[party], message)


@takes(members=some_clients)
def agree(
    public: Mapping[str, PublicKeys],
    members: tuple[str, ...],
    n_colluding: int,
    secret: SecretKey,
    party: str,
    site: SiteRules = FREE,
) -> PairKeys:
    """Derive the keys shared with each neighbour; raise PrivacyError for keys of other clients."""
    # a sum over chosen clients would reveal an array
    if set(public) != set(mask_neighbours(members, n_colluding)[party]):
        raise PrivacyError(
            f"client {party!r} got the keys of {', '.join(sorted(public)) or 'nobody'}, who are "
            f"not its neighbours among {len(members)} clients. Nothing was sent; start the run "
            "again."
        )
    site.check_maskers(1 + len(public))
    site.check_members(members)
    site.check_one_set(members)
    own = KeyPair(secret.derive("aggregation"))
    keys = {name: own.shared(message.keys.tobytes(), "masks") for name, message in public.items()}
    return PairKeys(party, keys, len(members), site.once())


def masked_part(
    part: Part,
    keys: PairKeys,
    ring: FixedPoint,
    tag: str,
    told_alike: bytes = b"",
    site: SiteRules = FREE,
) -> MaskedPart:
    """Send an array behind the masks of a tag and of the data that this client got."""
    noise = noise_of_part(part, site.hidden_among(keys.n_members))
    values = encoded(part, ring)
    keys.mask(values, tag, told_alike)
    none = np.empty((0, 32), dtype=np.uint8)
    return MaskedPart(tag, told_alike.hex(), ring.fraction_bits, none, values, noise)


def add_up(
    parts: Mapping[str, MaskedPart], tag: str, expected: tuple[str, ...]
) -> NDArray[np.uint64]:
    """Return the sum of masked arrays in the ring.

    Raises DecodingError where masks cannot cancel: a part is missing, extra or of another sum, or
    clients received different data.
    """
    if set(parts) != set(expected):
        odd = sorted(set(parts) ^ set(expected))
        raise DecodingError(
            f"the sum {tag!r} needs one part of each of {len(expected)} clients; wrong or missing: "
            f"{', '.join(odd)}. Nothing can be decoded."
        )
    stale = sorted(name for name, message in parts.items() if message.tag != tag)
    if stale:
        raise DecodingError(f"the parts of {', '.join(stale)} belong to another sum than {tag!r}.")
    told = {message.told for message in parts.values()}
    if len(told) > 1:
        first = next(iter(parts))
        others = sorted(n for n, message in parts.items() if message.told != parts[first].told)
        raise DecodingError(
            f"the clients of the sum {tag!r} were told different things: {', '.join(others)} "
            f"something else than {first}. Their masks do not cancel; start the run again."
        )
    shapes = {(message.values.shape, message.fraction_bits) for message in parts.values()}
    if len(shapes) != 1:
        raise InvalidInput(
            f"arrays to be summed must have one shape and as many bits; got {sorted(shapes)}."
        )
    total: NDArray[np.uint64] = np.zeros(shapes.pop()[0], dtype=np.uint64)
    for message in parts.values():
        total += message.values
    return total


def masked_total(
    parts: Mapping[str, MaskedPart],
    tag: str,
    clients: tuple[str, ...],
    site: SiteRules = FREE,
) -> Total:
    """Decode the sum, in which the masks cancel."""
    site.check_maskers(len(clients))
    return Total.decoded(add_up(parts, tag, clients), bits_of(parts), tuple(clients))


def bits_of(parts: Mapping[str, MaskedPart]) -> int:
    """Return the fraction bits of arrays that `add_up` took.

    A submitter who named them had a sample count as eight, and sums of a few were opened.
    """
    return next(iter(parts.values())).fraction_bits
