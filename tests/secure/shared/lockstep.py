"""Three parties of a program in one process, round by round, with all that each of them sees."""

from dataclasses import dataclass, field

import numpy as np

from daskfc.coding import SecretKey
from daskfc.secure.shared import Party, put_together

MEMBERS = ("north", "south", "west")


def three_parties(keys=None, start="one"):
    """Return the three parties of a computation, with fresh keys."""
    keys = keys or [SecretKey.from_os() for _ in MEMBERS]
    return [
        Party(i, keys[i], keys[(i + 1) % 3], run="run", start=start, members=MEMBERS)
        for i in range(3)
    ]


@dataclass
class Run:
    """What a run gave and took: results by party, words seen by party and round."""

    results: list = field(default_factory=lambda: [None] * 3)
    seen: list = field(default_factory=lambda: [[], [], []])

    @property
    def n_rounds(self):
        return len(self.seen[0])

    @property
    def n_bytes(self):
        """Bytes that each party sends."""
        found = {sum(words.nbytes for words in seen) for seen in self.seen}
        assert len(found) == 1
        return found.pop()

    def view(self, i):
        """Return all words that a party received, in one array."""
        return np.concatenate([words.reshape(-1) for words in self.seen[i]])


def in_lockstep(program, *shares, parties=None, **public):
    """Run ``program(party, *its shares, **public)`` at three parties until all of them end."""
    parties = parties or three_parties()
    programs = [
        program(party, *(of_three[party.index] for of_three in shares), **public)
        for party in parties
    ]
    run = Run()
    received = [None] * 3
    while True:
        sent, ended = [None] * 3, 0
        for i, one in enumerate(programs):
            try:
                sent[i] = one.send(received[i])
            except StopIteration as end:
                run.results[i] = end.value
                ended += 1
        if ended:
            assert ended == 3, "a party ended before the others"
            return run
        assert sent[0].shape == sent[1].shape == sent[2].shape
        assert all(words.dtype == np.uint64 for words in sent)
        received = [sent[(i + 1) % 3].copy() for i in range(3)]
        for words in (*sent, *received):  # a transport may hand out views of what it got
            words.flags.writeable = False
        for i in range(3):
            run.seen[i].append(received[i].copy())


def told(run, signed=False):
    """Return what the results share, after a look that all three pairs of parties agree."""
    first, second, third = run.results
    found = put_together(first, second)
    assert np.array_equal(found, put_together(second, third))
    assert np.array_equal(found, put_together(third, first))
    return found.view(np.int64) if signed else found
