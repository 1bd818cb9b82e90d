"""What a submitter's own numbers in a preparation tell of a site's samples."""

import math

import numpy as np
import pytest

from daskfc.coding import SecretKey
from daskfc.errors import PolicyRefused, PrivacyError
from daskfc.federation.party.options import PartyOptions, RunSettings
from daskfc.federation.party.site_rules import PartyRules
from daskfc.federation.steps.rules import Announced, broken_rule
from daskfc.secure.prepare import steps
from daskfc.secure.prepare.declared import Declared, noisy_moments
from daskfc.secure.prepare.messages import FittedMeans
from daskfc.site import Policy, SiteState
from daskfc.site.approved import StepUse
from daskfc.stores import ClientStore
from daskfc.testing.federation import stores_of

NAN = [{"step": "standardise", "mean": [9.0], "scale": [1e-300]}] * 2 + [{"step": "normalise"}]
RANGE = {"low": (0.0,), "high": (1.0,), "multiplier": 8.0}


@pytest.fixture
def store(tmp_path):
    return ClientStore.open(stores_of(tmp_path / "of", {"a": np.arange(40.0)[:, None]})["a"])


@pytest.fixture
def rules(tmp_path):
    def make(noised=False, **policy):
        state = str(tmp_path / "state.sqlite")
        SiteState(state)
        asked = {"method": "preparation", "parameters": {"noised": noised}}
        run = RunSettings("r", 0, start="s", builds=dict.fromkeys("abc", ""), request=asked)
        told = {"policy": Policy(**policy), "run": run, "store": "/own", "state": state}
        return PartyRules(PartyOptions("a", "client", str(tmp_path), **told))

    return make


@pytest.mark.parametrize(
    ("changed", "sound"),
    [
        ({}, True),
        ({"low": (1.0,)}, False),  # 0 / 0 told who has the value
        ({"low": (1.0 - 1e-16,)}, True),
        ({"high": (1e-200,)}, False),
        ({"low": (-math.inf,)}, False),
        ({"low": (-1.7e308,), "high": (1.7e308,)}, False),
        ({"high": (math.nan,)}, False),
        ({"high": (1.0, 1.0)}, False),
        ({"low": (), "high": ()}, False),
        ({"low": ("0",)}, False),
        ({"multiplier": 0.0}, False),
        ({"multiplier": math.inf}, False),
    ],
)
def test_ranges_that_are_declared_are_ranges(changed, sound):
    given = {"so_far": [], "n_shares": 1, "declared": Declared(**RANGE | changed)}
    assert (broken_rule(noisy_moments, given, Announced(clients=("a",))) is None) == sound


def test_noise_is_paid_for_before_a_value_is_read(store, rules):
    """Noise too small for a sum failed, and whoever chose it found the sum, for nothing."""
    site, key = rules(budget={"epsilon": 1.0, "delta": 1e-5}), SecretKey.from_os()

    def ask(so_far=(), **changed):
        return noisy_moments(store, list(so_far), Declared(**RANGE | changed), 1, key, site)

    with pytest.raises(PolicyRefused, match="by its rule 'budget'"):
        ask(multiplier=1e-9)
    assert site._state.datasets() == ()
    for so_far in ([], [], NAN):
        assert np.isfinite(ask(so_far).values).all()
    (data_set,) = site._state.datasets()
    spent = site._state.spent(data_set)
    assert sum(event.count for event in spent.events) == 2
    site.charge(data_set, ask().noise_multiplier, "of the message")  # which is no second release
    assert site._state.spent(data_set) == spent
    free = rules()
    for low, high in ((0.0, 1.0), (1e9, 2e9)):  # whatever the values are
        with pytest.raises(PrivacyError, match="too many samples for so little noise"):
            noisy_moments(store, [], Declared((low,), (high,), 2.8e-5), 1, key, free)
        noisy_moments(store, [], Declared((low,), (high,), 2.9e-5), 1, key, free)


def test_beside_noise_nothing_is_refused_by_what_samples_are(store, rules):
    clipped = [{"step": "clip", "low": 37.5}]
    rules(noised=True).check_clips(store, clipped)
    with pytest.raises(PolicyRefused, match=r"by its rule 'groups\.samples'"):
        rules().check_clips(store, clipped)


def test_magnitudes_of_columns_are_told_of_few_preparations(store, rules):
    """By 16 shifts of the caller's own, or means of the server's, they were 16 bits of a value."""
    site, moved = rules(), [[{"step": "min-max", "low": [x], "width": [1.0]}] for x in range(5)]
    for so_far in (*moved[:4], *moved[:4]):
        steps.column_magnitudes(store, so_far, None, site)
    for at in range(4):
        steps.column_magnitudes(store, moved[at], FittedMeans(np.array([0.5])), site)
    means = FittedMeans(np.array([0.25]))
    for given in ((moved[4], None), (moved[0], means)):
        with pytest.raises(PrivacyError, match=r"4 different magnitudes of columns.* at most"):
            steps.column_magnitudes(store, *given, site)


@pytest.mark.parametrize(
    ("step", "sound"),
    [
        ({"step": "clip", "low": None, "high": 1e300}, True),
        ({"step": "clip", "low": math.nan}, False),
        ({"step": "min-max", "low": {"x": 0.0}, "width": {"x": 1.0}}, True),
        ({"step": "min-max", "low": {"x": 0.0}, "width": {"x": 5e-324}}, False),
        ({"step": "standardise", "mean": [0.0], "scale": [0.0]}, False),
        ({"step": "standardise", "mean": [math.inf], "scale": [1.0]}, False),
        ({"step": "impute", "fill": ["x"]}, False),
        ({"step": "standardise", "own": True}, True),
    ],
)
def test_numbers_that_leave_no_numbers_are_refused(rules, step, sound):
    """Those above a bound were made NaN, and an error told how many rows have one."""
    use = StepUse("daskfc.secure.prepare.steps.zero_rows", "client", frozenset(), {},
                  given={"so_far": [step]})  # fmt: skip
    if sound:
        rules().check_step(use)
    else:
        with pytest.raises(PolicyRefused, match="by its rule 'preparation'"):
            rules().check_step(use)
