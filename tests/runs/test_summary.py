"""The summary of several fits, against numbers worked out by hand."""

import numpy as np
import pytest
import xarray as xr

from daskfc.federation import Ledger
from daskfc.privacy import Accountant, GaussianEvent
from daskfc.runs import check_pipeline, load_pipeline
from daskfc.runs.outcome.communication import ledger_frame
from daskfc.runs.outcome.evaluate import Truth
from daskfc.runs.outcome.fits import Fit
from daskfc.runs.outcome.summary import summary_of
from tests.runs.fakes import ledger_row

PIPELINE = load_pipeline(
    {"method": "FedSC", "params": {"n_clusters": 2}, "compare": ["k-FED"], "seeds": [0, 1]}
)
RECORD = {"run_id": "a", "status": "running", "pipeline": PIPELINE.as_dict()}
NOISE = {"kind": "data", "sigma": 2.0, "delta": 1e-5, "epsilon": 1.0}


def fit(method, seed, total_s, peaks, rows, **facts):
    labels = xr.DataArray(
        np.arange(3),
        dims="sample",
        coords={"client": ("sample", ["a", "b", "b"]), "sample_id": ("sample", ["0", "1", "2"])},
    )
    ledger = ledger_frame(Ledger([ledger_row(**row) for row in rows]))
    timing = {f"{method}_stage_s": total_s / 2, "total_s": total_s}
    return Fit(method, seed, labels, ledger, timing, {"peak_memory_bytes": peaks, **facts})


def noisy(task):
    return {"task": task, "noise_multiplier": 2.0}


@pytest.fixture
def fits():
    first = [{"message": "One"}, {"message": "Two"}, {"message": "Two", "protection": "plain"}]
    return [
        fit("FedSC", 0, 1.0, {"client-1": 300, "server": 100}, first[:2]),
        fit("FedSC", 1, 3.0, {"client-1": 200, "server": 400}, first),
        fit("k-FED", 0, 10.0, {"client-1": 900}, [*first, *first], note="elsewhere"),
        fit("k-FED", 1, 20.0, {"client-1": 900}, first),
    ]


def summary(fits, record=RECORD, **more):
    return summary_of(record, check_pipeline(PIPELINE), fits, Truth(None), total_s=99.0, **more)


def test_seconds_are_means_over_seeds_and_stages_the_methods_own(fits):
    assert summary(fits)["timing"] == {
        "total_s": 99.0, "FedSC_stage_s": 1.0, "FedSC_fit_s": 2.0, "k-FED_fit_s": 15.0,
    }  # fmt: skip


def test_memory_is_the_peak_of_the_methods_own_fits(fits):
    assert summary(fits)["peak_memory_bytes"] == {"client-1": 300, "server": 400}


def test_messages_are_those_of_the_first_fit(fits):
    told = summary(fits)
    assert told["communication"]["messages"] == 2
    assert told["privacy"]["messages_by_protection"] == {"coded": 2}  # of two classes
    assert told["methods"]["FedSC"]["communication"]["messages"] == 2
    assert told["methods"]["k-FED"]["communication"]["messages"] == 6
    assert told["methods"]["k-FED"]["note"] == "elsewhere"


def test_clients_are_those_of_the_run_or_of_the_labels(fits):
    assert summary(fits)["n_clients"] == 2
    assert summary(fits, {**RECORD, "n_clients": 5})["n_clients"] == 5


def test_all_fits_together_cost_more_than_one():
    fits = [fit("FedSC", seed, 1.0, {}, [noisy(f"t{seed}")], noise=NOISE) for seed in (0, 1)]
    noise = summary(fits)["privacy"]["noise"]
    both = Accountant((GaussianEvent(2.0), GaussianEvent(2.0)))
    assert noise == {**NOISE, "fits": 2, "epsilon_of_all_fits": pytest.approx(both.epsilon(1e-5))}
    assert noise["epsilon_of_all_fits"] > Accountant((GaussianEvent(2.0),)).epsilon(1e-5)


def test_starts_that_broke_off_and_the_preparation_cost_as_well():
    fits = [
        fit("FedSC", seed, 1.0, {}, [noisy(f"t{seed}")], noise=NOISE, released_before=before)
        for seed, before in ((0, (3.0, 3.0)), (1, (5.0,)))
    ]
    prepared = ledger_frame(Ledger([ledger_row(task="p", noise_multiplier=7.0)]))
    noise = summary(fits, preparation=prepared)["privacy"]["noise"]
    all_of_them = Accountant(tuple(map(GaussianEvent, (2.0, 2.0, 3.0, 3.0, 5.0, 7.0))))
    assert noise["epsilon_of_all_fits"] == pytest.approx(all_of_them.epsilon(1e-5))


def test_noise_is_told_only_when_every_fit_had_it():
    fits = [
        fit("FedSC", 0, 1.0, {}, [noisy("a")], noise=NOISE),
        fit("FedSC", 1, 1.0, {}, [{}], noise=None),
    ]
    assert "noise" not in summary(fits)["privacy"]


def test_bounds_that_are_infinite_are_no_numbers():
    errors = {"client-1": {"error": 0.5, "bound": float("inf")}}
    found = summary([fit("FedSC", 0, 1.0, {}, [{}], reconstruction=errors)])
    assert found["privacy"]["reconstruction"] == {"client-1": {"error": 0.5, "bound": None}}
