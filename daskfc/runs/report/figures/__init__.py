"""Figures of a report: inline SVG and tables, coloured by the page, so that they follow its theme.

Each function takes plain numbers and returns HTML in which every text is escaped; empty where there
is nothing to draw.
"""

from daskfc.runs.report.figures.bars import bars, stacked_bars
from daskfc.runs.report.figures.curves import drawing, thinned
from daskfc.runs.report.figures.heat import heat_table
from daskfc.runs.report.figures.intervals import Spread, intervals
from daskfc.runs.report.figures.sample_map import sample_map
from daskfc.runs.report.figures.time_line import time_line

__all__ = [
    "Spread",
    "bars",
    "drawing",
    "heat_table",
    "intervals",
    "sample_map",
    "stacked_bars",
    "thinned",
    "time_line",
]
