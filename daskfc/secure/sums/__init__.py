"""Aggregation: sums over clients, plain or masked, behind one signature."""

from daskfc.secure.sums.masked import MaskedSum
from daskfc.secure.sums.plain import PlainSum
from daskfc.secure.sums.recovering import RecoveringSum
from daskfc.secure.sums.total import Aggregation, Noised, Part, Total

__all__ = [
    "Aggregation",
    "MaskedSum",
    "Noised",
    "Part",
    "PlainSum",
    "RecoveringSum",
    "Total",
]
