"""Seeds of the algorithms: one stream for every (party, round, purpose), none for secrets."""

import hashlib
import os

import numpy as np


def fresh_seed() -> int:
    """Return a seed in [0, 2**31) from the operating system, for callers that give none."""
    return int.from_bytes(os.urandom(4), "little") >> 1


def _sequence(random_state: int, labels: tuple[str | int, ...]) -> np.random.SeedSequence:
    text = "\x1f".join(str(label) for label in labels)
    digest = hashlib.sha256(text.encode()).digest()
    words = [int.from_bytes(digest[i : i + 4], "little") for i in range(0, 32, 4)]
    return np.random.SeedSequence([random_state, *words])


def generator(random_state: int, *labels: str | int) -> np.random.Generator:
    """Return the generator of one purpose, the same in every process and every order.

    The labels name the purpose, such as ``("client-3", 2, "k-means++")``; other labels give an
    independent generator. Never use it for masks, shares or noise.
    """
    return np.random.default_rng(_sequence(random_state, labels))


def integer_seed(random_state: int, *labels: str | int) -> int:
    """Return a seed in [0, 2**31) for a library that wants an int."""
    return int(_sequence(random_state, labels).generate_state(1)[0] >> 1)
