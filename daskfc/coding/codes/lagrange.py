"""Lagrange coding of rows (OmniFC Section 3.2, Eqs. 2-5, after Yu et al. 2019).

Notation    paper  here            meaning
            l      n_segments      segments of a row
            t      n_colluding     evaluators that may pool what they see and learn nothing
            m      n_evaluators    parties that evaluate distances of coded rows
            α_o    alphas          points of the segments (o <= l), then of the noise (o > l)
            β_j    betas           point of evaluator j
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from daskfc.arrays import Ints
from daskfc.checks import check_params, integer
from daskfc.coding.residues.compiled import cut_rows, encode_tile
from daskfc.coding.residues.modular import lagrange_weights
from daskfc.coding.residues.scale import ResidueSystem
from daskfc.coding.residues.streams import SecretKey
from daskfc.errors import InvalidInput

_PAPER_POINTS_BELOW = 227  # the smallest 8-bit prime: above it, consecutive points
_STRIP_ENTRIES = 1 << 16  # ours: entries of one segment in a strip, so that strips stay in L2


@dataclass(frozen=True)
class LagrangeCode:
    """A code that splits rows into segments, hides them behind noise and makes shares of them.

    OmniFC, Section 3.2; Yu et al., "Lagrange coded computing", AISTATS 2019. m >= 2l + 2t - 1; any
    t shares are jointly uniform and independent of the rows, whatever the primes' size (Theorem 2:
    noise weights form an invertible Cauchy matrix), as far as AES-CTR looks uniform.
    """

    n_segments: int
    n_colluding: int
    n_evaluators: int

    def __post_init__(self) -> None:
        check_params(
            "LagrangeCode",
            {"n_segments": self.n_segments, "n_colluding": self.n_colluding},
            {"n_segments": integer(low=1), "n_colluding": integer(low=1)},
        )
        check_params(
            "LagrangeCode",
            {"n_evaluators": self.n_evaluators},
            {"n_evaluators": integer(low=self.threshold)},
        )

    @property
    def threshold(self) -> int:
        """R = 2l + 2t - 1: answers that determine a distance."""
        return 2 * self.n_segments + 2 * self.n_colluding - 1

    @property
    def n_points(self) -> int:
        """Points that must differ modulo every prime: m + l + t."""
        return self.n_evaluators + self.n_segments + self.n_colluding

    def _paper_points(self) -> bool:
        return 2 * (self.n_evaluators - 1) < _PAPER_POINTS_BELOW  # the last beta, the largest

    @property
    def alphas(self) -> tuple[int, ...]:
        """Points of segments and noise: 1, 3, 5, ... as in the paper, else 0, 1, 2, ..."""
        parts = self.n_segments + self.n_colluding
        return tuple(range(1, 2 * parts, 2)) if self._paper_points() else tuple(range(parts))

    @property
    def betas(self) -> tuple[int, ...]:
        """Points of the evaluators: 0, 2, 4, ... as in the paper, else those after the alphas."""
        if self._paper_points():
            return tuple(range(0, 2 * self.n_evaluators, 2))
        return tuple(range(self.n_segments + self.n_colluding, self.n_points))

    def check_points(self, primes: Sequence[int]) -> None:
        """Refuse primes modulo which two points are equal."""
        smallest = min(primes)
        if self.betas[-1] >= smallest:  # the largest point
            raise InvalidInput(
                f"{self.n_evaluators} evaluators with l={self.n_segments}, t={self.n_colluding} "
                f"need {self.n_points} points that differ modulo every prime; the smallest is "
                f"{smallest}. Let fewer clients evaluate or use 23-bit primes."
            )

    def n_columns(self, n_features: int) -> int:
        """Return k = ceil(d / l), the columns of a coded row."""
        return -(-n_features // self.n_segments)

    def encode(
        self, rows: Ints, system: ResidueSystem, secret: SecretKey
    ) -> NDArray[np.unsignedinteger]:
        """Return all evaluators' coded rows, (m, r, n, k); evaluator j may see [j] only.

        `secret` is the client's, never used for other rows. Eq. 2 draws t noise segments; here the
        first t shares are drawn, each from its key (`seed`), and the others interpolated: an
        invertible affine map, so the same distribution (Theorem 2), and keys are sent for those t.
        """
        self.check_points(system.primes)
        rows = np.ascontiguousarray(rows)
        n, d = rows.shape
        l, t = self.n_segments, self.n_colluding  # noqa: E741  (the paper's letters)
        k = self.n_columns(d)
        shares = np.empty((self.n_evaluators, len(system.primes), n, k), dtype=system.dtype)
        for j in range(t):
            shares[j] = self.expand(self.seed(secret, j), (n, k), system)
        strip = max(1, _STRIP_ENTRIES // max(k, 1))
        parts = np.zeros((l + t, min(strip, n), k), dtype=system.dtype)
        for start in range(0, n, strip):
            stop = min(start + strip, n)
            count = stop - start
            for a, p in enumerate(system.primes):
                cut_rows(rows, start, p, parts, l, count)
                parts[l:, :count] = shares[:t, a, start:stop]
                matrix = _encoding_matrix(self, p)
                encode_tile(parts, matrix, p, shares[t:], a, start, count)
        return shares

    def seed(self, secret: SecretKey, evaluator: int) -> SecretKey:
        """Return the key of the share of one of the first t evaluators, for a client's secret."""
        return secret.derive("share of an evaluator", evaluator)

    def expand(
        self, seed: SecretKey, shape: tuple[int, int], system: ResidueSystem
    ) -> NDArray[np.unsignedinteger]:
        """Return the share (r, n, k) of a key, uniform and independent of rows; `shape` (n, k)."""
        stream = seed.stream()
        share = np.empty((len(system.primes), *shape), dtype=system.dtype)
        for a, p in enumerate(system.primes):
            share[a] = stream.uniform(p, shape, dtype=system.dtype)
        return share

    def weights(self, evaluators: Sequence[int], p: int) -> Ints:
        """Return w_j = sum_o L_j(α_o) mod p over segments; distances are sum_j w_j D_j, Eq. 5."""
        return _summed_weights(self, tuple(evaluators), p).copy()

    def check_evaluators(self, evaluators: Sequence[int]) -> None:
        """Refuse evaluators that are repeated or not in [0, m)."""
        known = set(range(self.n_evaluators))
        if len(set(evaluators)) < len(evaluators) or not set(evaluators) <= known:
            raise InvalidInput(
                f"evaluators must be distinct and in [0, {self.n_evaluators}); "
                f"got {list(evaluators)}."
            )


@lru_cache(maxsize=64)
def _encoding_matrix(code: LagrangeCode, p: int) -> Ints:
    """Return balanced Lagrange weights (m - t, l + t): segments and t shares to the others."""
    l, t = code.n_segments, code.n_colluding  # noqa: E741
    matrix = lagrange_weights(code.alphas[:l] + code.betas[:t], code.betas[t:], p)
    return np.where(matrix > p // 2, matrix - p, matrix)


@lru_cache(maxsize=4096)
def _summed_weights(code: LagrangeCode, evaluators: tuple[int, ...], p: int) -> Ints:
    code.check_evaluators(evaluators)
    nodes = tuple(code.betas[j] for j in evaluators)
    segments = code.alphas[: code.n_segments]
    summed: Ints = lagrange_weights(nodes, segments, p).sum(axis=0) % p
    return summed
