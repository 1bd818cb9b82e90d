"""Baselines of federated kernel k-means: features of a kernel, then distributed k-means.

In: a federation. Out: labels. `daskfc.baselines` lists them by name.
"""
