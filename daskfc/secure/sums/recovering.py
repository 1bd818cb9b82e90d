"""Secure sums that survive clients which leave (Bonawitz et al. 2017, the semi-honest variant).

A client hides its array behind the pairwise masks of `daskfc.secure.sums.masked` and a mask of its
own; the other clients hold shares of both keys. A threshold of clients reveals the own mask of each
client that sent its array, and the key of the pairwise masks of each that did not.
"""

import math
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

from daskfc.coding import FixedPoint, KeyPair, SecretKey, add_mask, combine_shares
from daskfc.errors import DeadlineError, DecodingError, InvalidInput
from daskfc.federation import Federation, Handle, Local, Message, PerClient, Sent
from daskfc.secure.sums.masked import add_up, bits_of, check_maskers, mask_key
from daskfc.secure.sums.messages import MaskedPart, RevealedShares
from daskfc.secure.sums.total import Aggregation, OwnParts, Total
from daskfc.secure.sums.vault import advertise, masked_once, open_vault, reveal, seal

_Key = TypeVar("_Key")
_M = TypeVar("_M", bound=Message)


class EnduringSum(Aggregation):
    """A sum that goes on without clients that leave, until a threshold of them remains."""

    def __init__(
        self,
        federation: Federation,
        *,
        clients: tuple[str, ...] | None = None,
        threshold: int | None = None,
        n_colluding: int = 0,
        patience_s: float = 10.0,
        allow_few: bool = False,
    ) -> None:
        self.clients = federation.clients if clients is None else tuple(clients)
        n = len(self.clients)
        check_maskers(n, n_colluding, allow_few)
        low = max(2, n_colluding + (1 if allow_few else 2))  # two that are honest, at least
        self.threshold = max(low, math.ceil(2 * n / 3)) if threshold is None else threshold
        if not low <= self.threshold <= n:
            raise InvalidInput(
                f"the threshold of a {type(self).__name__} of {n} clients must be in [{low}, {n}]; "
                f"got {self.threshold}."
            )
        super().__init__(federation)
        self._n_colluding = n_colluding
        self._patience = patience_s
        self._name = uuid.uuid4().hex
        self._numbers = count()

    @property
    def n_noise_shares(self) -> int:
        """The threshold without the colluders; see `Aggregation`."""
        return self.threshold - self._n_colluding

    # A message stays at its sender until its receiver fetches it, and is lost with the sender, so
    # only messages that have arrived count.

    def arrived(self, sent: PerClient[Sent]) -> PerClient[Local]:
        """Return the messages that arrive at the server in time, at least the threshold."""
        federation = self._federation
        self._enough(sent)
        received = {name: federation.on_server(receive, one) for name, one in sent.items()}
        there = self._in_time(received, self.threshold)
        self._enough(there)
        return PerClient({name: received[name] for name in received if name in there})

    def _at_receivers(
        self, sent: PerClient[PerClient[Sent]], least: int
    ) -> tuple[dict[tuple[str, str], Local], set[tuple[str, str]]]:
        """Return messages by receiver and sender, and which of them arrived in time."""
        received = {
            (receiver, sender): self._federation.on_client(receiver, receive, one)
            for receiver, by_sender in sent.items()
            for sender, one in by_sender.items()
        }
        return received, self._in_time(received, least)

    def _in_time(self, handles: Mapping[_Key, Handle], least: int) -> set[_Key]:
        """Wait for `least` steps to succeed, then a while for the others; return those that did."""
        federation = self._federation
        federation.wait(list(handles.values()), count=least)
        # A client's refusal is an error; one that is away, or dies, is left out.
        federation.wait(list(handles.values()), timeout=self._patience, needed=False)
        there = {key for key, h in handles.items() if h.done() and not h.failed()}
        federation.cancel([h for key, h in handles.items() if key not in there])
        return there

    def _enough(self, present: Collection[object]) -> None:
        if len(present) < self.threshold:
            raise DeadlineError(
                f"{len(present)} clients are left of a sum that needs {self.threshold}; its masks "
                "cannot be taken away. Bring the others back and resume the run."
            )


@dataclass
class _Batch:
    """Keys for some sums, of which all `members` dealt shares to all."""

    tags: list[str]
    members: tuple[str, ...]
    vaults: PerClient[Local]


class RecoveringSum(EnduringSum):
    """The server learns the sum over the clients that sent their arrays; clients may leave.

    Parameters
    ----------
    federation : Federation
        In a run.
    clients : sequence of str, optional
        The clients that take part; by default all.
    threshold : int, optional
        Clients that must remain to the end of a sum, 2 more than may collude at least; two thirds
        of all, rounded up, by default.
    n_colluding : int
        Clients that may pool what they know with the server; fewer than the threshold.
    patience_s : float
        Seconds to wait for stragglers once a threshold of clients has answered.
    sums_per_batch : int
        Number of sums for which keys are exchanged at once.
    allow_few : bool
        Allow fewer than two honest clients, whose arrays are then revealed.

    Raises
    ------
    InvalidInput
        For a threshold outside its range.
    PrivacyError
        With fewer than two honest clients.
    DeadlineError
        From a sum, when fewer than the threshold remain; a run can be resumed.

    Notes
    -----
    Privacy: as `MaskedSum`. A client that leaves after it sent its array is in the sum, one that
    leaves before is not; in both cases its array alone stays hidden from the server and fewer than
    `threshold` colluding clients. Clients refuse to reveal both shares of one client. Parties are
    semi-honest: a server that sends clients different sets of survivors opens an array with
    2 `threshold` answers, of which an honest client gives one, and a colluding one two.

    References
    ----------
    K. Bonawitz et al., "Practical secure aggregation for privacy-preserving machine learning",
    CCS 2017, Figure 4.

    Examples
    --------
    >>> from daskfc.secure.sums import RecoveringSum
    >>> def total(federation, parts):              # parts: PerClient of Local arrays
    ...     return RecoveringSum(federation, threshold=3).sum(parts)
    """

    def __init__(
        self,
        federation: Federation,
        *,
        clients: tuple[str, ...] | None = None,
        threshold: int | None = None,
        n_colluding: int = 0,
        patience_s: float = 10.0,
        sums_per_batch: int = 8,
        allow_few: bool = False,
    ) -> None:
        super().__init__(
            federation,
            clients=clients,
            threshold=threshold,
            n_colluding=n_colluding,
            patience_s=patience_s,
            allow_few=allow_few,
        )
        self._size = sums_per_batch
        self._batch: _Batch | None = None

    def _sum(self, parts: OwnParts, max_abs: float) -> Local[Total]:
        # Waits for the clients; `Total.terms` names those in the sum.
        if self._batch is None or not self._batch.tags:
            self._batch = self._exchange_keys(tuple(parts))
        batch, federation = self._batch, self._federation
        tag = batch.tags.pop(0)
        ring = FixedPoint.for_bound(max_abs, n_terms=len(self.clients))
        members = tuple(name for name in batch.members if name in parts)
        sent = self.arrived(
            federation.ask(masked_once, parts, batch.vaults, ring, tag, clients=members)
        )
        revealed = self.arrived(
            federation.ask(reveal, batch.vaults, tag, tuple(sent), clients=tuple(sent))
        )
        return federation.on_server(
            recovered_total, sent, revealed, tag, batch.members, self.threshold
        )

    def _exchange_keys(self, clients: tuple[str, ...]) -> _Batch:
        federation = self._federation
        batch = f"{self._name}.{next(self._numbers)}"
        tags = [f"{batch}.{i}" for i in range(self._size)]
        public = self._at_clients(
            federation.exchange(advertise, clients, batch, tags, clients=clients, receivers=clients)
        )
        members = tuple(public)
        sealed = self._at_clients(
            federation.exchange(
                seal, public, batch, tags, self.threshold, clients=members, receivers=members
            )
        )
        if len(sealed) < len(members):  # each opens the shares of all, so that all mask for all
            return self._exchange_keys(tuple(sealed))
        vaults = federation.on_clients(
            open_vault, public, sealed, batch, tags, self.threshold, clients=members
        )
        return _Batch(tags, members, vaults)

    def _at_clients(self, sent: PerClient[PerClient[Sent]]) -> PerClient[PerClient[Local]]:
        """Return messages by receiver and sender, among clients that all got those of all."""
        self._enough(sent)
        received, there = self._at_receivers(sent, self.threshold**2)
        whole = set(sent)
        while whole:  # remove the client with most missing messages, until none is missing
            missing = {
                name: sum(((name, o) not in there) + ((o, name) not in there) for o in whole)
                for name in sorted(whole)
            }
            worst = max(missing, key=lambda name: missing[name])
            if not missing[worst]:
                break
            whole.remove(worst)
        self._enough(whole)
        names = [name for name in sent if name in whole]
        return PerClient({r: PerClient({s: received[r, s] for s in names}) for r in names})


def receive(message: _M) -> _M:
    """Return a message at its receiver."""
    return message


def recovered_total(
    parts: Mapping[str, MaskedPart],
    revealed: Mapping[str, RevealedShares],
    tag: str,
    members: tuple[str, ...],
    threshold: int,
) -> Total:
    """Remove the masks that did not cancel, and decode the sum.

    All `members` got shares, numbered in sorted order, and the masks derive from their keys.
    Raises DecodingError for contradicting shares or fewer than `threshold` of them.
    """
    present = tuple(sorted(parts))
    total = add_up(parts, tag, present)
    stale = sorted(name for name, message in revealed.items() if message.tag != tag)
    if stale:
        raise DecodingError(f"the shares of {', '.join(stale)} belong to another sum than {tag!r}.")
    order = sorted(members)
    number = {name: order.index(name) for name in revealed}
    absent = [name for name in order if name not in parts]

    def recover(kind: str, row: int) -> SecretKey:
        shares = {number[name]: getattr(m, kind)[row].tobytes() for name, m in revealed.items()}
        return SecretKey(combine_shares(shares, threshold))

    for row, _ in enumerate(present):
        add_mask(total, recover("own", row), -1)
    for row, name in enumerate(absent):
        pair = KeyPair(recover("pairs", row))
        for other in present:
            message = parts[other]
            key = pair.shared(message.public[0].tobytes(), "masks")
            key = mask_key(key, tag, bytes.fromhex(message.told))
            add_mask(total, key, -1 if other < name else 1)  # what `other` added
    return Total.decoded(total, bits_of(parts), present)
