"""Small tables for notebooks, in their own look, light or dark; and what displays them."""

import sys
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any


def notebook() -> Any:
    """Return the module by which a notebook's kernel displays things; None outside of one."""
    # A notebook has imported IPython; elsewhere it is not needed.
    ipython, display = sys.modules.get("IPython"), sys.modules.get("IPython.display")
    shell = ipython.get_ipython() if ipython is not None else None
    return display if hasattr(shell, "kernel") else None


def html_table(
    title: str, head: Sequence[str], rows: Iterable[Sequence[object]], note: str = ""
) -> str:
    """Return a table with a title above it and a note below, all escaped; numbers align right."""

    def cell(value: object) -> str:
        number = isinstance(value, int | float)
        text = f"{value:,}" if isinstance(value, int) else str(value)
        return f'<td style="text-align: {"right" if number else "left"}">{escape(text)}</td>'

    names = "".join(f'<th scope="col" style="text-align: left">{escape(n)}</th>' for n in head)
    body = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in rows)
    below = f"<p>{escape(note)}</p>" if note else ""
    table = f"<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>" if body else ""
    return f"<div><p><strong>{escape(title)}</strong></p>{table}{below}</div>"
