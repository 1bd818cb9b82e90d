"""Where the command line prints results: standard output, wide enough when it is no terminal."""

from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

PIPE_WIDTH = 120  # characters; a pipe or a file has no width of its own


def stdout_console() -> Console:
    """Return the console of results."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PIPE_WIDTH)


def print_table(
    titles: Sequence[str | Column], rows: Iterable[Sequence[str | Text]], **look: Any
) -> None:
    """Print rows below their titles; cells are text as it is, for names of others may have markup.

    `look` is that of rich's tables.
    """
    table = Table(*titles, **{"box": box.SIMPLE_HEAD, **look})
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    stdout_console().print(table)
