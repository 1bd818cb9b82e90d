"""Connections between parties and their scheduler: reached, paced, counted, closed.

In: addresses, and Dask's connections. Out: the same within bounds of time and number.
"""
