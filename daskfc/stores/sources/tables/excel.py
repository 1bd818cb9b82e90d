"""Excel and OpenDocument: one sheet of a workbook, whose first line with cells names columns."""

from typing import Any

import fsspec
import pandas as pd

from daskfc.errors import StoreError
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.sources.source import from_extra
from daskfc.stores.sources.tables.table import KEYS_OF_TABLES, Held, Table, TableFile


class Excel(Table):
    """A workbook, which is read as a whole; formulas have the values that were saved with them."""

    suffixes = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
    keys = KEYS_OF_TABLES | {"sheet"}

    def file(self, source: SourceConfig) -> TableFile:
        """Read one sheet: the one that is named, or the only one with cells."""
        with (
            from_extra("Excel", "python-calamine", "excel"),
            fsspec.open(source.file, "rb") as file,
            pd.ExcelFile(file, engine="calamine") as book,
        ):
            there = [str(name) for name in book.sheet_names]
            if source.sheet is not None and source.sheet not in there:
                raise StoreError(
                    f"{source.file}: source.sheet must be one of {', '.join(there[:12])}; got "
                    f"{source.sheet!r}. Correct it."
                )
            names = there if source.sheet is None else [source.sheet]
            sheets = pd.read_excel(
                book,
                sheet_name=names,
                header=None,
                dtype=object,
                keep_default_na=False,
                na_values=["", "#N/A"],  # the second is an error of a formula, and no word
            )
        held = {name: cells for name, cells in sheets.items() if cells.notna().to_numpy().any()}
        if len(held) != 1:
            raise StoreError(
                f"{source.file}: one sheet must hold the table; cells are in "
                f"{', '.join(held) or 'none'}. Name it by source.sheet."
            )
        ((name, cells),) = held.items()
        return _table(name, cells.dropna(how="all"))


def _as_held(cell: Any) -> Any:
    """Return whole numbers of more digits than a workbook holds as the fractions that they are."""
    return float(cell) if isinstance(cell, int) and abs(cell) >= 2**53 else cell


def _table(sheet: str, cells: pd.DataFrame) -> Held:
    """Return the rows below the names of columns, each column of one type if it has one."""
    used = cells.dropna(axis=1, how="all")
    names = ["" if pd.isna(name) else str(name) for name in used.iloc[0]]
    rows = used.iloc[1:].set_axis(names, axis=1)
    places = [f"row {row + 1} of sheet {sheet!r}" for row in rows.index]
    rows = rows.map(_as_held)
    return Held(rows.reset_index(drop=True).infer_objects(), places)
