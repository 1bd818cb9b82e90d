"""All whole squared distances modulo primes, from a few of their columns, without any rounding.

With one sample as origin 0, G the inner products of the others relative to it and P a basis of
them, all inner products are G_:P (G_PP)⁻¹ G_P, in any field in which 2 and G_PP can be inverted,
and D_ij = D_0i + D_0j - 2 V_i · K_j for K = G_:P and V = K (G_PP)⁻¹. Engines compute |V_i - K_j|²,
which differs from -2 V_i · K_j by known squares.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfc.arrays import Ints
from daskfc.coding.codes.evaluate import coded_distances
from daskfc.coding.engines.engines import Engine, Operand, prepare, select_engine
from daskfc.coding.residues.modular import inverse
from daskfc.coding.residues.scale import ResidueSystem
from daskfc.coding.residues.wide import WideIntegers

Places = slice | Ints

_ROWS = 4096  # samples at a time
_PAIRS = 1 << 22  # residues of listed pairs at a time


@dataclass(frozen=True)
class ResidueColumns:
    """Whole squared distances of all samples, each modulo the product of some primes."""

    system: ResidueSystem
    left: NDArray[np.unsignedinteger]  # V, (primes, n, max(1, rank)), modulo each prime
    right: NDArray[np.unsignedinteger]  # K, in the same shape
    row_terms: Ints  # D_0i - |V_i|², (primes, n)
    column_terms: Ints  # D_0j - |K_j|², (primes, n)

    @classmethod
    def among(
        cls,
        primes: Sequence[int],
        columns: Callable[[slice], NDArray[np.number] | WideIntegers],
        landmarks: Sequence[int] | Ints,
        *,
        n: int,
        rank: int,
        above: int,
    ) -> "ResidueColumns | None":
        """Return the distances modulo enough of the primes for a product above `above`, or None.

        `columns` returns squared distances (b, c) of a slice of samples to the landmarks, which
        must span `rank`, the dimension of all samples. None if they do not modulo enough primes
        (all below 2**8, or all below 2**24), or if sums would exceed int64.
        """
        chosen = np.asarray(landmarks, dtype=np.int64)
        known = [columns(slice(p, p + 1)) for p in chosen.tolist()]
        bases: dict[int, tuple[Ints, Ints]] = {}
        modulus = 1
        for p in primes:
            D = np.concatenate([_modulo(row, p) for row in known])
            basis = _basis(D, p, rank)
            if basis is not None:
                bases[p] = basis
                modulus *= p
            if modulus > above:
                break
        if modulus <= above or len(bases) * modulus >= 1 << 63:  # an int64 holds their sums
            return None
        system = ResidueSystem(tuple(bases), scale=1.0, bound=modulus - 1)
        # Engines multiply at least one column, also where all samples are one point.
        shape = len(bases), n, max(1, rank)
        left, right = (np.zeros(shape, system.dtype) for _ in range(2))
        row_terms, column_terms = (np.empty((len(bases), n), np.int64) for _ in range(2))
        for start in range(0, n, _ROWS):
            rows = slice(start, start + _ROWS)
            to_landmarks, first = columns(rows), known[0]
            for a, (p, (picked, inverted)) in enumerate(bases.items()):
                D = _modulo(to_landmarks, p)
                own = D[:, 0]
                K = _inner(own, _modulo(first, p)[0, picked], D[:, picked], p)
                V = _product(K, inverted, p)
                left[a, rows, :rank], right[a, rows, :rank] = V, K
                row_terms[a, rows] = (own - (V * V).sum(axis=1)) % p
                column_terms[a, rows] = (own - (K * K).sum(axis=1)) % p
        return cls(system, left, right, row_terms, column_terms)

    @property
    def modulus(self) -> int:
        """The product of the primes."""
        return self.system.modulus

    def by_sample(self) -> list[NDArray[Any]]:
        """Return views of the arrays with a row for each sample; only before `block` is called."""
        assert "_right" not in vars(self)
        wide = [part for both in (self.left, self.right) for part in both]
        return [*wide, self.row_terms.T, self.column_terms.T]

    @cached_property
    def _engine(self) -> Engine:
        return select_engine(self.system, self.left.shape[2])

    def _prepared(self, columns: Places) -> Operand:
        right = np.ascontiguousarray(self.right[:, columns])
        return prepare(right, self.system, self._engine, "right")

    @cached_property
    def _right(self) -> Operand:
        return self._prepared(slice(None))

    def block(self, rows: Places, columns: Places) -> Ints:
        """Return the distances between two sets of samples, in [0, modulus)."""
        n = len(self.row_terms[0])
        everyone = isinstance(columns, slice) and columns.indices(n) == (0, n, 1)
        answers = coded_distances(
            np.ascontiguousarray(self.left[:, rows]),
            self._right if everyone else self._prepared(columns),
            self.system,
            self._engine,
        )
        return self._combined(
            answer + self.row_terms[a, rows][:, None] + self.column_terms[a, columns]
            for a, answer in enumerate(answers)
        )

    def pairs(self, rows: NDArray[np.integer], columns: NDArray[np.integer]) -> Ints:
        """Return the distances of pairs (rows[i], columns[i]), in [0, modulus)."""
        found = np.empty(rows.size, dtype=np.int64)
        step = max(1, _PAIRS // self.left.shape[2])
        for start in range(0, rows.size, step):
            i, j = rows[start : start + step], columns[start : start + step]
            found[start : start + step] = self._combined(
                ((self.left[a, i].astype(np.int64) - self.right[a, j]) ** 2).sum(axis=1)
                + self.row_terms[a, i]
                + self.column_terms[a, j]
                for a in range(len(self.left))
            )
        return found

    def _combined(self, residues: Iterable[Ints]) -> Ints:
        """Return the numbers that have these residues, by the Chinese remainder theorem."""
        M, total = self.modulus, np.zeros(1, dtype=np.int64)
        for p, residue in zip(self.system.primes, residues, strict=True):
            step = M // p
            total = total + residue % p * inverse(step, p) % p * step
        total %= M
        return total


def _modulo(numbers: NDArray[np.number] | WideIntegers, p: int) -> Ints:
    if isinstance(numbers, WideIntegers):
        return numbers % p
    residues: Ints = np.asarray(numbers, dtype=np.int64) % p
    return residues


def _inner(own: Ints, others: Ints, D: Ints, p: int) -> Ints:
    """Return (D_0i + D_0j - D_ij) / 2 modulo p."""
    inner: Ints = (own[:, None] + others - D) % p * inverse(2, p) % p
    return inner


def _product(left: Ints, right: Ints, p: int) -> Ints:
    """Return left @ right modulo p, in chunks whose sums of products are exact in float64."""
    depth = max(1, 2**53 // (p - 1) ** 2)
    total = np.zeros((len(left), right.shape[1]), dtype=np.int64)
    for start in range(0, len(right), depth):
        part = slice(start, start + depth)
        block = left[:, part].astype(np.float64) @ right[part].astype(np.float64)
        total += block.astype(np.int64) % p
    total %= p
    return total


def _basis(D: Ints, p: int, rank: int) -> tuple[Ints, Ints] | None:
    """Return landmarks that are a basis modulo p, relative to the first one, and (G_PP)⁻¹."""
    if rank == 0:
        return np.empty(0, np.int64), np.empty((0, 0), np.int64)
    if p == 2:
        return None
    G = _inner(D[0] % p, D[0], D, p)
    picked = _independent_rows(G, p, rank)
    if len(picked) < rank:
        return None
    return picked, _inverted(G[np.ix_(picked, picked)], p)


def _independent_rows(G: Ints, p: int, rank: int) -> Ints:
    """Return the first rows that are linearly independent modulo p."""
    work, picked = G.copy(), list[int]()
    for row in range(len(work)):
        pivot = np.flatnonzero(work[row])
        if pivot.size == 0:
            continue
        picked.append(row)
        if len(picked) == rank:
            break
        column = int(pivot[0])
        factors = work[row + 1 :, column] * inverse(int(work[row, column]), p) % p
        work[row + 1 :] = (work[row + 1 :] - factors[:, None] * work[row]) % p
    return np.array(picked, dtype=np.int64)


def _inverted(G: Ints, p: int) -> Ints:
    """Return the inverse of a matrix modulo p, by Gauss-Jordan elimination."""
    r = len(G)
    work = np.hstack([G, np.eye(r, dtype=np.int64)])
    for k in range(r):
        swap = k + int(np.flatnonzero(work[k:, k])[0])
        work[[k, swap]] = work[[swap, k]]
        work[k] = work[k] * inverse(int(work[k, k]), p) % p
        factors = work[:, k].copy()
        factors[k] = 0
        work = (work - factors[:, None] * work[k]) % p
    inverted: Ints = work[:, r:]
    return inverted
