"""Limits on parameters: what is within them, and that what is not there is not."""

import math

import pytest

from daskfc.site import Policy
from daskfc.site.limits import value_at

PARAMETERS = {"n": 3, "noise": {"epsilon": 0.5, "how": {"kind": "data"}}, "none": None}


def limit(written):
    return Policy.of({"methods": {"M": {"p": written}}}).methods["M"]["p"]


@pytest.mark.parametrize(
    ("written", "within", "outside"),
    [
        ("required", [1, "a", {"epsilon": 1}, True, 0], [None, False]),
        ({"max": 1}, [1, 0.5, -3], [1.0001, math.nan, math.inf, "0", True, None, [0]]),
        ({"min": 2}, [2, 1e9], [1, math.nan, math.inf, False]),
        ({"min": 2, "max": 3}, [2, 2.5, 3], [1.9, 3.1]),
        (3, [3, 3.0], [True, "3", 4, None]),
        (1, [1], [True]),
        (False, [False], [0, None, True]),
        (None, [None], [False, 0, ""]),
        ("data", ["data"], ["required", None]),
        (["required"], ["required"], ["data"]),
        (["a", {"b": {"c": 1}}], ["a", {"b": {"c": 1.0}}], ["b", {"b": {"c": True}}, {"b": {}}]),
        ([[1, 2]], [[1, 2], (1, 2)], [[1], [2, 1], [1, 2, 3], 1]),
    ],
)
def test_what_is_within(written, within, outside):
    found = limit(written)
    assert [value for value in within if found.broken_by(value) is not None] == []
    assert [value for value in outside if found.broken_by(value) is None] == []


@pytest.mark.parametrize("written", ["required", {"max": 1}, {"min": 1}, 3, None, [None, 1]])
@pytest.mark.parametrize("path", ["m", "n.epsilon", "noise.sigma", "none.epsilon", "noise."])
def test_what_a_run_does_not_have_breaks_every_limit(written, path):
    assert limit(written).broken_by(value_at(PARAMETERS, path)).endswith("got nothing")


def test_paths_lead_into_mappings():
    assert value_at(PARAMETERS, "n") == 3
    assert value_at(PARAMETERS, "noise.how.kind") == "data"
    assert value_at(PARAMETERS, "none") is None
