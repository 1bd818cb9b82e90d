"""Detection of wrong answers: spare answers of evaluators as Reed-Solomon parity.

The answers of K evaluators for one entry and prime are a codeword of the generalised Reed-Solomon
code [K, R]. A block is checked through random projections ρ^T D_j σ mod p, which are
codewords when the answers are; e wrong evaluators make them wrong in the same e places.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfc.arrays import Ints
from daskfc.coding.codes.decode import check_answers
from daskfc.coding.codes.lagrange import LagrangeCode
from daskfc.coding.residues.modular import inverse
from daskfc.coding.residues.scale import ResidueSystem
from daskfc.coding.residues.streams import KeyStream, SecretKey
from daskfc.errors import DecodingError

_Array = NDArray[Any]
_DRAWS = 4  # ours: a lie that touches a single prime escapes with probability (2 / 227)**4 < 1e-8


def find_wrong(
    answers: Sequence[_Array],
    evaluators: Sequence[int],
    code: LagrangeCode,
    system: ResidueSystem,
    *,
    secret: SecretKey | None = None,
) -> tuple[int, ...]:
    """Return the evaluators whose answers (r, a, b) contradict the others; empty when all agree.

    Up to e = (K - R) // 2 are named for certain even if they collude; K = R + 1 only detects, K = R
    finds nothing. The server's `secret` must be new for every block: an evaluator that foresees it
    can hide a wrong answer.
    """
    check_answers(answers, evaluators, code, system)
    spare = len(answers) - code.threshold
    if spare == 0:
        return ()
    words = _projections(answers, system, (secret or SecretKey.from_os()).stream())
    order = tuple(evaluators)
    parity = {p: _parity(code, order, p) for p in system.primes}
    if all(not _syndromes(words[p], parity[p], p).any() for p in system.primes):
        return ()
    limit = spare // 2
    suspects: set[int] = set()
    for p in system.primes:
        points = [code.betas[j] for j in order]
        for syndrome in _syndromes(words[p], parity[p], p):
            if syndrome.any() and limit:
                suspects.update(_locate(syndrome.tolist(), points, limit, p))
    rest = [i for i in range(len(order)) if i not in suspects]
    if 0 < len(suspects) <= limit and _consistent(words, rest, order, code, system):
        return tuple(sorted(order[i] for i in suspects))
    raise DecodingError(
        f"the {len(answers)} answers contradict each other, and no {limit} of the evaluators "
        f"explain it (R = {code.threshold}: naming e wrong ones takes R + 2e answers). Ask more "
        "evaluators or stop the run."
    )


def _projections(
    answers: Sequence[_Array], system: ResidueSystem, stream: KeyStream
) -> dict[int, _Array]:
    """Return ρ^T D_j σ mod p for every prime: {p: int64 (draws, K)}."""
    _, rows, columns = answers[0].shape
    projected = {}
    for a, p in enumerate(system.primes):
        sigma = stream.uniform(p, (columns, _DRAWS))
        rho = stream.uniform(p, (rows, _DRAWS))
        words = np.empty((_DRAWS, len(answers)), dtype=np.int64)
        for j, answer in enumerate(answers):
            line = _modular_product(answer[a], sigma, p)  # (rows, draws)
            words[:, j] = (line * rho % p).sum(axis=0) % p  # products below 2**48
        projected[p] = words
    return projected


def _modular_product(block: _Array, sigma: Ints, p: int) -> Ints:
    """Return block @ sigma mod p through exact float products of column chunks."""
    byte = p < 1 << 8
    dtype: Any = np.float32 if byte else np.float64
    exact = 1 << (24 if byte else 53)
    chunk = exact // ((p - 1) * (p // 2))
    balanced: _Array = np.where(sigma > p // 2, sigma - p, sigma).astype(dtype)
    total = np.zeros((len(block), sigma.shape[1]), dtype=np.int64)
    step = max(1, (1 << 17) // max(chunk, 1))  # rows whose floats stay in L2
    for top in range(0, len(block), step):
        for left in range(0, block.shape[1], chunk):
            part: _Array = block[top : top + step, left : left + chunk].astype(dtype)
            total[top : top + step] += (part @ balanced[left : left + chunk]).astype(np.int64) % p
    total %= p
    return total


@lru_cache(maxsize=4096)
def _parity(code: LagrangeCode, evaluators: tuple[int, ...], p: int) -> Ints:
    """Return the dual matrix H (K - R, K): H[b, j] = v_j β_j**b, v_j = prod_i (β_j - β_i)**-1."""
    points = [code.betas[j] for j in evaluators]
    rows = len(points) - code.threshold
    H = np.empty((rows, len(points)), dtype=np.int64)
    for j, beta in enumerate(points):
        product = 1
        for i, other in enumerate(points):
            if i != j:
                product = product * (beta - other) % p
        value = inverse(product, p)
        for b in range(rows):
            H[b, j] = value
            value = value * beta % p
    return H


def _syndromes(words: _Array, parity: _Array, p: int) -> Ints:
    """Return H c mod p of every projected word: (draws, K - R)."""
    syndromes: Ints = (words[:, None, :] * parity[None] % p).sum(axis=2) % p
    return syndromes


def _consistent(
    words: dict[int, _Array],
    rest: list[int],
    order: tuple[int, ...],
    code: LagrangeCode,
    system: ResidueSystem,
) -> bool:
    kept = tuple(order[i] for i in rest)
    return all(
        not _syndromes(words[p][:, rest], _parity(code, kept, p), p).any() for p in system.primes
    )


def _locate(syndrome: list[int], points: list[int], limit: int, p: int) -> set[int]:
    """Return the places of at most `limit` errors (Peterson): roots of the error locator.

    With ν errors at points X_i the syndromes satisfy sum_i λ_i s_{b+i} = 0 for the coefficients of
    Λ(x) = prod (x - X_i), of degree ν, the largest for which the Hankel matrix is regular.
    """
    for nu in range(limit, 0, -1):
        hankel = [syndrome[b : b + nu] for b in range(nu)]
        locator = _solve(hankel, [-syndrome[b + nu] for b in range(nu)], p)
        if locator is None:
            continue
        coefficients = [*locator, 1]
        return {
            i
            for i, x in enumerate(points)
            if sum(c * pow(x, power, p) for power, c in enumerate(coefficients)) % p == 0
        }
    return set()


def _solve(matrix: list[list[int]], target: list[int], p: int) -> list[int] | None:
    """Return the solution modulo p by Gauss-Jordan elimination, or None for a singular matrix."""
    n = len(matrix)
    rows = [[*(x % p for x in row), target[i] % p] for i, row in enumerate(matrix)]
    for column in range(n):
        pivot = next((i for i in range(column, n) if rows[i][column]), None)
        if pivot is None:
            return None
        rows[column], rows[pivot] = rows[pivot], rows[column]
        scale = inverse(rows[column][column], p)
        rows[column] = [x * scale % p for x in rows[column]]
        for i in range(n):
            if i != column and rows[i][column]:
                factor = rows[i][column]
                rows[i] = [(x - factor * y) % p for x, y in zip(rows[i], rows[column], strict=True)]
    return [row[n] for row in rows]
