"""What is of few samples, or of few clients, is opened to nobody when features are prepared."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskfc import Prepare
from daskfc.errors import InvalidInput, PrivacyError
from daskfc.federation import Federation
from daskfc.federation.party.options import PartyOptions, RunSettings
from daskfc.federation.party.site_rules import PartyRules
from daskfc.secure.prepare import PreparationWarning, quantiles
from daskfc.secure.prepare.messages import CommonMagnitudes
from daskfc.secure.prepare.steps import powers_above
from daskfc.secure.sums import Total
from daskfc.site import BETWEEN_SITES, Policy, Smallest
from daskfc.stores import write_store
from tests.secure.announced import Announced

LEVELS = (0.0, 0.25, 0.5, 0.9, 1.0)


def keys_of(columns, powers):
    """The keys of one column at each client, and the powers of two that the server knows."""
    power = powers_above(np.array([np.abs(np.concatenate(columns)).max(initial=0.0)]))
    of = [quantiles.Keys([np.sort(quantiles._keys(own, power[0] if powers else None))], "column")
          for own in columns]  # fmt: skip
    return of, CommonMagnitudes(power) if powers else None


def counted(keys, told):
    """The sum of the clients' counts."""
    return Total(sum(quantiles.histograms(own, told) for own in keys), 0.0, ("a",) * len(keys))


def searched(columns, smallest, levels=LEVELS):
    """The last state of a search in one column over clients, and all ranges told on the way."""
    keys, magnitudes = keys_of(columns, smallest != Smallest())
    site, ranges = Announced(smallest), []
    search = quantiles.begun(counted(keys, None), levels, magnitudes, site)
    for _ in range(7):
        ranges.append(quantiles.narrowed(search))
        search = quantiles.continued(counted(keys, ranges[-1]), search, site)
    return search, ranges, keys


def found_of(columns, smallest, levels=LEVELS):
    """The quantiles of one column over clients, by the server's and the clients' steps."""
    return quantiles.quantiles_of(searched(columns, smallest, levels)[0]).values[0]


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
        below, above = max(int(np.floor(at)) - 10, 0), min(int(np.ceil(at)) + 10, n - 1)
        low, high = ranked[[below, above]]
        beyond = (high - low) / 14 + np.abs(ranked).max() * 2.0**-50
        assert low - beyond <= told <= high + beyond


random = np.random.default_rng(1)
COLUMNS = {
    "normal": random.normal(size=150),
    "few beyond 2": np.r_[random.normal(size=146), -2.1, -2.2, -2.3, 2.5],
    "few above a power of two": np.r_[random.normal(6e4, 1e4, 146), 140e3, 150e3, 160e3, 180e3],
    "few of a month after a round number": np.r_[random.integers(20210, 20224, 147), [20230.0] * 3],
    "few ones": np.r_[np.zeros(147), np.ones(3)],
    "a code": np.r_[random.lognormal(10, 0.5, 149), 1e9],
    "a constant": np.full(150, 0.1),
    "few samples": random.uniform(7.35, 7.45, 12),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_the_ends_of_a_column_are_within_a_tenth_of_its_range(name):
    """Ends were exponents, 131072 in place of 2.5, and all of a scaled column nearly the same."""
    pooled = np.random.default_rng(0).permutation(COLUMNS[name])
    found = found_of([pooled[i::3] for i in range(3)], BETWEEN_SITES)
    ranked, width = np.sort(pooled), np.ptp(pooled)
    assert ranked[0] - width / 10 <= found[0] <= ranked[0] + 1e-12
    assert ranked[-1] - 1e-12 <= found[-1] <= ranked[-1] + width / 10
    for level, told in zip(LEVELS[1:-1], found[1:-1], strict=True):
        near = ranked[max(int(level * (len(ranked) - 1)) - 5, 0) :][:11]
        assert near[0] - 1e-12 <= told <= near[-1] + 1e-12


def test_the_clients_of_a_range_are_enough():
    """A range was widened to enough samples, whosever they were."""
    apart = [np.linspace(0.0, 10.0, 40), np.linspace(20.0, 30.0, 40)]
    search, _, _ = searched(apart, BETWEEN_SITES)
    low, high = (quantiles._values(one, search.powers)[0] for one in (search.low, search.high))
    for own in apart:
        assert ((own >= low.max()) & (own <= high.min())).any()


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


@pytest.mark.parametrize("pooled", [np.arange(40.0), np.r_[np.arange(39.0), 1e6]])
def test_nothing_is_asked_further_where_few_samples_are_left(pooled):
    search, ranges, (keys,) = searched([pooled], Smallest(samples=5))
    for told in (*ranges, search):
        for low, high in zip(told.low[0], told.high[0], strict=True):
            within = ((keys.columns[0] >= low) & (keys.columns[0] <= high)).sum()
            assert within >= 5 or (low, high) == (1, 0)
    assert not search.goes_on.any()
    assert not set(found_of([pooled], Smallest(samples=5))) & set(pooled[1:])


def test_counts_of_few_narrow_no_range():
    keys, magnitudes = keys_of([np.arange(40.0)], powers=True)
    site = Announced(Smallest(samples=5))
    search = quantiles.begun(counted(keys, None), (1.0,), magnitudes, site)
    told = counted(keys, quantiles.narrowed(search)).values
    told[:-1] = np.where(told[:-1] > 0.0, 2.0**33 + 4, 0.0)
    after = quantiles.continued(Total(told, 0.0, ("a",)), search, site)
    assert not after.goes_on.any()
    np.testing.assert_array_equal([after.low, after.high], [search.low, search.high])


def test_ranges_serve_the_columns_and_the_round_that_they_are_of():
    """A submitter had one search's ranges hold another's single sample, and was told where."""
    keys, magnitudes = keys_of([np.arange(40.0)], powers=True)
    shifted = [quantiles.Keys(own.columns, "column, shifted") for own in keys]
    site = Announced(Smallest(samples=5))
    first, others = counted(keys, None), counted(shifted, None)
    search = quantiles.begun(first, LEVELS, magnitudes, site)
    of_others = quantiles.begun(others, LEVELS, magnitudes, site)
    with pytest.raises(PrivacyError, match="got those of others"):
        quantiles.histograms(shifted[0], quantiles.narrowed(search))
    told = quantiles.narrowed(quantiles.begun(first, (1.0,) * 5, magnitudes, site))
    for total in (first, counted(keys, told), counted(shifted, quantiles.narrowed(of_others))):
        with pytest.raises(PrivacyError, match="got those of others"):
            quantiles.continued(total, search, site)
    quantiles.continued(counted(keys, quantiles.narrowed(search)), search, site)


def test_two_preparations_with_one_mark_are_not_both_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(quantiles, "mark_of", lambda *told: 7)
    run = RunSettings("r", 0, start="s", builds={}, request={"method": "preparation"})
    rules = PartyRules(
        PartyOptions("a", "client", str(tmp_path), policy=Policy(), run=run, store="/own")
    )
    values = [np.zeros(0, np.uint64)]
    for _ in range(2):
        quantiles.histograms(quantiles.Keys(values, "a preparation"), None, rules)
    with pytest.raises(PrivacyError, match="a start has one counts with a mark"):
        quantiles.histograms(quantiles.Keys(values, "another"), None, rules)


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
