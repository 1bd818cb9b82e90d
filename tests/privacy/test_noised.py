"""A client's share of the noise that protects a sum, and what the ledger says of it."""

import math

import numpy as np
import pytest

from daskfc.coding import SecretKey
from daskfc.errors import PrivacyError
from daskfc.privacy import Noised, normal_deviates, with_noise_share
from daskfc.privacy.noised import noise_of_part


def stream():
    return SecretKey.from_bytes(bytes(32)).derive("test", 1).stream()


def test_a_share_has_its_part_of_the_variance_and_the_multiplier_of_the_sum():
    values = np.arange(12.0).reshape(3, 4)
    part = with_noise_share(values, sigma=6.0, sensitivity=1.5, n_shares=9, stream=stream())
    noise = part.values - values
    np.testing.assert_allclose(noise, 2.0 * normal_deviates(values.shape, stream()), atol=1e-4)
    assert part.noise_multiplier == 4.0


def test_noise_comes_from_the_operating_system_where_no_stream_is_given():
    one, other = (
        with_noise_share(np.zeros(4), sigma=1.0, sensitivity=1.0, n_shares=2) for _ in range(2)
    )
    assert (one.values != other.values).all()


def test_an_array_without_noise_has_an_infinite_multiplier():
    assert noise_of_part(np.zeros(3)) == math.inf
    assert noise_of_part(Noised(np.zeros(3), 2.5)) == 2.5
    assert noise_of_part(Noised(np.zeros(3), 2.5), 1) == 2.5


def test_a_share_is_sent_only_where_the_others_are_sure_to_be_in_the_sum():
    part = with_noise_share(np.zeros(3), sigma=6.0, sensitivity=1.5, n_shares=4, stream=stream())
    assert noise_of_part(part, 4) == 4.0
    with pytest.raises(PrivacyError, match=r"one of 4 shares of noise must be .* among 3"):
        noise_of_part(part, 3)
