"""Secure sums with aggregators: a few clients hold masks of all, and open only sums of these.

A client's array is a sum of shares modulo 2**64, of which one goes to the server. The others are
expanded from keys that the client has with each aggregator, so that they are never sent (seeds in
place of shares: Corrigan-Gibbs and Boneh 2017, "Prio"). Aggregators are clients: one more than may
collude, and two at least.

Messages    PublicKeys   client ↔ aggregator   once
            MaskedPart   client → server       of each sum; all that most clients send
            Arrivals     server → aggregator   of each sum
            MaskSum      aggregator → server   of each sum
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfc.coding import FixedPoint, KeyPair, SecretKey, add_mask
from daskfc.errors import DeadlineError, DecodingError, PrivacyError
from daskfc.federation import Federation, Local, PerClient, Sent
from daskfc.federation.party.once import OnceOnly
from daskfc.federation.party.site_rules import FREE, SiteRules
from daskfc.federation.steps.rules import Rule, some_clients, takes
from daskfc.secure.sums.masked import PairKeys, add_up, bits_of, mask_key, masked_part
from daskfc.secure.sums.messages import Arrivals, MaskedPart, MaskSum, PublicKeys
from daskfc.secure.sums.recovering import EnduringSum
from daskfc.secure.sums.total import OwnParts, Total


def aggregators_of(
    clients: tuple[str, ...], n_colluding: int, named: Sequence[str] | None = None
) -> tuple[str, ...]:
    """Return who holds the masks: the named ones of the clients, then the first by name."""
    first = sorted(clients, key=lambda one: (one not in (named or ()), one))
    return tuple(sorted(first[: max(2, n_colluding + 1, len(set(named or ()) & set(clients)))]))


def _partners(clients: tuple[str, ...], those: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return to whom each client sends its key: aggregators to all, the others to these.

    Aggregators send themselves one too: all clients then derive keys from as many messages, which
    is in the digest of what they were told.
    """
    return {one: clients if one in those else those for one in clients}


class ShareKeys(PairKeys):
    """A client's keys of the shares that are derived: its own, and as an aggregator all clients'.

    `name` stands for the clients, aggregators and threshold that all of them were told.
    """

    def __init__(
        self,
        party: str,
        keys: Mapping[str, SecretKey],
        clients: tuple[str, ...],
        aggregators: tuple[str, ...],
        threshold: int,
        once: OnceOnly | None = None,
    ) -> None:
        super().__init__(party, keys, threshold, once)
        self.clients, self.aggregators, self.threshold = clients, aggregators, threshold
        self.name = hashlib.sha256(repr((clients, aggregators, threshold)).encode()).hexdigest()

    def mask(self, encoded: NDArray[np.uint64], tag: str, told: bytes) -> None:
        """Add the shares of all aggregators to an array, in place: what is left is the server's."""
        self._once.hold("masks", tag, told + hashlib.sha256(encoded.data).digest())
        for aggregator in self.aggregators:
            add_mask(encoded, self._key(self.party, aggregator, tag, told))

    def present(self, told: Arrivals) -> tuple[str, ...]:
        """Return the clients whose arrays arrived; PrivacyError for fewer than the threshold."""
        flags = told.present.tolist()
        there = tuple(one for one, flag in zip(self.clients, flags, strict=False) if flag)
        fits = len(flags) == len(self.clients) and set(flags) <= {0, 1}
        known = self.party in self.aggregators and set(there) <= set(self._keys)
        if not (fits and known and len(there) >= self.threshold):
            raise PrivacyError(
                f"the masks of {told.tag!r} are opened by {', '.join(self.aggregators)}, for at "
                f"least {self.threshold} of its clients; {self.party} was asked for those of "
                f"{len(there)}. Nothing was opened."
            )
        return there

    def opened(self, told: Arrivals) -> NDArray[np.uint64]:
        """Return the sum of this aggregator's shares of the arrays that arrived.

        Raises PrivacyError for other clients than before with this tag: of two sets that differ
        by one client, the difference is its share.
        """
        there, shape = self.present(told), (told.n_rows, told.n_columns)
        content = repr((self.name, there, told.told, shape)).encode()
        self._once.hold("sums of masks", told.tag, content)
        values = np.zeros(shape, dtype=np.uint64)
        for client in there:
            add_mask(values, self._key(client, self.party, told.tag, bytes.fromhex(told.told)))
        return values

    def _key(self, client: str, aggregator: str, tag: str, told: bytes) -> SecretKey:
        other = aggregator if client == self.party else client
        return mask_key(self._keys[other].derive(client, aggregator, self.name), tag, told)


