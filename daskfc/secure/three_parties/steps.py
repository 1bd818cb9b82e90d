"""Steps of a computation on shares, at the clients: keys, summands, rounds, and labels."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from daskfc.arrays import Floats, Ints
from daskfc.coding import KeyPair, SecretKey
from daskfc.errors import DecodingError, InvalidInput, PrivacyError
from daskfc.federation.party.once import OnceOnly
from daskfc.federation.party.site_rules import FREE, SiteRules
from daskfc.federation.steps.rules import Announced, Rule, some_clients, takes
from daskfc.secure.shared import Bits, Numbers, Party, Program, cut_numbers
from daskfc.secure.sums.messages import PublicKeys
from daskfc.secure.three_parties.messages import (
    GraphSummand,
    LabelSummand,
    RoundsTaken,
    SharedRows,
    SharedWords,
)
from daskfc.secure.three_parties.tasks import Found, LabelTask, NeighboursOfShares, Task, a_task

PREDICTIONS = 8
"""Ours: how often a run may place new samples, as labels of chosen ones tell where centres are."""

Words = NDArray[np.uint64]
_Summand = TypeVar("_Summand", LabelSummand, GraphSummand)


def _members(asked: Announced) -> Sequence[str] | None:
    """Return who may compute in an announced run: those that it names, or the first by name."""
    if "reveal" not in asked.parameters:
        return None
    return asked.parameters.get("members") or sorted(asked.clients)[:3]


three_members = Rule(
    "three clients of the run, the announced ones if any are, of which no two collude",
    lambda names, asked: (
        some_clients.holds(names, asked)
        and len(names) == 3
        and asked.parameters.get("n_colluding") in (None, 1)
        and list(names) == list(_members(asked) or names)
    ),
)
"""Two members that pool what they hold have all rows."""


@dataclass(frozen=True)
class RingKeys:
    """A member's keys with the members before and after it, and a name of this start."""

    before: SecretKey
    after: SecretKey
    start: str
    once: OnceOnly
    members: tuple[str, ...]
    name: str


def _name(tag: str, members: tuple[str, ...]) -> str:
    """Return what messages of a computation bear: another order of members has another name."""
    return hashlib.sha256(repr((tag, members)).encode()).hexdigest()[:32]


@takes(task=a_task)
def offered(
    task: Task,
    members: tuple[str, ...],
    tag: str,
    secret: SecretKey,
    party: str,
    site: SiteRules = FREE,
    n_new: int | None = None,
) -> dict[str, PublicKeys]:
    """Send a public key to the two other members, for a computation that there is memory for."""
    _check_memory(site, task, n_new)
    message = PublicKeys.of(_key_pair(secret, _name(tag, members)).public)
    return {member: message for member in members if member != party}


def _check_memory(site: SiteRules, task: Task, n_new: int | None) -> None:
    """Refuse a fit, or to place so many new samples, that the member's memory does not hold."""
    n, d = task.shape
    memory, what = task.memory, f"a computation on shares of {n:,} samples with {d} features"
    if n_new is not None and not isinstance(task, NeighboursOfShares):
        memory, what = task.memory_of_placing(n_new), f"placing {n_new:,} new samples by {what}"
    site.check_memory(memory, what)


def _key_pair(secret: SecretKey, tag: str) -> KeyPair:
    return KeyPair(secret.derive("shares", tag))


