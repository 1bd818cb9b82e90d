"""Names of figures, and words that tables of ESFMC's page share."""

from collections.abc import Sequence

from pipelines.papers.journal import Record
from pipelines.papers.means import Means

__all__ = [
    "ALPHA_FIGURE",
    "CLIENTS_FIGURE",
    "LOSSES_FIGURE",
    "MEANS",
    "OVERLAP_FIGURE",
    "VARIANTS_FIGURE",
    "command",
    "names",
]

OVERLAP_FIGURE = "esfmc-overlap.svg"
LOSSES_FIGURE = "esfmc-losses.svg"
ALPHA_FIGURE = "esfmc-alpha.svg"
CLIENTS_FIGURE = "esfmc-clients.svg"
VARIANTS_FIGURE = "esfmc-variants.svg"

MEANS = Means(1, 100.0)


def command(parts: str) -> str:
    """Return the sentence that names the command of a section.

    Examples
    --------
    >>> command("half")
    'Made by `python -m pipelines.papers.esfmc.reproduce --data FOLDER --only half`.'
    """
    program = "python -m pipelines.papers.esfmc.reproduce"
    return f"Made by `{program} --data FOLDER --only {parts}`."


def names(records: Sequence[Record], key: str) -> list[str]:
    """Return the different values of a key, in the order of the records."""
    return list(dict.fromkeys(r[key] for r in records))
