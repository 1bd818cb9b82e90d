"""Noise on Gram matrices: how much of it, and when it is the same."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from daskfc.coding import SecretKey
from daskfc.federation.methods.one_budget import noise_told
from daskfc.linalg.symmetric import packed, packed_size
from daskfc.protocols.fk_kmeans.messages import Eigenpairs
from daskfc.protocols.fk_kmeans.noise import SENSITIVITY, GramNoise, noise_of
from daskfc.protocols.fk_kmeans.party import Iterate, WeightedRows, noisy_gram

N = 60
DATA = SimpleNamespace(digest="a")
ITERATE = Iterate(np.diag(np.arange(1.0, N + 1)), WeightedRows("nowhere"), "of all samples")
PAST = [Eigenpairs(np.ones(1), np.ones((N, 1)), 0.5, 1, 0)]
SECRET = SecretKey.from_bytes(bytes(32))
NOISE = GramNoise(3.0)


def noise(data=DATA, iterate=ITERATE, past=(), kind=NOISE, shares=4, secret=SECRET):
    found = noisy_gram(data, iterate, past, kind, shares, secret)
    assert found.noise_multiplier == pytest.approx(kind.multiplier)
    return found.values - packed(ITERATE.gram)


def test_a_share_has_its_part_of_the_variance():
    """Shares of four clients together have σ, the multiplier times the sensitivity."""
    assert noise().std() == pytest.approx(3.0 * SENSITIVITY / 2.0, rel=4 / math.sqrt(N * N))
    assert noise().shape == (packed_size(N),)
    assert np.abs(noise()).max() <= NOISE.reach(4)
    assert abs(noise().mean()) < 4 * noise().std() / math.sqrt(packed_size(N))


def test_a_step_that_is_repeated_releases_nothing_new():
    np.testing.assert_array_equal(noise(), noise())


@pytest.mark.parametrize(
    "other",
    [
        {"past": PAST},
        {"data": SimpleNamespace(digest="b")},
        {"kind": GramNoise(3.5)},
        {"shares": 1},
        {"iterate": replace(ITERATE, made_of="of other features")},
        {"secret": SecretKey.from_bytes(bytes([1]) * 32)},
    ],
    ids=lambda other: next(iter(other)),
)
def test_another_release_has_other_noise(other):
    """The same twice would tell the values by their difference."""
    one, two = noise(), noise(**other)
    assert abs(np.corrcoef(one, two)[0, 1]) < 0.1


def test_no_sample_moves_the_sum_further_than_the_sensitivity():
    """Rows of W have |w|² ≤ 2; the farthest pair is orthogonal."""
    random = np.random.default_rng(0)
    rows = random.normal(size=(2000, 2, 5))
    rows *= math.sqrt(2.0) / np.linalg.norm(rows, axis=2, keepdims=True)
    moved = [np.linalg.norm(packed(np.outer(w, w) - np.outer(v, v))) for w, v in rows]
    assert max(moved) <= SENSITIVITY * (1 + 1e-12)
    w, v = math.sqrt(2.0) * np.eye(5)[:2]
    farthest = np.linalg.norm(packed(np.outer(w, w) - np.outer(v, v)))
    assert farthest == pytest.approx(SENSITIVITY)


def test_the_budget_is_that_of_all_releases():
    found = noise_of({"epsilon": 2.0, "delta": 1e-5, "rounds": 4}, iterations=6)
    spent = [noise_told("sums", found.multiplier, n, found.delta)["epsilon"] for n in (9, 10, 11)]
    assert spent[1] == pytest.approx(2.0, rel=1e-6)
    assert spent[0] < 2.0 < spent[2]
    assert noise_of({"multiplier": 7.0, "delta": 1e-5}, iterations=6).multiplier == 7.0