@takes(members=three_members)
def agreed(
    public: Mapping[str, PublicKeys],
    members: tuple[str, ...],
    tag: str,
    secret: SecretKey,
    party: str,
    site: SiteRules = FREE,
) -> RingKeys:
    """Derive the keys shared with the two other members; PrivacyError for keys of others."""
    if set(public) != set(members) - {party} or len(set(members)) != 3:
        raise PrivacyError(
            f"client {party!r} computes on shares with two others of {', '.join(members)}; it got "
            f"the keys of {', '.join(sorted(public)) or 'nobody'}. Start the run again."
        )
    name, at = _name(tag, members), members.index(party)
    pair = _key_pair(secret, name)
    keys = {member: message.keys.tobytes() for member, message in public.items()}
    before, after = (pair.shared(keys[members[(at + by) % 3]], "shares") for by in (-1, 1))
    # a public key is another one in each start of a party, so that no stream is drawn from twice
    all_keys = [{party: pair.public, **keys}[member] for member in members]
    start = hashlib.sha256(b"".join(all_keys)).hexdigest()
    return RingKeys(before, after, start, site.once(), members, name)


@dataclass(frozen=True)
class WholeRows:
    """Samples (n, d) less a point, times a scale, as whole numbers, below 2^bits if not 0.

    `new` ones have no part in a fit, which is of all clients' own: they are placed by it.
    """

    values: Ints
    scale: float = 1.0
    point: Floats | None = None
    new: bool = False
    bits: int = 0


@takes(members=three_members)
def cut_rows(
    rows: WholeRows, members: tuple[str, ...], tag: str, secret: SecretKey, site: SiteRules = FREE
) -> dict[str, SharedRows]:
    """Send each member two of the three summands of own rows (n, d)."""
    name, content = _name(tag, members), np.ascontiguousarray(rows.values).tobytes()
    # in another place a member would get the summand that it lacks
    site.once().hold("summands", tag, content + repr((rows.values.shape, members)).encode())
    # one three: each would give an answer of its own, as of k-means from another seed
    site.once().hold("members on shares", "", repr(tuple(members)).encode())
    # of this party's secret, so that a step that is done again sends the same
    stream = secret.derive("summands", name).stream()
    pairs = cut_numbers(rows.values, stream.fill)
    seen_from = hashlib.sha256(b"" if rows.point is None else rows.point.tobytes()).hexdigest()
    return {
        member: SharedRows(
            name,
            rows.scale,
            seen_from,
            int(rows.new),
            rows.bits,
            np.stack([pair.own, pair.following]),
        )
        for member, pair in zip(members, pairs, strict=True)
    }


@dataclass(frozen=True)
class Shares:
    """A member's shares of all rows, each client's first and last one, and how they were made."""

    numbers: Numbers
    places: Mapping[str, tuple[int, int]]
    name: str
    scale: float
    point: str
    new: bool
    bits: int


@takes(members=three_members)
def gathered(
    parts: Mapping[str, SharedRows],
    members: tuple[str, ...],
    tag: str,
    party: str,
    site: SiteRules = FREE,
) -> Shares:
    """Put this member's shares of all clients' rows together, by the clients' names."""
    name = _name(tag, members)
    _check_names(parts, name)
    clients = sorted(parts)
    if len({(part.scale, part.point, part.new, part.bits) for part in parts.values()}) > 1:
        raise PrivacyError(
            "clients were told different scales or centres for their rows, which would move their "
            "samples against each other's, or some sent new samples and others their own. Do not "
            "trust this coordinator; start the run again."
        )
    first_part = parts[clients[0]]
    if not first_part.new:  # new samples may be some clients'
        site.check_all(parts)
    own, following = np.concatenate([parts[client].values for client in clients], axis=1)
    last = np.cumsum([parts[client].values.shape[1] for client in clients]).tolist()
    first = [0, *last[:-1]]
    places = dict(zip(clients, zip(first, last, strict=True), strict=True))
    numbers = Numbers(members.index(party), own, following)
    how = first_part.scale, first_part.point, bool(first_part.new), first_part.bits
    return Shares(numbers, places, name, *how)


def _check_names(
    messages: Mapping[str, SharedRows | SharedWords | LabelSummand | GraphSummand], name: str
) -> None:
    strange = sorted(sender for sender, message in messages.items() if message.tag != name)
    if strange:
        raise DecodingError(
            f"what {', '.join(strange)} sent is of another computation on shares, or of other "
            "members. Start the run again."
        )


