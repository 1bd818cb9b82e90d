"""Clustering algorithms on blocks of distances, for more distances than fit in memory.

In: a view by blocks. Out: the same medoids, merges and exemplars as in memory.
"""
