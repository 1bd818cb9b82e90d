"""What a caller asks for as noise: which entries go together, and what follows from them."""

import pytest

from daskfc.checks import integer
from daskfc.errors import InvalidInput
from daskfc.privacy import Accountant, GaussianEvent, asked_noise, multiplier_of_each


def test_no_noise_is_asked_for_by_none():
    assert asked_noise(None, "M") is None


def test_entries_of_none_are_not_given():
    given = asked_noise({"epsilon": None, "multiplier": 2, "delta": 1e-5}, "M")
    assert given == {"multiplier": 2, "delta": 1e-5}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (3.0, "^the noise of M must be a mapping, or None; got float. Give 'delta'"),
        ({}, "must have 'delta' and one of 'epsilon' and 'multiplier'; got nothing"),
        ({"delta": 0.1}, "got delta. Correct"),
        ({"epsilon": 1.0}, "got epsilon. Correct"),
        ({"epsilon": 1.0, "multiplier": 1.0, "delta": 0.1}, "got delta, epsilon, multiplier"),
        (
            {"epsilon": 1.0, "delta": 1.0},
            "'delta' parameter of the noise of M must be a number str",
        ),
        ({"epsilon": 0.0, "delta": 0.1}, "'epsilon' parameter of the noise of M must be"),
        ({"multiplier": -1.0, "delta": 0.1}, "'multiplier' parameter of the noise of M must be"),
        ({"epsilon": 1.0, "delta": 0.1, "rounds": 1}, "'rounds'"),
    ],
)
def test_entries_that_do_not_go_together_are_refused(asked, words):
    with pytest.raises(InvalidInput, match=words):
        asked_noise(asked, "M")


def test_a_method_may_have_entries_of_its_own():
    asked = {"epsilon": 1.0, "delta": 0.1, "rounds": 2}
    assert asked_noise(asked, "M", {"rounds": integer(1)}) == asked
    with pytest.raises(InvalidInput, match="'rounds' parameter of the noise of M"):
        asked_noise({**asked, "rounds": 0}, "M", {"rounds": integer(1)})


def test_epsilon_is_that_of_all_releases_together():
    multiplier = multiplier_of_each({"epsilon": 2.0, "delta": 1e-5}, 7)
    whole = Accountant((GaussianEvent(multiplier, 7),)).epsilon(1e-5)
    assert whole == pytest.approx(2.0, rel=1e-6)
    assert multiplier_of_each({"multiplier": 3, "delta": 1e-5}, 7) == 3.0
