"""What all tests share: data sets, one secret of all stores, no deadlines on a busy machine."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

from daskfc.stores import id_key

settings.register_profile("daskfc", deadline=None, print_blob=True)
settings.load_profile("daskfc")

# The order of samples, and with it the draws of a seed, hangs on the secrets of the stores.
id_key.new_key = lambda: b"the same in all tests, for order"

_BESIDE = Path(__file__).parents[2] / "shared" / "data"  # of the checkout
DATA = Path(os.environ.get("DASKFC_DATA", _BESIDE))


def needs_data(test):
    """Mark a test of the real data sets, which users do not have."""
    missing = not (DATA / "mnist.npz").is_file()
    reason = "DASKFC_DATA names no folder of data sets"
    return pytest.mark.data(pytest.mark.skipif(missing, reason=reason)(test))