class Running:
    """A program under way at one member, which cannot go back."""

    def __init__(
        self, program: Program[Found], task: Task, members: tuple[str, ...], shares: Shares
    ) -> None:
        self._program, self.n_rounds = program, 0
        self.task, self.members = task, members
        self.name, self.places = shares.name, shares.places
        self.grid = shares.scale, shares.point, shares.bits
        at = shares.numbers.party
        self.before, self.after = members[at - 1], members[(at + 1) % 3]

    def turn(self, received: Words | None) -> "Turn":
        """Go on to the next round, with the words of the last one."""
        try:
            words = next(self._program) if received is None else self._program.send(received)
        except StopIteration as end:
            return Turn(self, self.n_rounds, None, *end.value)
        self.n_rounds += 1
        return Turn(self, self.n_rounds, words)

    def __reduce__(self) -> NoReturn:
        raise PrivacyError("a program on shares cannot be copied, as its masks serve once.")


@dataclass(frozen=True)
class Turn:
    """A program's words of a round, or its planes and what else it found once it has ended."""

    running: Running
    number: int
    words: Words | None
    planes: Bits | None = None
    kept: Any = None


@takes(task=a_task)
def begun(keys: RingKeys, shares: Shares, task: Task, site: SiteRules = FREE) -> Turn:
    """Begin a program on this member's shares, up to its first words."""
    _check_memory(site, task, None)
    x = shares.numbers
    if shares.new:
        raise PrivacyError(
            "new samples are placed by what a fit found, and have no part in one. Start the run "
            "again."
        )
    # beyond the task's bits distances would be those of the lowest bits of samples
    if (x.shape, shares.scale) != (task.shape, task.scale) or shares.bits > task.bits:
        raise InvalidInput(
            f"the task of a computation on shares must be for {task.shape} samples and features on "
            f"a scale of {task.scale:.17g} in {task.bits} bits, those that clients shared; they "
            f"are {x.shape} on {shares.scale:.17g} in {shares.bits}. Start the run again."
        )
    # one: who may ask again with another radius learns distances by and by
    keys.once.hold("task on shares", "", repr(task).encode())
    return Running(task.program(_party(keys, shares), x), task, keys.members, shares).turn(None)


def begun_placing(fit: Turn, keys: RingKeys, shares: Shares, site: SiteRules = FREE) -> Turn:
    """Begin to place new samples by what a fit found that this member took part in."""
    run, x = fit.running, shares.numbers
    task, members = run.task, run.members
    if fit.kept is None or isinstance(task, NeighboursOfShares):
        raise InvalidInput(
            "new samples are placed by what k-means or DBSCAN found that has ended, and this "
            "member has nothing of that computation. Fit again."
        )
    own = members, run.grid, task.shape[1:], True
    grid = shares.scale, shares.point, shares.bits
    if own != (keys.members, grid, x.shape[1:], shares.new):
        raise PrivacyError(
            "the shares are not of new samples on the grid, from the point and for the members of "
            "the fit by which they would be placed. Nothing was sent; fit again."
        )
    _check_memory(site, task, len(x))
    keys.once.hold_few("predictions on shares", keys.name.encode(), PREDICTIONS)
    program = task.placing(len(x)).fit(_party(keys, shares), x, fit.kept)
    return Running(program, task, members, shares).turn(None)


def _party(keys: RingKeys, shares: Shares) -> Party:
    """Return this member with its streams, which serve one program."""
    if shares.name != keys.name:
        raise DecodingError(
            "keys and shares are of two computations, or of other members. Start the run again."
        )
    # once: to other words of the others, a second program would answer behind the same masks
    keys.once.hold("streams", keys.name, os.urandom(16))
    members, at = keys.members, shares.numbers.party
    return Party(at, keys.before, keys.after, run=keys.name, start=keys.start, members=members)


