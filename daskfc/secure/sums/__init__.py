"""Sums of the clients' arrays, plain or masked (secure aggregation); see docs/secure.md."""

from daskfc.secure.sums.centre import Centre, agree_on_centre
from daskfc.secure.sums.interpoint import KernelWidth, agree_on_width
from daskfc.secure.sums.kinds import AGGREGATORS, KINDS, check_aggregators, open_sum
from daskfc.secure.sums.masked import MaskedSum, check_maskers
from daskfc.secure.sums.plain import PlainSum
from daskfc.secure.sums.recovering import RecoveringSum
from daskfc.secure.sums.shared import SharedSum
from daskfc.secure.sums.total import Aggregation, Total

__all__ = [
    "AGGREGATORS",
    "KINDS",
    "Aggregation",
    "Centre",
    "KernelWidth",
    "MaskedSum",
    "PlainSum",
    "RecoveringSum",
    "SharedSum",
    "Total",
    "agree_on_centre",
    "agree_on_width",
    "check_aggregators",
    "check_maskers",
    "open_sum",
]
