"""What the tables and the figures of FedSC's page have in common."""

from pipelines.papers.means import Means

__all__ = ["DIGITS", "MEANS", "NOISE_FIGURE", "ROUNDS_FIGURE", "SETTINGS"]

DIGITS = 3
MEANS = Means(DIGITS)
SETTINGS = ("published", "defaults")
NOISE_FIGURE, ROUNDS_FIGURE = "fedsc-noise.svg", "fedsc-rounds.svg"  # in the folder "figures"
