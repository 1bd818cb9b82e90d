"""Baselines whose clients cluster their own rows, and whose server merges the centres.

In: a federation. Out: labels and centres. `daskfc.baselines` lists them by name.
"""
