"""Small tables for notebooks, which give them their own look, light or dark."""

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["html_table"]


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
