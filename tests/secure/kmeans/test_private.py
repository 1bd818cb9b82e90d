"""k-means that looks for its start under noise: sensitivities, repeats, and what it finds."""

import math

import numpy as np
import pytest
from sklearn.cluster import KMeans

from daskfc.coding import SecretKey
from daskfc.errors import InvalidInput
from daskfc.federation import PerClient
from daskfc.privacy import noise_multiplier
from daskfc.secure.kmeans import StartedNoise, open_kmeans
from daskfc.secure.kmeans.messages import KMeansReach
from daskfc.secure.kmeans.noise import sensitivity_of
from daskfc.secure.kmeans.private.noise import (
    moments_in_ball,
    noisy_moments,
    noisy_offsets,
    offsets_within,
)
from daskfc.secure.sums import PlainSum
from daskfc.testing.kmeans import inertia_of
from tests.secure.kmeans.here import Here

SECRET = SecretKey(bytes(32))
NOISE = StartedNoise(3.0, largest_norm=2.0, rounds=2)
ROWS = np.random.default_rng(0).normal(size=(40, 3))


def changes(make, rows, other):
    """Return how far sums move where the first row becomes another."""
    return np.linalg.norm(make(rows) - make(np.concatenate([other[None], rows[1:]])))


@pytest.mark.slow
def test_no_replaced_row_moves_the_sums_by_more_than_the_sensitivity():
    random = np.random.default_rng(0)
    most = {"moments": 0.0, "offsets": 0.0}
    for _ in range(3000):
        R, s = 10.0 ** random.uniform(-1, 1), int(random.integers(1, 4))
        k, radius = int(random.integers(1, 4)), R * 10.0 ** random.uniform(-1, 0.3)
        rows, other = (random.normal(size=(3, s)) * 3 * R, random.normal(size=s) * 3 * R)
        if random.random() < 0.5:  # the worst pair: as long as may be, at 120 degrees
            other = rows[0] * -0.5
            if s > 1:
                turn = np.linalg.qr(np.column_stack([rows[0], random.normal(size=s)]))[0][:, 1]
                other = other + turn * math.sqrt(0.75) * np.linalg.norm(rows[0])
            rows[0] *= 3 * R / np.linalg.norm(rows[0])
            other *= 3 * R / np.linalg.norm(other)
        centers = random.normal(size=(k, s)) * R
        made = {
            "moments": changes(lambda x, R=R: moments_in_ball(x, R), rows, other)
            / StartedNoise(1.0, R).moments_sensitivity,
            "offsets": changes(
                lambda x, c=centers, R=R, r=radius: offsets_within(x, c, R, r), rows, other
            ) / sensitivity_of(radius),
        }  # fmt: skip
        for name, one in made.items():
            assert one <= 1 + 1e-9
            most[name] = max(most[name], one)
    assert min(most.values()) > 0.99


def test_sums_are_those_of_shortened_rows():
    moments = moments_in_ball(ROWS * 0.1, 2.0)
    np.testing.assert_allclose(moments[:3], 2.0 * 0.1 * ROWS.sum(axis=0))
    assert np.linalg.norm(moments[3:]) == pytest.approx(np.linalg.norm(0.01 * ROWS.T @ ROWS))
    centers = np.array([[1.0, 0, 0], [-1, 0, 0]])
    found = offsets_within(ROWS * 0.1, centers, 2.0, 5.0)
    side = ROWS[:, 0] >= 0
    assert (found[:, 0] / 5.0).tolist() == [side.sum(), (~side).sum()]
    np.testing.assert_allclose(found[0, 1:], (0.1 * ROWS[side] - centers[0]).sum(axis=0))
    near = offsets_within(ROWS, centers, 2.0, 0.5)
    assert (np.linalg.norm(near[:, 1:], axis=1) <= near[:, 0] * (1 + 1e-12)).all()


