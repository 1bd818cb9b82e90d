"""Every way to add up, with all that is added up: what parties of a site perform of each."""

from contextlib import ExitStack

import numpy as np
import pytest

from daskfc.federation import Federation
from daskfc.protocols import FederatedKernelKMeans
from daskfc.testing.federation import stores_of

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("approved")]

CLIENTS = enumerate("abc")
ROWS = {name: np.random.default_rng(i).normal(3.0 * i, 1.0, (12, 2)) for i, name in CLIENTS}
AWAY = {"near": 0.0, "far": 1e9}  # from the origin, which sums tell the mean of
NOISE = {"multiplier": 0.5, "delta": 1e-5, "rounds": 2}
SUMMED = {
    "sums": {"clustering": "sums", "solver": "gram"},
    "products": {"solver": "lanczos"},
    "whole": {"communication_efficient": False},
    "noise": {"clustering": "sums", "solver": "gram", "kernel_width": 2.0, "noise": NOISE},
}


# Every two of the three together; all of them take twice as long.
WAYS = [
    pytest.param(away, averaging, summed, marks=[pytest.mark.long] if (i + j + k) % 2 else [])
    for i, away in enumerate(AWAY)
    for j, averaging in enumerate(["masked", "plain", "recovering", "shared"])
    for k, summed in enumerate(SUMMED)
]


@pytest.fixture(scope="module")
def federations(tmp_path_factory):
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(
                Federation.local(
                    stores_of(
                        tmp_path_factory.mktemp(name),
                        {client: own + shift for client, own in ROWS.items()},
                    )
                )
            )
            for name, shift in AWAY.items()
        }


@pytest.mark.few(4)
@pytest.mark.parametrize(("away", "averaging", "summed"), WAYS)
def test_a_site_performs_all_of_it(federations, away, averaging, summed):
    short = {"n_features": 8, "iterations": 2, "averaging": averaging, "patience_s": 60.0}
    model = FederatedKernelKMeans(2, **short, **SUMMED[summed]).fit(federations[away])
    assert model.labels_.shape == (36,)
