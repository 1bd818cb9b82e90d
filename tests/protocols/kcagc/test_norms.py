"""Norms over all participants, where a code for missing values is far beyond all rows."""

import numpy as np
import pytest

from daskfc.errors import OverflowRefused
from daskfc.protocols.kcagc import party, server
from daskfc.protocols.kcagc.messages import GlobalNorms
from daskfc.secure.sums import Total

ROWS = np.random.default_rng(0).normal(size=(100, 3))
OWN = (ROWS**2).sum(axis=1)


def total(values, error):
    return Total(values[:, None], error, ("a", "b"))


def test_norms_whose_step_is_small_are_told():
    assert server.global_norms(total(OWN - 1e-4, 1e-4)).squared == pytest.approx(OWN, abs=2e-4)
    assert (server.global_norms(total(np.full(3, -1e-9), 1e-9)).squared == 0.0).all()


def test_norms_that_are_steps_of_the_sum_are_refused():
    coarse = 2.0 * np.rint(OWN / 2.0)
    coarse[0] = 1e18
    with pytest.raises(OverflowRefused, match="lost beside those of others"):
        server.global_norms(total(coarse, 1.0))


@pytest.mark.parametrize("lost", [0, 1, 2, 99])
def test_a_participant_refuses_norms_below_those_of_its_own_columns(lost):
    told = 2.0 * OWN
    told[:lost] = 0.0
    if lost > 1:  # more than one in a hundred
        with pytest.raises(OverflowRefused, match="participant 'client-1' are lost beside"):
            party.divide_by_norms(ROWS, GlobalNorms(told), "client-1")
        return
    found = party.divide_by_norms(ROWS, GlobalNorms(told), "client-1")
    np.testing.assert_allclose((found**2).sum(axis=1)[lost:], 0.5)
