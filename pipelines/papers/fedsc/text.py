"""What the tables and the figures of FedSC's section have in common."""

from pipelines.papers.means import Means

__all__ = ["DIGITS", "MEANS", "NOISE_FIGURE", "ROUNDS_FIGURE", "SETTINGS", "figure_link"]

DIGITS = 3
MEANS = Means(DIGITS)
SETTINGS = ("published", "defaults")
NOISE_FIGURE, ROUNDS_FIGURE = "fedsc-noise.svg", "fedsc-rounds.svg"  # in the folder "figures"


def figure_link(file: str, caption: str) -> str:
    """Return the Markdown that shows a figure.

    Examples
    --------
    >>> print(figure_link("fedsc-noise.svg", "Accuracy"), end="")
    ![Accuracy](figures/fedsc-noise.svg)
    """
    return f"![{caption}](figures/{file})\n"
