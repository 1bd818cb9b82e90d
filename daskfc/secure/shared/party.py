"""One of three parties: where it stands, what it shares with its neighbours, and its programs.

A program is a generator that is the same at all three parties, with a `Party` as its first
argument. At each round it yields the words that it sends to the party before it, and is sent the
words, of the same shape, that the party after it sent:

    received = yield sent

Programs that need each other's results are composed by ``yield from``, others by `together`.
"""

from collections.abc import Generator
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from daskfc.coding import KeyStream, SecretKey
from daskfc.errors import InvalidInput, PrivacyError

N_PARTIES = 3

Result = TypeVar("Result")
Words = NDArray[np.uint64]
Program = Generator[Words, Words, Result]

_CHUNK = 1 << 15  # ours: words; a chunk of a stream stays in a 1 MiB L2 cache


class Party:
    """The party P_i of a computation, with the two streams that it shares with its neighbours.

    Parameters
    ----------
    index : int
        The party's place i, in [0, 2]. P_i sends to P_{i-1} and hears from P_{i+1}.
    before, after : SecretKey
        The keys k_i, shared with P_{i-1}, and k_{i+1}, shared with P_{i+1}.
    run, start : str
        The computation. `start` must be another one each time that a run starts or goes on: each
        party is to contribute a fresh random number to it.
    members : tuple of str
        The names of P_0, P_1 and P_2.

    Raises
    ------
    InvalidInput
        For another index, other than three members, or one that is named twice.

    Notes
    -----
    Privacy: words of a stream are used once. A stream's key is derived from its pair's by HKDF with
    run, start and members; both holders draw the same amounts in the same order, and the place in
    the stream is the counter: it only grows, as nobody can set it back or copy the object.

    References
    ----------
    Araki, Furukawa, Lindell, Nof, Ohara, "High-throughput semi-honest secure three-party
    computation with an honest majority", CCS 2016.
    """

    def __init__(
        self,
        index: int,
        before: SecretKey,
        after: SecretKey,
        *,
        run: str,
        start: str,
        members: tuple[str, ...],
    ) -> None:
        if index not in range(N_PARTIES):
            raise InvalidInput(f"the place of a party must be 0, 1 or 2; got {index}.")
        if len(members) != N_PARTIES or len(set(members)) != N_PARTIES:
            raise InvalidInput(
                f"a computation on shares has three members of different names; got {members}."
            )
        self.index = index
        context = ("shares", run, start, *members)
        self._before, self._after = (key.derive(*context).stream() for key in (before, after))

    def with_before(self, shape: tuple[int, ...]) -> Words:
        """Return random words that the party before draws at the same time, and nobody else."""
        return _drawn(self._before, shape)

    def with_after(self, shape: tuple[int, ...]) -> Words:
        """Return random words that the party after draws at the same time, and nobody else."""
        return _drawn(self._after, shape)

    def hide(self, words: Words, *, bits: bool = False) -> None:
        """Add this party's part of a sharing of zero, in place: F(k_i, c) - F(k_{i+1}, c).

        The parts of the three parties cancel; with `bits`, by XOR. Any one of them is uniform to
        whoever lacks one of its keys (Araki et al., §2.2). Raises PrivacyError for an array in
        another order than C's, of which a copy would be hidden.
        """
        if not words.flags.c_contiguous:
            raise PrivacyError("words to be hidden must be contiguous. Nothing was sent.")
        add, subtract = (np.bitwise_xor, np.bitwise_xor) if bits else (np.add, np.subtract)
        flat = words.reshape(-1)
        mask = np.empty(min(flat.size, _CHUNK), dtype=np.uint64)
        for start in range(0, flat.size, _CHUNK):
            part = flat[start : start + _CHUNK]
            for stream, update in ((self._before, add), (self._after, subtract)):
                stream.fill(mask[: part.size])
                update(part, mask[: part.size], out=part)

    def __repr__(self) -> str:
        return f"Party({self.index})"

    def __reduce__(self) -> NoReturn:
        raise PrivacyError(
            "a party of a computation on shares cannot be copied or stored, as two copies would "
            "hide different numbers behind the same masks. Start the computation again."
        )


def _drawn(stream: KeyStream, shape: tuple[int, ...]) -> Words:
    words = np.empty(shape, dtype=np.uint64)
    stream.fill(words)
    return words


def passed(words: Words, bits: int) -> Program[Words]:
    """Send words, and return those received, in as many bytes of each as their lowest bits take."""
    each, n = -(-bits // 8), words.size
    if each == words.itemsize:
        return (yield words)
    sizes = [size for size in (4, 2, 1) if each & size]  # first the lowest 4 bytes of all, ...
    shifts = [np.uint64(8 * sum(sizes[:i])) for i in range(len(sizes))]
    ends = np.cumsum([0, *sizes]) * n
    parts = [(slice(*ends[i : i + 2]), f"u{size}") for i, size in enumerate(sizes)]
    sent = np.zeros(-(-n * each // words.itemsize), dtype=np.uint64)
    for (part, dtype), shift in zip(parts, shifts, strict=True):
        sent.view(np.uint8)[part] = (words.reshape(-1) >> shift).astype(dtype).view(np.uint8)
    received = (yield sent).view(np.uint8)
    whole = np.zeros(n, dtype=np.uint64)
    for (part, dtype), shift in zip(parts, shifts, strict=True):
        whole |= np.frombuffer(received[part].data, dtype).astype(np.uint64) << shift
    return whole.reshape(words.shape)


def together(*programs: Program[Any]) -> Program[tuple[Any, ...]]:
    """Run programs that do not need each other's results in common rounds."""
    results: list[Any] = [None] * len(programs)
    waiting: dict[int, Words] = {}

    def advance(i: int, received: Words | None) -> None:
        try:
            waiting[i] = next(programs[i]) if received is None else programs[i].send(received)
        except StopIteration as end:
            waiting.pop(i, None)
            results[i] = end.value

    for i in range(len(programs)):
        advance(i, None)
    while waiting:
        sent = dict(waiting)
        received = yield np.concatenate([words.reshape(-1) for words in sent.values()])
        start = 0
        for i, words in sent.items():
            advance(i, received[start : start + words.size].reshape(words.shape))
            start += words.size
    return tuple(results)