class SharedSum(EnduringSum):
    """The server learns the sum over the clients that sent their arrays, by aggregators' help.

    Parameters
    ----------
    federation : Federation
        In a run.
    clients : sequence of str, optional
        The clients that take part; by default all.
    threshold : int, optional
        Clients that must remain in a sum, 2 more than may collude at least; two thirds of all,
        rounded up, by default. With all clients as threshold, no sum waits for stragglers.
    n_colluding : int
        Clients that may pool what they know with the server; fewer than the threshold.
    patience_s : float
        Seconds to wait for stragglers once a threshold of clients has answered.
    allow_few : bool
        Allow fewer than two honest clients, whose arrays are then revealed.
    aggregators : sequence of str, optional
        Who holds the masks of all, and must stay to the end: one more than may collude and two at
        least. By default, and where fewer of these take part, the first by name.

    Raises
    ------
    InvalidInput
        For a threshold outside its range.
    PrivacyError
        With fewer than two honest clients.
    DeadlineError
        From a sum, when fewer than the threshold remain, or an aggregator is away; a run can be
        resumed.

    Notes
    -----
    Privacy: the views of the server and of any `n_colluding` clients, of one in any case, are
    uniformly random but for the sum of the others. The server and all aggregators together see
    every array. An aggregator alone sees which clients are in a sum. A client that leaves before
    its array arrived is not in the sum, and its array stays hidden if it comes late. Aggregators
    open one set of clients a sum. Parties are semi-honest.

    References
    ----------
    H. Corrigan-Gibbs and D. Boneh, "Prio: private, robust, and scalable computation of aggregate
    statistics", NSDI 2017: sums of shares at several servers, shares as seeds.

    Examples
    --------
    >>> from daskfc.secure.sums import SharedSum
    >>> def total(federation, parts):              # parts: PerClient of Local arrays
    ...     return SharedSum(federation).sum(parts)
    """

    def __init__(
        self, federation: Federation, *, aggregators: Sequence[str] | None = None, **how: Any
    ) -> None:
        super().__init__(federation, **how)
        self._named = None if aggregators is None else list(aggregators)

    _public: PerClient[PerClient[Sent[PublicKeys]]] | None = None
    _keys: PerClient[Local[ShareKeys]] | None = None
    _held: PerClient[Local[ShareKeys]] | None = None  # by aggregators: of all clients

    @property
    def aggregators(self) -> tuple[str, ...]:
        """The clients that hold the masks of all."""
        return aggregators_of(self.clients, self._n_colluding, self._named)

    def prepare(self) -> None:
        """Have clients and aggregators exchange keys; see `Aggregation`."""
        if self._public is None:
            near = PerClient(_partners(self.clients, self.aggregators))
            clients, how = self.clients, (self.clients, self._n_colluding)
            exchange, named = self._federation.exchange, self._named
            self._public = exchange(offered, *how, named=named, clients=clients, receivers=near)

    def _sum(self, parts: OwnParts, max_abs: float) -> Local[Total]:
        federation, keys = self._federation, self._agreed()
        members = tuple(name for name in keys if name in parts)
        self._enough(members)
        ring = FixedPoint.for_bound(max_abs, n_terms=len(self.clients))
        tag = f"{self._name}.{next(self._numbers)}"
        sent = federation.ask(masked_part, parts, keys, ring, tag, clients=members)
        there = federation.on_server(gathered, sent, tag, members)
        if self.threshold < len(self.clients) and not self._whole(sent, there):
            late = {name for name, one in sent.items() if not one.done() or one.failed()}
            federation.cancel([there, *(sent[name] for name in late)])
            those = self.arrived(PerClient({n: one for n, one in sent.items() if n not in late}))
            there = federation.on_server(gathered, those, tag, tuple(those))
        told = federation.tell(announced, there, self.clients, clients=self.aggregators)
        masks = federation.ask(opened, told, self._held, clients=self.aggregators)
        return federation.on_server(shared_total, there, masks, self.aggregators)

    def _whole(self, sent: PerClient[Sent[MaskedPart]], there: Local) -> bool:
        """Wait for the clients, and return whether the arrays of all arrived in time."""
        self._federation.wait(list(sent.values()), count=self.threshold)
        self._federation.wait([there], timeout=self._patience, needed=False)
        return there.done() and not there.failed()

    def _agreed(self) -> PerClient[Local[ShareKeys]]:
        if self._keys is None:
            self.prepare()
            assert self._public is not None
            members, public = self.clients, self._public
            if self.threshold < len(members):
                members, public = self._with_keys(public)
            how, those = (self.clients, self._n_colluding, self.threshold), self.aggregators
            near = PerClient({one: public[one].only(those) for one in members})
            on_clients = self._federation.on_clients
            named, held = self._named, public.only(those)
            self._keys = on_clients(agreed, near, *how, named=named, clients=members)
            self._held = on_clients(agreed, held, *how, named=named, clients=those)
        return self._keys

    def _with_keys(
        self, sent: PerClient[PerClient[Sent[PublicKeys]]]
    ) -> tuple[tuple[str, ...], PerClient]:
        """Return the clients whose keys arrived at all aggregators, and theirs at them; keys."""
        n, those = len(self.aggregators), set(self.aggregators)
        received, there = self._at_receivers(sent, n * (2 * self.threshold - n))
        away = {name for pair in received if pair not in there for name in set(pair) - those}
        lost = any(set(pair) <= those for pair in received if pair not in there)
        members = tuple(name for name in self.clients if name not in away)
        self._enough(members)
        if lost:
            raise DeadlineError(
                f"one of {', '.join(self.aggregators)} is away, and they hold the masks of a sum. "
                "Bring it back and resume the run."
            )
        return members, PerClient(
            {
                receiver: PerClient({s: received[receiver, s] for s in by if s not in away})
                for receiver, by in sent.items()
                if receiver not in away
            }
        )


