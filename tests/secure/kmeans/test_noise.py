"""Noisy sums: the sensitivity by search, noise that repeats with its step, and releases."""

import itertools

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs

from daskfc.coding import SecretKey
from daskfc.errors import InvalidInput
from daskfc.federation import PerClient
from daskfc.secure.kmeans import KMeansCenters, LloydNoise, open_kmeans
from daskfc.secure.kmeans.noise import (
    centers_in_ball,
    noisy_sums,
    sensitivity_of,
    sums_in_ball,
    updated,
)
from daskfc.secure.sums import PlainSum, Total, open_sum
from daskfc.testing.federation import federation_of
from daskfc.testing.kmeans import as_given, inertia_of
from tests.secure.kmeans.here import Here

SECRET = SecretKey(bytes(32))
NOISE = LloydNoise(3.0, largest_norm=2.0, rounds=4)
ROWS = np.random.default_rng(0).normal(size=(40, 3))


def moved(rows, other, centers, R):
    """How far the sums move when the first row becomes another."""
    replaced = np.concatenate([other[None], rows[1:]])
    return np.linalg.norm(sums_in_ball(rows, centers, R) - sums_in_ball(replaced, centers, R))


@pytest.mark.slow
def test_no_replaced_row_moves_the_sums_by_more_than_the_sensitivity():
    random = np.random.default_rng(0)
    largest = 0.0
    for _ in range(3000):
        R, s, k = 10.0 ** random.uniform(-2, 2), random.integers(1, 4), random.integers(1, 5)
        rows = random.normal(size=(3, s)) * R * 10.0 ** random.uniform(-2, 2)
        other = random.normal(size=s) * R * 10.0 ** random.uniform(-2, 2)
        centers = random.normal(size=(k, s)) * R
        change = moved(rows, other, centers, R) / sensitivity_of(R)
        assert change <= 1 + 1e-9
        largest = max(largest, change)
    assert largest > 0.999


@pytest.mark.parametrize("R", [0.5, 7.0])
def test_the_sensitivity_is_reached_within_a_cluster_and_between_two(R):
    """Over all pairs of rows on a grid of the ball, in one and in two clusters."""
    corners = np.array(list(itertools.product([-1.0, 0.0, 1.0], repeat=2))) * R
    for centers in (np.zeros((1, 2)), np.array([[-R, 0.0], [R, 0.0]])):
        found = max(moved(a[None], b, centers, R) for a in corners for b in corners)
        assert found == pytest.approx(sensitivity_of(R))


def test_a_repeated_step_draws_the_same_noise_and_another_step_another():
    centers = KMeansCenters(ROWS[:4], np.nan)

    def noise_of(rows=ROWS, told=centers, noise=NOISE, shares=2, number=0, secret=SECRET):
        part = noisy_sums(rows, told, noise, shares, number, secret)
        assert part.noise_multiplier == 3.0
        return part.values - sums_in_ball(rows, told.centers, noise.largest_norm)

    first = noise_of()
    np.testing.assert_array_equal(first, noise_of())
    others = [
        noise_of(rows=ROWS[1:]),
        noise_of(told=KMeansCenters(ROWS[:4] + 1e-12, np.nan)),
        noise_of(noise=LloydNoise(3.0, largest_norm=2.1)),
        noise_of(shares=3) * np.sqrt(3 / 2),
        noise_of(number=1),
        noise_of(secret=SecretKey(bytes([1]) * 32)),
    ]
    for other in others:
        assert np.abs(first - other).min() > 1e-6


def test_shares_of_the_noise_add_up():
    centers = KMeansCenters(np.zeros((500, 3)), np.nan)
    parts = [
        noisy_sums(np.empty((0, 3)), centers, NOISE, 4, 0, SecretKey(bytes([i]) * 32)).values
        for i in range(4)
    ]
    assert np.std(parts[0]) == pytest.approx(NOISE.sigma / 2, rel=0.05)
    assert np.std(sum(parts)) == pytest.approx(NOISE.sigma, rel=0.05)


