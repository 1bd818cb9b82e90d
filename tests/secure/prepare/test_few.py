"""What is of few samples, or of few clients, is opened to nobody when features are prepared."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskfc import Prepare
from daskfc.errors import InvalidInput
from daskfc.federation import Federation
from daskfc.secure.prepare import PreparationWarning, quantiles
from daskfc.secure.sums import Total
from daskfc.site import BETWEEN_SITES, Smallest
from daskfc.stores import write_store
from tests.secure.announced import Announced

LEVELS = (0.0, 0.25, 0.5, 0.9, 1.0)


def found_of(columns, smallest):
    """The quantiles of one column over clients, by the server's and the clients' steps."""
    keys = [[np.sort(quantiles._keys(own))] for own in columns]
    site, told, search = Announced(smallest), None, None
    for _ in range(8):
        sums = sum(quantiles.histograms(own, told) for own in keys)
        total = Total(sums, 0.0, ("a", "b"))
        if search is None:
            search = quantiles.begun(total, LEVELS, site)
        else:
            search = quantiles.continued(total, search, site)
        told = quantiles.narrowed(search)
    return quantiles.quantiles_of(search).values[0]


values = st.lists(st.floats(-1e300, 1e300, allow_subnormal=False), min_size=8, max_size=60)


@given(values, st.sampled_from([1.0, 1e4, 1e-9]))
@settings(max_examples=150, deadline=None)
def test_a_quantile_is_among_the_samples_next_to_it(drawn, near):
    pooled = np.array(drawn) if near == 1.0 else near + np.arange(len(drawn)) / 7.0
    columns = [pooled[::2], pooled[1::2]]
    exact = np.quantile(pooled, LEVELS)
    np.testing.assert_allclose(found_of(columns, Smallest()), exact, rtol=1e-14)
    ranked, n = np.sort(pooled), len(pooled)
    for level, told in zip(LEVELS, found_of(columns, Smallest(samples=5)), strict=True):
        at = level * (n - 1)
        below, above = int(np.floor(at)) - 10, int(np.ceil(at)) + 10
        # A range ends where floats with the same first byte do, at the widest.
        low = ranked[max(below, 0)] - np.abs(ranked).max() * (below < 0)
        high = ranked[min(above, n - 1)] + np.abs(ranked).max() * (above >= n)
        assert low - np.abs(low) * 2**16 <= told <= high + np.abs(high) * 2**16


def test_many_values_give_quantiles_near_the_exact_ones():
    random = np.random.default_rng(0)
    pooled = random.normal(size=2000) + 1e4
    columns = [pooled[i::3] for i in range(3)]
    ranked = np.sort(pooled)
    found = found_of(columns, BETWEEN_SITES)
    for level, told in zip(LEVELS[1:-1], found[1:-1], strict=True):
        at = level * 1999
        assert ranked[int(at) - 10] <= told <= ranked[int(at) + 11]
    assert not set(found) & set(pooled)


def test_nothing_is_asked_further_where_few_samples_are_left():
    pooled = np.arange(40.0)
    site, keys = Announced(Smallest(samples=5)), [np.sort(quantiles._keys(pooled))]
    search = quantiles.begun(Total(quantiles.histograms(keys, None), 0.0, ("a",)), (0.5,), site)
    for _ in range(7):
        told = quantiles.narrowed(search)
        for prefix in told.prefixes[0][told.prefixes[0] != quantiles._NOWHERE]:
            same = (keys[0] >> np.uint64(64 - told.bits)) == (prefix >> np.uint64(64 - told.bits))
            assert same.sum() >= 5
        search = quantiles.continued(
            Total(quantiles.histograms(keys, told), 0.0, ("a",)), search, site
        )
    assert (search.prefixes == quantiles._NOWHERE).all()


def test_a_column_of_one_client_has_no_quantile():
    alone = found_of([np.arange(50.0), np.array([])], BETWEEN_SITES)
    assert np.isnan(alone).all()
    assert np.isnan(found_of([np.arange(2.0), np.arange(2.0)], BETWEEN_SITES)).all()


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    folder, urls = tmp_path_factory.mktemp("stores"), {}
    for name in "abc":
        table = pd.DataFrame({"age": np.arange(40.0) % 8, "ward": ["east", "west"] * 20})
        table.loc[:7, "ward"] = f"own of {name}" if name != "c" else "east"
        table["rare"] = np.where(np.arange(40) < (4 if name == "a" else 0), 1.0, np.nan)
        table["own"] = 1.0 if name == "b" else np.nan
        urls[name] = f"{folder}/{name}.zarr"
        write_store(urls[name], name, table, categorical=["ward"], missing="keep")
    with Federation.local(urls) as running:
        yield running


@pytest.mark.slow
def test_words_of_one_client_count_as_others(federation):
    federation.smallest = BETWEEN_SITES
    with pytest.warns(PreparationWarning, match="2 words of column 'ward' are of too few clients"):
        found = Prepare(["one-hot"]).fit(federation)
    told = next(step["words"] for step in found.steps["a"] if "words" in step)
    assert list(told["ward"]) == ["east", "west"]
    assert "own of" not in str(found.steps)
    federation.smallest = Smallest()
    with pytest.warns(PreparationWarning, match="one client alone"):
        found = Prepare(["one-hot"]).fit(federation)
    told = next(step["words"] for step in found.steps["a"] if "words" in step)
    assert list(told["ward"]) == ["east", "own of a", "own of b", "west"]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["mean", "median", "most-frequent"])
def test_columns_of_few_are_told_of_to_nobody(federation, strategy):
    federation.smallest = BETWEEN_SITES
    asked = {"impute": {"strategy": strategy}}
    with pytest.raises(InvalidInput, match=r"column '(rare|own)' has no value"):
        Prepare([asked]).fit(federation)
    federation.smallest = Smallest()
