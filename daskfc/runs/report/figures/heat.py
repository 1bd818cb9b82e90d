"""Heat maps as HTML tables, which screen readers can read."""

import math
from collections.abc import Sequence
from html import escape

_DARKEST = 0.45  # of the colour in the darkest cell: its number must stay readable


def heat_table(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float]],
    texts: Sequence[Sequence[str]],
    *,
    caption: str,
    corner: str = "",
    by_row: bool = False,
) -> str:
    """Return a table with cells shaded by their values, those below 0 in another colour.

    Values that are not finite are not shaded; with `by_row` each row has its own darkest cell.
    """
    if not rows or not columns:
        return ""

    def largest_of(line: Sequence[float]) -> float:
        return max((abs(v) for v in line if math.isfinite(v)), default=0.0)

    largest = max((largest_of(line) for line in values), default=0.0)
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    body = []
    for name, line, said in zip(rows, values, texts, strict=True):
        top = largest_of(line) if by_row else largest
        cells = "".join(
            f"<td{_shade(value, top)}>{escape(text)}</td>"
            for value, text in zip(line, said, strict=True)
        )
        body.append(f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>')
    first = f'<th scope="col">{escape(corner)}</th>' if corner else "<td></td>"
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(caption)}">'
        f'<table class="heat"><caption>{escape(caption)}</caption>'
        f"<thead><tr>{first}{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def _shade(value: float, largest: float) -> str:
    share = abs(value) / largest if largest and math.isfinite(value) else 0.0
    strength = f"{share * _DARKEST:.2f}"
    if strength == "0.00":
        return ""
    return f' class="{"cool" if value < 0 else "warm"}" style="--v:{strength}"'
