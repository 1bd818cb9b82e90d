"""Arithmetic modulo primes below 2**24: inverses, balanced residues, small linear algebra."""

from functools import lru_cache

import numpy as np

from daskfc.arrays import Ints
from daskfc.errors import InvalidInput

BYTE_PRIMES = (251, 241, 239, 233, 229, 227)
"""The primes of the int8 and f32 engines: a residue is one byte on the wire."""


def is_prime(value: int) -> bool:
    """Return whether a number below 2**24 is prime, by trial division."""
    if value < 2:
        return False
    return all(value % divisor for divisor in range(2, int(value**0.5) + 1))


@lru_cache(maxsize=64)
def primes_below(limit: int, count: int) -> tuple[int, ...]:
    """Return the `count` largest primes of at most `limit`, the largest first."""
    found: list[int] = []
    value = limit
    while len(found) < count and value >= 2:
        if is_prime(value):
            found.append(value)
        value -= 1
    return tuple(found)


def inverse(value: int, p: int) -> int:
    """Return the inverse of `value` modulo the prime p."""
    return pow(int(value), -1, int(p))


def balanced(value: int, p: int) -> int:
    """Return the residue of smallest absolute value, in [-(p-1)/2, (p-1)/2] for odd p."""
    residue = value % p
    return residue - p if residue > p // 2 else residue


def residue_dtype(p: int) -> np.dtype[np.unsignedinteger]:
    """Return the dtype in which residues modulo p are stored and sent: uint8 or uint32."""
    if p <= 1 << 8:
        return np.dtype(np.uint8)
    if p <= 1 << 24:
        return np.dtype(np.uint32)
    raise InvalidInput(f"a prime of a residue system must be at most 2**24; got {p}.")


def lagrange_weights(nodes: tuple[int, ...], targets: tuple[int, ...], p: int) -> Ints:
    """Return L_j(x) mod p < 2**24 for every target x (rows) and distinct node j (columns)."""
    weights = np.empty((len(targets), len(nodes)), dtype=np.int64)
    for j, node in enumerate(nodes):
        below = 1
        for i, other in enumerate(nodes):
            if i != j:
                below = below * (node - other) % p
        scale = inverse(below, p)
        for x, target in enumerate(targets):
            above = 1
            for i, other in enumerate(nodes):
                if i != j:
                    above = above * (target - other) % p
            weights[x, j] = above * scale % p
    return weights
