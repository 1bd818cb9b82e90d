"""What all figures share: one width, colours by class, legends that wrap, texts that fit."""

from collections.abc import Iterable, Sequence
from html import escape

WIDTH = 440
"""Units across, of text 13 high: a phone shows one as 0.8 pixels, a wide screen as 1.2."""

_COLOURS = {"c": 10, "t": 10, "g": 5}  # that the page's style sheet has of each family


def colour(number: int, family: str = "c") -> str:
    """Return the class of a colour: of clusters (c), sites (t) or anything else (g)."""
    return f"{family}{number % _COLOURS[family]}"


def shortened(text: str, most: int) -> str:
    """Return a text of at most so many characters, its end left out where it is longer."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def words(
    x: float, y: float, text: str, *, anchor: str = "start", style: str = "", most: int = 40
) -> str:
    """Return a text at a place; a long one is shortened, and whole on hovering."""
    short = shortened(text, most)
    whole = f"<title>{escape(text)}</title>" if short != text else ""
    anchored = f' text-anchor="{anchor}"' if anchor != "start" else ""
    named = f' class="{style}"' if style else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{anchored}{named}>{whole}{escape(short)}</text>'


def chart(
    label: str, height: float, parts: Iterable[str], legend: Sequence[tuple[str, str]] = ()
) -> str:
    """Return SVG elements as a drawing `WIDTH` wide, with a description and a legend below."""
    items = "".join(f"<li>{sample}{escape(name)}</li>" for sample, name in legend)
    below = f'<ul class="legend">{items}</ul>' if items else ""
    return (
        f'<div class="chart"><svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" '
        f'aria-label="{escape(label)}">{"".join(parts)}</svg>{below}</div>'
    )


def swatch(number: int, family: str = "c") -> str:
    """Return a dot of a cluster's colour, or a square of another's, for a legend."""
    return f'<span class="swatch {"dot " * (family == "c")}{colour(number, family)}"></span>'