def test_a_noisy_count_below_the_floor_moves_its_centre_and_in_the_last_round_keeps_it():
    before = KMeansCenters(np.array([[0.5, 0.0], [0.0, 0.5], [0.3, 0.3]]), np.nan)
    floor = 2 * NOISE.sigma / NOISE.largest_norm  # 12
    values = np.array([[2 * floor * 1.01, 1.0, 0.0], [2 * floor * 0.99, 9.0, 9.0], [50, 999, 0]])
    total = Total(values, 0.0, ("a",))
    last = updated(before, total, NOISE, 0, NOISE.rounds - 1).centers
    np.testing.assert_allclose(last[0], [1 / (floor * 1.01), 0])
    np.testing.assert_array_equal(last[1], [0.0, 0.5])
    np.testing.assert_allclose(last[2], [2.0, 0.0])
    values[2, 1] = 25.0
    earlier = updated(before, total, NOISE, 0, 1).centers
    np.testing.assert_array_equal(earlier[0], last[0])
    np.testing.assert_allclose((earlier[1] + earlier[2]) / 2, [1.0, 0.0], atol=1e-15)
    assert np.linalg.norm(earlier[1] - earlier[2]) == pytest.approx(0.1 * NOISE.largest_norm)
    np.testing.assert_array_equal(earlier, updated(before, total, NOISE, 0, 1).centers)


def test_first_centres_know_only_the_ball():
    first = centers_in_ball(5, 3, 2.0, seed=1)
    np.testing.assert_array_equal(first, centers_in_ball(5, 3, 2.0, seed=1))
    assert (np.linalg.norm(first, axis=1) < 2.0).all()
    assert np.linalg.norm(first[0] - first[1]) > 0.5


def test_little_noise_finds_nearly_the_clusters_of_pooled_rows():
    rows, _ = make_blobs([400, 300, 200], centers=np.eye(3), cluster_std=0.1, random_state=0)
    federation = Here("abc")
    own = PerClient({name: rows[i::3] for i, name in enumerate("abc")})
    noise = LloydNoise(0.5, largest_norm=1.5, rounds=6)
    sums = PlainSum(federation)
    found = open_kmeans(federation, "sums", n_clusters=3, seed=0, sums=sums, noise=noise).fit(own)
    pooled = KMeans(3, n_init=10, random_state=0).fit(rows)
    assert inertia_of(rows, found.centers.centers) < 1.2 * pooled.inertia_
    assert np.isnan(found.centers.inertia)


def test_values_outside_their_range_are_refused():
    with pytest.raises(InvalidInput, match="'multiplier' parameter of LloydNoise must be"):
        LloydNoise(0.0, largest_norm=1.0)
    rows = PerClient({name: np.zeros((1, 2)) for name in "ab"})
    federation = Here("ab")
    kmeans = open_kmeans(
        federation, "sums", n_clusters=3, seed=0, sums=PlainSum(federation), noise=NOISE
    )
    with pytest.raises(InvalidInput, match="rows of all clients, 2; got 3"):
        kmeans.fit(rows)


@pytest.mark.few(1)
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["masked", "recovering"])
def test_the_ledger_has_every_round_and_masks_hide_the_parts(tmp_path, kind):
    rows = {f"client-{i}": ROWS[i::4] for i in range(4)}
    with federation_of(tmp_path / "stores", rows) as federation:
        federation.start_run("run", random_state=0, workspace=str(tmp_path), deadline_s=60)
        own = federation.on_clients(as_given, PerClient(rows))
        sums = open_sum(federation, kind)
        how = {"n_clusters": 3, "seed": 0, "sums": sums, "noise": NOISE}
        found = open_kmeans(federation, "sums", **how).fit(own)
        first = federation.publish(found.centers).centers
        releases = federation.ledger.releases()
        assert set(releases) == set(rows)
        for accountant in releases.values():
            assert [one.noise_multiplier for one in accountant.events] == [3.0] * NOISE.rounds
        sent = {row.message for row in federation.ledger if row.sender in rows}
        assert sent - {"KeyShares", "RevealedShares"} == {"Magnitude", "PublicKeys", "MaskedPart"}
        again = open_kmeans(federation, "sums", **how).fit(own)
        # The same steps in one run: the same noise, hence nothing new.
        np.testing.assert_array_equal(federation.publish(again.centers).centers, first)
