"""Markdown for the pages in docs/results: tables, differences, and parts that stay."""

import itertools
import re
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

__all__ = [
    "difference",
    "figure_link",
    "largest_gap",
    "markdown_table",
    "number",
    "span",
    "wrapped",
    "write_page",
]

WIDTH = 100
# Text between these is wrapped: blocks of code, and the empty lines around paragraphs.
_BETWEEN = re.compile(r"(^```.*?^```$|\n{2,}|\n\Z)", re.MULTILINE | re.DOTALL)
_AS_THEY_ARE = ("|", "![", "#", "<!--", "```", "    ")
_WHOLE = re.compile(r"`[^`]+`|\[[^\]]+\]\([^)]+\)")  # code and links
_MARK = re.compile(r"\s+(?=(?:[-+*#>|]+|\d+[.)])(?:\s|$))")  # what begins a list, were it first


def number(value: float | None, digits: int = 2) -> str:
    """Return a number as text; a dash where there is none.

    Examples
    --------
    >>> number(0.5), number(None), number(1.2345e-4, 1)
    ('0.50', '–', '1.2e-04')
    """
    if value is None:
        return "–"
    if value != 0 and abs(value) < 10.0**-digits / 2:
        return f"{value:.{digits}e}"
    return f"{value:.{digits}f}"


def difference(here: float | None, paper: float | None, digits: int = 2) -> str:
    """Return "here minus paper" with its sign; a dash where one of them is missing.

    The paper prints `digits` digits, so both are rounded to them first.

    Examples
    --------
    >>> difference(0.944, 0.95), difference(0.9502, 0.95), difference(0.9, None)
    ('-0.01', '0.00', '–')
    """
    if here is None or paper is None:
        return "–"
    gap = round(round(here, digits) - round(paper, digits), digits)
    return f"{gap:+.{digits}f}" if gap else f"{0:.{digits}f}"


def span(values: Iterable[float], digits: int = 2) -> str:
    """Return one number when all are equal, else the smallest and the largest.

    Examples
    --------
    >>> span([0.5, 0.5]), span([0.5, 0.25])
    ('0.50', '0.25 to 0.50')
    """
    known = sorted(set(values))
    if not known:
        return "–"
    if len(known) == 1:
        return number(known[0], digits)
    return f"{number(known[0], digits)} to {number(known[-1], digits)}"


def figure_link(file: str, caption: str) -> str:
    """Return the Markdown that shows a figure.

    Examples
    --------
    >>> print(figure_link("fedsc-noise.svg", "Accuracy"), end="")
    ![Accuracy](figures/fedsc-noise.svg)
    """
    return f"![{caption}](figures/{file})\n"


def largest_gap(pairs: Iterable[tuple[float, float]]) -> float:
    """Return the largest absolute difference within pairs, 0 when there are none.

    Examples
    --------
    >>> largest_gap([(0.5, 0.5), (0.75, 0.5)])
    0.25
    """
    return max((abs(one - other) for one, other in pairs), default=0.0)


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    r"""Return a table of GitHub's Markdown.

    Parameters
    ----------
    header : sequence of str
        Names of the columns.
    rows : iterable of sequence of str
        Cells.
    left : int
        The first columns, which hold words; the others are aligned to the right.

    Examples
    --------
    >>> print(markdown_table(["p", "κ"], [["0.25", "0.9"]]))
    | p    |   κ |
    |:-----|----:|
    | 0.25 | 0.9 |
    """
    table = [list(header), *(list(row) for row in rows)]
    assert all(len(row) == len(header) for row in table), [len(row) for row in table]
    widths = [max(len(row[i]) for row in table) for i in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = [
        ":" + "-" * (width + 1) if i < left else "-" * (width + 1) + ":"
        for i, width in enumerate(widths)
    ]
    return "\n".join([line(table[0]), f"|{'|'.join(rule)}|", *map(line, table[1:])])


def wrapped(text: str) -> str:
    """Return Markdown with paragraphs and list items of lines of at most 100 characters.

    Tables, images, headings and code stay as they are; inline code and links stay whole.

    Examples
    --------
    >>> print(wrapped("- " + 30 * "word "))
    - word word word word word word word word word word word word word word word word word word word
      word word word word word word word word word word word
    """
    parts = _BETWEEN.split(text)
    parts[::2] = [
        "\n".join(_filled(item) for item in re.split(r"\n(?=- )", part)) for part in parts[::2]
    ]
    return "".join(parts)


def _filled(item: str) -> str:
    if not item.strip() or any(line.startswith(_AS_THEY_ARE) for line in item.splitlines()):
        return item
    joined = _WHOLE.sub(lambda found: " ".join(found[0].split()).replace(" ", "\0"), item.strip())
    filled = textwrap.fill(
        _MARK.sub("\0", joined),
        WIDTH,
        subsequent_indent="  " if item.startswith("- ") else "",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return filled.replace("\0", " ")


def write_page(path: Path, text: str) -> None:
    """Write a page, its lines `wrapped`; parts (##) that only the old page has stay as they are.

    Whoever makes one part again need not make the others.
    """
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    path.parent.mkdir(parents=True, exist_ok=True)
    page = _with_old_parts(wrapped(text.strip()), old.strip())
    path.write_text(page + "\n", encoding="utf-8")


def _with_old_parts(new: str, old: str) -> str:
    """Return the new text with the parts that only the old one has, each after its predecessor."""
    parts, known = _by_heading(new), _by_heading(old)
    order = list(parts)
    for before, heading in itertools.pairwise(known):
        if heading not in order:
            order.insert(order.index(before) + 1, heading)
    return "\n\n".join(parts.get(heading, known.get(heading, "")) for heading in order)


def _by_heading(text: str) -> dict[str, str]:
    """Return what comes before the first ##, under "", and each part under its heading."""
    first, *parts = re.split(r"\n+(?=## )", text)
    return {"": first, **{part.split("\n", 1)[0]: part for part in parts}}
