"""Decoding at the server: exact distances from any R answers (Eq. 5 and Eq. 6, corrected)."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfc.arrays import Ints
from daskfc.coding.codes.decode_passes import combine_primes, weighted_sum
from daskfc.coding.codes.lagrange import LagrangeCode
from daskfc.coding.residues.compiled import floor_modulo
from daskfc.coding.residues.modular import balanced, inverse
from daskfc.coding.residues.scale import ResidueSystem
from daskfc.coding.residues.scratch import scratch
from daskfc.coding.residues.wide import WideIntegers
from daskfc.errors import DecodingError, InvalidInput
from daskfc.threads import do_all

_Array = NDArray[Any]
_PART = 1 << 20  # ours: entries of a thread at a time
_STRIP = 1 << 16  # ours: sums and result of a strip stay in cache; larger ones are no faster


@lru_cache(maxsize=256)
def _functional(
    code: LagrangeCode, primes: tuple[int, ...], evaluators: tuple[int, ...]
) -> tuple[_Array, _Array]:
    """Return weights (r, K) and steps (r,) of the linear functional that decodes.

    D = sum_a step_a (weights_a . answers_a mod p_a) mod M, with step_a = M / p_a and weights_a =
    w_j step_a**-1 mod p_a: interpolation and the Chinese remainder theorem together.
    """
    M = math.prod(primes)
    steps = [M // p for p in primes]
    weights = [
        [balanced(int(w) * inverse(step, p), p) for w in code.weights(evaluators, p)]
        for p, step in zip(primes, steps, strict=True)
    ]
    dtype = np.int32 if primes[0] < 1 << 8 else np.int64
    return np.array(weights, dtype=dtype), np.array(steps, dtype=np.int64)


def check_answers(
    answers: Sequence[_Array], evaluators: Sequence[int], code: LagrangeCode, system: ResidueSystem
) -> tuple[int, int]:
    """Refuse answers of wrong number, shape or dtype; return the block's shape."""
    code.check_evaluators(evaluators)
    if len(answers) != len(evaluators):
        raise InvalidInput(
            f"every answer needs its evaluator; got {len(answers)} answers of {len(evaluators)}."
        )
    if len(answers) < code.threshold:
        raise DecodingError(
            f"a distance needs {code.threshold} answers (2l + 2t - 1); got {len(answers)}. Wait "
            "for more evaluators or lower l and t."
        )
    shape = answers[0].shape[1:]
    for evaluator, answer in zip(evaluators, answers, strict=True):
        if answer.shape != (len(system.primes), *shape) or answer.dtype != system.dtype:
            raise DecodingError(
                f"the answer of evaluator {evaluator} is {answer.dtype} {answer.shape}; expected "
                f"{system.dtype} {(len(system.primes), *shape)}."
            )
    return shape[0], shape[1]


def reconstruct(
    answers: Sequence[_Array], evaluators: Sequence[int], code: LagrangeCode, system: ResidueSystem
) -> Ints:
    """Return exact integer squared distances, int64 (a, b), from the first R of K >= R answers.

    Answers are (r, a, b), in the order of `evaluators`; any R give the same. Raises DecodingError
    for fewer, or a distance above the bound.
    """
    out = np.empty(check_answers(answers, evaluators, code, system), dtype=np.int64)
    entries = out.reshape(-1)
    R = code.threshold
    weights, steps = _functional(code, system.primes, tuple(evaluators[:R]))
    primes = np.array(system.primes, dtype=np.int64)
    flat = [np.ascontiguousarray(answer).reshape(len(primes), -1) for answer in answers[:R]]

    def decode(first: int) -> None:
        for start in range(first, min(first + _PART, entries.size), _STRIP):
            strip = entries[start : start + _STRIP]
            sums = scratch("sums", (len(primes), strip.size), weights.dtype)
            weighted_sum(flat, weights, start, sums)
            largest = combine_primes(sums, primes, steps, system.modulus, strip)
            if largest > system.bound:
                raise _beyond_the_bound()

    do_all(decode, range(0, entries.size, _PART))
    return out


def reconstruct_wide(
    answers: Sequence[_Array], evaluators: Sequence[int], code: LagrangeCode, system: ResidueSystem
) -> WideIntegers:
    """Return exact squared distances that may exceed int64; see `reconstruct`."""
    shape = check_answers(answers, evaluators, code, system)
    R, primes = code.threshold, system.primes
    weights = np.array(
        [[balanced(int(w), p) for w in code.weights(evaluators[:R], p)] for p in primes],
        dtype=np.int32 if primes[0] < 1 << 8 else np.int64,
    )
    flat = [np.ascontiguousarray(answer).reshape(len(primes), -1) for answer in answers[:R]]
    parts = []
    for start in range(0, shape[0] * shape[1], _STRIP):
        size = min(_STRIP, shape[0] * shape[1] - start)
        sums = scratch("sums", (len(primes), size), weights.dtype)
        weighted_sum(flat, weights, start, sums)
        for a, p in enumerate(primes):
            floor_modulo(sums[a], p)
        parts.append(WideIntegers.of_residues(sums, primes))
    whole = WideIntegers.joined(parts) if parts else WideIntegers.of_residues(flat[0], primes)
    if (np.asarray(whole) > system.bound).any():
        raise _beyond_the_bound()
    return WideIntegers(whole.near.reshape(shape), whole.rest.reshape(shape))


def _beyond_the_bound() -> DecodingError:
    return DecodingError(
        "a reconstructed squared distance exceeds the bound agreed for this run: an evaluator "
        "answered wrongly, or a client shared rows outside the agreed radius. Add spare evaluators "
        "to name the wrong one."
    )
