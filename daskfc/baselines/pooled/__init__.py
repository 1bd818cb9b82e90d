"""Baselines on raw data that the clients send to the server, for comparison.

In: a federation that allows raw data. Out: labels. `daskfc.baselines` lists them by name.
"""
