"""FedSC from the last fit's dictionary: two fits of five rounds are one of ten."""

import numpy as np
import pytest

from daskfc import Federation
from daskfc.errors import DaskfcError, PrivacyError
from daskfc.protocols import FedSC
from daskfc.protocols.fedsc import start
from daskfc.testing.federation import stores_of
from tests.protocols.fedsc.one_place import ROWS, K, in_one_place

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def urls(tmp_path_factory):
    return stores_of(tmp_path_factory.mktemp("stores"), ROWS)


@pytest.fixture(scope="module")
def federation(urls):
    with Federation.local(urls) as running:
        yield running


@pytest.fixture
def keeping(federation, tmp_path):
    federation.results = str(tmp_path / "kept")
    yield federation
    federation.results = None


def test_two_fits_are_one_with_all_their_rounds(keeping, urls):
    first = FedSC(K, start="last").fit(keeping)
    assert first.start_ == "moments"
    np.testing.assert_array_equal(first.labels_.values, in_one_place(urls, rounds=5))
    second = FedSC(K, start="last").fit(keeping)
    assert second.start_ == "last"
    assert second.change_ < first.change_
    np.testing.assert_array_equal(second.labels_.values, in_one_place(urls, rounds=10))
    # the moments are not asked for again
    asked = [len([row for row in one.ledger_ if row.message == "MaskedPart"])
             for one in (first, second)]  # fmt: skip
    assert asked == [len(ROWS) * 6, len(ROWS) * 5]


def test_rounds_end_sooner(keeping):
    params = {"rounds": 50, "tolerance": 0.02, "start": "last"}
    first, second = (FedSC(K, **params).fit(keeping).n_rounds_ for _ in range(2))
    assert second < first


def test_it_says_what_it_started_from(keeping):
    said = [FedSC(K, start="last").fit(keeping).choices["start"] for _ in range(2)]
    assert "kept no dictionary" in said[0]
    assert said[1] == "the dictionary of the last fit like this one"
    assert FedSC(K).fit(keeping).choices == {}


def test_other_features_are_refused(tmp_path):
    for n_features in (4, 3):
        rows = {name: X[:, :n_features] for name, X in ROWS.items()}
        with Federation.local(stores_of(tmp_path / str(n_features), rows)) as federation:
            federation.results = str(tmp_path / "kept")
            if n_features == 4:
                FedSC(K, start="last").fit(federation)
                continue
            with pytest.raises(DaskfcError, match="4 features, and these have 3"):
                FedSC(K, start="last").fit(federation)


def test_a_server_that_keeps_nothing_says_so(federation):
    with pytest.raises(DaskfcError, match="no folder in which a result outlives its run"):
        FedSC(K, start="last").fit(federation)


def test_noise_on_factors_starts_from_nothing_that_was_learned():
    noise = {"kind": "factors", "epsilon": 4.0, "delta": 1e-5, "clip": 1.0}
    with pytest.raises(PrivacyError, match="start='normal'"):
        FedSC(K, n_atoms=4, kernel_width=1.0, start="last", noise=noise).check(3)


def test_a_client_has_no_last_result(keeping):
    keeping.start_run("r", random_state=0)
    with pytest.raises(DaskfcError, match="the server alone keeps"):
        keeping.wait(keeping.on_clients(start.find))
