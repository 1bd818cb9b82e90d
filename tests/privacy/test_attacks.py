"""Generic attacks against what is known, and what they find before and after protection."""

from pathlib import Path

import numpy as np
import pytest

from daskfc.coding import SecretKey
from daskfc.errors import InvalidInput
from daskfc.federation.methods.sample_keys import own_digest_key
from daskfc.federation.methods.samples import canonical_positions, sample_digests
from daskfc.privacy import (
    averaged_releases,
    guesses_behind,
    holders_by_order,
    rows_by_distances,
    terms_of_subset_sums,
)
from daskfc.stores import ClientStore, write_store
from daskfc.stores.layout import id_key
from pipelines.attacks.distances import KNOWN, SETS, rows_beside_known
from pipelines.attacks.samples import holders_found, ids_found, rows_found


@pytest.fixture(autouse=True)
def own_secrets(monkeypatch):
    """Stores have secrets of their own, as outside of tests."""
    monkeypatch.setattr(id_key, "new_key", lambda: SecretKey.from_os().to_bytes())


def test_guesses_are_tried_in_order_until_all_are_found():
    tried = []

    def digest(value):
        tried.append(value)
        return value % 7

    assert guesses_behind([3, 0, 3, 8], range(100), digest) == [3, 0, 3, None]
    assert tried == list(range(100))  # nothing has 8
    tried.clear()
    assert guesses_behind([3, 0], iter([7, 10, 3]), digest) == [10, 7]
    assert tried == [7, 10]
    assert guesses_behind([], range(3), digest) == []


def test_an_order_tells_holders_to_who_has_all_digests():
    random = np.random.default_rng(0)
    digests = random.permutation(50)
    holders = random.choice(list("abc"), 50).tolist()
    by_place = [holders[i] for i in np.argsort(digests)]
    assert holders_by_order(digests, by_place) == holders
    with pytest.raises(InvalidInput, match="got 3 places and guesses of shape"):
        holders_by_order([1, 2], ["a", "b", "c"])
    with pytest.raises(InvalidInput, match="got 0 places"):
        holders_by_order([1, 2], [])


def test_terms_that_subsets_single_out_are_exact_and_others_are_none():
    random = np.random.default_rng(0)
    terms = random.normal(size=(5, 3, 2))
    members = np.array([[1, 1, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 1, 1], [0, 0, 0, 1, 1]])
    found = terms_of_subset_sums(members, np.tensordot(members, terms, 1))
    assert found.determined.tolist() == [True, True, True, False, False]
    np.testing.assert_allclose(found.values[:3], terms[:3], atol=1e-12)
    assert np.abs(found.values[3:] - terms[3:]).max() > 0.1


def test_terms_are_computed_in_double_precision_whatever_is_given():
    random = np.random.default_rng(0)
    members = np.eye(4) + (random.random((4, 4)) < 0.5)
    terms = random.integers(1, 9, size=4)
    for kind in (np.float32, np.uint8, object):
        found = terms_of_subset_sums(members.astype(kind), (members @ terms).astype(kind))
        assert found.determined.all()
        np.testing.assert_allclose(found.values, terms, rtol=0, atol=1e-12)
    found = terms_of_subset_sums([[1, 0], [1, 1]], [2**70, 2**71])  # which no int64 holds
    np.testing.assert_allclose(found.values, 2.0**70, rtol=1e-12)


def test_terms_that_follow_something_known_are_found_too():
    random = np.random.default_rng(0)
    terms, known = random.normal(size=(4, 3)), random.normal(size=(40, 3))
    members = np.array([random.permutation([1, 1, 0, 0]) for _ in range(40)])
    sums = members @ terms + 0.7 * members.sum(axis=1, keepdims=True) * known
    found = terms_of_subset_sums(members, sums, known)
    np.testing.assert_allclose(found.values, terms + 0.7 * known.mean(axis=0), atol=1e-9)
    blind = terms_of_subset_sums(members, sums)
    assert np.abs(blind.values - found.values).max() > 0.1


@pytest.mark.parametrize(
    ("members", "sums", "follows"),
    [
        ([1, 0], [1.0, 2.0], None),
        ([[1, 0]], [1.0, 2.0], None),
        ([[1, 0]], [np.nan], None),
        ([[1, 0]], [1.0], [1.0, 2.0]),
        ([[1, 0]], [1.0], [np.inf]),
    ],
)
def test_sums_that_do_not_fit(members, sums, follows):
    with pytest.raises(InvalidInput, match=r"of an attack must be finite|an attack on subset sums"):
        terms_of_subset_sums(members, sums, follows)


