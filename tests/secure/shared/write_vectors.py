"""Write vectors.json: ``python -m tests.secure.shared.write_vectors``.

Results are those of Python's whole numbers. Messages are of these programs themselves: with given
keys and summands they must not change unseen, as all three parties have to run the same programs.
"""

import hashlib
import json
import random
from pathlib import Path

import numpy as np

from daskfc.coding import SecretKey
from daskfc.secure.shared import (
    Bits,
    Numbers,
    bits_of,
    both,
    chosen,
    inner,
    matmul,
    multiply,
    negative,
    one_hot,
    shifted,
    smallest,
    to_numbers,
)
from daskfc.secure.shared.ordering import _drawn, _moved
from tests.secure.shared.lockstep import in_lockstep, three_parties

__all__ = ["messages"]


def shuffled(party, x):
    """Move rows three times, by orders of two parties each."""
    for at in range(3):
        x = yield from _moved(party, x, at, _drawn(party, at, len(x)))
    return x


N = 64 * 4
COLUMN = ((4, N), Numbers)
WORDS = ((4, N // 64), Bits)
PROGRAMS = {
    "multiply": (multiply, [COLUMN, COLUMN], {}),
    "inner": (inner, [COLUMN, COLUMN], {}),
    "matmul": (matmul, [((20, 30), Numbers), ((30, 20), Numbers)], {}),
    "matmul in 32 bits": (matmul, [((20, 30), Numbers), ((30, 20), Numbers)], {"bits": 32}),
    "both": (both, [WORDS, WORDS], {}),
    "negative": (negative, [COLUMN], {"bits": 64}),
    "negative in 32 bits": (negative, [COLUMN], {"bits": 32}),
    "bits_of": (bits_of, [COLUMN], {"bits": 17}),
    "to_numbers": (to_numbers, [WORDS], {"n": N}),
    "shifted": (shifted, [COLUMN], {"by": 41}),
    "chosen": (chosen, [WORDS, COLUMN, COLUMN], {}),
    "smallest": (smallest, [((4, 64 * 6), Numbers)], {"bits": 48}),
    "smallest, flat": (smallest, [((4, 64 * 6), Numbers)], {"bits": 48, "flat": True}),
    "one_hot": (one_hot, [WORDS], {}),
    "shuffled": (shuffled, [((N, 2), Numbers)], {}),
}


def fixed_shares(shape, kind, salt):
    """Return the same three parties' shares each time: their summands are hashes."""
    size = int(np.prod(shape))
    x = [
        np.frombuffer(hashlib.shake_256(bytes([salt, i])).digest(8 * size), np.uint64)
        for i in range(3)
    ]
    x = [one.reshape(shape) for one in x]
    return [kind(i, x[i], x[(i + 1) % 3]) for i in range(3)]


def run_of(name, parties):
    """Run one of the programs on fixed shares."""
    program, arguments, public = PROGRAMS[name]
    shares = [fixed_shares(*one, salt) for salt, one in enumerate(arguments)]
    return in_lockstep(program, *shares, parties=parties, **public)


def messages(name):
    """Return a digest of what each party receives, with keys that are the numbers 1, 2 and 3."""
    keys = [SecretKey(bytes(31) + bytes([i])) for i in (1, 2, 3)]
    run = run_of(name, three_parties(keys))
    return [hashlib.sha256(run.view(i)).hexdigest()[:32] for i in range(3)]


def main():
    chance = random.Random(41)
    ends = [0, 1, -1, 2**62 - 1, -(2**62), 2**31, -(2**31), 2**32 - 1]
    some = [*ends, *(chance.randrange(-(2**62), 2**62) for _ in range(12))]
    wide = [*some, 2**63 - 1, -(2**63)]
    found = {
        "less": [{"x": str(x), "y": str(y), "less": int(x < y)} for x in some for y in some],
        "shifted": [
            {"x": str(x), "by": by, "shifted": str(x // 2**by)} for by in (1, 41, 63) for x in wide
        ],
        "messages": {name: messages(name) for name in PROGRAMS},
    }
    target = Path(__file__).with_name("vectors.json")
    target.write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