def test_a_repeated_step_draws_the_same_noise_and_another_step_another():
    told = KMeansReach(ROWS[:4], 1.5)

    def of_offsets(rows=ROWS, told=told, noise=NOISE, shares=2, number=0, secret=SECRET):
        part = noisy_offsets(rows, told, noise, shares, number, secret)
        assert part.noise_multiplier == pytest.approx(noise.multiplier)
        plain = offsets_within(rows, told.centers, noise.largest_norm, told.radius)
        return (part.values - plain) / told.radius * np.sqrt(shares)

    def of_moments(rows=ROWS, noise=NOISE, shares=2, secret=SECRET):
        part = noisy_moments(rows, noise, shares, secret)
        assert part.noise_multiplier == pytest.approx(3.0)
        return (part.values - moments_in_ball(rows, noise.largest_norm)) * np.sqrt(shares)

    wider = StartedNoise(3.0, largest_norm=2.1)
    another = SecretKey(bytes([1]) * 32)
    for noise_of, others in (
        (of_offsets, [
            {"rows": ROWS[1:]}, {"told": KMeansReach(ROWS[:4] + 1e-12, 1.5)}, {"shares": 3},
            {"told": KMeansReach(ROWS[:4], 1.6)}, {"number": 1}, {"secret": another},
            {"noise": wider},
        ]),
        (of_moments, [{"rows": ROWS[1:]}, {"shares": 3}, {"secret": another}, {"noise": wider}]),
    ):  # fmt: skip
        first = noise_of()
        np.testing.assert_array_equal(first, noise_of())
        for other in others:
            assert np.abs(first - noise_of(**other)).min() > 1e-7
    # as much noise, on offsets that are shortened to twice the length
    half = StartedNoise(1.5, largest_norm=2.0)
    as_much = of_offsets(told=KMeansReach(ROWS[:4], 3.0), noise=half)
    assert np.abs(of_offsets() - 2.0 * as_much).min() > 1e-7


def test_shares_of_the_noise_add_up():
    none, told = np.empty((0, 30)), KMeansReach(np.zeros((100, 30)), 1.5)
    secrets = [SecretKey(bytes([i]) * 32) for i in range(4)]
    for parts, sigma in (
        ([noisy_offsets(none, told, NOISE, 4, 0, one).values for one in secrets], 9.0),
        ([noisy_moments(none, NOISE, 4, one).values for one in secrets], NOISE.moments_sigma),
    ):
        assert np.std(parts[0]) == pytest.approx(sigma / 2, rel=0.1)
        assert np.std(sum(parts)) == pytest.approx(sigma, rel=0.1)


def mixture(n, d, k=10):
    """Ten clouds of unequal sizes that touch, within a ball."""
    random = np.random.default_rng(1)
    places = random.normal(size=(k, d))
    places *= 3.0 / np.linalg.norm(places, axis=1, keepdims=True)
    kinds = random.choice(k, n, p=np.arange(3, k + 3) / sum(range(3, k + 3)))
    return places[kinds] + random.normal(size=(n, d)) * 2.0 / np.sqrt(d)


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 8, 32])
def test_fifty_thousand_rows_are_clustered_within_a_tenth_at_an_epsilon_of_one(d):
    rows = mixture(50_000, d)
    federation = Here("ab")
    noise = StartedNoise(noise_multiplier(1.0, 1e-6, 7), largest_norm=6.0, rounds=3)
    assert noise.releases == 7
    sums = PlainSum(federation)
    own = PerClient({"a": rows[:20_000], "b": rows[20_000:]})
    found = open_kmeans(federation, "sums", n_clusters=10, seed=0, sums=sums, noise=noise).fit(own)
    pooled = KMeans(10, n_init=5, random_state=0).fit(rows)
    assert inertia_of(rows, found.centers.centers) < 1.1 * pooled.inertia_
    assert math.isnan(found.centers.inertia)


@pytest.mark.parametrize("n", [10, 300])
def test_noise_that_hides_all_still_gives_centres_in_the_ball(n):
    federation = Here("ab")
    rows = np.random.default_rng(0).normal(size=(n, 5))
    noise = StartedNoise(50.0, largest_norm=2.0)
    own = PerClient({"a": rows[::2], "b": rows[1::2]})
    sums = PlainSum(federation)
    found = open_kmeans(federation, "sums", n_clusters=4, seed=0, sums=sums, noise=noise).fit(own)
    assert found.centers.centers.shape == (4, 5)
    assert (np.linalg.norm(found.centers.centers, axis=1) <= 2.0 * (1 + 1e-9)).all()


def test_values_outside_their_range_are_refused():
    with pytest.raises(InvalidInput, match="'rounds' parameter of StartedNoise must be"):
        StartedNoise(1.0, largest_norm=1.0, rounds=0)
    federation = Here("ab")
    sums = PlainSum(federation)
    with pytest.raises(InvalidInput, match="noise from the start has no parameter 'max_iter'"):
        open_kmeans(federation, "sums", n_clusters=2, seed=0, sums=sums, noise=NOISE, max_iter=3)
    kmeans = open_kmeans(federation, "sums", n_clusters=3, seed=0, sums=sums, noise=NOISE)
    with pytest.raises(InvalidInput, match="rows of all clients, 2; got 3"):
        kmeans.fit(PerClient({name: np.zeros((1, 2)) for name in "ab"}))