def test_independent_noise_averages_away_and_equal_noise_stays():
    random = np.random.default_rng(0)
    releases = random.normal(size=(64, 1000))
    assert averaged_releases(releases).std() == pytest.approx(1 / 8, rel=0.1)
    np.testing.assert_array_equal(averaged_releases([releases[0]] * 4), releases[0])
    for wrong in ([], [np.zeros(2), np.zeros(3)]):
        with pytest.raises(InvalidInput, match="arrays of one shape"):
            averaged_releases(wrong)


@pytest.mark.parametrize("known", [1, 2, 4, 6, 9])
def test_rows_are_placed_as_near_as_known_rows_span(known):
    """The slow way: the point of the affine span that least squares find."""
    random = np.random.default_rng(known)
    points, X = random.normal(size=(known, 5)), random.normal(size=(40, 5))
    rows, left = rows_by_distances(points, ((X[:, None] - points) ** 2).sum(axis=2))
    for x, row, far in zip(X, rows, left, strict=True):
        steps = (points[1:] - points[0]).T
        best = np.linalg.lstsq(steps, x - points[0], rcond=None)[0] if known > 1 else np.zeros(0)
        np.testing.assert_allclose(row, points[0] + steps @ best, atol=1e-9)
        assert far == pytest.approx(np.linalg.norm(x - row), abs=1e-6)
    if known > 5:
        np.testing.assert_allclose(rows, X, atol=1e-9)


@pytest.mark.parametrize(
    ("known", "squared"),
    [
        ([[0.0]], [[1.0, 2.0]]), ([0.0], [[1.0]]), (np.empty((0, 2)), np.empty((3, 0))),
        ([[np.nan]], [[1.0]]), ([[0.0]], [[np.inf]]),
    ],
)  # fmt: skip
def test_distances_that_do_not_fit(known, squared):
    with pytest.raises(InvalidInput, match="for each unknown row a finite squared distance"):
        rows_by_distances(known, squared)


def test_the_page_has_the_curve_of_known_rows():
    page = (Path(__file__).parents[2] / "docs" / "attacks.md").read_text(encoding="utf-8")
    for known in KNOWN:
        cells = (rows_beside_known(name, known) for name in SETS)
        row = " | ".join("{:.2f} ({:.2f})".format(*found) for found in cells)
        assert f"| {known} | {row} |" in page


# -- before and after ------------------------------------------------------------------------------


def test_ids_behind_digests_are_found_with_the_key_alone(tmp_path):
    before, now = ids_found(n=50, register=500)
    assert (before, now) == (1.0, 0.0)
    url = str(tmp_path / "a.zarr")
    write_store(url, "a", np.zeros((3, 1)), ["p7", "p1", "p3"])
    store = ClientStore.open(url)
    key, names = own_digest_key(store), [f"p{i}" for i in range(10)]
    seen = sample_digests(store, key).digests.tolist()
    every = str(tmp_path / "every.zarr")
    write_store(every, "every", np.zeros((10, 1)), names)
    of = dict(zip(names, sample_digests(ClientStore.open(every), key).digests, strict=True))
    assert guesses_behind(seen, names, lambda name: int(of[name])) == ["p7", "p1", "p3"]


def test_rows_behind_a_digest_are_not_found_without_the_clients_key():
    assert rows_found() == (True, False)


def test_an_order_tells_evaluators_nothing_of_holders():
    before, now = holders_found()
    assert before == 1.0
    assert now == pytest.approx(1 / 3, abs=0.12)  # as by guessing


def test_an_evaluators_own_share_does_not_give_it_the_order(tmp_path):
    """It has the key, all ids and one share; of the others it can try a few."""
    random, stores = np.random.default_rng(0), {}
    names = random.permutation([f"p{i}" for i in range(90)]).tolist()
    for i, client in enumerate("abc"):
        url = str(tmp_path / f"{client}.zarr")
        write_store(url, client, np.zeros((30, 1)), names[30 * i : 30 * i + 30])
        stores[client] = ClientStore.open(url)
    key = own_digest_key(stores["a"])
    parts = {client: sample_digests(store, key) for client, store in stores.items()}
    places = np.concatenate(list(canonical_positions(parts).values()))
    for shares in ((0, 0), (1, 2), (parts["a"].share,) * 2):
        guessed = dict(parts)
        for client, share in zip("bc", shares, strict=True):
            guessed[client] = type(parts["b"])(parts[client].digests, share)
        tried = np.concatenate(list(canonical_positions(guessed).values()))
        assert np.mean(tried == places) < 0.1
        assert abs(np.corrcoef(tried, places)[0, 1]) < 0.4