def words_of(turn: Turn) -> dict[str, SharedWords]:
    """Send the words of a round to the member before, and to nobody else."""
    words = np.empty(0, np.uint64) if turn.words is None else turn.words.reshape(-1)
    return {turn.running.before: SharedWords(turn.running.name, turn.number, words)}


def advanced(turn: Turn, received: Mapping[str, SharedWords]) -> Turn:
    """Take the words of the member after into the next round; a program that ended stays so."""
    if turn.words is None:
        return turn
    _check_names(received, turn.running.name)
    if set(received) != {turn.running.after}:
        raise DecodingError(
            f"a round of a computation on shares takes the words of {turn.running.after!r}; got "
            f"those of {', '.join(sorted(received)) or 'nobody'}. Start the run again."
        )
    (message,) = received.values()
    numbers = {turn.number, turn.running.n_rounds, message.round}
    if len(numbers) > 1 or message.values.size != turn.words.size:
        raise DecodingError(
            f"round {turn.number} of a computation on shares was asked for again, or a member is "
            "in another one: somebody was started anew. Start the run again; it begins from the "
            "shares."
        )
    return turn.running.turn(message.values.reshape(turn.words.shape))


def rounds_taken(turn: Turn) -> RoundsTaken:
    """Tell the caller how far the computation is."""
    return RoundsTaken(turn.number, int(turn.words is None))


def label_summands(turn: Turn) -> dict[str, LabelSummand]:
    """Send each client this member's summand of the labels of the samples that it shared."""
    if turn.planes is None:
        raise DecodingError("a computation on shares has not ended, and has no labels yet.")
    bits = np.unpackbits(turn.planes.own.view(np.uint8), axis=1, bitorder="little")
    return {
        client: LabelSummand(turn.running.name, _packed(bits[:, first:last]))
        for client, (first, last) in turn.running.places.items()
    }


def graph_summand(turn: Turn) -> GraphSummand:
    """Send the server this member's summand of who is near whom."""
    if turn.planes is None:
        raise DecodingError("a computation on shares has not ended, and has no graph yet.")
    return GraphSummand(turn.running.name, turn.planes.own)


def graph_of(parts: Mapping[str, GraphSummand], members: tuple[str, ...], tag: str) -> Words:
    """Return rows of bits (rows, words) at the server: who is near whom."""
    return _opened({name: part.rows for name, part in _checked(parts, members, tag).items()})


def _packed(bits: NDArray[np.uint8]) -> Words:
    """Return planes of bits (planes, n) as words (planes, ceil(n / 64))."""
    filled = np.pad(bits, ((0, 0), (0, -bits.shape[1] % 64)))
    words: Words = np.packbits(filled, axis=1, bitorder="little").view(np.uint64)
    return words


@takes(members=three_members, task=a_task)
def labels_of(
    parts: Mapping[str, LabelSummand],
    rows: WholeRows,
    task: LabelTask,
    members: tuple[str, ...],
    tag: str,
) -> Ints:
    """Return the labels of rows that this client shared, from the three members' summands."""
    parts = _checked(parts, members, tag)
    planes = _opened({name: part.planes for name, part in parts.items()})
    bits = np.unpackbits(planes.view(np.uint8), axis=1, count=len(rows.values), bitorder="little")
    return task.labels(bits)


def _checked(
    parts: Mapping[str, _Summand], members: tuple[str, ...], tag: str
) -> Mapping[str, _Summand]:
    """Return three members' summands, or refuse others."""
    if set(parts) != set(members):
        raise DecodingError(
            f"a result needs the summands of {', '.join(members)}; got those of "
            f"{', '.join(sorted(parts)) or 'nobody'}. Start the run again."
        )
    _check_names(parts, _name(tag, members))
    return parts


def _opened(summands: Mapping[str, Words]) -> Words:
    if len({one.shape for one in summands.values()}) > 1:
        raise DecodingError("members sent summands of different sizes. Start the run again.")
    opened: Words = np.bitwise_xor.reduce(list(summands.values()))
    return opened
