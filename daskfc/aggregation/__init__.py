"""Aggregation: sums over clients, plain or masked, behind one signature."""

from daskfc.aggregation.masked import MaskedSum
from daskfc.aggregation.plain import PlainSum
from daskfc.aggregation.recovering import RecoveringSum
from daskfc.aggregation.total import Aggregation, Noised, Part, Total

__all__ = [
    "Aggregation",
    "MaskedSum",
    "Noised",
    "Part",
    "PlainSum",
    "RecoveringSum",
    "Total",
]
