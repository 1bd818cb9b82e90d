"""What FedSC's repeated releases and changing subsets tell, before and after: measured attacks."""

import numpy as np
import pytest

from daskfc.coding import SecretKey
from daskfc.errors import PrivacyError
from daskfc.privacy import averaged_releases
from daskfc.protocols import FedSC
from daskfc.protocols.fedsc.party import new_samples, samples_of
from daskfc.protocols.fedsc.privacy.noise import DataNoise
from daskfc.stores import ClientStore, write_store
from pipelines.attacks.rounds import averaged_rows, subset_dictionaries

RUN, DURABLE = (SecretKey.from_bytes(bytes([i]) * 32) for i in (1, 2))
CLAIM = {"kind": "data", "epsilon": 2.0, "delta": 1e-5, "clip": 10.0}
FACTORS = {"kind": "factors", "epsilon": 4.0, "delta": 1e-5, "clip": 1.0}


def store(folder, name, rows, ids):
    url = str(folder / f"{name}.zarr")
    write_store(url, "client-1", rows, ids)
    return ClientStore.open(url)


def test_releases_of_the_same_samples_do_not_average_away(tmp_path):
    """Sixteen stores of the same samples in other orders, as a site may well hold them."""
    random = np.random.default_rng(0)
    X, ids = random.normal(size=(30, 8)), np.array([f"p{i}" for i in range(30)])
    noise, releases = DataNoise(2.0), []
    first = samples_of(store(tmp_path, "fit", X, ids), noise, RUN, DURABLE)
    for turn in range(16):
        order = random.permutation(30)
        again = store(tmp_path, str(turn), X[order], ids[order])
        told = new_samples(again, noise, RUN.derive(turn), DURABLE)
        releases.append(told.values[np.argsort(order)])
    left = (averaged_releases(releases) - X).std()
    assert left == pytest.approx(2.0, rel=0.15)  # 0.5 with fresh noise in each
    np.testing.assert_array_equal(releases[3], first)
    assert (first - X).mean() == pytest.approx(0.0, abs=0.6)


def test_the_same_noise_is_of_the_same_sample_alone(tmp_path):
    """Equal rows do not show as equal; another sigma, secret or value has other noise."""
    X, ids = np.zeros((40, 30)), np.array([f"p{i}" for i in range(40)])
    own = store(tmp_path, "own", X, ids)
    moved = store(tmp_path, "moved", X + 1e-9, ids)
    renamed = store(tmp_path, "renamed", X, np.char.add(ids, "b"))
    told = [
        samples_of(own, DataNoise(2.0), RUN, DURABLE),
        samples_of(own, DataNoise(np.nextafter(2.0, 3.0)), RUN, DURABLE),
        samples_of(own, DataNoise(2.0), RUN, DURABLE.derive("another client")),
        samples_of(moved, DataNoise(2.0), RUN, DURABLE),
        samples_of(renamed, DataNoise(2.0), RUN, DURABLE),
    ]
    rows = np.corrcoef(np.concatenate(told[:1]))
    assert np.abs(rows - np.eye(40)).max() < 0.85  # of 780 pairs of 30 numbers
    found = np.corrcoef(np.stack(told).reshape(len(told), -1))
    assert np.abs(found - np.eye(len(told))).max() < 0.15
    assert np.stack(told).std() == pytest.approx(2.0, rel=0.03)


def test_noise_that_guarantees_something_is_fresh_and_counted(tmp_path):
    """The same noise would tell whether a row is the same as before."""
    own = store(tmp_path, "own", np.zeros((40, 30)), [f"p{i}" for i in range(40)])
    noise = DataNoise(2.0, 10.0, 1e-5)
    one = samples_of(own, noise, RUN, DURABLE)
    two = new_samples(own, noise, RUN, DURABLE)
    assert abs(np.corrcoef(one.ravel(), two.values.ravel())[0, 1]) < 0.15
    assert noise.prediction_multiplier == pytest.approx(0.1)


def test_averages_measured():
    fresh, same = averaged_rows(repeats=16)
    assert fresh == pytest.approx(0.25, rel=0.1)
    assert same == pytest.approx(1.0, rel=0.1)


# -- masked sums over changing subsets -------------------------------------------------------------


def test_changing_subsets_give_single_dictionaries_and_one_subset_gives_none():
    some, everybody = subset_dictionaries(0.6), subset_dictionaries(1.0)
    assert some[0] == 5
    assert some[1] < 0.3
    assert subset_dictionaries(0.6, rounds=20)[1] < 0.5
    assert everybody == (0, pytest.approx(1.0))  # nothing but the mean of all, which it has


@pytest.mark.parametrize("averaging", ["masked", "recovering", "shared"])
def test_some_clients_in_a_round_are_refused_under_masks(averaging):
    some = {"n_clusters": 3, "participation": 0.6, "averaging": averaging}
    with pytest.raises(
        PrivacyError, match=r"participation=0.6 .* other 3 of the 5 clients .* Give"
    ):
        FedSC(**some).check(5)
    for noise in ({"kind": "data", "sigma": 1.0}, {"kind": "factors", "relative_dictionary": 0.1}):
        with pytest.raises(PrivacyError, match="single clients' dictionaries"):
            FedSC(**some, noise=noise).check(5)


def test_some_clients_in_a_round_may_be_asked_for():
    FedSC(3, participation=0.6, allow_few=True).check(5)
    FedSC(3, participation=0.6, averaging="plain").check(5)
    FedSC(3, participation=0.9).check(5)  # all five of them
    FedSC(3, participation=0.6, noise=CLAIM).check(5)
    own = {"kernel_width": 2.5, "n_atoms": 8, "start": "normal"}
    FedSC(3, participation=0.6, noise=FACTORS, **own).check(5)
    FedSC(3, participation=0.6).check()  # nobody knows yet how many
