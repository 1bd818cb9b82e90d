"""What a submitter may have a site prepare before it sums samples, whatever an honest one asks."""

from collections.abc import Sequence
from typing import Any

from daskfc.federation.steps.rules import Announced, Rule

_ALIKE = frozenset({"step", "own", "strategy"})


def _weighs(step: Any) -> bool:
    return "lengths" in step or step["step"] == "jitter"


def _is_alike(step: Any) -> bool:
    """Return whether a step has no number by which one column, or client, could be told apart."""
    return step["step"] in ("log", "one-hot") or (step.get("own") is True and set(step) <= _ALIKE)


def _no_weights(steps: Sequence[Any], asked: Announced) -> bool:
    return not any(_weighs(step) for step in steps)


no_weights = Rule("steps without a number for each sample", _no_weights)
"""With numbers of the submitter's own a sum over samples would be one sample's."""

alike_for_all = Rule(
    "steps without numbers: log, one-hot, and those with values of the client's own",
    lambda steps, asked: all(map(_is_alike, steps)),
)
"""Numbers could make all columns but one vanish, whose values the lengths would be."""

of_no_sample = Rule(
    "steps that read no sample",
    lambda steps, asked: (
        not any(step.get("own") or step["step"] == "smooth" or _weighs(step) for step in steps)
    ),
)
"""Else one sample moves other rows than its own, and the noise is for one row."""
