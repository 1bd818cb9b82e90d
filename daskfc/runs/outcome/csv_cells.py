"""Escape text in csv cells that a spreadsheet would run as a formula.

Sample ids come from others and may be formulas, such as ``=HYPERLINK(...)``. These get a leading
apostrophe, and so do formulas that have one already, so that reading restores them exactly.
"""

import csv
import re
from typing import Any

import pandas as pd

# '=', '+', '-' and '@' with their wide forms begin formulas, tab and line ends lead to another cell
_FORMULA = re.compile("'*[=+\\-@\uff1d\uff0b\uff0d\uff20\t\r\n]")
_NUMBER = re.compile(r"-[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?", re.IGNORECASE)
_SPLITS = re.compile("[;\t\r]")  # what other programs, or settings, take for the end of a cell


def csv_text(table: pd.DataFrame) -> str:
    """Return a table as csv, in which words that begin a formula get an apostrophe."""
    table, splits = table.copy(deep=False), False
    for name in table.columns:
        if table[name].dtype.kind == "O":  # also pandas' own string type
            table[name] = table[name].map(_guarded)
            splits |= any(isinstance(cell, str) and _SPLITS.search(cell) for cell in table[name])
    return table.to_csv(index=False, quoting=csv.QUOTE_NONNUMERIC if splits else csv.QUOTE_MINIMAL)


def words_of(cells: "pd.Series[str]") -> "pd.Series[str]":
    """Return a column's words as they were before `csv_text`."""
    return cells.map(lambda cell: cell[1:] if cell[:1] == "'" and _FORMULA.match(cell) else cell)


def _guarded(cell: Any) -> Any:
    if isinstance(cell, str) and _FORMULA.match(cell) and not _NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell
