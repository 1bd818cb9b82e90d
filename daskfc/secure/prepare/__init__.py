"""Preparation of features before a method reads them, with values found by masked sums."""

from daskfc.secure.prepare.preparation import STEPS, PreparationWarning, Prepare, Prepared

__all__ = ["STEPS", "PreparationWarning", "Prepare", "Prepared"]
