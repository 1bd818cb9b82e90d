"""A client whose columns have one value each adds nothing to any distance."""

import numpy as np
import pytest

from daskfc.secure.distances.parties.by_columns import _own_view
from daskfc.stores import ClientStore
from daskfc.testing.federation import stores_of


@pytest.mark.parametrize("value", [0.0, 1e15, 1.7e18, 0.3])
@pytest.mark.parametrize("balance", [False, True])
def test_a_column_of_one_value_is_seen_from_it(tmp_path, value, balance):
    """One date for all samples was refused as far from others."""
    (url,) = stores_of(tmp_path, {"a": np.full((5, 1), value)}).values()
    store = ClientStore.open(url)
    seen = _own_view(store, True, balance)
    assert not seen.rows(store.rows(0, 5)).any()