def offered(
    members: tuple[str, ...],
    n_colluding: int,
    secret: SecretKey,
    party: str,
    named: Sequence[str] | None = None,
) -> dict[str, PublicKeys]:
    """Send the client's public key to the aggregators, and an aggregator's to all clients."""
    message = PublicKeys.of(KeyPair(secret.derive("aggregators")).public)
    those = aggregators_of(members, n_colluding, named)
    return dict.fromkeys(_partners(members, those)[party], message)


_as_many_colluding = Rule(
    "at least the 'n_colluding' that was announced",
    lambda value, asked: value >= asked.n_colluding,
)
"""Fewer would have fewer aggregators."""
_as_announced = Rule(
    "the 'aggregators' that were announced",
    lambda value, asked: list(value or ()) == list(asked.parameters.get("aggregators") or ()),
)
"""Two who collude with the server would open every array."""


@takes(members=some_clients, n_colluding=_as_many_colluding, named=_as_announced)
def agreed(
    public: Mapping[str, PublicKeys],
    members: tuple[str, ...],
    n_colluding: int,
    threshold: int,
    secret: SecretKey,
    party: str,
    site: SiteRules = FREE,
    named: Sequence[str] | None = None,
) -> ShareKeys:
    """Derive the keys shared with each partner; raise PrivacyError for keys of other clients."""
    those = aggregators_of(members, n_colluding, named)
    if not set(those) <= set(public) <= set(_partners(members, those)[party]):
        raise PrivacyError(
            f"client {party!r} got the keys of {', '.join(sorted(public)) or 'nobody'}, where "
            f"{', '.join(those)} hold the masks of {len(members)} clients. Nothing was sent; start "
            "the run again."
        )
    site.check_maskers(len(members), threshold)
    if party not in those:  # these hold whom they open
        site.check_members(members, len(members) - threshold)
    own = KeyPair(secret.derive("aggregators"))
    keys = {
        name: own.shared(message.keys.tobytes(), "shares")
        for name, message in public.items()
        if name != party
    }
    keys[party] = secret.derive("own share")
    return ShareKeys(party, keys, members, those, threshold, site.once())


@dataclass(frozen=True)
class Gathered:
    """The sum of the server's shares, and whose arrays it is of."""

    values: NDArray[np.uint64]
    tag: str
    told: str
    fraction_bits: int
    terms: tuple[str, ...]


def gathered(parts: Mapping[str, MaskedPart], tag: str, terms: tuple[str, ...]) -> Gathered:
    """Add up the server's shares of a sum."""
    told = next(iter(parts.values())).told
    return Gathered(add_up(parts, tag, terms), tag, told, bits_of(parts), terms)


def announced(there: Gathered, members: tuple[str, ...]) -> Arrivals:
    """Tell the aggregators whose arrays are in a sum."""
    present = np.array([member in there.terms for member in members], dtype=np.uint8)
    n_rows, n_columns = there.values.shape
    return Arrivals(there.tag, there.told, n_rows, n_columns, present)


def opened(told: Arrivals, keys: ShareKeys, site: SiteRules = FREE) -> MaskSum:
    """Send the sum of this aggregator's masks of the arrays in a sum."""
    present = keys.present(told)
    site.check_maskers(len(present))
    site.check_members(present)
    return MaskSum(told.tag, keys.opened(told))


def shared_total(
    there: Gathered,
    masks: Mapping[str, MaskSum],
    aggregators: tuple[str, ...],
    site: SiteRules = FREE,
) -> Total:
    """Take the aggregators' masks away, and decode the sum."""
    site.check_maskers(len(there.terms))
    strange = {name for name, message in masks.items() if message.tag != there.tag}
    if set(masks) != set(aggregators) or strange:
        odd = sorted(strange | set(masks) ^ set(aggregators))
        raise DecodingError(
            f"the sum {there.tag!r} needs the masks of {', '.join(aggregators)}; wrong or missing: "
            f"{', '.join(odd)}. Nothing can be decoded."
        )
    values = there.values.copy()
    for message in masks.values():
        values -= message.values
    return Total.decoded(values, there.fraction_bits, there.terms)
